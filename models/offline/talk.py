"""The shared messages of thought, action and observation, as the offline model reads them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from .literals import readable
from .plan import plan
from .reports import result_failed
from .task import Done, Task, given
from .tools import Tool

_SIGNED: Final = "agent_type"
_ANSWER_NOW: Final = re.compile(r"\bshouldContinue(?: to)? false\b")
_STEP: Final = re.compile(r"Step (\d+) of (\d+)(, looking around first)?: ")


@dataclass(frozen=True)
class Act:
    """One message's calls with their results; `ahead` where they only look for what is missing."""

    number: int
    ahead: bool
    done: tuple[Done, ...]


@dataclass(frozen=True)
class Talk:
    """The request, cut into steps, and what was done for each of them.

    Attributes:
        request: The user's words of this turn.
        steps: The todos of the plan for it: {id, description, inputs, …}.
        acts: What was called in this turn, oldest first.
        earlier: The calls of the turns before this one that succeeded.
    """

    request: str
    steps: tuple[Mapping[str, Any], ...]
    acts: tuple[Act, ...]
    earlier: tuple[Done, ...] = ()

    @property
    def current(self) -> int:
        """The step that was worked on last; 1 where none was."""
        return min(self.acts[-1].number, len(self.steps)) if self.acts else 1

    def task(self, number: int, tools: Sequence[Tool]) -> Task:
        """One step, with what the steps before it brought."""
        step = self.steps[number - 1]
        told = [
            (str(before["description"]), "\n\n".join(texts))
            for index, before in enumerate(self.steps[: number - 1], start=1)
            if (texts := [item.text for item in self._done(index) if not item.failed])
        ]
        return Task(
            readable(str(step["description"])),
            tools,
            (*((given(item), item.text) for item in self.earlier), *told),
            self._done(number),
            readable(str(step.get("inputs") or "")),
        )

    def last_act(self, number: int) -> Act | None:
        """The newest calls made for a step."""
        return next((act for act in reversed(self.acts) if act.number == number), None)

    def _done(self, number: int) -> tuple[Done, ...]:
        return self._by_step.get(number, ())

    @cached_property
    def _by_step(self) -> dict[int, tuple[Done, ...]]:
        found: dict[int, tuple[Done, ...]] = {}
        for act in self.acts:
            found[act.number] = (*found.get(act.number, ()), *act.done)
        return found


def statement(number: int, of: int, description: str, *, ahead: bool = False) -> str:
    """What a thought or an action says of its step, so that later ones know it again."""
    return f"Step {number} of {of}{', looking around first' if ahead else ''}: {description}"


def read_talk(messages: Sequence[BaseMessage], tools: Sequence[Tool]) -> Talk:
    """Read the messages of all turns; the plan is made anew from the request each time."""
    start = _request_at(messages)
    before, own = messages[:start], messages[start:]
    request = own[0].text if own else ""
    told = [_STEP.match(m.text) for m in own if isinstance(m, AIMessage)]
    planned = max((int(found[2]) for found in told if found), default=0)
    return Talk(
        request,
        _steps(request, tools, planned),
        tuple(_acts(own)),
        tuple(item for item in calls_in(before) if not item.failed),
    )


def must_answer(messages: Sequence[BaseMessage]) -> bool:
    """Whether the last words say that no further step may be taken."""
    last = messages[-1] if messages else None
    return isinstance(last, HumanMessage) and bool(_ANSWER_NOW.search(last.text))


def _request_at(messages: Sequence[BaseMessage]) -> int:
    """Where the newest words of the user stand.

    The loop's own cues are signed; what it adds to one request alone has no id, for only what is
    in the thread has one.
    """
    said = [
        (place, message)
        for place, message in enumerate(messages)
        if isinstance(message, HumanMessage) and _SIGNED not in message.additional_kwargs
    ]
    kept = [place for place, message in said if message.id] or [place for place, _ in said]
    return kept[-1] if kept else len(messages)


def calls_in(messages: Sequence[BaseMessage]) -> list[Done]:
    """The calls of some messages with their results, oldest first."""
    return [item for _, done in _rounds(messages) for item in done]


def _acts(messages: Sequence[BaseMessage]) -> Iterator[Act]:
    number = 1
    ahead = False
    for message, done in _rounds(messages):
        named = _STEP.match(message.text)
        if named:
            number, ahead = int(named[1]), bool(named[3])
        if done:
            yield Act(number, ahead, done)


def _rounds(messages: Sequence[BaseMessage]) -> Iterator[tuple[AIMessage, tuple[Done, ...]]]:
    """The model's messages, each with those of its calls that have a result."""
    results = {m.tool_call_id: m for m in messages if isinstance(m, ToolMessage)}
    for message in messages:
        if isinstance(message, AIMessage):
            pairs = [(call, results.get(call["id"] or "")) for call in message.tool_calls]
            yield message, tuple(_done(call, found) for call, found in pairs if found is not None)


def _done(call: Mapping[str, Any], result: ToolMessage) -> Done:
    failed = result_failed(result.status, result.text)
    return Done(call["name"], call["args"], failed, result.text)


def _steps(request: str, tools: Sequence[Tool], planned: int) -> tuple[Mapping[str, Any], ...]:
    """The steps of a request; where the tools cut it in another way than before, as before."""
    # Thought knows no parameters: both phases must cut by the same words.
    bare = [replace(tool, parameters=(), more_words=frozenset()) for tool in tools]
    todos = plan(request, tools=bare)["todos"]
    if planned and len(todos) != planned:
        todos = plan(request)["todos"]
    return tuple(todos)
