"""Run flow: every step of the plan is called as soon as what it waits for is done."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ...calls.approval import decision_key, undecided
from ...calls.call_records import PendingCall
from ...flow.carry import call_name
from ...flow.references import references_in
from ...models.ask import Answer, ask
from ...models.thoughts import spoken
from ...state.context import Context
from ...state.flow import FlowState, FlowStep, FlowUpdate, failed_steps
from ...state.loop import changes
from ...state.outcome import Spend, add_spend
from ...state.told import say
from ...tools.llm_call import asking
from ...turn.budget import limit_reason
from ...turn.schedule import run_ready, seconds_before, spent_by
from ...turn.scope import RunScope, around, scope_of
from ..parts import Parts
from .one_step import FlowScope, StepRun
from .steps import StepEnd, folded, held, left_out, order_of_pass, results_of


async def run_flow(state: FlowState, runtime: Runtime[Context], *, parts: Parts) -> FlowUpdate:
    """Take every step as far as it goes; failures are data, questions are left to `approve`."""
    scope = await scope_of(state, runtime, parts)
    open_ = undecided(state.calls, state.decisions)
    run = await flow_run_of(scope, state, parts, open_=open_)
    order, waits = order_of_pass(
        state.todos, writes=run.writes, waiting={call["task"] for call in open_}
    )
    scope.budget.span = partial(seconds_before, waits)
    with around(scope):
        ends = await run_ready(
            order, waits, run.start, slots=scope.context.max_parallel_tasks,
            drained=lambda: bool(runtime.drain_requested), ended=run.hear,
        )  # fmt: skip
    ended = list(ends.values())
    update = folded(ended) | _calls(state, [*open_, *(c for end in ended for c in end["waiting"])])
    update["warnings"] = [*update["warnings"], *scope.notes]  # type: ignore[misc]  # written as a list by `folded`
    before = Spend(seconds=scope.budget.recalled_seconds)
    update["spend"] = scope.used(add_spend(before, spent_by(ended)))
    return changes(state, update | _halted(scope, state, ended))


def _halted(scope: RunScope, state: FlowState, ended: Sequence[StepEnd]) -> FlowUpdate:
    """End the run where a hook wants it to end, or a limit keeps steps from running."""
    stops = dict.fromkeys(end["stopped"] for end in ended if end.get("stopped"))
    if stops:
        return FlowUpdate(halt="DENIED", unmet=[*state.unmet, *stops])
    spent = scope.budget.exhausted
    if spent is None or all(end["step"]["status"] == "completed" for end in ended):
        return FlowUpdate()
    return FlowUpdate(halt=limit_reason(spent))


def _calls(state: FlowState, waiting: Sequence[Any]) -> FlowUpdate:
    """The questions that are open now; an answer is good for one call only."""
    keys = {decision_key(call) for call in waiting}
    places = {step["id"]: place for place, step in enumerate(state.todos)}
    update = FlowUpdate(calls=sorted(waiting, key=lambda call: places[call["task"]]))
    if state.decisions or state.objections:
        update["decisions"] = Overwrite({k: v for k, v in state.decisions.items() if k in keys})
        update["objections"] = Overwrite({k: v for k, v in state.objections.items() if k in keys})
    return update


@dataclass(kw_only=True)
class FlowRun:
    """Runs single steps of one pass."""

    state: FlowState
    parts: Parts
    scope: RunScope
    flow: FlowScope
    open_: Sequence[PendingCall]
    """The calls that a human must still decide on."""
    begun: Mapping[str, dict[str, Any]]
    """By step id: the arguments its write was sent with, in a run that was cut off."""
    broken: bool = field(init=False)
    """A step that the goal needs has failed: nothing more that may change the world is begun."""
    stopped: bool = False
    """A hook wants the run to end: nothing more is begun."""
    steps: dict[str, FlowStep] = field(init=False)
    approved: dict[str, Any] = field(init=False)
    writes: set[str] = field(init=False)

    def __post_init__(self) -> None:
        """Sort the steps and their calls by what every start looks up."""
        self.steps = {step["id"]: step for step in self.state.todos}
        self.broken = bool(failed_steps(self.state.todos))
        open_ = {call["id"] for call in self.open_}
        self.approved = {c["task"]: c for c in self.state.calls if c["id"] not in open_}
        self.writes = {name for name, step in self.steps.items() if step["changes"]}

    def hear(self, end: StepEnd) -> None:
        """Take note of how a step ended, in this process or before a crash."""
        self.scope.budget.recall(end["step"]["id"], end["spend"])
        self._heed(end)

    def _heed(self, end: StepEnd) -> None:
        step = end["step"]
        self.stopped |= bool(end.get("stopped"))
        optional = self.steps[step["id"]]["optional"]
        self.broken |= step["status"] == "failed" and not optional

    async def start(self, name: str, waited_for: dict[str, StepEnd]) -> StepEnd:
        """Run one step, unless what stands before it keeps it from running."""
        self.scope.budget.recall(name, Spend())
        step, approved = self.steps[name], self.approved.get(name)
        before = {i: self.steps[i] | end["step"] for i, end in waited_for.items()}
        named = [*(step["depends_on"] or []), *(r.root for r in references_in(step["arguments"]))]
        inputs = {i: before.get(i, self.steps[i]) for i in named if i in self.steps}
        run = StepRun(step=step, flow=self.flow, approved=approved, begun=self.begun.get(name))
        # What was decided on or sent already goes on, whatever stands before it by now.
        if run.is_new and (barred := self._barred(step, inputs, waited_for)):
            return barred
        with asking(partial(self._ask_model, run)):
            end = await run.run(inputs)
        self._heed(end)  # now: whoever waits for its slot begins before the end is heard of
        return end

    def _barred(
        self, step: FlowStep, inputs: Mapping[str, FlowStep], waited_for: Mapping[str, StepEnd]
    ) -> StepEnd | None:
        """The end of a step that cannot run in this pass, or never will."""
        name = step["id"]
        unreached = any(end["held"] or end["waiting"] for end in waited_for.values())
        if self.stopped or self.scope.budget.exhausted or unreached:
            return held(name)
        if self.broken and name in self.writes:
            return held(name)
        undone = {i: other for i, other in inputs.items() if other["status"] != "completed"}
        if any(not _dispensable(other) for other in undone.values()):
            return held(name)
        lost = [r.root for r in references_in(step["arguments"]) if r.root in undone]
        if not lost:
            return None
        why = say("optional_lost", step=repr(lost[0]))
        return left_out(step, why, self.scope.emit)

    async def _ask_model(self, run: StepRun, prompt: str) -> str:
        """Answer an `llm_call`, out of the run's own budget."""
        scope = self.scope.noting()
        messages = [scope.opening("llm_call", {})[0], HumanMessage(prompt)]
        answer: Answer[Any] = await ask(scope, self.parts.models, "llm_call", messages)
        run.spend = add_spend(run.spend, answer.spend)
        run.warnings += scope.notes
        if answer.refused == "hook":
            run.refused = answer.problems[-1]
        if answer.problems:
            raise RuntimeError("; ".join(answer.problems))
        text = spoken(answer.message.text).strip()
        if not text:
            raise RuntimeError(say("only_thought"))
        return text


def _dispensable(step: FlowStep) -> bool:
    """Whether the plan goes on without this step."""
    return step["status"] == "skipped" or (step["status"] == "failed" and step["optional"])


async def flow_run_of(
    scope: RunScope, state: FlowState, parts: Parts, *, open_: Sequence[PendingCall]
) -> FlowRun:
    """One pass over a plan, with what its steps reach of what the graph was built with.

    Args:
        scope: The run.
        state: Before the pass.
        parts: The graph's tools and models.
        open_: The calls that a human must still decide on.
    """
    catalog = await parts.toolbox.catalog(scope.user)
    revision = state.plan.get("revision", "")
    needed = {name for step in state.todos for name in step.get("depends_on") or []}
    spare = (s for s in state.todos if s["spare"] and s["id"] not in needed)
    flow = FlowScope(
        scope=scope,
        toolbox=parts.toolbox,
        catalog=catalog,
        decisions=state.decisions,
        results=results_of(scope, parts.toolbox),
        revision=revision,
        made={call: step for step in spare for call in step.get("evidence", [])},
        variables=state.plan.get("global_variables", {}),
    )
    begun = await _begun(scope, state, revision)
    return FlowRun(state=state, parts=parts, scope=scope, flow=flow, open_=open_, begun=begun)


async def _begun(scope: RunScope, state: FlowState, revision: str) -> dict[str, dict[str, Any]]:
    """By the ids of open steps of which the journal has a row: the arguments that were sent.

    What a step is made from may say something else by now, or fail; what was sent stays as it is.
    Rows behind which no step of the plan stands are spare from here on.
    """
    writes = [step for step in state.todos if step["changes"] and not step["spare"]]
    names = {step["id"]: _names(step, revision) for step in writes}
    if not writes:
        return {}
    living = {name for some in names.values() for name in some}
    rows = await scope.release(lambda row: row.name in living, nested=False, back=True)
    sent = {row.name: dict(row.arguments) for row in rows if not row.paused}
    return {
        step["id"]: sent[name]
        for step in writes
        if step["status"] != "completed"
        for name in names[step["id"]]
        if name in sent
    }


def _names(step: FlowStep, revision: str) -> list[str]:
    """Under which a step's call stands in the journal, if it was made."""
    more = (0,) if step["status"] == "completed" else (0, 1)
    return [*step["claims"], *(call_name(revision, step, n) for n in more)]
