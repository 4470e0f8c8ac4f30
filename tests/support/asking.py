"""A graph with two tasks beside each other, which ask before they pay."""

from typing import Any

from loopwright import ScriptedModel, build_plan_execute_verify
from support.scripts import call, passed, plan, report, todo

SAID = {"messages": [("user", "Go")]}


def on(thread: str, **more: Any) -> Any:
    return {"configurable": {"thread_id": thread, **more}}


def pay(amount: int) -> str:
    """Pay."""
    return "paid"


def asks_in_parallel(**more: Any) -> Any:
    def work(messages: Any, _: Any) -> Any:
        return report("1") if messages[-1].type == "tool" else [call("pay", amount=3)]

    two = plan(todo("1", "one"), todo("2", "two"))
    model = ScriptedModel({
        "planner": lambda *_: two,
        "executor": work,
        "verifier": lambda *_: passed("All.", t1=["1.1.0"], t2=["2.1.0"]),
    })  # fmt: skip
    return build_plan_execute_verify(model=model, tools=[pay], policy="ask", mcp={}, **more)
