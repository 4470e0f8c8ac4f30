"""Run flow: every step of the plan is called as soon as what it waits for is done."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from ..models.ask import Answer, ask
from ..models.choice import OFFLINE
from ..models.spend import Ledger
from ..models.thoughts import spoken
from ..state.context import Context, context_of
from ..state.events import Emit
from ..state.flow import FlowState, FlowStep, FlowUpdate
from ..state.loop import changes
from ..state.references import references_in
from ..state.spend import Spend, add_spend
from ..tools.llm_call import asking
from ..tools.planning import deadline_of, decision_key, undecided
from ..tools.stored import ResultStore
from .allowance import ledger_for, limit_reason, sharing, spent_since
from .events import emitter, events_to, noting
from .one_step import Bench, StepRun
from .parts import Parts
from .planned import NOT_RECORDED, caller, planned_calls
from .run_facts import lasting, saved_durably, thread_id, user_id
from .schedule import run_ready
from .step_ends import StepEnd, folded, held, left_out
from .step_order import order_of_pass
from .step_values import StepResults
from .task_ends import seconds_before, spent_by


async def run_flow(state: FlowState, runtime: Runtime[Context], *, parts: Parts) -> FlowUpdate:
    """Take every step as far as it goes; failures are data, questions are left to `approve`."""
    began, context = time.monotonic(), context_of(runtime)
    emit, notes = noting(emitter(runtime))
    ledger = await ledger_for(context, state, parts.journal)
    crew = await _crew(state, runtime, parts, ledger, emit)
    open_ = undecided(state.calls, state.decisions)
    order, waits = order_of_pass(
        state.todos, writes=crew.writes, waiting={call["task"] for call in open_}
    )
    ledger.span = partial(seconds_before, waits)
    with sharing(ledger), events_to(emit):
        ends = await run_ready(
            order, waits, crew.start, slots=context.max_parallel_tasks,
            drained=lambda: bool(runtime.drain_requested), ended=crew.hear,
        )  # fmt: skip
    if crew.wrote and saved_durably() and not parts.journal.durable:
        notes.append(NOT_RECORDED)
    ended = list(ends.values())
    update = folded(ended) | _calls(state, [*open_, *(c for end in ended for c in end["waiting"])])
    update["warnings"] = [*update["warnings"], *notes]  # type: ignore[misc]  # written as a list by `folded`
    update["spend"] = spent_since(began - ledger.recalled_seconds, spent_by(ended))
    return changes(state, update | _halted(state, ledger, ended))


def _halted(state: FlowState, ledger: Ledger, ended: Sequence[StepEnd]) -> FlowUpdate:
    """End the run where a hook wants it to end, or a limit keeps steps from running."""
    stops = dict.fromkeys(end["stopped"] for end in ended if end.get("stopped"))
    if stops:
        return FlowUpdate(halt="DENIED", unmet=[*state.unmet, *stops])
    spent = ledger.exhausted
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


async def _crew(
    state: FlowState, runtime: Runtime[Context], parts: Parts, ledger: Ledger, emit: Emit
) -> "_Crew":
    context, catalog = context_of(runtime), await parts.toolbox.catalog(user_id())
    call = caller(state, context, parts, store=runtime.store, ledger=ledger, emit=emit)
    thread = thread_id()
    store = ResultStore(runtime.store or parts.toolbox.spare_store(thread), thread)

    async def plan(message: AIMessage, step: str, round_: int) -> list[Any]:
        return await planned_calls(
            message, path=step, round_=round_, complete=True, catalog=catalog, context=context,
            parts=parts, emit=emit,
        )  # fmt: skip

    bench = Bench(
        catalog=catalog,
        plan=plan,
        call=partial(call, plain=True),
        results=StepResults(store, lasts=lasting(runtime.store)),
        variables=state.plan.get("global_variables", {}),
        deadline=lambda call, tool: deadline_of(call, tool, context),
        spent=lambda: ledger.exhausted is not None,
        emit=emit,
    )
    return _Crew(state, parts, context, ledger, bench)


@dataclass
class _Crew:
    """Runs single steps of one pass."""

    state: FlowState
    parts: Parts
    context: Context
    ledger: Ledger
    bench: Bench
    broken: bool = False
    """A step that the goal needs has failed: nothing more that may change the world is begun."""
    stopped: bool = False
    """A hook wants the run to end: nothing more is begun."""
    wrote: bool = False
    steps: dict[str, FlowStep] = field(init=False)
    approved: dict[str, Any] = field(init=False)
    writes: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.steps = {step["id"]: step for step in self.state.todos}
        open_ = {call["id"] for call in undecided(self.state.calls, self.state.decisions)}
        self.approved = {c["task"]: c for c in self.state.calls if c["id"] not in open_}
        self.writes = {name for name, step in self.steps.items() if step["changes"]}

    def hear(self, end: StepEnd) -> None:
        """Take note of how a step ended, in this process or before a crash."""
        step = end["step"]
        self.ledger.recall(step["id"], end["spend"])
        self.stopped |= bool(end.get("stopped"))
        optional = self.steps[step["id"]]["optional"]
        self.broken |= step["status"] == "failed" and not optional

    async def start(self, name: str, waited_for: dict[str, StepEnd]) -> StepEnd:
        """Run one step, unless what stands before it keeps it from running."""
        self.ledger.recall(name, Spend())
        step, approved = self.steps[name], self.approved.get(name)
        before = {i: self.steps[i] | end["step"] for i, end in waited_for.items()}
        named = [*(step["depends_on"] or []), *(r.root for r in references_in(step["arguments"]))]
        inputs = {i: before.get(i, self.steps[i]) for i in named if i in self.steps}
        if not approved and (barred := self._barred(step, inputs, waited_for)):
            return barred
        run = StepRun(step=step, bench=self.bench, approved=approved)
        with asking(partial(self._ask_model, run)):
            end = await run.run(inputs)
        self.wrote |= run.wrote
        return end

    def _barred(
        self, step: FlowStep, inputs: Mapping[str, FlowStep], waited_for: Mapping[str, StepEnd]
    ) -> StepEnd | None:
        """The end of a step that cannot run in this pass, or never will."""
        name = step["id"]
        unreached = any(end["held"] or end["waiting"] for end in waited_for.values())
        if self.stopped or self.ledger.exhausted or unreached:
            return held(name)
        if self.broken and name in self.writes:
            return held(name)
        undone = {i: other for i, other in inputs.items() if other["status"] != "completed"}
        if any(not _dispensable(other) for other in undone.values()):
            return held(name)
        lost = [r.root for r in references_in(step["arguments"]) if r.root in undone]
        if not lost:
            return None
        why = f"it needs the result of {lost[0]!r}, which is optional and did not come"
        return left_out(step, why, self.bench.emit)

    async def _ask_model(self, run: StepRun, prompt: str) -> str:
        """Answer an `llm_call`, out of the run's own budget."""
        opening = self.parts.opening("llm_call", self.context, {})
        answer: Answer[Any] = await ask(
            self.parts.models, "llm_call", [opening[0], HumanMessage(prompt)],
            context=self.context, ledger=self.ledger, emit=self.bench.emit, hooks=self.parts.hooks,
        )  # fmt: skip
        run.spend = add_spend(run.spend, answer.spend)
        run.warnings += answer.notes
        if answer.refused == "hook":
            run.refused = answer.problems[-1]
        if answer.problems:
            raise RuntimeError("; ".join(answer.problems))
        if answer.model == OFFLINE:  # its words say that it has no answer
            raise RuntimeError(answer.message.text)
        text = spoken(answer.message.text).strip()
        if not text:
            msg = "the model thought, and then gave no answer"
            raise RuntimeError(msg)
        return text


def _dispensable(step: FlowStep) -> bool:
    """Whether the plan goes on without this step."""
    return step["status"] == "skipped" or (step["status"] == "failed" and step["optional"])
