"""Run flow: every step of the plan is called as soon as what it waits for is done."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.runtime import Runtime
from langgraph.types import Interrupt

from ...calls.approval import (
    Decisions,
    build_call_question,
    keep_waiting,
    list_undecided,
    route_calls,
)
from ...calls.call_records import PendingCall
from ...calls.flow_values import FlowValues
from ...flow.conditions import Malformed, decide_condition, list_reads
from ...flow.order import list_needs, order_pass
from ...flow.references import MissingValue
from ...state.calls import index_of, step_of
from ...state.context import Context
from ...state.flow import (
    FlowState,
    FlowStep,
    FlowUpdate,
    is_spared,
    items_of,
    make_call_name,
    select_failed,
)
from ...state.outcome import Spend
from ...state.plan import Task, merge_tasks
from ...store.journal.port import Row
from ...stream.events import make_call_events
from ...stream.turn_messages import add_messages, make_answers, make_question_message
from ...text.sentences import say
from ...turn.budget import get_limit_reason
from ...turn.event_emitter import show_questions
from ...turn.schedule import run_ready, sum_spend
from ...turn.scope import RunScope, make_scope
from ..parts import Parts
from .flow_pass import (
    FlowPass,
    StepEnd,
    StepResults,
    apply_tool_wishes,
    end_without_call,
    fold_ends,
    hold_back,
    wishes_of,
)
from .for_each import ForEachRun
from .one_step import StepRun


async def run_flow(state: FlowState, runtime: Runtime[Context], *, parts: Parts) -> FlowUpdate:
    """Take every step as far as it goes; failures are data, questions are left to `approve`."""
    scope = await make_scope(state, runtime, parts)
    open_ = list_undecided(state.calls, state.decisions)
    run = await open_pass(scope, state, parts, open_=open_)
    order, waits = order_pass(state.todos, waiting={call["task"] for call in open_})
    ended = await run_ready(
        scope, runtime, order, waits, run.start, ended=run.replay_end, asked=run.show_asked
    )
    places = {step["id"]: place for place, step in enumerate(state.todos)}
    waiting: list[Any] = [*open_, *(call for end in ended for call in end["waiting"])]
    update = fold_ends(ended, state.todos) | apply_tool_wishes(state, wishes_of(ended))
    update |= keep_waiting(state, sorted(waiting, key=lambda call: _place(call, places)))
    update["warnings"] = [*update["warnings"], *scope.notes]  # type: ignore[misc]  # written as a list by `fold_ends`
    update["spend"] = sum_spend(scope, ended)
    update |= _halt(scope, state, ended)
    shown = [*run.answers_in(ended), *update["messages"], *_question(state, update)]
    update["messages"] = add_messages(state, shown)
    return update


def _question(state: FlowState, update: FlowUpdate) -> list[AIMessage]:
    """What is asked next, if anything is."""
    decisions = getattr(update.get("decisions"), "value", state.decisions)
    steps = merge_tasks([*state.todos], [cast("list[Task]", update["todos"])])
    calls = update["calls"]
    if update.get("halt") or not asks_next([cast("FlowStep", s) for s in steps], calls, decisions):
        return []
    return [
        make_question_message(
            state, "flow_planner", build_call_question(list_undecided(calls, decisions)[0])
        )
    ]


def asks_next(
    steps: Sequence[FlowStep], calls: Sequence[Mapping[str, Any]], decisions: Decisions
) -> bool:
    """Whether a human is asked now: what failed is repaired first, unless a call is in doubt."""
    in_doubt = any(call.get("doubt") for call in list_undecided(calls, decisions))
    asks = route_calls(calls, decisions) == "approve"
    return asks and (in_doubt or not select_failed(steps))


def _place(call: Mapping[str, Any], places: Mapping[str, int]) -> tuple[int, int]:
    return places[step_of(call["task"])], index_of(call["task"]) or 0


def _halt(scope: RunScope, state: FlowState, ended: Sequence[StepEnd]) -> FlowUpdate:
    """End the run where a hook wants it to end, or a limit keeps steps from running."""
    stops = dict.fromkeys(end["stopped"] for end in ended if end.get("stopped"))
    if stops:
        return FlowUpdate(halt="DENIED", unmet=[*state.unmet, *stops])
    spent = scope.budget.reached_limit
    if spent is None or all(end["step"]["status"] == "completed" for end in ended):
        return FlowUpdate()
    return FlowUpdate(halt=get_limit_reason(spent))


@dataclass(kw_only=True)
class FlowRun(FlowPass):
    """Runs single steps of one pass."""

    def replay_end(self, end: StepEnd) -> None:
        """The same of a step that was left out, or ended in a process that is gone: it is told."""
        if end["step"]["id"] in self.heard:
            return
        self.hear(end)
        for event in (event for record in end["evidence"] for event in make_call_events(record)):
            self.scope.emit(event)
        if end["step"]["status"] != "pending":
            self.tell_end(end["step"])

    def answers_in(self, ends: Sequence[StepEnd]) -> list[AnyMessage]:
        """The answers to calls that were asked about."""
        return [*make_answers(self.state, [r for end in ends for r in end["evidence"]])]

    async def show_asked(self, questions: Sequence[Interrupt], ends: Sequence[StepEnd]) -> None:
        """Show what tools ask for themselves, and before it what ended."""
        await show_questions(self.state, "flow_planner", questions, self.answers_in(ends))

    async def start(self, name: str, waited_for: dict[str, StepEnd]) -> StepEnd:
        """Run one step, unless what stands before it keeps it from running."""
        self.scope.budget.count_branch(name, Spend())
        step = self.steps[name]
        before = {i: self.steps[i] | end["step"] for i, end in waited_for.items()}
        named = [*(step["depends_on"] or []), *list_needs(step)]
        inputs = {i: before.get(i, self.steps[i]) for i in named if i in self.steps}
        run = StepRun(step=step, flow=self)
        # What was decided on or sent already goes on, whatever stands before it by now.
        begun = any(step_of(i) == name for i in (*self.approved, *self.begun))
        is_new = run.is_new and not begun
        barred = self._bar_step(step, inputs, waited_for)
        if is_new and barred:
            return barred
        if is_new and step.get("when"):
            runs, why = await self._check_condition(step, inputs)
            if runs is False:
                return self._skip_step(step, why, unwanted=True)
            if runs is None:
                self.hear(end := run.end_lacking(why))
                return end
        if step.get("for_each") is None:
            end = await run.run(inputs)
        else:
            end = await ForEachRun(step=step, flow=self, barred=barred is not None).run(inputs)
        self.hear(end)  # now: whoever waits for its slot begins before the end is told
        return end

    def _bar_step(
        self, step: FlowStep, inputs: Mapping[str, FlowStep], waited_for: Mapping[str, StepEnd]
    ) -> StepEnd | None:
        """The end of a step that cannot run in this pass, or never will."""
        unreached = any(end["step"]["status"] == "pending" for end in waited_for.values())
        undone = {i: other for i, other in inputs.items() if other["status"] != "completed"}
        if self.is_shut(step) or unreached or not all(map(_is_dispensable, undone.values())):
            return hold_back(step["id"])
        lost = [i for i in list_needs(step) if i in undone]
        if not lost:
            return None
        unwanted = all(is_spared(undone[i]) for i in lost)
        kind = "unwanted_lost" if unwanted else "optional_lost"
        return self._skip_step(step, say(kind, step=repr(lost[0])), unwanted=unwanted)

    async def _check_condition(
        self, step: FlowStep, inputs: Mapping[str, FlowStep]
    ) -> tuple[bool | None, str]:
        """Whether the step is to run by its condition, None where nobody can tell; and why not."""
        when = step.get("when") or ""
        try:
            values = await self.values_of(inputs, {read.root for read in list_reads(when)})
            return decide_condition(when, values, self.variables)
        except (MissingValue, Malformed) as flaw:
            return None, str(flaw)

    def _skip_step(self, step: FlowStep, why: str, *, unwanted: bool) -> StepEnd:
        """The end of a step that can no longer run, though the plan goes on."""
        skipped = FlowStep(id=step["id"], status="skipped", feedback=why, unwanted=unwanted)
        return end_without_call(skipped)


def _is_dispensable(step: FlowStep) -> bool:
    """Whether the plan goes on without this step."""
    return step["status"] == "skipped" or (step["status"] == "failed" and step["optional"])


async def open_pass(
    scope: RunScope, state: FlowState, parts: Parts, *, open_: Sequence[PendingCall]
) -> FlowRun:
    """One pass over a plan; `open_` are the calls that a human must still decide on."""
    asked = {call["id"] for call in open_}
    needed = {name for step in state.todos for name in step.get("depends_on") or []}
    spare = (s for s in state.todos if s["spare"] and s["id"] not in needed and not s.get("items"))
    run = FlowRun(
        state=state,
        parts=parts,
        scope=scope,
        catalog=await parts.toolbox.catalog(scope.user),
        results=StepResults(parts.toolbox.open_results(scope), lasts=scope.has_lasting_store),
        made={call: step for step in spare for call in step.get("evidence", [])},
        approved={call["task"]: call for call in state.calls if call["id"] not in asked},
        asked={call["task"] for call in open_},
        begun=await _find_sent_arguments(scope, state),
    )
    run.values = await FlowValues.open(
        scope, parts.toolbox, state, find_step=run.steps.get, load=run.results.data
    )
    return run


async def _find_sent_arguments(scope: RunScope, state: FlowState) -> dict[str, dict[str, Any]]:
    """By the ids of open steps with a row in the journal: the arguments that were sent.

    Rows without a step in the plan become spare.
    """
    writes = [step for step in state.todos if step["changes"] and not step["spare"]]
    if not writes:
        return {}
    revision = state.plan.get("revision", "")
    calls = {one["id"]: one for step in writes for one in (step, *items_of(step))}
    # The names under which each call stands in the journal, if it was made.
    names: dict[str, list[str]] = {}
    for task, one in calls.items():
        more = (0,) if one["status"] == "completed" else (0, 1)
        names[task] = [*one["claims"], *(make_call_name(revision, one, n) for n in more)]
    living = {name for some in names.values() for name in some}
    each = {step["id"] for step in writes if step.get("for_each") is not None}

    def is_item_row(row: Row) -> bool:
        """Whether it is of an item of which only the journal knows."""
        mine = row.name.startswith(f"{revision}.") and row.task not in calls
        return mine and step_of(row.task) in each

    rows = await scope.release(
        lambda row: row.name in living or is_item_row(row), nested=False, back=True
    )
    names |= {row.task: [row.name] for row in rows if is_item_row(row)}
    sent = {row.name: dict(row.arguments) for row in rows if not row.paused}
    done = {task for task, one in calls.items() if one["status"] == "completed"} | each
    return {
        task: sent[name] for task in names.keys() - done for name in names[task] if name in sent
    }
