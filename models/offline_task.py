"""The offline executor: chooses the next calls for a task, or reports on it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .offline_answers import (
    NO_MODEL,
    Picked,
    count,
    pick,
    reads_as_error,
    reads_as_nothing,
    shorten,
)
from .offline_arguments import Filled, corrected, fill
from .offline_known import Known
from .offline_literals import literals, path_kind
from .offline_tools import Tool, allowed, topic, word_score
from .offline_values import Clause, in_order, kind_of
from .offline_words import (
    STOPWORDS,
    best_related,
    changes_something,
    content_words,
    covered,
    is_question,
    lead,
    raw_words,
    stem,
    words,
)

# The least overlap of words with which a tool is thought to be meant at all.
_LEAST: Final = 0.55
# The share of a clause's words that tool and results must speak of to be an answer to it.
_TOUCHES: Final = 0.3
_MOST_CALLS: Final = 24
_MOST_TOOLS: Final = 5
_LOOKS_UP: Final = {stem(word) for word in ("search", "find", "query", "lookup", "ask", "grep")}
_LISTS: Final = {stem(word) for word in ("list", "find", "search", "tree", "all")}
_FOLDERS: Final = {stem(word) for word in ("file", "files", "directory", "directories", "folder", "folders")}


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
    def whole(self) -> str:
        """The task's text and the information that came with it."""
        return f"{self.text}\n{self.inputs}" if self.inputs else self.text

    @property
    def known(self) -> Known:
        """Earlier results and those of this task."""
        own = [(_given(item), item.text) for item in self.done if not item.failed]
        return Known((*self.earlier, *own))


def _given(item: Done) -> str:
    return ", ".join(str(value) for value in item.arguments.values())


def next_step(task: Task) -> Step:
    """Decide the next step; the same inputs always give the same step."""
    candidates = rank(task)
    answer = _from_earlier(task)
    if answer and not task.done and _prefers_answer(answer, candidates):
        return Step(summary=answer.text, completed=True)
    if len(task.done) < _MOST_CALLS:
        for candidate in candidates:
            step = _with(task, candidate)
            if step is not None:
                return step
    if answer and answer.share >= 0.5:
        return Step(summary=answer.text, completed=True)
    return _report(task, candidates)


def _from_earlier(task: Task) -> Picked | None:
    texts = [text for _, text in task.earlier if text]
    if not texts or not is_question(task.text):
        return None
    picked = pick(task.text, texts)
    return picked if picked.share > 0 else None


def _prefers_answer(answer: Picked, candidates: Sequence[Candidate]) -> bool:
    if not candidates:
        return answer.share >= 0.3
    best = candidates[0]
    return answer.share >= 0.6 and (best.score < 2.5 or answer.share >= 0.99) and not best.filled.used


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
    near = [item for item in found if item.score >= min(share * found[0].score, found[0].score - 0.01)] or found
    near = near or _by_literals(task, known)
    return near[:_MOST_TOOLS] + (_searches(task, known, near) if is_question(task.text) else [])


def _by_literals(task: Task, known: Known) -> list[Candidate]:
    """For a question without words of its own: a tool that looks and takes just what is given."""
    if not is_question(task.text) or topic(task.text):
        return []
    filled = [(tool, fill(tool, task.whole, known)) for tool in task.tools if not tool.action]
    fits = [Candidate(tool, found, float(found.used)) for tool, found in filled if found.used and not found.missing]
    return sorted(fits, key=lambda item: -item.score)


def _searches(task: Task, known: Known, near: Sequence[Candidate]) -> list[Candidate]:
    """Tools that look anything up by words: the last resort for a question."""
    taken = {item.tool.name for item in near}
    able = [
        tool
        for tool in task.tools
        if tool.looks and tool.name not in taken and _LOOKS_UP & {*tool.name_words, *tool.first_words[:3]}
    ]
    filled = [(tool, fill(tool, task.whole, known)) for tool in able]
    return [Candidate(tool, found, 0.0) for tool, found in filled if not found.missing][:2]


def _with(task: Task, candidate: Candidate) -> Step | None:
    """The next step with this tool, or None where it is of no (more) use."""
    tool = candidate.tool
    mine = [item for item in task.done if item.tool == tool.name]
    if not mine:
        ready = fill(tool, task.whole, task.known) if candidate.filled.missing else candidate.filled
        if ready.missing:
            return _reveal(task, candidate, ready)
        return Step(calls=tuple((tool.name, call) for call in ready.calls))
    good = [item for item in mine if not item.failed]
    if len(good) < _wanted(task, candidate):
        return _mend(task, candidate, mine)
    if all(reads_as_nothing(item.text) for item in good):
        return _other_words(task, candidate, good) or (_success(task, good) if _may_be_empty(task) else None)
    return _read_found(task, good) or (_success(task, good) if _answers(task, tool, good) else None)


def _read_found(task: Task, good: Sequence[Done]) -> Step | None:
    """A question that got only paths as its result: read the files whose names it speaks of."""
    texts = [item.text for item in good if not reads_as_nothing(item.text)]
    lines = [line for text in texts for line in text.splitlines() if line.strip()]
    asks = is_question(task.text) and lead(task.text) not in ("which", "wher")
    if not asks or not lines or len(lines) > 50 or not all(path_kind(line.strip()) for line in lines):
        return None
    readers = [tool for tool in task.tools if tool.looks and "read" in tool.name_words[:1] + tool.first_words[:1]]
    said = content_words(task.text)
    ranked = sorted(lines, key=lambda line: -covered(said, words(line)))[:2]
    for tool in readers:
        path = next((item.name for item in tool.required if kind_of(item, tool) == "path"), None)
        if path and len(tool.required) == 1 and tool.parameters[0].schema.get("type", "string") == "string":
            calls = [{path: line.strip()} for line in ranked if re.search(r"\.\w+$", line.strip())]
            fresh = [call for call in calls if not any(item.is_call(tool.name, call) for item in task.done)]
            if fresh:
                return Step(calls=tuple((tool.name, call) for call in fresh))
            read = [item for item in task.done if item.tool == tool.name and not item.failed]
            return _success(task, read) if read and _answers(task, tool, read) else None
    return None


def _wanted(task: Task, candidate: Candidate) -> int:
    """How many calls of this tool the clause wants."""
    if not candidate.filled.missing:
        return len(candidate.filled.calls)
    ready = fill(candidate.tool, task.whole, task.known)
    return 1 if ready.missing else len(ready.calls)


def _answers(task: Task, tool: Tool, good: Sequence[Done]) -> bool:
    """Whether tool and results speak of what the clause asks; a change is taken as done."""
    if changes_something(task.text):
        return True
    wanted = topic(task.text)
    told = {*tool.name_words, *tool.first_words, *tool.more_words}
    told |= {word for item in good for word in words(f"{_given(item)} {item.text}")}
    quoted = [item.value.lower() for item in literals(task.text) if item.kind == "quoted"]
    seen = "\n".join(f"{_given(item)}\n{item.text}" for item in good).lower()
    if is_question(task.text) and any(value not in seen for value in quoted):
        return False
    return not wanted or covered(wanted, told) >= _TOUCHES or bool(count(task.text, [item.text for item in good]))


def _may_be_empty(task: Task) -> bool:
    """Whether 'nothing found' answers the clause: it does where things are to be found or listed."""
    verb = lead(task.text)
    finds = best_related(verb, ("find", "list")) > 0 and best_related(verb, ("open", "show")) < 1
    return changes_something(task.text) != "" or verb == "which" or finds


def _other_words(task: Task, candidate: Candidate, good: Sequence[Done]) -> Step | None:
    """A search that found nothing is tried again with single words of the clause, longest first."""
    name = next((item.name for item, kind in in_order(candidate.tool) if kind in ("query", "glob")), None)
    if name is None or name not in good[-1].arguments or len(good) > 2:
        return None
    clause = Clause(task.text)
    said = str(good[0].arguments[name]).strip("*/")
    if any(item.value.strip("*/") == said for item in clause.given):
        return None
    left = sorted({word for word in raw_words(said) if word.lower() not in STOPWORDS}, key=lambda w: (-len(w), w))
    for word in left[:2]:
        value = str(good[0].arguments[name]).replace(said, word)
        call = {**good[0].arguments, name: value}
        if not any(item.is_call(candidate.tool.name, call) for item in task.done):
            return Step(calls=((candidate.tool.name, call),))
    return None


def _mend(task: Task, candidate: Candidate, mine: Sequence[Done]) -> Step | None:
    """One corrected attempt for each call that failed, else a look around, else None."""
    tool = candidate.tool
    failed = [item for item in mine if item.failed]
    if len(failed) > 2 * _wanted(task, candidate):
        return None
    clause = Clause(task.whole, task.known)
    better = [corrected(tool, item.arguments, item.text, clause) for item in failed]
    again = fill(tool, task.whole, task.known)
    calls = [call for call in better if call] or ([] if again.missing else list(again.calls))
    fresh = [call for call in calls if not any(item.is_call(tool.name, call) for item in task.done)]
    if fresh and len(failed) + len(fresh) <= 2 * _wanted(task, candidate):
        return Step(calls=tuple((tool.name, call) for call in fresh))
    looks = () if tool.action else (_reveal(task, candidate, again, item) for item in failed)
    return next((step for step in looks if step), None)


def _reveal(task: Task, candidate: Candidate, filled: Filled, failed: Done | None = None) -> Step | None:
    """Call a tool that only looks and may show the value that is missing or wrong."""
    if filled.unwritten:
        return None
    lacking = [parameter for parameter, _ in filled.missing] or candidate.tool.required
    wanted = {word for parameter in lacking for word in parameter.name_words} - {"id", "nam"}
    lost = [value for value in failed.arguments.values() if isinstance(value, str)] if failed else []
    files = any(kind_of(parameter, candidate.tool) == "path" for parameter in lacking)
    text = _look_around(lost[0] if lost else "", task.text) if files else task.whole
    options = []
    for tool in task.tools:
        if tool.name == candidate.tool.name or not tool.looks:
            continue
        if files and any(kind_of(item, tool) not in ("path", "glob") for item in tool.required):
            continue
        ready = fill(tool, text, Known() if files else task.known)
        told = {*tool.name_words, *tool.first_words}
        fits = len(wanted & told) + len(_LISTS & set(tool.name_words)) + (len(_FOLDERS & told) if files else 0)
        new = not ready.missing and not any(item.is_call(tool.name, ready.calls[0]) for item in task.done)
        if fits and new:
            options.append((ready.used - 0.1 * len(tool.required), fits, tool.name, ready.calls[0]))
    if not options or len(task.done) >= _MOST_CALLS - 2:
        return None
    *_, name, arguments = max(options, key=lambda option: option[:2])
    return Step(calls=((name, arguments),))


def _look_around(lost: str, clause: str) -> str:
    """The clause that finds a lost file, or lists the folder that was taken for a file."""
    folder = lost if re.search(r"\w", lost) and not re.search(r"\.\w+$", lost) else ""
    folder = folder or next((g.value for g in literals(clause) if g.kind == "path" and not re.search(r"\.\w+$", g.value)), "")
    if folder:
        return f"list every file in {folder} recursively"
    name = lost.rsplit("/", 1)[-1] or "*"
    return f"list every file matching **/{name} recursively"


def _success(task: Task, good: Sequence[Done]) -> Step:
    """Report the data; a question is answered first from it."""
    shown = [_headed(item, len(good) > 1, task.text) for item in good]
    data = "\n\n".join(shown)
    if is_question(task.text):
        counted = count(task.text, [item.text for item in good])
        picked = Picked(counted, 1.0) if counted else pick(task.text, [item.text for item in good])
        if counted or (len(data) > 600 and picked.share >= 0.5):
            data = f"{picked.text}\n\n{data}"
    return Step(summary=data, completed=True)


def _headed(item: Done, several: bool, question: str) -> str:
    text = shorten(item.text.strip(), question) or "The call succeeded and returned nothing."
    given = _given(item)[:200]
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
    elif good:
        why = "The calls succeeded, but their results do not show what is asked."
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
