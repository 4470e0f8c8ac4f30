"""Small graphs for tests of what surrounds a graph."""

import asyncio
from dataclasses import dataclass, field
from typing import Annotated, Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels import EphemeralValue
from langgraph.config import get_stream_writer
from langgraph.graph import END, START
from langgraph.types import interrupt

from loopwright.run.graph import LoopBuilder
from loopwright.state.calls import Records
from loopwright.state.messages import Messages


def append(left: list[str], right: list[str]) -> list[str]:
    return [*left, *right]


@dataclass(kw_only=True)
class ToyInput:
    messages: Messages = field(default_factory=list)


@dataclass(kw_only=True)
class ToyState(ToyInput):
    log: Annotated[list[str], append] = field(default_factory=list)
    outcome: dict[str, Any] | None = None


@dataclass(kw_only=True)
class Everything:
    """A field of each kind of channel."""

    messages: Messages = field(default_factory=list)
    evidence: Records = field(default_factory=list)
    log: Annotated[list[str], append] = field(default_factory=list)
    given: Annotated[str | None, EphemeralValue] = None
    plain: str = ""
    never: int = 7


async def greet(state: ToyState) -> dict[str, Any]:
    await asyncio.sleep(0)
    get_stream_writer()({"event": "greeting"})
    return {"log": ["greet"], "messages": [AIMessage(f"hello {len(state.messages)}")]}


async def ask(state: ToyState) -> dict[str, Any]:
    answer = interrupt({"question": "go on?"})
    return {"log": [f"ask:{answer}"]}


async def end(state: ToyState) -> dict[str, Any]:
    return {"log": ["end"], "outcome": {"status": "complete"}}


def greeter() -> LoopBuilder[Any, Any, Any, Any]:
    """START → greet → end."""
    builder = LoopBuilder(ToyState, input_schema=ToyInput)
    builder.add_node("greet", greet)
    builder.add_node("end", end)
    builder.add_edge(START, "greet")
    builder.add_edge("greet", "end")
    builder.add_edge("end", END)
    return builder


def asker(question: str = "ask") -> LoopBuilder[Any, Any, Any, Any]:
    """START → greet → a node that asks, named as wanted → end."""
    builder = LoopBuilder(ToyState, input_schema=ToyInput)
    builder.add_node("greet", greet)
    builder.add_node(question, ask)
    builder.add_node("end", end)
    builder.add_edge(START, "greet")
    builder.add_edge("greet", question)
    builder.add_edge(question, "end")
    builder.add_edge("end", END)
    return builder


def on(thread: str, **configurable: Any) -> RunnableConfig:
    """The config of a thread."""
    return {"configurable": {"thread_id": thread, **configurable}}


def hello() -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "hi"}]}
