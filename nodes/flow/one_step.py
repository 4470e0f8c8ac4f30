"""One call of a plan in one pass, of a step or of an item: references, check, repetitions."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from langchain_core.messages import AIMessage
from langgraph.errors import GraphBubbleUp

from ...calls.call_records import Call
from ...calls.commands import collect_updates
from ...calls.gate import open_calls
from ...calls.path import run_calls
from ...calls.sending import compute_deadline
from ...flow.references import MissingValue, find_references, resolve_reference, resolve_references
from ...models.ask_value import ask_for_step
from ...policy.origins import Origins
from ...state.calls import GAVE_UP, UNCERTAIN, Evidence, find_stop_in_calls, find_stop_in_results
from ...state.errors import LoopwrightError
from ...state.flow import Failure, FlowStep
from ...state.outcome import Spend, add_spend
from ...text.secrets import is_masked
from ...text.sentences import say
from ...tools.catalog import CatalogTool
from ...tools.python_tools import BUILT_IN, LLM_CALL, allow_asking
from .flow_pass import FlowPass, StepEnd, fail_with

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 2.0
_SHOWN: Final = 2_000
# Failures that another try may overcome.
_PASSING: Final = frozenset({"tool_error", "timeout", "unexpected_result", "uncertain"})


@dataclass(kw_only=True)
class StepRun:
    """Takes one task to its end, or to the question it must wait for."""

    step: FlowStep
    """The step; of an item the step as its call alone would be."""
    flow: FlowPass
    arguments: dict[str, Any] | None = None
    """Of an item: those of its call, with what the item gives."""
    twin: bool = False
    """An item before it is the same: the answer to that one is none to this."""
    approved: Mapping[str, Any] | None = field(init=False)
    begun: dict[str, Any] | None = field(init=False)
    calls: list[Call] = field(default_factory=list)
    spend: Spend = field(default_factory=Spend)
    """What models used that the step asked."""
    warnings: list[str] = field(default_factory=list)
    refused: str = ""
    """Why a hook kept a model from being asked by this step."""
    stopped: str = ""
    """Why a hook wants the run to end with this step."""

    def __post_init__(self) -> None:
        """Look up what was decided on for it, and what was sent before a crash."""
        self.approved = self.flow.approved.get(self.step["id"])
        self.begun = self.flow.begun.get(self.step["id"])

    @property
    def is_new(self) -> bool:
        """Whether its call is still to be made from what other steps gave."""
        return self.approved is None and self.begun is None

    async def run(self, inputs: Mapping[str, FlowStep]) -> StepEnd:
        """Make the call from the finished `inputs`; repeat it while it fails and may be repeated.

        Only a question of its tool and a database failure are raised.
        """
        try:
            with allow_asking(self._ask_model):
                return await self._run(inputs)
        except MissingValue as missing:
            return self.end_lacking(str(missing))
        except (GraphBubbleUp, LoopwrightError):
            raise
        except Exception as error:  # noqa: BLE001 - a step that breaks must not break its siblings
            end = fail_with("execution_error", f"{type(error).__name__}: {error}")
            last = self.calls[-1] if self.calls else None
            if last is not None and last.final_status == "success":
                end = self._with_evidence(
                    self.flow.keep_if_made(
                        self.step, end, await self.flow.results.keep_unread(last)
                    )
                )
            return self._end_and_tell(end)

    def end_lacking(self, why: str) -> StepEnd:
        """The end of a step that lacks what it would be made from."""
        return self._end_and_tell(fail_with("missing_input", why))

    async def _run(self, inputs: Mapping[str, FlowStep]) -> StepEnd:
        arguments = await self._fill_inputs(inputs) if self.is_new else self.begun or {}
        attempt = self.approved.get("tries", 0) if self.approved else 0
        # Before anybody is asked what to do; a human's word is good for one call.
        most = max(self.step["retries"], self._is_read and not self.approved)
        while True:
            calls = [self.approved] if self.approved else await self._plan_call(arguments, attempt)
            if stopped := find_stop_in_calls(calls):
                self.stopped = stopped
                return self._end_and_tell(fail_with("refused", stopped, denied="denied"))
            done = await run_calls(
                self.flow.scope, self.flow.parts.toolbox, calls,
                decisions=self.flow.state.decisions, plain=True,
            )  # fmt: skip
            if done.waiting:
                return self._end(FlowStep(status="pending"), waiting=done.waiting)
            self.calls += done.answered
            changed = await self._read(done.answered[0], calls[0])
            repeatable = self._tool is not None and self._tool.resendable
            if attempt >= most or self.stopped or not (may_pass(changed) and repeatable):
                return self._end_and_tell(changed)
            if self.approved:  # it was good for one call
                self.approved, arguments = None, await self._fill_inputs(inputs)
            await asyncio.sleep(min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE))
            attempt += 1

    async def _fill_inputs(self, inputs: Mapping[str, FlowStep]) -> dict[str, Any]:
        if self.arguments is not None:
            return self.arguments
        named = {reference.root for reference in find_references(self.step["arguments"])}
        values = await self.flow.values_of(inputs, named)
        return fill_arguments(self.step, values, self.flow.variables)

    async def _plan_call(self, arguments: dict[str, Any], tries: int) -> list[Any]:
        round_ = self.step["rounds"] + len(self.calls) + 1
        if not self._is_item:  # the step tells of its items
            about_it = {"description": self.step["description"], "tool": self.step["tool"]}
            attempt = self._attempts() + 1
            self.flow.tell("prompt_flow_step_start", self.step["id"], **about_it, attempt=attempt)
        call = {"name": self.step["tool"], "args": arguments, "id": None}
        judged = self.begun is not None  # what was sent has been decided about
        values = self.flow.values
        traced = Origins() if judged else await values.trace(self.step, arguments)
        calls: list[Any] = [*await open_calls(
            replace(self.flow.scope, path=self.step["id"]), self.flow.parts.toolbox,
            AIMessage("", tool_calls=[call]), round_=round_,
            names=self.flow.state.plan.get("revision", ""), before=self.step["claims"],
            traced=traced,
        )]  # fmt: skip
        # Whoever repeats a step wants to know how things are now, not how they were.
        about: dict[str, Any] = {"again": True} if round_ > 1 or self.twin else {}
        if self.step.get("timeout"):
            about["deadline"] = self.step["timeout"]
        if tries:
            about["tries"] = tries
        if self.begun is not None:  # a hook changed them before they were sent, not once more
            about["args"] = self.begun
        return [{**one, **about} for one in calls]

    async def _read(self, made: Call, planned: Mapping[str, Any]) -> FlowStep:
        """What came of a call, and whether its result is what the plan expects."""
        self.stopped = find_stop_in_results([made.message])
        if self.refused:
            return fail_with("refused", self.refused, denied="denied")
        if made.final_status != "success":
            tool, scope = self._tool, self.flow.scope
            limit = None if tool is None else compute_deadline(planned, tool, scope.context)
            return classify_failure(
                made, planned, limit=limit, spent=scope.budget.reached_limit is not None
            )
        return self._with_evidence(
            await self.flow.judge(self.step, *await self.flow.results.read_result(made))
        )

    def _with_evidence(self, end: FlowStep) -> FlowStep:
        """An end, with the last call as its evidence where it has the result of that."""
        evidence = FlowStep(evidence=[self.calls[-1].id])
        return end | evidence if end.get("shape") else end

    @property
    def _is_item(self) -> bool:
        return self.arguments is not None

    @property
    def _tool(self) -> CatalogTool | None:
        return self.flow.catalog.find(self.step["tool"])

    @property
    def _is_read(self) -> bool:
        """Whether it only reads; asking a model is none, and is repeated on its own."""
        return self._tool is not None and self._tool.read_only and self._tool.tool is not BUILT_IN

    def _attempts(self) -> int:
        earlier = self._reused_write["attempts"] if self._reused_write else self.step["attempts"]
        return earlier + sum(call.counts for call in self.calls)

    @property
    def _reused_write(self) -> FlowStep | None:
        """The spare write whose result the step has."""
        source = self.calls[-1].reused_from if self.calls else ""
        return self.flow.made.get(source) if self.step["changes"] else None

    def _end_and_tell(self, changed: FlowStep) -> StepEnd:
        end = self._end(changed)
        if not self._is_item:
            self.flow.tell_end(end["step"])
        return end

    def _end(self, changed: FlowStep, waiting: Sequence[Any] = ()) -> StepEnd:
        used = round(sum(call.seconds for call in self.calls), 3)
        calls = sum(call.counts for call in self.calls)
        counted = FlowStep(
            id=self.step["id"], attempts=self._attempts(),
            rounds=self.step["rounds"] + len(self.calls),
            seconds=round(self.step["seconds"] + used, 3),
        )  # fmt: skip
        end = StepEnd(
            step={**counted, **changed},
            evidence=[_as_evidence(call) for call in self.calls],
            waiting=list(waiting),
            spend=add_spend(self.spend, Spend(tool_calls=calls, seconds=used)),
            warnings=self.warnings,
        )
        if self._reused_write:
            end["took_all"] = [self._reused_write["id"]]
        if self.stopped:
            end["stopped"] = self.stopped
        if wishes := collect_updates(self.calls):
            end["wishes"] = wishes
        return end

    async def _ask_model(self, prompt: str, schema: Mapping[str, Any]) -> Any:
        """Answer an `llm_call`, out of the run's own budget."""
        asked = await ask_for_step(self.flow.scope, self.flow.parts.models, prompt, schema)
        self.spend, self.refused = add_spend(self.spend, asked.spend), asked.refused
        self.warnings += asked.warnings
        if asked.problem:
            raise RuntimeError(asked.problem)
        return asked.value


def fill_arguments(
    step: FlowStep, values: Mapping[str, Any], variables: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments with references replaced; a MissingValue if one is missing or a secret."""
    given = cast("dict[str, Any]", resolve_references(step["arguments"], values, variables))
    if step["tool"] != LLM_CALL:  # which may be asked about a text that holds a mask
        for reference in find_references(step["arguments"]):
            if is_masked(resolve_reference(reference, values, variables)):
                raise MissingValue(say("masked_value", reference=reference))
    return given


def may_pass(failed: FlowStep) -> bool:
    """Whether another call may do better."""
    return failed["failure"] in _PASSING and not failed["denied"]


def classify_failure(
    made: Call, planned: Mapping[str, Any], *, limit: float | None, spent: bool
) -> FlowStep:
    """What a failed call means for its step.

    `limit` is how many seconds it had, None for an unknown tool; `spent`: the allowance is used up.
    """
    why = " ".join(made.outcome.text.split())
    if made.final_status == "cancelled":
        doubt = made.reason in (UNCERTAIN, GAVE_UP)
        return fail_with("uncertain" if doubt else "refused", why, denied=made.reason)
    failure: Failure = "timeout" if limit and made.seconds >= limit else "tool_error"
    if limit is None:
        failure = "tool_not_found"
    elif planned["action"] == "error":
        failure = "bad_arguments"
    elif made.reason == UNCERTAIN:
        failure = "uncertain"
    elif not made.ran:
        failure = "budget" if spent else "tool_error"
    return fail_with(failure, why)


def _as_evidence(call: Call) -> Evidence:
    """A call as the state keeps it; what succeeded is kept with its step in full."""
    evidence = call.evidence
    if call.final_status == "success":
        evidence["result"] = evidence["result"][:_SHOWN]
    return evidence
