"""The results of steps as data: what of one is kept in the state, and how it is read back."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NotRequired

from typing_extensions import TypedDict

from ...calls.call_records import CallRecord
from ...calls.results import ResultStore, without_advice
from ...calls.toolbox import Toolbox
from ...flow.order import in_plan_order
from ...flow.references import MissingValue
from ...state.calls import GAVE_UP, UNCERTAIN, Evidence
from ...state.context import Emit
from ...state.flow import Failure, FlowStep, FlowUpdate, value_of
from ...state.outcome import Spend
from ...state.told import say
from ...turn.scope import RunScope


@dataclass(frozen=True)
class Kept:
    """A result as data, and how a step in the state holds it; see `FlowStep.shape`."""

    data: Any
    shape: Literal["text", "json", "value", "stored"]
    stored: str = ""

    @property
    def value(self) -> Any:
        """What the step's own field must hold."""
        return self.data if self.shape == "value" else None


class StepResults:
    """Reads and keeps the results of the steps of one pass."""

    def __init__(self, store: ResultStore, *, lasts: bool) -> None:
        """Use the store of the run.

        Args:
            store: Where results are that were too long to be shown.
            lasts: Whether it is there after a restart; if not, the state keeps them whole.
        """
        self._store = store
        self._lasts = lasts
        self._read: dict[str, Any] = {}

    async def of(self, record: CallRecord) -> Kept:
        """The result of a call that succeeded."""
        artifact = record["message"].artifact
        about = artifact if isinstance(artifact, Mapping) else {}
        return await self.kept(record["result"], about.get("data"), _stored(record))

    async def unread(self, record: CallRecord) -> Kept:
        """The same, where the store could not be read just now: what of it can still be kept."""
        if not (stored := _stored(record)):
            return await self.of(record)
        return Kept(None, "stored", stored) if self._lasts else Kept(record["result"], "text")

    async def kept(self, text: str, data: Any, stored: str) -> Kept:
        """A result as a step keeps it.

        Args:
            text: As a model is shown it.
            data: Its structured part, or None.
            stored: Id of the whole text in the store; "" where `text` is all of it.
        """
        whole = await self._store.whole(stored) if stored else None
        if whole is not None:
            spelled = _spelled(whole)
            return Kept(spelled, "stored", stored) if self._lasts else Kept(spelled, "value")
        spelled = _spelled(text)
        if data is None:
            return Kept(spelled, "text" if isinstance(spelled, str) else "json")
        if data == text:
            return Kept(data, "text")
        said = _scalar(text, spelled)
        same = type(said) is type(data) and said == data  # False is no 0
        return Kept(data, "json" if same else "value")

    async def data(self, step: FlowStep) -> Any:
        """The result of a finished step.

        Raises:
            MissingValue: It was stored, and is no longer there.
        """
        if step.get("shape") != "stored":
            return value_of(step)
        key = step["stored"]
        if key not in self._read:
            whole = await self._store.whole(key)
            if whole is None:
                raise MissingValue(say("result_lost", step=repr(step["id"])))
            self._read[key] = _spelled(whole)
        return self._read[key]


def results_of(scope: RunScope, toolbox: Toolbox) -> StepResults:
    """The results of a run's steps, in its own store or in the spare one of its tools."""
    store = scope.store or toolbox.spare_store(scope.thread)
    return StepResults(ResultStore(store, scope.thread), lasts=scope.store_lasts)


def _stored(record: CallRecord) -> str:
    """The id under which a store has the whole result; "" where none has."""
    return str(record["message"].additional_kwargs.get("stored", ""))


def _spelled(text: str) -> Any:
    """The object, the list or the null that a text spells; else the text itself."""
    if text != "null" and not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _scalar(text: str, spelled: Any) -> Any:
    """The number or the truth value that a text spells, where it spells nothing bigger."""
    if not isinstance(spelled, str):
        return spelled
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return spelled


class StepEnd(TypedDict):
    """What one pass did for a step.

    `step` holds its id, its status and what changed; it stays `pending` where a question waits for
    a human (`waiting`), or where it could not begin (`held`). `stopped` says why a hook wants the
    run to end here, where one does; `took` names the spare write whose result the step has.
    """

    step: FlowStep
    evidence: list[Evidence]
    waiting: list[Any]
    held: bool
    spend: Spend
    warnings: list[str]
    stopped: NotRequired[str]
    took: NotRequired[str]


def held(step_id: str) -> StepEnd:
    """The end of a step that could not begin in this pass."""
    return StepEnd(
        step=FlowStep(id=step_id, status="pending"), evidence=[], waiting=[], held=True,
        spend=Spend(), warnings=[],
    )  # fmt: skip


def folded(ends: Sequence[StepEnd]) -> FlowUpdate:
    """What the ends of a pass change in the run: steps, evidence and warnings."""
    return FlowUpdate(
        todos=[
            *(end["step"] for end in ends if not end["held"]),
            # The call is told by the step that has its result now: two would make it two writes.
            *(FlowStep(id=end["took"], gone=True) for end in ends if end.get("took")),
        ],
        evidence=[record for end in ends for record in end["evidence"]],
        warnings=[text for end in ends for text in end["warnings"]],
    )


def left_out(step: FlowStep, why: str, emit: Emit) -> StepEnd:
    """The end of a step that can no longer run, though the plan goes on."""
    emit(
        {"type": "prompt_flow_step_result", "step_id": step["id"], "success": False,
         "status": "skipped", "output": why, "seconds": 0.0, "attempts": step["attempts"]}
    )  # fmt: skip
    end = held(step["id"])
    return {**end, "step": FlowStep(id=step["id"], status="skipped", feedback=why), "held": False}


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


def order_of_pass(
    steps: Sequence[FlowStep], *, writes: Collection[str], waiting: Collection[str]
) -> tuple[list[str], dict[str, list[str]]]:
    """The open steps that a pass can begin, dependencies first, and what each of them waits for.

    A step waits for its dependencies; one that may change the world also for the one before it in
    the plan that may, so that the world ends the same however long the steps take. Where not all
    can run at once, those with the longest chain of steps behind them come first ("highest level
    first", Hu 1961), else the plan's order stands.

    Args:
        steps: The whole plan.
        writes: Ids of the steps that may change the world.
        waiting: Ids of steps with a question that a human must answer first; what is behind them
            cannot begin either.

    Returns:
        Step ids, and step id to the ids it waits for.
    """
    waits: dict[str, list[str]] = {}
    shut = set(waiting)
    before = ""
    # The whole plan, not what is left of it: else a pass later on would order the writes otherwise.
    for step in (step for step in in_plan_order(steps) if step["status"] == "pending"):
        name = step["id"]
        needed = list(step.get("depends_on") or [])
        if name in writes:
            needed += [before] if before and before not in needed else []
            before = name
        if name in shut or not shut.isdisjoint(needed):
            shut.add(name)
        else:
            waits[name] = needed
    waits = {name: [w for w in needed if w in waits] for name, needed in waits.items()}
    behind = _steps_behind(waits)
    return sorted(waits, key=lambda name: -behind[name]), waits


def _steps_behind(waits: dict[str, list[str]]) -> dict[str, int]:
    """How many steps the longest chain has that waits for each step."""
    longest = dict.fromkeys(waits, 0)
    for name in reversed(waits):
        for needed in waits[name]:
            longest[needed] = max(longest[needed], longest[name] + 1)
    return longest
