"""Runs of a graph inside a sample: its turns, who answers its questions, what the log keeps."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from inspect_ai.log import transcript
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    get_model,
    messages_to_openai,
)
from inspect_ai.tool import Tool, ToolInfo
from inspect_ai.util import StoreModel, store_as
from langchain_core.messages import convert_to_messages
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import INTERRUPT
from langgraph.types import Command
from pydantic import Field

from ..state.channels import unpack_fields
from ..state.context import Context
from ..text.sentences import say
from .model import open_models
from .tools import TaskTools

Build = Callable[..., Any]
"""Builds a graph by further options."""

Person = str | Callable[[Mapping[str, Any]], Any]
"""`approve`, `reject`, `unmarked` (approves what is not marked as a stranger's), or a function
from a question to an answer."""

PERSONS: Final = ("approve", "reject", "unmarked")

_THREAD: Final[Any] = {"configurable": {"thread_id": "sample"}}


class LoopRecord(StoreModel):
    """The runs of a graph in one sample; scorers read it by `state.store_as(LoopRecord)`."""

    graph: str = ""
    outcomes: list[dict[str, Any]] = Field(default_factory=list)
    """Of each turn, as the graph gave it."""
    evidence: list[dict[str, Any]] = Field(default_factory=list)
    """Of all turns."""
    made: list[dict[str, Any]] = Field(default_factory=list)
    """The calls that reached the task's tools."""
    questions: list[dict[str, Any]] = Field(default_factory=list)
    """What the person was asked, and what they said."""
    handed_over: bool = False
    """A desk gave its customer to a human."""


@dataclass
class GraphRuns:
    """A graph and its thread, for one sample; many run side by side in one process."""

    graph: Any
    tools: TaskTools
    broken: "asyncio.Future[None]"
    """Gets the error that ends the sample, such as a limit of Inspect's."""
    person: Person
    context: Context
    record: LoopRecord = field(default_factory=lambda: store_as(LoopRecord))

    async def take_turn(self, given: Sequence[ChatMessage]) -> str:
        """Run a turn to its end, or until a human has the customer; returns its words."""
        self.tools.turn += 1
        talk: Any = await messages_to_openai([m for m in given if m.role != "system"])
        values = await self._run({"messages": convert_to_messages(talk)})
        while asked := values.get(INTERRUPT):
            if any(one.value.get("type") == "take_over" for one in asked):
                self.record.handed_over = True
                break
            answers = {one.id: self._answer(one.value) for one in asked}
            values = await self._run(Command(resume=answers))
        return await self._keep_turn(values)

    def _answer(self, question: Mapping[str, Any]) -> Any:
        answer = answer_question(self.person, question)
        asked = {"question": question.get("description", ""), "answer": answer}
        self.record.questions = [*self.record.questions, asked]
        transcript().info(asked, source="loopwright")
        return answer

    async def _run(self, given: Any) -> Mapping[str, Any]:
        """Run the graph until it stops; an error that ends the sample ends the run."""
        run = asyncio.ensure_future(self.graph.ainvoke(given, _THREAD, context=self.context))
        try:
            await asyncio.wait({run, self.broken}, return_when=asyncio.FIRST_COMPLETED)
            if self.broken.done():
                self.broken.result()
            values: Mapping[str, Any] = run.result()
            return values
        finally:
            run.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait({run})

    async def talk(self, customer: str, given: Sequence[ChatMessage], words: str) -> None:
        """Let a customer answer the desk until they hang up, a human has them, or after 8 times.

        Args:
            customer: Who they are, what they want, and when they are content; the model of the role
                `customer` plays them.
            given: What they wrote to begin.
            words: What the desk answered.
        """
        leave = ToolInfo(name="hang_up", description=say("customer_hangs_up"))
        seen: list[ChatMessage] = [
            ChatMessageSystem(content=say("simulated_customer", who=customer)),
            # The customer's words are those of an assistant for the model that plays them.
            *(ChatMessageAssistant(content=m.text) for m in given if m.role == "user"),
        ]
        for _ in range(8):
            if self.record.handed_over:
                return
            seen.append(ChatMessageUser(content=words))
            reply = (await get_model(role="customer").generate(seen, tools=[leave])).message
            if reply.tool_calls or not reply.text.strip():
                return
            seen.append(ChatMessageAssistant(content=reply.text))
            written = ChatMessageUser(content=reply.text)
            self.tools.trace.append(written)
            words = await self.take_turn([written])

    async def _keep_turn(self, values: Mapping[str, Any]) -> str:
        """Put what the turn did and said into the log."""
        state = await self.graph.aget_state(_THREAD)
        record, outcome = self.record, values.get("outcome")
        fields = unpack_fields(state.values)
        inner = [kept.get("evidence") or () for kept in (fields.get("kept") or {}).values()]
        said = {one["id"]: one for part in (*inner, fields.get("evidence", ())) for one in part}
        told = [{**one, "id": self.tools.name_call(id_)} for id_, one in said.items()]
        record.evidence = [*record.evidence, *told]
        record.outcomes = [*record.outcomes, *([dict(outcome)] if outcome else [])]
        record.made = [*self.tools.made]
        transcript().info(dict(outcome or {"handed_over": record.handed_over}), source="loopwright")
        words = str(outcome["answer"]) if outcome else values["messages"][-1].text
        self.tools.trace.append(ChatMessageAssistant(content=words, model=str(get_model())))
        return words


@asynccontextmanager
async def open_runs(
    build: Build, tools: Sequence[Tool], reads: Sequence[str], person: Person, context: Context
) -> AsyncIterator[GraphRuns]:
    """Build a graph with the model and the tools of the task."""
    broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def fail(error: BaseException) -> None:
        if not broken.done():
            broken.set_exception(error)

    bridged = TaskTools(tools, reads, fail)
    async with open_models(fail) as models:
        graph = build(model=models, tools=bridged.bridge(), checkpointer=InMemorySaver())
        yield GraphRuns(graph, bridged, broken, person, context)
    broken.cancel()


def answer_question(person: Person, question: Mapping[str, Any]) -> Any:
    """What the person says; a script rejects what wants words of its own."""
    if callable(person):
        return person(question)
    allowed, about = question["review_configs"][0]["allowed_decisions"], question["action_requests"]
    # One of them says that a value is a stranger's, or that a plan does more than its first.
    places = [question, about[0], about[0]["args"]]
    is_marked = any(place.get("foreign") or place.get("widened") for place in places)
    # How an act of doubt ended, nobody looked up: it takes a response, and no edit.
    wants_words = "approve" not in allowed or ("edit" not in allowed and "respond" in allowed)
    if wants_words or person == "reject" or (person == "unmarked" and is_marked):
        return {"type": "reject"}
    return {"type": "approve"}
