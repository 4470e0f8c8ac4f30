"""An agent with a tool of yours, which asks before it pays. Runs offline without a key."""

from langgraph.types import Command

from loopwright import build_task_agent, open_durability


def pay(amount: int, payee: str) -> str:
    """Pay an amount in EUR to a payee."""
    return f"paid {amount} EUR to {payee}"


kept = open_durability("sqlite:///agent.db")
agent = build_task_agent(tools=[pay], policy="ask", durability=kept)
thread = {"configurable": {"thread_id": "invoice-7"}}
agent.invoke({"messages": [("user", 'Pay 40 EUR to "Miller"')]}, thread)  # asks: may it pay?
outcome = agent.invoke(Command(resume="approve"), thread)["outcome"]  # or days later, elsewhere
print(outcome["status"], outcome["answer"])  # noqa: T201 - shows its result
