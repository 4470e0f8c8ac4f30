"""What an agent did not do, by its own word and by what its calls brought."""

from ....state.agent import AgentState, has_succeeded
from ....state.calls import Evidence
from ....state.evidence_checks import find_undone_writes
from ....state.todo_list import describe_open
from ....text.sentences import say
from ....turn.end import describe_not_run, format_call

REFUSALS = frozenset({"denied", "rejected", "not_interactive", "expired", "uncertain"})


def list_undone(state: AgentState) -> list[str]:
    """What an agent did not do, by its own word and by what its calls brought."""
    report = state.report or {}
    status, unmet = report.get("status"), [*state.unmet, *report.get("unmet", [])]
    if status in ("partial", "blocked") and not unmet and state.halt is None:
        unmet = [report.get("summary", "")]
    if status not in ("partial", "blocked"):
        unmet += [say("thing_not_done", what=one) for one in describe_open(state.todos)]
    if status == "blocked" or status is None:
        return [*unmet, *_list_refused(state)]
    if has_only_failures(state):
        last = say("no_call_succeeded", call=format_call(state.evidence[-1]))
        return [*unmet, *(_list_refused(state) or [last])]
    return (
        unmet if state.halt else [*unmet, *map(_explain_undone, find_undone_writes(state.evidence))]
    )


def _list_refused(state: AgentState) -> list[str]:
    """The calls that somebody had to allow, and did not."""
    return [
        describe_not_run(record) for record in state.evidence if record.get("reason") in REFUSALS
    ]


def has_only_failures(state: AgentState) -> bool:
    """Whether calls were made and none brought anything."""
    return bool(state.evidence) and not has_succeeded(state.evidence)


def _explain_undone(record: Evidence) -> str:
    if record["status"] == "cancelled":
        return describe_not_run(record)
    return say("call_failed", call=format_call(record))
