"""One step of a plan in one pass: its references, its call, its check, its repetitions."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NotRequired, cast

from langchain_core.messages import AIMessage
from langgraph.errors import GraphBubbleUp
from typing_extensions import TypedDict

from ...calls.call_records import CallRecord, as_evidence
from ...calls.commands import wanted
from ...calls.gate import open_calls
from ...calls.path import run_calls
from ...calls.results import without_advice
from ...calls.sending import deadline_of
from ...calls.step_results import StepResults
from ...flow.expectations import Expectation, unexpected
from ...flow.references import MissingValue, meaning_of, references_in, resolve
from ...models.ask_for_step import ask_for_step
from ...state.calls import GAVE_UP, UNCERTAIN, Evidence, stopped_after, stopped_by
from ...state.errors import LoopwrightError
from ...state.flow import Failure, FlowState, FlowStep
from ...state.outcome import Spend, add_spend
from ...text.canonical import shortened
from ...text.secrets import is_masked
from ...text.told import say
from ...tools.catalog import Catalog, CatalogTool
from ...tools.python_tools import BUILT_IN, LLM_CALL, asking
from ...turn.scope import RunScope
from ..parts import Parts

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 2.0
_SHOWN: Final = 2_000
_LEAST_SHOWN: Final = 300
_MAY_BE_LONG: Final = frozenset({"value", "stored"})
_LONG_CHECK: Final = 500  # characters of it as text
# Failures that another try may mend.
_PASSING: Final = frozenset({"tool_error", "timeout", "unexpected_result", "uncertain"})


class StepEnd(TypedDict):
    """What one pass did for a step.

    `step` holds its id, its status and what changed; it stays `pending` where a question waits for
    a human (`waiting`), or where it, or one of its items, could not begin. `stopped` says why a
    hook wants the run to end here, where one does; `took_all` names the spare writes whose results
    it has (one that an older release saved says `took`, a name). `wishes` is what its tool wants
    changed in the graph's state.
    """

    step: FlowStep
    evidence: list[Evidence]
    waiting: list[Any]
    spend: Spend
    warnings: list[str]
    stopped: NotRequired[str]
    took: NotRequired[str]
    took_all: NotRequired[list[str]]
    wishes: NotRequired[list[dict[str, Any]]]


@dataclass(kw_only=True)
class FlowScope:
    """What the steps of a pass work with."""

    state: FlowState
    parts: Parts
    scope: RunScope
    catalog: Catalog
    results: StepResults
    made: Mapping[str, FlowStep]
    """The spare writes of earlier plans, by their call."""


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
    stopped: str = ""
    """Why a hook wants the run to end with this step."""

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
            with asking(self._ask_model):
                return await self._run(inputs)
        except MissingValue as missing:
            return self.lacking(str(missing))
        except (GraphBubbleUp, LoopwrightError):
            raise
        except Exception as error:  # noqa: BLE001 - a step that breaks must not break its siblings
            end = failed("execution_error", f"{type(error).__name__}: {error}")
            last = self.records[-1] if self.records else None
            if last is not None and last["status"] == "success":
                end = self._once(end, await self.flow.results.unread(last))
            return self._ended(end)

    def lacking(self, why: str) -> StepEnd:
        """The end of a step that lacks what it would be made from."""
        return self._ended(failed("missing_input", why))

    async def _run(self, inputs: Mapping[str, FlowStep]) -> StepEnd:
        arguments = await self._filled(inputs) if self.is_new else self.begun or {}
        attempt = self.approved.get("tries", 0) if self.approved else 0
        # Before anybody is asked what to do; a human's word is good for one call.
        most = max(self.step["retries"], self._is_read and not self.approved)
        while True:
            calls = [self.approved] if self.approved else await self._planned(arguments, attempt)
            if stopped := stopped_by(calls):
                self.stopped = stopped
                return self._ended(failed("refused", stopped, denied="denied"))
            done = await run_calls(
                self.flow.scope, self.flow.parts.toolbox, calls,
                decisions=self.flow.state.decisions, plain=True,
            )  # fmt: skip
            if done.waiting:
                return self._end(FlowStep(status="pending"), waiting=done.waiting)
            self.records += done.records
            changed = await self._read(done.records[0], calls[0])
            again = may_pass(changed) and not self.stopped and self._repeatable
            if attempt >= most or not again:
                return self._ended(changed)
            if self.approved:  # it was good for one call
                self.approved, arguments = None, await self._filled(inputs)
            await asyncio.sleep(min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE))
            attempt += 1

    async def _filled(self, inputs: Mapping[str, FlowStep]) -> dict[str, Any]:
        named = {reference.root for reference in references_in(self.step["arguments"])}
        values = {i: await self.flow.results.data(inputs[i]) for i in inputs if i in named}
        variables = self.flow.state.plan.get("global_variables", {})
        return filled(self.step, values, variables)

    async def _planned(self, arguments: dict[str, Any], tries: int) -> list[Any]:
        round_ = self.step["rounds"] + len(self.records) + 1
        about_it = {"description": self.step["description"], "tool": self.step["tool"]}
        self._tell("prompt_flow_step_start", **about_it, attempt=self._attempts() + 1)
        call = {"name": self.step["tool"], "args": arguments, "id": None}
        calls: list[Any] = [*await open_calls(
            replace(self.flow.scope, path=self.step["id"]), self.flow.parts.toolbox,
            AIMessage("", tool_calls=[call]), round_=round_,
            names=self.flow.state.plan.get("revision", ""), before=self.step["claims"],
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

    async def _read(self, record: CallRecord, call: Mapping[str, Any]) -> FlowStep:
        """What came of a call, and whether its result is what the plan expects."""
        self.stopped = stopped_after([record["message"]])
        if self.refused:
            return failed("refused", self.refused, denied="denied")
        if record["status"] != "success":
            tool, scope = self._tool, self.flow.scope
            limit = None if tool is None else deadline_of(call, tool, scope.context)
            return failed_call(record, call, limit=limit, spent=scope.budget.exhausted is not None)
        data, kept = await self.flow.results.of(record)
        if wrong := await judged(self.step.get("expect"), data, kept["shape"]):
            return self._once(failed("unexpected_result", wrong), kept)
        return completed(kept) | FlowStep(evidence=[record["id"]])

    def _once(self, end: FlowStep, kept: FlowStep) -> FlowStep:
        """A failure with what the call gave, where it has changed the world: not to be repeated."""
        if self._repeatable:
            return end
        return made_once(end, kept) | FlowStep(evidence=[self.records[-1]["id"]])

    @property
    def _tool(self) -> CatalogTool | None:
        return self.flow.catalog.find(self.step["tool"])

    @property
    def _is_read(self) -> bool:
        """Whether it only reads; asking a model is none, and is repeated on its own."""
        return self._tool is not None and self._tool.read_only and self._tool.tool is not BUILT_IN

    @property
    def _repeatable(self) -> bool:
        return self._tool is not None and self._tool.resendable

    def _attempts(self) -> int:
        earlier = self.took["attempts"] if self.took else self.step["attempts"]
        return earlier + sum(record["counts"] for record in self.records)

    @property
    def took(self) -> FlowStep | None:
        """The spare write whose result the step has."""
        source = self.records[-1].get("reused_from", "") if self.records else ""
        return self.flow.made.get(source) if self.step["changes"] else None

    def _ended(self, changed: FlowStep) -> StepEnd:
        end = self._end(changed)
        self._tell("prompt_flow_step_result", **told_of(end["step"]))
        return end

    def _end(self, changed: FlowStep, waiting: Sequence[Any] = ()) -> StepEnd:
        used = round(sum(record["seconds"] for record in self.records), 3)
        calls = sum(record["counts"] for record in self.records)
        counted = FlowStep(
            id=self.step["id"], attempts=self._attempts(),
            rounds=self.step["rounds"] + len(self.records),
            seconds=round(self.step["seconds"] + used, 3),
        )  # fmt: skip
        end = StepEnd(
            step={**counted, **changed},
            evidence=[_as_evidence(record) for record in self.records],
            waiting=list(waiting),
            spend=add_spend(self.spend, Spend(tool_calls=calls, seconds=used)),
            warnings=self.warnings,
        )
        if self.took:
            end["took_all"] = [self.took["id"]]
        if self.stopped:
            end["stopped"] = self.stopped
        if wishes := wanted(self.records):
            end["wishes"] = wishes
        return end

    def _tell(self, kind: str, **about: object) -> None:
        self.flow.scope.emit({"type": kind, "step_id": self.step["id"], **about})

    async def _ask_model(self, prompt: str, schema: Mapping[str, Any]) -> Any:
        """Answer an `llm_call`, out of the run's own budget."""
        asked = await ask_for_step(self.flow.scope, self.flow.parts.models, prompt, schema)
        self.spend, self.refused = add_spend(self.spend, asked.spend), asked.refused
        self.warnings += asked.warnings
        if asked.problem:
            raise RuntimeError(asked.problem)
        return asked.value


def filled(
    step: FlowStep, values: Mapping[str, Any], variables: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a step with what its references stand for.

    Raises:
        MissingValue: One of them stands for nothing, or for a secret.
    """
    given = cast("dict[str, Any]", resolve(step["arguments"], values, variables))
    if step["tool"] != LLM_CALL:  # which may be asked about a text that holds a mask
        for reference in references_in(step["arguments"]):
            if is_masked(meaning_of(reference, values, variables)):
                raise MissingValue(say("masked_value", reference=reference))
    return given


async def judged(expect: Expectation, data: Any, shape: str) -> str:
    """What about a result is not as expected; '' where all of it is."""
    # A check of many rows takes seconds, and so does one with many cases.
    if expect and (shape in _MAY_BE_LONG or len(str(expect)) > _LONG_CHECK):
        return await asyncio.to_thread(unexpected, data, expect)
    return unexpected(data, expect)


def without_call(step: FlowStep) -> StepEnd:
    """The end of a step, or an item, of which nothing was called in this pass."""
    return StepEnd(step=step, evidence=[], waiting=[], spend=Spend(), warnings=[])


def held(name: str) -> StepEnd:
    """The end of one that could not begin."""
    return without_call(FlowStep(id=name, status="pending"))


def failed(failure: Failure, why: str, *, denied: str = "") -> FlowStep:
    """A failure; `denied` says why nobody lets the call run: another plan could not change it."""
    return FlowStep(status="failed", failure=failure, feedback=why, denied=denied)


def completed(kept: FlowStep) -> FlowStep:
    """A step that is completed, with its result."""
    return FlowStep(status="completed", feedback="", failure="", denied="") | kept


def made_once(end: FlowStep, kept: FlowStep) -> FlowStep:
    """A failure with what was written all the same: the call is not to be made again."""
    shown = shortened(kept["result"], _LEAST_SHOWN)
    return end | kept | FlowStep(feedback=say("made_once", why=end["feedback"], result=shown))


def told_of(step: FlowStep) -> dict[str, Any]:
    """How a step ended, as the event of its end tells."""
    success = step["status"] == "completed"
    return {
        "success": success,
        "status": step["status"],
        "output": (step["result"] if success else step["feedback"])[:_SHOWN],
        "seconds": step["seconds"],
        "attempts": step["attempts"],
    }


def may_pass(failed: FlowStep) -> bool:
    """Whether another call may do better."""
    return failed["failure"] in _PASSING and not failed["denied"]


def failed_call(
    record: CallRecord, call: Mapping[str, Any], *, limit: float | None, spent: bool
) -> FlowStep:
    """What a call that brought no result means for its step.

    Args:
        record: The call as it was answered.
        call: It as it was planned.
        limit: Seconds it might take; None where there is no such tool.
        spent: Whether the run's allowance is used up.
    """
    why = without_advice(record["result"])
    if record["status"] == "cancelled":
        doubt = record["reason"] in (UNCERTAIN, GAVE_UP)
        return failed("uncertain" if doubt else "refused", why, denied=record["reason"])
    failure: Failure = "timeout" if limit and record["seconds"] >= limit else "tool_error"
    if limit is None:
        failure = "tool_not_found"
    elif call["action"] == "error":
        failure = "bad_arguments"
    elif record["reason"] == UNCERTAIN:
        failure = "uncertain"
    elif not record["ran"]:
        failure = "budget" if spent else "tool_error"
    return failed(failure, why)


def _as_evidence(record: CallRecord) -> Evidence:
    """A call as the state keeps it; what succeeded is kept with its step in full."""
    kept = as_evidence(record)
    if record["status"] == "success":
        kept["result"] = record["result"][:_SHOWN]
    return kept
