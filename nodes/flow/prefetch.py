"""Early reads: what a plan reads is called while the rest of the plan is still being written."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from langchain_core.messages import AIMessage
from pydantic import ValidationError

from ...calls.call_records import Call
from ...calls.commands import collect_updates
from ...calls.foreign import find_foreign, may_leak
from ...calls.gate import Gate, open_calls
from ...calls.path import run_calls
from ...calls.reuse import is_reusable
from ...flow.checks import find_plan_flaws
from ...flow.execution_plan import ExecutionPlan, PlanStep
from ...flow.order import build_steps, list_sources
from ...flow.references import MissingValue
from ...flow.short_syntax import find_short_plan, read_short_plan
from ...models.drafts import PartialJson, make_draft_emitter
from ...state.calls import collect_rounds
from ...state.flow import FlowState, FlowStep, FlowUpdate
from ...state.outcome import Spend
from ...text.loose_json import strip_thoughts
from ...tools.catalog import Catalog, CatalogTool
from ...turn.scope import RunScope
from ..parts import Parts
from .flow_pass import StepResults, apply_tool_wishes
from .one_step import fill_arguments

EARLY: Final = "early"
"""Begins the ids of these calls, as a task's id would."""

_MOST: Final = 50  # each step is checked together with those before it
_OF_TOOLS: Final = {"BeforeTool", "AfterTool"}


class Prefetcher:
    """Listens to a plan that is being written, and begins its reads as soon as they stand there.

    The results belong to the turn: a step that makes the same call gets them. A read begins if all
    before it is sound and only reads, and neither a condition, a list, a human nor a hook decides
    about it. Half of the calls that are left are kept for the plan.
    """

    def __init__(self, scope: RunScope, parts: Parts, catalog: Catalog, state: FlowState) -> None:
        """Listen, unless somebody wants to see the plan before any of it runs."""
        self.calls: list[Call] = []
        self._scope, self._parts, self._catalog = scope, parts, catalog
        self._text = _PlanReader()
        self._steps: list[PlanStep] = []
        self._begun: dict[str, asyncio.Task[Any]] = {}
        self._slots = asyncio.Semaphore(scope.context.max_parallel_tasks)
        self._round = collect_rounds(state.evidence).get(EARLY, 0)
        # A plan after the first one has most of its reads already.
        seen = scope.context.review_plan or _OF_TOOLS & scope.hooks.events
        self._open = not (seen or state.todos)
        self._most = scope.budget.calls_left // 2
        self._heard, self._tell = 0, make_draft_emitter(scope, "flow_planner")

    async def await_reads(self, *, cancelled: bool) -> None:
        """Wait for the reads; where no plan came of it they are given up."""
        for task in self._begun.values() if cancelled else ():
            task.cancel()
        await asyncio.gather(*self._begun.values(), return_exceptions=True)

    def hear(self, text: str) -> None:
        """Take note of the answer as far as it is written."""
        if len(text) < self._heard:  # a retry begins from the front
            self._open, self._text = False, _PlanReader()
        self._heard = len(text)
        for written in self._text.steps(text):
            self._open = self._open and self._take(written)
        if self._text.known:
            self._tell({"steps": [*self._text.known]})

    def _take(self, written: object) -> bool:
        """Begin a step where that may be; False where nothing behind it may begin."""
        try:
            step = PlanStep.model_validate(written)
        except ValidationError:
            return False
        self._steps.append(step)
        plan, limit = ExecutionPlan(steps=self._steps), min(_MOST, self._scope.context.max_steps)
        tool = self._catalog.find(step.tool)
        if find_plan_flaws(plan, self._catalog, limit=limit) or not (tool and tool.read_only):
            return False
        planned = build_steps(plan)[-1]
        decided = planned["when"] or planned["for_each"] is not None
        later = decided or not is_reusable(tool, self._scope.context)
        ready = self._begun.keys() >= {*(planned["depends_on"] or [])}
        if not later and ready and len(self._begun) < self._most:
            self._begun[step.id] = asyncio.create_task(self._read(planned, tool))
        return True

    async def _read(self, step: FlowStep, tool: CatalogTool) -> Any:
        """Make the step's call, and give its result as data."""
        values = {i: await self._begun[i] for i in list_sources(step)}
        arguments = fill_arguments(step, values, {})
        scope = replace(self._scope, path=EARLY)
        gate = await Gate.for_run(self._parts.toolbox, scope)
        leaks = gate.policy.foreign != "allow" and may_leak(tool, arguments)
        # What a result is a part of waits for the step, which knows where it comes from.
        foreign = leaks and (values or find_foreign(gate.origins, tool, arguments))
        if gate.judge(tool, arguments)[1] != "allow" or foreign:
            raise MissingValue(step["id"])
        self._round += 1
        asked = AIMessage("", tool_calls=[{"name": step["tool"], "args": arguments, "id": None}])
        async with self._slots:
            calls = await open_calls(scope, self._parts.toolbox, asked, round_=self._round)
            limit = {"deadline": step["timeout"]} if step["timeout"] else {}
            quiet = replace(scope, can_ask=False)
            done = await run_calls(
                quiet, self._parts.toolbox, [{**call, **limit} for call in calls], plain=True
            )
        self.calls += done.answered
        if not done.answered or done.answered[0].final_status != "success":
            raise MissingValue(step["id"])
        results = StepResults(
            self._parts.toolbox.open_results(scope), lasts=scope.has_lasting_store
        )
        return (await results.read_result(done.answered[0]))[0]

    @property
    def spend(self) -> Spend:
        """What the calls used."""
        seconds = round(sum(call.seconds for call in self.calls), 3)
        return Spend(tool_calls=sum(call.counts for call in self.calls), seconds=seconds)

    def update_of(self, state: FlowState) -> FlowUpdate:
        """The calls as evidence, and what the tools want changed."""
        evidence = [call.evidence for call in self.calls]
        return FlowUpdate(evidence=evidence) | apply_tool_wishes(state, collect_updates(self.calls))


class _PlanReader:
    """The steps of a plan, each as soon as it is whole."""

    def __init__(self) -> None:
        self._object, self._lines = PartialJson(ExecutionPlan), 0
        self.known: list[Mapping[str, Any]] = []

    def steps(self, text: str) -> Iterator[object]:
        """Those that the text has more than it had before; None for one that cannot be read."""
        fields = self._object.fields(text)
        found = (fields or {}).get("steps")
        news = (
            found[len(self.known) :] if isinstance(found, list) else [*self._iter_short_steps(text)]
        )
        for step in news:
            if isinstance(step, Mapping):
                self.known.append(step)
            yield step

    def _iter_short_steps(self, text: str) -> Iterator[object]:
        """Those on whole lines of the short spelling; longer steps are read at the end."""
        if self._object.has_begun:
            return
        said = strip_thoughts(text)
        end = said.rfind("\n") + 1
        for line in said[self._lines : end].split("\n"):
            if find_short_plan(line):
                read, problems = read_short_plan(line)
                yield from [None] if problems else read["steps"]
        self._lines = max(end, self._lines)
