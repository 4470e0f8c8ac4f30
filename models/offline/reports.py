"""What the offline executor reports: the data it found, or plainly why there is none."""

from collections.abc import Sequence
from typing import Final

from .answers import (
    NO_MODEL,
    Picked,
    count,
    pick,
    reads_as_error,
    shorten,
)
from .literals import literals
from .task import Candidate, Done, Step, Task, given
from .tools import Tool, topic
from .words import (
    best_related,
    changes_something,
    covered,
    is_question,
    lead,
    words,
)

# The share of a clause's words that tool and results must speak of to be an answer to it.
_TOUCHES: Final = 0.3


def success(task: Task, good: Sequence[Done]) -> Step:
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
    about = given(item)[:200]
    return f"{about}:\n{text}" if several and about else text


def report(task: Task, candidates: Sequence[Candidate]) -> Step:
    """Say plainly why the task is not done."""
    good = [item for item in task.done if not item.failed]
    failed = [item for item in task.done if item.failed]
    unwritten = [
        (item.tool.name, item.filled.unwritten) for item in candidates if item.filled.unwritten
    ]
    if failed:
        last = failed[-1]
        why = f"The call of {last.tool} failed: {last.text.strip()[:500]}"
    elif unwritten:
        tool, missing = unwritten[0]
        why = (
            f"{tool} needs {_listed(missing)}, which the goal does not give word for word. "
            f"{NO_MODEL}, and text or queries are never made up."
        )
    elif candidates and candidates[0].filled.missing:
        lacking = [parameter.name for parameter, _ in candidates[0].filled.missing]
        tool = candidates[0].tool.name
        why = f"{tool} needs {_listed(lacking)}, and neither the goal nor a result gives it."
    elif good:
        why = "The calls succeeded, but their results do not show what is asked."
    else:
        why = _nothing_fits(task)
    found = f" Found on the way: {shorten(good[-1].text.strip(), task.text, 800)}" if good else ""
    return Step(summary=f"Not done. {why}{found}")


def _nothing_fits(task: Task) -> str:
    if is_question(task.text) and task.earlier:
        return f"The earlier results do not show it, and no offered tool matches. {NO_MODEL}."
    return f"No offered tool matches this task. {NO_MODEL}, so tools are found by their words only."


def _listed(names: Sequence[str]) -> str:
    return " and ".join(f"'{name}'" for name in names)


def result_failed(status: str, text: str) -> bool:
    """Whether a tool message tells of a failure."""
    return status == "error" or reads_as_error(text)


def answers(task: Task, tool: Tool, good: Sequence[Done]) -> bool:
    """Whether tool and results speak of what the clause asks; a change is taken as done."""
    if changes_something(task.text):
        return True
    verb = lead(task.text)
    wanted = topic(task.text)
    if not literals(task.text):
        wanted = [word for word in wanted if word != verb] or wanted
    told = {*tool.name_words, *tool.first_words, *tool.more_words}
    told |= {word for item in good for word in words(f"{given(item)} {item.text}")}
    quoted = [item.value.lower() for item in literals(task.text) if item.kind == "quoted"]
    seen = "\n".join(f"{given(item)}\n{item.text}" for item in good).lower()
    if is_question(task.text) and any(value not in seen for value in quoted):
        return False
    return (
        not wanted
        or covered(wanted, told) >= _TOUCHES
        or bool(count(task.text, [item.text for item in good]))
    )


def may_be_empty(task: Task) -> bool:
    """Whether 'nothing found' answers the clause: it does where things are to be found."""
    verb = lead(task.text)
    finds = best_related(verb, ("find", "list")) > 0 and best_related(verb, ("open", "show")) < 1
    return changes_something(task.text) != "" or verb == "which" or finds
