"""What a turn has left undone: one table that every ended call enters. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ..text.canonical import canonical
from ..text.display import show_json
from ..text.sentences import say
from .agent import COMPLETE_TASK, DELEGATE
from .calls import GAVE_UP, UNCERTAIN, Evidence
from .evidence_checks import has_taken_effect
from .todo_list import WRITE_TODOS


def find_undone(evidence: Sequence[Evidence]) -> list[Evidence]:
    """The calls that did not do what they were made for, and that none of a later message made up.

    | call | undone |
    |---|---|
    | a read that failed | no: its error is an answer |
    | any other that failed, was refused, given up or cut off, or may have taken effect | yes |
    | of a tool that does not exist or may not be called | yes |
    | of an agent that did not come to a good end | yes |
    | of a tool that changes the graph's state alone | no |

    What makes up for one is a success of the same tool with the same target; for one that failed,
    where the tool does not declare to change anything, a success with any: it may be a look-up.
    """
    made: list[Evidence] = []
    left: list[Evidence] = []
    for record in reversed(evidence):
        own = record.get("own") and record["tool"] != DELEGATE
        if record["tool"] is None or own or _spell(record["tool"]) in _ENDS:
            continue
        if record.get("same_as") and record["status"] != "success":
            continue  # the call that it repeats is in the table
        if not _is_undone(record):
            made += [record] if has_taken_effect(record) else []
        elif not any(_makes_up(later, record) for later in made):
            left.insert(0, record)
    return left


def _is_undone(record: Evidence) -> bool:
    if record.get("unmet") or record.get("unknown") or record["status"] == "cancelled":
        return True
    return not (has_taken_effect(record) or record.get("read_only"))


def _makes_up(later: Evidence, record: Evidence) -> bool:
    """Whether a success stands for an undone call.

    Its target is the first text among the arguments, as tools put it first; an agent's is its
    objective. A call that says less, such as one whose arguments could not be read, means any.
    """
    if later["id"].rpartition(".")[0] == record["id"].rpartition(".")[0]:
        return False
    wanted, given = record["arguments"], later["arguments"]
    if record.get("unknown") and wanted and all(given.get(n) == v for n, v in wanted.items()):
        return True
    same = record.get("unknown") and _spell(later["tool"]) in _spell(record["tool"])
    if not (same or later["tool"] == record["tool"]):
        return False
    if record.get("undeclared") and record["status"] == "error":
        return True
    named = _NAMES_WORK if record.get("unmet") else wanted.keys()
    values = [canonical(wanted[name]) for name in wanted if name in named]
    if {*values} <= {canonical(value) for value in given.values()}:
        return True
    target = next((value for value in given.values() if isinstance(value, str)), None)
    return not record.get("unmet") and target is not None and canonical(target) in values


_NAMES_WORK: Final = frozenset({"agent_name", "objective"})


def _spell(tool: str | None) -> str:
    """A tool's name as it is compared with one that does not exist: `functions.Read-File`."""
    return "".join(filter(str.isalnum, (tool or "").casefold()))


_ENDS: Final = frozenset(map(_spell, (COMPLETE_TASK, WRITE_TODOS)))
"""Tools that bring nothing about, however they are spelled."""


# The same in words.

_SHOWN: Final = 500


def describe_doubt(call: Mapping[str, Any]) -> str:
    """A call in doubt, in words."""
    return say("not_known_whether", call=format_call(call))


def describe_not_run(record: Mapping[str, Any]) -> str:
    """Why a call that was planned did not run, or is in doubt, in words."""
    if record.get("reason") in (UNCERTAIN, GAVE_UP):
        return describe_doubt(record)
    return say(_NOT_RUN.get(record.get("reason", ""), "call_not_run"), call=format_call(record))


_NOT_RUN: Final = {
    "rejected": "call_you_rejected",
    "denied": "call_was_denied",
    "not_interactive": "call_nobody_asked",
    "expired": "call_too_late",
}


def describe_undone_calls(
    evidence: Sequence[Evidence], matters: Callable[[Evidence], bool] = bool
) -> list[str]:
    """What of the calls is left undone, in words; of all of them, or of those that matter."""
    undone = filter(matters, find_undone(evidence))
    return [text for record in undone for text in _explain_undone(record)]


def _explain_undone(record: Evidence) -> list[str]:
    if left := record.get("unmet"):
        agent = record["arguments"].get("agent_name")
        return [say("agent_left_undone", agent=agent, what=text) for text in left]
    if record["status"] == "cancelled" or record.get("reason") in (UNCERTAIN, GAVE_UP):
        return [describe_not_run(record)]
    return [say("call_failed", call=format_call(record))]


def format_call(record: Mapping[str, Any]) -> str:
    """A call in words."""
    arguments = show_json(record["arguments"])
    return f"{record['tool']}({arguments[:_SHOWN]})"
