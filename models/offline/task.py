"""The offline executor's task: what it is shown, what is done, which tools may do it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .arguments import Filled, fill
from .known import Known
from .tools import Tool, allowed, topic, word_score
from .words import (
    changes_something,
    is_question,
    stems,
)

# The least overlap of words with which a tool is thought to be meant at all.
_LEAST: Final = 0.55


_MOST_TOOLS: Final = 5


MOST_CALLS: Final = 24


_LOOKS_UP: Final = stems("search find query lookup ask grep")


Calls = tuple[tuple[str, dict[str, Any]], ...]
"""Calls to make: tool and arguments."""


@dataclass(frozen=True)
class Done:
    """One call of this task that has its result."""

    tool: str
    arguments: dict[str, Any]
    failed: bool
    text: str

    def is_call(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether it is this very call."""
        return self.tool == tool and self.arguments == arguments


@dataclass(frozen=True)
class Step:
    """What is done next: calls (name, arguments), else a report.

    `ahead`: the calls only look for a value that the task's own call needs.
    """

    calls: Calls = ()
    summary: str = ""
    completed: bool = False
    ahead: bool = False


@dataclass(frozen=True)
class Candidate:
    """A tool that may do the task, filled in."""

    tool: Tool
    filled: Filled
    score: float


@dataclass(frozen=True)
class Task:
    """All the executor is shown."""

    text: str
    tools: Sequence[Tool]
    earlier: tuple[tuple[str, str], ...] = ()
    done: tuple[Done, ...] = ()
    inputs: str = ""

    @property
    def whole(self) -> str:
        """The task's text and the information that came with it."""
        return f"{self.text}\n{self.inputs}" if self.inputs else self.text

    @property
    def known(self) -> Known:
        """Earlier results and those of this task."""
        own = [(given(item), item.text) for item in self.done if not item.failed]
        return Known((*self.earlier, *own))


def given(item: Done) -> str:
    """What a call was asked, in a few words: the values of its arguments."""
    return ", ".join(str(value) for value in item.arguments.values())


def rank(task: Task) -> list[Candidate]:
    """The tools that may do the task, best first: words, then how well the arguments fit."""
    known, asks, found = Known(task.earlier), is_question(task.text), []
    for tool in task.tools:
        if not allowed(task.text, tool):
            continue
        matched = word_score(task.text, tool, task.tools)
        filled = fill(tool, task.whole, known)
        fit = 0.8 * filled.used - (0.25 if asks else 0.5) * filled.unused - 0.15 * filled.guessed
        fit -= sum(2.0 if kind in ("text", "sql", "object") else 0.7 for _, kind in filled.missing)
        if matched + max(fit, 0.0) * (0.5 if matched else 0.0) >= _LEAST:
            found.append(Candidate(tool, filled, matched + fit))
    found.sort(key=lambda item: -item.score)
    share = 0.75 if changes_something(task.text) else 0.3
    near = [
        item for item in found if item.score >= min(share * found[0].score, found[0].score - 0.01)
    ] or found
    near = near or _by_literals(task, known)
    return near[:_MOST_TOOLS] + (_searches(task, known, near) if is_question(task.text) else [])


def _by_literals(task: Task, known: Known) -> list[Candidate]:
    """For a question without words of its own: a tool that looks and takes just what is given."""
    if not is_question(task.text) or topic(task.text):
        return []
    filled = [(tool, fill(tool, task.whole, known)) for tool in task.tools if not tool.action]
    fits = [
        Candidate(tool, found, float(found.used))
        for tool, found in filled
        if found.used and not found.missing
    ]
    return sorted(fits, key=lambda item: -item.score)


def _searches(task: Task, known: Known, near: Sequence[Candidate]) -> list[Candidate]:
    """Tools that look anything up by words: the last resort for a question."""
    taken = {item.tool.name for item in near}
    able = [
        tool
        for tool in task.tools
        if tool.looks
        and tool.name not in taken
        and _LOOKS_UP & {*tool.name_words, *tool.first_words[:3]}
    ]
    filled = [(tool, fill(tool, task.whole, known)) for tool in able]
    return [Candidate(tool, found, 0.0) for tool, found in filled if not found.missing][:2]
