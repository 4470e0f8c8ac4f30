"""One step of a plan in one pass: its references, its call, its check, its repetitions."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from langchain_core.messages import AIMessage
from langgraph.errors import GraphBubbleUp

from ...calls.call_records import CallRecord, as_evidence
from ...calls.gate import deadline_of, open_calls
from ...calls.path import run_calls
from ...calls.toolbox import Toolbox
from ...flow.expectations import unexpected
from ...flow.references import MissingValue, references_in, resolve
from ...state.calls import Evidence, stopped_after, stopped_by
from ...state.canonical import shortened
from ...state.errors import LoopwrightError
from ...state.flow import Failure, FlowStep
from ...state.outcome import Spend, add_spend
from ...state.told import say
from ...tools.catalog import Catalog, CatalogTool
from ...turn.scope import RunScope
from .steps import CallEnd, Kept, StepEnd, StepResults, failed_call

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 2.0
_SHOWN: Final = 2_000
_LEAST_SHOWN: Final = 300
_MAY_BE_LONG: Final = frozenset({"value", "stored"})
_LONG_CHECK: Final = 500  # characters of it as text


@dataclass(frozen=True, kw_only=True)
class FlowScope:
    """What the steps of a pass work with."""

    scope: RunScope
    toolbox: Toolbox
    catalog: Catalog
    decisions: Mapping[str, Mapping[str, Any]]
    """What a human has decided on the steps' calls."""
    results: StepResults
    revision: str
    """Begins the names of the steps' calls in the journal."""
    made: Mapping[str, FlowStep]
    """The spare writes of earlier plans, by their call."""
    variables: Mapping[str, Any]


@dataclass(kw_only=True)
class StepRun:
    """Takes one step to its end, or to the question it must wait for."""

    step: FlowStep
    flow: FlowScope
    approved: Mapping[str, Any] | None = None
    """The call that a human has decided on."""
    begun: dict[str, Any] | None = None
    """The arguments that its write was sent with, in a run that was cut off."""
    records: list[CallRecord] = field(default_factory=list)
    spend: Spend = field(default_factory=Spend)
    """What models used that the step asked."""
    warnings: list[str] = field(default_factory=list)
    refused: str = ""
    """Why a hook kept a model from being asked by this step."""

    @property
    def is_new(self) -> bool:
        """Whether its call is still to be made from what other steps gave."""
        return self.approved is None and self.begun is None

    async def run(self, inputs: Mapping[str, FlowStep]) -> StepEnd:
        """Make the step's call, again while it fails and may be repeated.

        Args:
            inputs: The finished steps it refers to, by id.

        Raises:
            GraphBubbleUp: Its tool asked a question of its own.
            LoopwrightError: A database failed; what was recorded before stands.
        """
        try:
            return await self._run(inputs)
        except MissingValue as missing:
            return self._failed("missing_input", str(missing))
        except (GraphBubbleUp, LoopwrightError):
            raise
        except Exception as error:  # noqa: BLE001 - a step that breaks must not break its siblings
            why = f"{type(error).__name__}: {error}"
            return self._failed("execution_error", why, await self._left_by_call())

    async def _run(self, inputs: Mapping[str, FlowStep]) -> StepEnd:
        arguments = await self._filled(inputs) if self.is_new else self.begun or {}
        tries = self.approved.get("tries", 0) if self.approved else 0
        end = CallEnd("budget")
        for attempt in range(tries, self.step["retries"] + 1):
            calls = [self.approved] if self.approved else await self._planned(arguments, attempt)
            if stopped := stopped_by(calls):
                return self._at(CallEnd("refused", stopped, denied="denied", stopped=stopped))
            done = await run_calls(
                self.flow.scope, self.flow.toolbox, calls, decisions=self.flow.decisions,
                plain=True,
            )  # fmt: skip
            if done.waiting:
                return self._end(FlowStep(status="pending"), waiting=done.waiting)
            self.records += done.records
            end = await self._read(done.records[0], calls[0])
            if not (end.may_pass and self._repeatable()):
                break
            if self.approved:  # it was good for one call
                self.approved, arguments = None, await self._filled(inputs)
            await self._pause(attempt)
        return self._at(end)

    async def _pause(self, attempt: int) -> None:
        """Give what failed some time, if another try is left."""
        if attempt < self.step["retries"]:
            await asyncio.sleep(min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE))

    def _at(self, end: CallEnd) -> StepEnd:
        """The end of the step whose last call ended so; a hook may want the run to end with it."""
        if end.failure is None:
            changed = FlowStep(status="completed", feedback="", failure="", denied="")
            ended = self._ended(changed | self._given(cast("Kept", end.kept)))
        else:
            ended = self._failed(end.failure, end.why, end.kept, denied=end.denied)
        return {**ended, "stopped": end.stopped} if end.stopped else ended

    async def _filled(self, inputs: Mapping[str, FlowStep]) -> dict[str, Any]:
        named = {reference.root for reference in references_in(self.step["arguments"])}
        values = {i: await self.flow.results.data(inputs[i]) for i in inputs if i in named}
        filled = resolve(self.step["arguments"], values, self.flow.variables)
        return cast("dict[str, Any]", filled)

    async def _planned(self, arguments: dict[str, Any], tries: int) -> list[Any]:
        round_ = self.step["rounds"] + len(self.records) + 1
        scope = replace(self.flow.scope, path=self.step["id"])
        self._tell("prompt_flow_step_start", description=self.step["description"],
                   tool=self.step["tool"], attempt=self._attempts() + 1)  # fmt: skip
        call = {"name": self.step["tool"], "args": arguments, "id": None}
        message = AIMessage("", tool_calls=[call])
        calls: list[Any] = [*await open_calls(
            scope, self.flow.toolbox, message, round_=round_, names=self.flow.revision,
            before=self.step["claims"],
        )]  # fmt: skip
        # Whoever repeats a step wants to know how things are now, not how they were.
        about: dict[str, Any] = {"again": True} if round_ > 1 else {}
        if self.step.get("timeout"):
            about["deadline"] = self.step["timeout"]
        if tries:
            about["tries"] = tries
        if self.begun is not None:  # a hook changed them before they were sent, not once more
            about["args"] = self.begun
        return [{**one, **about} for one in calls]

    async def _read(self, record: CallRecord, call: Mapping[str, Any]) -> CallEnd:
        """What came of a call, and whether its result is what the plan expects."""
        stopped = stopped_after([record["message"]])
        if self.refused:
            return CallEnd("refused", self.refused, denied="denied", stopped=stopped)
        if record["status"] != "success":
            tool, scope = self._tool(), self.flow.scope
            spent = scope.budget.exhausted is not None
            limit = None if tool is None else deadline_of(call, tool, scope.context)
            return failed_call(record, call, limit=limit, spent=spent, stopped=stopped)
        kept = await self.flow.results.of(record)
        wrong = await self._unexpected(kept.data, kept.shape)
        return CallEnd("unexpected_result" if wrong else None, wrong, kept, stopped=stopped)

    async def _unexpected(self, data: Any, shape: str) -> str:
        expect = self.step.get("expect")
        # A check of many rows takes seconds, and so does one with many cases.
        if expect and (shape in _MAY_BE_LONG or len(str(expect)) > _LONG_CHECK):
            return await asyncio.to_thread(unexpected, data, expect)
        return unexpected(data, expect)

    async def _left_by_call(self) -> Kept | None:
        """What a call gave, where the step broke over its result."""
        if not self.records or self.records[-1]["status"] != "success":
            return None
        return await self.flow.results.unread(self.records[-1])

    def _tool(self) -> CatalogTool | None:
        return self.flow.catalog.find(self.step["tool"])

    def _repeatable(self) -> bool:
        tool = self._tool()
        return tool is not None and tool.resendable

    def _attempts(self) -> int:
        earlier = self.took["attempts"] if self.took else self.step["attempts"]
        return earlier + sum(record["counts"] for record in self.records)

    @property
    def took(self) -> FlowStep | None:
        """The spare write whose result the step has."""
        source = self.records[-1].get("reused_from", "") if self.records else ""
        return self.flow.made.get(source) if self.step["changes"] else None

    def _given(self, kept: Kept) -> FlowStep:
        record = self.records[-1]
        return FlowStep(
            result=record["result"], shape=kept.shape, value=kept.value, stored=kept.stored,
            evidence=[record["id"]],
        )  # fmt: skip

    def _failed(
        self, failure: Failure, why: str, kept: Kept | None = None, *, denied: str = ""
    ) -> StepEnd:
        """The end of a step that failed; with what its call gave where it must not be repeated."""
        changed = FlowStep(status="failed", failure=failure, feedback=why, denied=denied)
        if kept is not None and not self._repeatable():
            changed |= self._given(kept)
            changed["feedback"] = _made(why, changed["result"])
        return self._ended(changed)

    def _ended(self, changed: FlowStep) -> StepEnd:
        end = self._end(changed)
        step, success = end["step"], changed["status"] == "completed"
        self._tell(
            "prompt_flow_step_result", success=success, status=step["status"],
            output=(step["result"] if success else step["feedback"])[:_SHOWN],
            seconds=step["seconds"], attempts=step["attempts"],
        )  # fmt: skip
        return end

    def _end(self, changed: FlowStep, waiting: Sequence[Any] = ()) -> StepEnd:
        used = round(sum(record["seconds"] for record in self.records), 3)
        counted = FlowStep(
            id=self.step["id"],
            attempts=self._attempts(),
            rounds=self.step["rounds"] + len(self.records),
            seconds=round(self.step["seconds"] + used, 3),
        )
        calls = sum(record["counts"] for record in self.records)
        end = StepEnd(
            step={**counted, **changed},
            evidence=[_as_evidence(record) for record in self.records],
            waiting=list(waiting),
            held=False,
            spend=add_spend(self.spend, Spend(tool_calls=calls, seconds=used)),
            warnings=self.warnings,
        )
        if self.took:
            end["took"] = self.took["id"]
        return end

    def _tell(self, kind: str, **about: object) -> None:
        self.flow.scope.emit({"type": kind, "step_id": self.step["id"], **about})


def _made(why: str, result: str) -> str:
    """Why a step failed whose call has changed the world."""
    return say("made_once", why=why, result=shortened(result, _LEAST_SHOWN))


def _as_evidence(record: CallRecord) -> Evidence:
    """A call as the state keeps it; what succeeded is kept with its step in full."""
    kept = as_evidence(record)
    if record["status"] == "success":
        kept["result"] = record["result"][:_SHOWN]
    return kept
