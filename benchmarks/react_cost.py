"""What does the framework cost per ReAct iteration? Prints CPU milliseconds, and ratios.

One model that answers at once, one tool, the same number of tool calls for everybody: `react` with
and without its observation phase, next to LangChain's `create_agent` and to a loop by hand over the
same model, all in one run, rounds interleaved. Without a checkpointer and with one on SQLite.

    python benchmarks/react_cost.py [iterations] [rounds]
"""

import asyncio
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from loopwright import Context, build_react, open_durability

GOAL = "Look up the numbers one after another."
PAGE = "The page says: " + "lorem ipsum dolor sit amet " * 20


class Instant(BaseChatModel):
    """A chat model of no latency: calls `look` until it has been called often enough."""

    calls: int

    @property
    def _llm_type(self) -> str:
        return "instant"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Offer tools, as every provider's class does."""
        return self.bind(tools=tools, **kwargs)

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return self._answered(messages)

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return self._answered(messages)

    def _answered(self, messages: list[BaseMessage]) -> ChatResult:
        made = sum(isinstance(message, ToolMessage) for message in messages)
        message = self._answer(messages[0].text, made)
        message.usage_metadata = {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _answer(self, system: str, made: int) -> AIMessage:
        more = made < self.calls
        if system.startswith("You are the thought"):
            flag = "true" if more else "false"
            text = f"Number {made} next." if more else "All numbers are looked up."
            return AIMessage(f'{text}\n<agent_meta>{{"shouldContinue": {flag}}}</agent_meta>')
        if system.startswith("You are the observation"):
            return AIMessage(f"Number {made} is known.")
        if not more:
            return AIMessage("All numbers are looked up.")
        call = {"name": "look", "args": {"number": made}, "id": f"call_{made}"}
        return AIMessage("", tool_calls=[call])


@tool
async def look(number: int) -> str:
    """Look up a number."""
    return f"{number}: {PAGE}"


look.metadata = {"readOnlyHint": True}

Run = Callable[[], Awaitable[Any]]


def by_hand(model: Instant) -> Run:
    """The least a loop can do: ask, call, append."""

    async def run() -> list[BaseMessage]:
        bound = model.bind_tools([look])
        messages: list[BaseMessage] = [HumanMessage(GOAL)]
        while True:
            answer = await bound.ainvoke(messages)
            messages.append(answer)
            if not answer.tool_calls:
                return messages
            messages += [await look.ainvoke(call) for call in answer.tool_calls]

    return run


def react(model: Instant, folder: Path | None, stack: AsyncExitStack, observe: Any) -> Run:
    """`build_react`, in memory or on SQLite."""
    durability = None
    if folder is not None:
        durability = stack.enter_context(open_durability(f"sqlite:///{folder}/{observe}.db"))
    graph = build_react(model=model, tools=[look], durability=durability, observe=observe)
    context = Context(max_iterations=100, dedupe="off")
    return lambda: graph.ainvoke(
        {"messages": [{"role": "user", "content": GOAL}]}, thread(), context=context
    )


async def agent(model: Instant, folder: Path | None, stack: AsyncExitStack) -> Run:
    """LangChain's `create_agent`, without and with LangGraph's own SQLite saver."""
    saver = None
    if folder is not None:
        opened = AsyncSqliteSaver.from_conn_string(str(folder / "agent.db"))
        saver = await stack.enter_async_context(opened)
    graph = create_agent(model, [look], checkpointer=saver, system_prompt="You look up numbers.")
    return lambda: graph.ainvoke({"messages": [HumanMessage(GOAL)]}, thread())


def thread() -> Any:
    """A new thread."""
    return {"configurable": {"thread_id": uuid.uuid4().hex}, "recursion_limit": 10_000}


async def runners(model: Instant, folder: Path, stack: AsyncExitStack) -> dict[str, Run]:
    """Everybody, by name."""
    return {
        "loop by hand": by_hand(model),
        "create_agent": await agent(model, None, stack),
        "react direct": react(model, None, stack, "direct"),
        "react": react(model, None, stack, "model"),
        "create_agent, SQLite": await agent(model, folder, stack),
        "react direct, SQLite": react(model, folder, stack, "direct"),
        "react, SQLite": react(model, folder, stack, "model"),
    }


async def medians(
    everybody: dict[str, Run], rounds: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Seconds of everybody's runs by a clock, rounds interleaved; the first one warms up."""
    taken: dict[str, list[float]] = {}
    for round_ in range(rounds + 1):
        for name, run in everybody.items():
            began = clock()
            await run()
            if round_:
                taken.setdefault(name, []).append(clock() - began)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


async def measure(iterations: int, rounds: int) -> dict[str, float]:
    """CPU milliseconds per iteration, medians."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        everybody = await runners(Instant(calls=iterations), Path(folder), stack)
        taken = await medians(everybody, rounds, time.process_time)
    return {name: seconds / iterations * 1_000 for name, seconds in taken.items()}


def main() -> None:
    """Measure and print."""
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    found = asyncio.run(measure(iterations, rounds))
    write = sys.stdout.write
    write(f"{iterations} iterations, CPU ms per iteration, median of {rounds} rounds\n")
    for name, cost in found.items():
        peer = found["create_agent, SQLite" if "SQLite" in name else "create_agent"]
        write(f"  {name:22} {cost:7.2f} ms   {cost / peer:5.2f} x create_agent\n")


if __name__ == "__main__":
    main()
