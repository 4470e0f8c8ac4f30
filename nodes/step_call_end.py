"""What came of one call of a step: why it failed, and whether another one may do better. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..state.evidence import GAVE_UP, UNCERTAIN
from ..state.flow import Failure
from ..tools.advice import without_advice
from ..tools.call_records import CallRecord
from .step_values import Kept

_PASSING: Final = frozenset({"tool_error", "timeout", "unexpected_result", "uncertain"})
"""Failures that another try may mend."""


@dataclass(frozen=True)
class CallEnd:
    """What came of one call of a step.

    `denied` says why nobody lets it run, where that is so: another plan could not change it.
    `stopped` says why a hook wants the run to end with it.
    """

    failure: Failure | None
    why: str = ""
    kept: Kept | None = None
    denied: str = ""
    stopped: str = ""

    @property
    def may_pass(self) -> bool:
        """Whether another call may do better."""
        return self.failure in _PASSING and not self.denied and not self.stopped


def failed_call(
    record: CallRecord, call: Mapping[str, Any], *, limit: float | None, spent: bool, stopped: str
) -> CallEnd:
    """The end of a call that brought no result.

    Args:
        record: The call as it was answered.
        call: It as it was planned.
        limit: Seconds it might take; None where there is no such tool.
        spent: Whether the run's allowance is used up.
        stopped: Why a hook wants the run to end with it; else "".
    """
    why = without_advice(record["result"])
    denied = record["reason"] if record["status"] == "cancelled" else ""
    failure = _failure(record, call, limit, spent=spent)
    return CallEnd(failure, why, denied=denied, stopped=stopped)


def _failure(
    record: CallRecord, call: Mapping[str, Any], limit: float | None, *, spent: bool
) -> Failure:
    if record["status"] == "cancelled":
        return "uncertain" if record["reason"] in (UNCERTAIN, GAVE_UP) else "refused"
    if limit is None:
        return "tool_not_found"
    if call["action"] == "error":
        return "bad_arguments"
    if record["reason"] == UNCERTAIN:
        return "uncertain"
    if not record["ran"]:
        return "budget" if spent else "tool_error"
    return "timeout" if record["seconds"] >= limit else "tool_error"
