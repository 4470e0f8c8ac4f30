"""The offline executor: chooses the next calls for a task, or reports on it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .offline_answers import NO_MODEL, Picked, pick, reads_as_error, reads_as_nothing, shorten
from .offline_arguments import Filled, corrected, fill
from .offline_known import Known
from .offline_tools import Tool, allowed, word_score
from .offline_values import Clause
from .offline_words import is_question, words

# The least overlap of words with which a tool is thought to be meant at all.
_LEAST: Final = 0.55
_ROUNDS: Final = 8


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
    """What the executor does next: calls (name, arguments), else a report."""

    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    summary: str = ""
    completed: bool = False


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
    def known(self) -> Known:
        """Earlier results and those of this task."""
        own = [(json.dumps(item.arguments, ensure_ascii=False), item.text) for item in self.done if not item.failed]
        return Known((*self.earlier, *((_said(about), text) for about, text in own)))


def _said(arguments: str) -> str:
    return " ".join(str(value) for value in json.loads(arguments).values())


def next_step(task: Task) -> Step:
    """Decide the next step; the same inputs always give the same step."""
    answer = _from_earlier(task)
    candidates = rank(task)
    best = candidates[0] if candidates else None
    if answer and (best is None or not task.done) and _prefers_answer(task, answer, best):
        return Step(summary=answer.text, completed=True)
    if len(task.done) >= _ROUNDS * 3:
        return _report(task, candidates)
    for candidate in candidates[:4]:
        step = _with(task, candidate, candidates)
        if step is not None:
            return step
    return _report(task, candidates)


def _from_earlier(task: Task) -> Picked | None:
    texts = [text for _, text in task.earlier if text]
    if not texts or not is_question(task.text):
        return None
    picked = pick(task.text, texts)
    return picked if picked.share > 0 else None


def _prefers_answer(task: Task, answer: Picked, best: Candidate | None) -> bool:
    if best is None:
        return answer.share >= 0.3
    return answer.share >= 0.6 and (best.score < 2.5 or answer.share >= 0.99) and not best.filled.used


def rank(task: Task) -> list[Candidate]:
    """The tools that may do the task, best first: words, then how well the arguments fit."""
    known = Known(task.earlier)
    text = f"{task.text}\n{task.inputs}" if task.inputs else task.text
    found = []
    for tool in task.tools:
        if not allowed(task.text, tool):
            continue
        matched = word_score(task.text, tool, task.tools)
        filled = fill(tool, text, known)
        fit = 0.8 * filled.used - 0.5 * filled.unused - 0.15 * filled.guessed
        fit -= sum(2.0 if kind in ("text", "sql", "object") else 0.7 for _, kind in filled.missing)
        if matched + max(fit, 0.0) * (0.5 if matched else 0.0) >= _LEAST:
            found.append(Candidate(tool, filled, matched + fit))
    found += _searches(task, known, text) if not found and is_question(task.text) else []
    return sorted(found, key=lambda item: -item.score)


def _searches(task: Task, known: Known, text: str) -> list[Candidate]:
    """Tools that look anything up by words: the last resort for a question."""
    looking = {"search", "find", "query", "lookup", "quer", "ask"}
    able = [tool for tool in task.tools if tool.looks and looking & {*tool.name_words, *tool.first_words[:3]}]
    filled = [(tool, fill(tool, text, known)) for tool in able]
    return [Candidate(tool, found, 0.0) for tool, found in filled if not found.missing]


def _with(task: Task, candidate: Candidate, candidates: Sequence[Candidate]) -> Step | None:
    """The next step with this tool, or None where it is of no more use."""
    name = candidate.tool.name
    filled = fill(candidate.tool, _full_text(task), task.known) if task.done else candidate.filled
    if filled.missing:
        return _reveal(task, candidate, filled)
    mine = [item for item in task.done if item.tool == name]
    planned = list(filled.calls) if not mine else [call for call in candidate.filled.calls if not candidate.filled.missing] or list(filled.calls)
    fresh = [call for call in planned if not any(item.is_call(name, call) for item in task.done)]
    if fresh and not (mine and not any(item.failed for item in mine) and len(mine) >= len(planned)):
        return Step(calls=tuple((name, call) for call in fresh))
    failed = [item for item in mine if item.failed]
    if failed and len(mine) - len(failed) < len(planned):
        return _mend(task, candidate, failed, planned)
    good = [item for item in mine if not item.failed]
    if good and all(reads_as_nothing(item.text) for item in good):
        other = next((item for item in candidates if item.tool.name != name and item.score > 0.7 * candidate.score), None)
        if other and not other.filled.missing and not any(item.tool == other.tool.name for item in task.done):
            return Step(calls=tuple((other.tool.name, call) for call in other.filled.calls))
    return _success(task, good) if good else None


def _full_text(task: Task) -> str:
    return f"{task.text}\n{task.inputs}" if task.inputs else task.text


def _mend(task: Task, candidate: Candidate, failed: Sequence[Done], planned: Sequence[dict[str, Any]]) -> Step | None:
    """One corrected attempt for each planned call that failed, else a look around, else None."""
    name = candidate.tool.name
    if len(failed) >= 2 * len(planned):
        return None
    clause = Clause(_full_text(task), task.known)
    better = [corrected(candidate.tool, item.arguments, item.text, clause) for item in failed]
    fresh = [call for call in better if call and not any(item.is_call(name, call) for item in task.done)]
    if fresh:
        return Step(calls=tuple((name, call) for call in fresh))
    again = fill(candidate.tool, _full_text(task), task.known)
    fresh = [call for call in again.calls if not any(item.is_call(name, call) for item in task.done)]
    if fresh and not again.missing:
        return Step(calls=tuple((name, call) for call in fresh))
    return _reveal(task, candidate, candidate.filled) if candidate.tool.looks or not candidate.tool.action else None


def _reveal(task: Task, candidate: Candidate, filled: Filled) -> Step | None:
    """Call a tool that only looks and may show the value that is missing."""
    if filled.unwritten:
        return None
    wanted = {word for parameter, _ in filled.missing for word in parameter.name_words if word not in ("id", "nam")}
    if not filled.missing:
        wanted = {word for parameter in candidate.tool.required for word in parameter.name_words}
    options = []
    for tool in task.tools:
        if tool.name == candidate.tool.name or not tool.looks or any(item.tool == tool.name for item in task.done):
            continue
        ready = fill(tool, _full_text(task), task.known)
        fits = len(wanted & {*tool.name_words, *tool.first_words}) + len({"list", "find", "search"} & set(tool.name_words))
        if fits and not ready.missing:
            options.append((fits - 0.1 * len(tool.required) - 0.2 * len(ready.calls), tool.name, ready.calls[0]))
    if not options:
        return None
    _, name, arguments = max(options, key=lambda option: option[0])
    return Step(calls=((name, arguments),))


def _success(task: Task, good: Sequence[Done]) -> Step:
    """Report the data; a question is answered first from it."""
    shown = [_headed(item, len(good) > 1, task.text) for item in good]
    data = "\n\n".join(shown)
    if is_question(task.text) and len(data) > 600:
        picked = pick(task.text, [item.text for item in good])
        if picked.share >= 0.5:
            data = f"{picked.text}\n\n{data}"
    return Step(summary=data, completed=True)


def _headed(item: Done, several: bool, question: str) -> str:
    text = shorten(item.text.strip(), question) or "The call succeeded and returned nothing."
    given = ", ".join(str(value) for value in item.arguments.values())[:200]
    return f"{given}:\n{text}" if several and given else text


def _report(task: Task, candidates: Sequence[Candidate]) -> Step:
    """Say plainly why the task is not done."""
    good = [item for item in task.done if not item.failed]
    failed = [item for item in task.done if item.failed]
    unwritten = [(item.tool.name, item.filled.unwritten) for item in candidates if item.filled.unwritten]
    if failed:
        last = failed[-1]
        why = f"The call of {last.tool} failed: {last.text.strip()[:500]}"
    elif unwritten:
        tool, missing = unwritten[0]
        why = f"{tool} needs {_listed(missing)}, which the goal does not give word for word. {NO_MODEL}, and text or queries are never made up."
    elif candidates and candidates[0].filled.missing:
        lacking = [parameter.name for parameter, _ in candidates[0].filled.missing]
        why = f"{candidates[0].tool.name} needs {_listed(lacking)}, and neither the goal nor a result gives it."
    else:
        why = _nothing_fits(task)
    found = f" Found on the way: {shorten(good[-1].text.strip(), task.text, 800)}" if good else ""
    return Step(summary=f"Not done. {why}{found}")


def _nothing_fits(task: Task) -> str:
    if is_question(task.text) and task.earlier:
        return f"The earlier results do not show it, and no offered tool matches. {NO_MODEL} to reason about it."
    return f"No offered tool matches this task. {NO_MODEL}, so tools are found by their words only."


def _listed(names: Sequence[str]) -> str:
    return " and ".join(f"'{name}'" for name in names)


def result_failed(status: str, text: str) -> bool:
    """Whether a tool message tells of a failure."""
    return status == "error" or reads_as_error(text)


def task_words(text: str) -> set[str]:
    """All stems of a task's text."""
    return set(words(text))
