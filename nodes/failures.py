"""The error analysis of a plan: what failed and why, and what may still be done about it. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from ..state.canonical import hash_of
from ..state.flow import Cause, FlowStep
from ..tools.catalog import Catalog

RETRY: Final = "retry_step"
_BOUNDS: Final[dict[str, int]] = {RETRY: 2, "replan_from_failure": 2, "complete_replan": 1}
"""How often each strategy may be taken in a user turn."""

# The same call would fail the same way: what it was made from does not change.
_SAME_AGAIN: Final = frozenset({"bad_arguments", "missing_input"})
# The call may have changed the world, so that only one that may be repeated is made again.
_MAY_HAVE_RUN: Final = frozenset({"timeout", "uncertain", "unexpected_result", "execution_error"})


def causes_of(failed: Sequence[FlowStep], catalog: Catalog) -> list[Cause]:
    """What is known of each failure, as whoever repairs the plan is shown it."""
    return [_cause(step, catalog) for step in failed]


def _cause(step: FlowStep, catalog: Catalog) -> Cause:
    tool = catalog.find(step["tool"])
    return Cause(
        step=step["id"],
        description=step["description"],
        tool=step["tool"],
        arguments=step["arguments"],
        failure=step.get("failure") or "execution_error",
        error=step.get("feedback") or "no error was told",
        attempts=step.get("attempts", 0),
        safe_to_repeat=tool is not None and tool.resendable,
    )


def key_of(cause: Cause) -> str:
    """What makes two failures the same: the call as planned and its error, under whatever id."""
    return hash_of([cause["tool"], cause["arguments"], cause["failure"], cause["error"]])


def strategies_left(taken: Mapping[str, int], causes: Sequence[Cause], most: int) -> dict[str, int]:
    """The strategies that may still be taken, each with how often.

    Retrying is none of them where one of the calls would fail the same way again, or may have
    taken effect and must not be made twice.

    Args:
        taken: Strategy to how often it was taken this turn.
        causes: What failed.
        most: Bound for all strategies together.
    """
    total = most - sum(taken.values())
    left = {name: min(bound - taken.get(name, 0), total) for name, bound in _BOUNDS.items()}
    if not all(_may_be_retried(cause) for cause in causes):
        del left[RETRY]
    return {name: count for name, count in left.items() if count > 0}


def _may_be_retried(cause: Cause) -> bool:
    if cause["failure"] in _SAME_AGAIN:
        return False
    return cause["safe_to_repeat"] or cause["failure"] not in _MAY_HAVE_RUN
