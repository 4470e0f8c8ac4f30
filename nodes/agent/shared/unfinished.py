"""What an agent did not do, by its own word and by what its calls brought."""

from ....state.agent import AgentState, succeeded
from ....state.calls import Evidence
from ....state.proof import undone
from ....state.todo_list import open_in_words
from ....text.told import say
from ....turn.end import called, not_run

REFUSALS = frozenset({"denied", "rejected", "not_interactive", "expired", "uncertain"})


def not_done(state: AgentState) -> list[str]:
    """What an agent did not do, by its own word and by what its calls brought."""
    report = state.report or {}
    status, unmet = report.get("status"), [*state.unmet, *report.get("unmet", [])]
    if status in ("partial", "blocked") and not unmet and state.halt is None:
        unmet = [report.get("summary", "")]
    if status not in ("partial", "blocked"):
        unmet += [say("thing_not_done", what=one) for one in open_in_words(state.todos)]
    if status == "blocked" or status is None:
        return [*unmet, *_refused(state)]
    if in_vain(state):
        last = say("no_call_succeeded", call=called(state.evidence[-1]))
        return [*unmet, *(_refused(state) or [last])]
    return unmet if state.halt else [*unmet, *map(_why_undone, undone(state.evidence))]


def _refused(state: AgentState) -> list[str]:
    """The calls that somebody had to allow, and did not."""
    return [not_run(record) for record in state.evidence if record.get("reason") in REFUSALS]


def in_vain(state: AgentState) -> bool:
    """Whether calls were made and none brought anything."""
    return bool(state.evidence) and not succeeded(state.evidence)


def _why_undone(record: Evidence) -> str:
    if record["status"] == "cancelled":
        return not_run(record)
    return say("call_failed", call=called(record))
