"""Looking around: calls that may show a missing value, other words for a search, found files."""

import re
from collections.abc import Sequence
from typing import Final

from .answers import (
    reads_as_nothing,
)
from .arguments import Filled, fill
from .clause import Clause
from .kinds import in_order, kind_of
from .known import Known
from .literals import literals, path_kind
from .reports import answers, success
from .task import MOST_CALLS, Candidate, Done, Step, Task
from .words import (
    STOPWORDS,
    content_words,
    covered,
    is_question,
    lead,
    raw_words,
    stems,
    words,
)

_LISTS: Final = stems("list find search tree all")


_FOLDERS: Final = stems("file files directory directories folder folders")


def other_words(task: Task, candidate: Candidate, good: Sequence[Done]) -> Step | None:
    """A search that found nothing is tried again with single words of the clause, longest first."""
    name = next(
        (item.name for item, kind in in_order(candidate.tool) if kind in ("query", "glob")), None
    )
    if name is None or name not in good[-1].arguments or len(good) > 2:
        return None
    clause = Clause(task.text)
    said = str(good[0].arguments[name]).strip("*/")
    if any(item.value.strip("*/") == said for item in clause.given):
        return None
    left = sorted(
        {word for word in raw_words(said) if word.lower() not in STOPWORDS},
        key=lambda w: (-len(w), w),
    )
    for word in left[:2]:
        value = str(good[0].arguments[name]).replace(said, word)
        call = {**good[0].arguments, name: value}
        if not any(item.is_call(candidate.tool.name, call) for item in task.done):
            return Step(calls=((candidate.tool.name, call),))
    return None


def reveal(
    task: Task, candidate: Candidate, filled: Filled, failed: Done | None = None
) -> Step | None:
    """Call a tool that only looks and may show the value that is missing or wrong."""
    if filled.unwritten:
        return None
    lacking = [parameter for parameter, _ in filled.missing] or candidate.tool.required
    wanted = {word for parameter in lacking for word in parameter.name_words} - {"id", "nam"}
    lost = (
        [value for value in failed.arguments.values() if isinstance(value, str)] if failed else []
    )
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
        fits = (
            len(wanted & told)
            + len(_LISTS & set(tool.name_words))
            + (len(_FOLDERS & told) if files else 0)
        )
        new = not ready.missing and not any(
            item.is_call(tool.name, ready.calls[0]) for item in task.done
        )
        if fits and new:
            options.append((ready.used - 0.1 * len(tool.required), fits, tool.name, ready.calls[0]))
    if not options or len(task.done) >= MOST_CALLS - 2:
        return None
    *_, name, arguments = max(options, key=lambda option: option[:2])
    return Step(calls=((name, arguments),), ahead=True)


def _look_around(lost: str, clause: str) -> str:
    """The clause that finds a lost file, or lists the folder that was taken for a file."""
    folder = lost if re.search(r"\w", lost) and not re.search(r"\.\w+$", lost) else ""
    folder = folder or next(
        (
            g.value
            for g in literals(clause)
            if g.kind == "path" and not re.search(r"\.\w+$", g.value)
        ),
        "",
    )
    if folder:
        return f"list every file in {folder} recursively"
    name = lost.rsplit("/", 1)[-1] or "*"
    return f"list every file matching **/{name} recursively"


def lists_paths(task: Task, good: Sequence[Done]) -> list[str]:
    """The paths a question got as its whole result, where it wants what stands in them."""
    texts = [item.text for item in good if not reads_as_nothing(item.text)]
    lines = [line for text in texts for line in text.splitlines() if line.strip()]
    asks = is_question(task.text) and lead(task.text) not in ("which", "wher")
    fits = asks and len(lines) <= 50 and all(path_kind(line.strip()) for line in lines)
    return lines if fits else []


def read_found(task: Task, good: Sequence[Done]) -> Step | None:
    """A question that got only paths as its result: read the files whose names it speaks of."""
    lines = lists_paths(task, good)
    if not lines:
        return None
    readers = [
        tool
        for tool in task.tools
        if tool.looks and "read" in tool.name_words[:1] + tool.first_words[:1]
    ]
    said = content_words(task.text)
    ranked = sorted(lines, key=lambda line: -covered(said, words(line)))[:2]
    for tool in readers:
        path = next((item.name for item in tool.required if kind_of(item, tool) == "path"), None)
        if (
            path
            and len(tool.required) == 1
            and tool.parameters[0].schema.get("type", "string") == "string"
        ):
            calls = [{path: line.strip()} for line in ranked if re.search(r"\.\w+$", line.strip())]
            fresh = [
                call
                for call in calls
                if not any(item.is_call(tool.name, call) for item in task.done)
            ]
            if fresh:
                return Step(calls=tuple((tool.name, call) for call in fresh))
            read = [item for item in task.done if item.tool == tool.name and not item.failed]
            return success(task, read) if read and answers(task, tool, read) else None
    return None
