"""One step of a plan in one pass: its references, its call, its check, its repetitions."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from langchain_core.messages import AIMessage
from langgraph.errors import GraphBubbleUp

from ..state.errors import LoopwrightError
from ..state.events import Emit
from ..state.evidence import UNCERTAIN, Evidence
from ..state.flow import Failure, FlowStep
from ..state.references import MissingValue, references_in, resolve
from ..state.spend import Spend, add_spend
from ..tools.call_records import CallRecord, Pass
from ..tools.catalog import Catalog, CatalogTool
from ..tools.expectations import unexpected
from ..tools.results import NEXT_STEP
from ..tools.tool_hooks import stopped_after, stopped_by
from .planned import as_evidence
from .step_ends import StepEnd
from .step_values import Kept, StepResults

Planner = Callable[[AIMessage, str, int], Awaitable[list[Any]]]
"""Plans the call of a message: for a step's id, with the number of the call."""

_PASSING: Final = frozenset({"tool_error", "timeout", "unexpected_result"})
"""Failures that another try may mend."""

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 2.0
_SHOWN: Final = 2_000
_GAVE_UP: Final = frozenset({UNCERTAIN, "gave_up"})


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What the steps of a pass work with."""

    catalog: Catalog
    plan: Planner
    call: Callable[[Sequence[Any]], Awaitable[Pass]]
    results: StepResults
    variables: Mapping[str, Any]
    deadline: Callable[[Mapping[str, Any], CatalogTool], float]
    spent: Callable[[], bool]
    """Whether the run's allowance is used up."""
    emit: Emit


@dataclass(kw_only=True)
class StepRun:
    """Takes one step to its end, or to the question it must wait for."""

    step: FlowStep
    bench: Bench
    approved: Mapping[str, Any] | None = None
    """The call that a human has decided on."""
    records: list[CallRecord] = field(default_factory=list)
    wrote: bool = False
    spend: Spend = field(default_factory=Spend)
    """What models used that the step asked."""

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
            return self._failed("execution_error", f"{type(error).__name__}: {error}")

    async def _run(self, inputs: Mapping[str, FlowStep]) -> StepEnd:
        arguments = {} if self.approved else await self._filled(inputs)
        for attempt in range(self.step["retries"] + 1):
            calls = [self.approved] if self.approved else await self._planned(arguments)
            if stopped := stopped_by(calls):
                return self._failed("refused", stopped, denied="denied")
            done = await self.bench.call(calls)
            self.wrote |= done.wrote
            if done.waiting:
                return self._end(FlowStep(status="pending"), waiting=done.waiting)
            self.records += done.records
            failure, why, kept = await self._read(done.records[0], calls[0])
            if kept is not None:
                return self._completed(kept)
            if failure not in _PASSING or not self._repeatable():
                break
            if self.approved:  # it was good for one call
                self.approved, arguments = None, await self._filled(inputs)
            if attempt < self.step["retries"]:
                await asyncio.sleep(min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE))
        return self._failed(cast("Failure", failure), why, denied=_denied(self.records[-1]))

    async def _filled(self, inputs: Mapping[str, FlowStep]) -> dict[str, Any]:
        named = {reference.root for reference in references_in(self.step["arguments"])}
        values = {i: await self.bench.results.data(inputs[i]) for i in inputs if i in named}
        filled = resolve(self.step["arguments"], values, self.bench.variables)
        return cast("dict[str, Any]", filled)

    async def _planned(self, arguments: dict[str, Any]) -> list[Any]:
        name, round_ = self.step["id"], self.step["rounds"] + len(self.records) + 1
        self._tell("prompt_flow_step_start", description=self.step["description"],
                   tool=self.step["tool"], attempt=self._attempts() + 1)  # fmt: skip
        call = {"name": self.step["tool"], "args": arguments, "id": None}
        calls = await self.bench.plan(AIMessage("", tool_calls=[call]), name, round_)
        # Whoever repeats a step wants to know how things are now, not how they were.
        about: dict[str, Any] = {"again": True} if round_ > 1 else {}
        if self.step.get("timeout"):
            about["deadline"] = self.step["timeout"]
        return [{**one, **about} for one in calls]

    async def _read(
        self, record: CallRecord, call: Mapping[str, Any]
    ) -> tuple[Failure | None, str, Kept | None]:
        """Whether a call failed and why; what is kept of it if not."""
        if stopped := stopped_after([record["message"]]):
            return "refused", stopped, None
        if record["status"] != "success":
            why = record["result"].removesuffix(NEXT_STEP).strip()
            return self._failure(record, call), why, None
        kept = await self.bench.results.of(record)
        wrong = unexpected(kept.data, self.step.get("expect"))
        if wrong:
            return "unexpected_result", wrong, None
        return None, "", kept

    def _failure(self, record: CallRecord, call: Mapping[str, Any]) -> Failure:
        tool = self._tool()
        if record["status"] == "cancelled":
            return "uncertain" if record["reason"] in _GAVE_UP else "refused"
        if tool is None:
            return "tool_not_found"
        if call["action"] == "error":
            return "bad_arguments"
        if record["reason"] == UNCERTAIN:
            return "uncertain"
        if not record["ran"]:
            return "budget" if self.bench.spent() else "tool_error"
        return "timeout" if record["seconds"] >= self.bench.deadline(call, tool) else "tool_error"

    def _tool(self) -> CatalogTool | None:
        return self.bench.catalog.find(self.step["tool"])

    def _repeatable(self) -> bool:
        tool = self._tool()
        return tool is not None and tool.resendable

    def _attempts(self) -> int:
        return self.step["attempts"] + sum(record["counts"] for record in self.records)

    def _completed(self, kept: Kept) -> StepEnd:
        record = self.records[-1]
        return self._ended(
            FlowStep(
                status="completed", result=record["result"], feedback="", failure="", denied="",
                shape=kept.shape, value=kept.value, stored=kept.stored, evidence=[record["id"]],
            )
        )  # fmt: skip

    def _failed(self, failure: Failure, why: str, *, denied: str = "") -> StepEnd:
        changed = FlowStep(status="failed", failure=failure, feedback=why, denied=denied)
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
        return StepEnd(
            step={**counted, **changed},
            evidence=[_as_evidence(record) for record in self.records],
            waiting=list(waiting),
            held=False,
            spend=add_spend(self.spend, Spend(tool_calls=calls, seconds=used)),
            warnings=[],
        )

    def _tell(self, kind: str, **about: object) -> None:
        self.bench.emit({"type": kind, "step_id": self.step["id"], **about})


def _denied(record: CallRecord) -> str:
    """Why nobody lets the call run, where that is so: another plan could not change it."""
    if stopped_after([record["message"]]):
        return "denied"
    return record["reason"] if record["status"] == "cancelled" else ""


def _as_evidence(record: CallRecord) -> Evidence:
    """A call as the state keeps it; what succeeded is kept with its step in full."""
    kept = as_evidence(record)
    if record["status"] == "success":
        kept["result"] = record["result"][:_SHOWN]
    return kept
