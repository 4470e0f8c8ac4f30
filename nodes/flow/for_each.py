"""A step that is called once for each item of a list: its calls, side by side or in order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final

from ...calls.results import ToolResult, to_json_text
from ...flow.items import (
    NoItems,
    build_item_calls,
    describe_progress,
    hash_call,
    list_items,
    place_items,
)
from ...flow.order import list_sources
from ...flow.references import ITEM, MissingValue
from ...state.calls import collect_rounds, index_of
from ...state.flow import FlowStep, items_of
from ...state.outcome import Spend, add_spend
from ...text.canonical import shorten_text
from ...text.sentences import say
from ...turn.schedule import run_parts
from .flow_pass import FlowPass, StepEnd, counts_of_items, fail_with, hold_back, item_after
from .one_step import StepRun, fill_arguments

# Of several failures the one that says most about what may be done now.
_GRAVEST: Final = ("refused", "uncertain", "timeout", "execution_error")


@dataclass(kw_only=True)
class ForEachRun:
    """Runs the items of a step. A failed item fails the step; no write is begun after it."""

    step: FlowStep
    flow: FlowPass
    barred: bool
    """Only what was decided on or sent before goes on."""
    items: list[FlowStep] = field(default_factory=list)
    runs: dict[str, StepRun] = field(default_factory=dict)

    async def run(self, inputs: Mapping[str, FlowStep]) -> StepEnd:
        """Make the calls that are still to be made, from the finished `inputs` by step id."""
        try:
            calls = await self._build_calls(inputs)
        except MissingValue as missing:
            return self._build_end(fail_with("missing_input", str(missing)), [])
        except NoItems as none:
            return self._build_end(fail_with("bad_arguments", str(none)), [])
        prints = [hash_call(self.step["tool"], call) for call in calls]
        self.items = place_items(self.step, prints, collect_rounds(self.flow.state.evidence))
        attempt = sum(item["attempts"] for item in self.items) + 1
        about = {"description": self.step["description"], "tool": self.step["tool"]}
        self._tell("prompt_flow_step_start", **about, attempt=attempt)
        for place, (item, call) in enumerate(zip(items_of(self._current_step), calls, strict=True)):
            twin = prints[place] in prints[:place]
            run = StepRun(step=item, flow=self.flow, arguments=call, twin=twin)
            self.runs[item["id"]] = run
        order = self._order()
        before = {name: order[max(0, n - 1) : n] for n, name in enumerate(order)}
        waits = before if self.step["changes"] else {name: [] for name in order}
        ends = await run_parts(order, waits, self._run_item, self._note_item_end)
        return self._build_end(await self._outcome(ends), ends)

    async def _build_calls(self, inputs: Mapping[str, FlowStep]) -> list[dict[str, Any]]:
        """The arguments of all calls, before the first of them is made."""
        values = await self.flow.values_of(inputs, list_sources(self.step))
        variables = self.flow.variables
        items = list_items(self.step["for_each"], self.step["max_items"], values, variables)
        return build_item_calls(
            items, lambda one: fill_arguments(self.step, {**values, ITEM: one}, variables)
        )

    def _order(self) -> list[str]:
        """The items to be called in this pass; of writes none behind one that must wait."""
        order: list[str] = []
        for task, run in self.runs.items():
            if task in self.flow.asked and self.step["changes"]:
                break
            if run.step["status"] == "pending" and task not in self.flow.asked:
                order.append(task)
        return order

    async def _run_item(self, task: str, waited_for: dict[str, StepEnd]) -> StepEnd:
        """Make the call of one item, unless what stands before it keeps it from that."""
        self.flow.scope.budget.count_branch(task, Spend())
        run = self.runs[task]
        stopped = any(end["step"]["status"] != "completed" for end in waited_for.values())
        if stopped or (run.is_new and (self.barred or self.flow.is_shut(self.step))):
            return hold_back(task)
        end = await run.run({})
        # Should a new message cut off the step, this is all that tells which item it was.
        end["step"]["made_of"] = run.step["made_of"]
        return end

    def _note_item_end(self, end: StepEnd) -> None:
        """Note what came of an item, in this process or before a crash."""
        self.flow.hear(end)
        place, ended = index_of(end["step"]["id"]) or 0, end["step"]
        self.items[place] = item_after(self.items[place], ended)
        if ended["status"] != "pending":
            success = ended["status"] == "completed"
            self._tell("prompt_flow_step_item", item=place + 1, success=success)

    async def _outcome(self, ends: Sequence[StepEnd]) -> FlowStep:
        """What the step comes to, if nothing of it is left."""
        open_ = [item for item in self.items if item["status"] == "pending"]
        asks = any(end["waiting"] for end in ends) or any(
            run.step["status"] == "pending" and task in self.flow.asked
            for task, run in self.runs.items()
        )
        in_vain = [n for n, item in enumerate(self.items) if item["status"] == "failed"]
        if in_vain and not asks:
            return self._failure(in_vain)
        if open_:
            return FlowStep(status="pending", feedback=describe_progress(self._current_step))
        return await self._result()

    @property
    def _current_step(self) -> FlowStep:
        return {**self.step, "items": self.items}

    def _failure(self, in_vain: Sequence[int]) -> FlowStep:
        """The failure of a step of which these items failed."""

        def weight(place: int) -> tuple[bool, int, int]:
            item = self.items[place]
            kind = str(item["failure"])
            grave = _GRAVEST.index(kind) if kind in _GRAVEST else len(_GRAVEST)
            return not item["denied"], grave, place

        place = min(in_vain, key=weight)
        item = self.items[place]
        told = say("item_failed", item=place + 1, count=len(self.items), problem=item["feedback"])
        if more := len(in_vain) - 1:
            others = ", ".join(str(n + 1) for n in in_vain if n != place)
            told = say("more_items_failed", told=told, count=more, items=shorten_text(others))
        return fail_with(item["failure"] or "execution_error", told, denied=item["denied"])

    async def _result(self) -> FlowStep:
        """The results of all items as the result of the step, if they are as expected."""
        results = self.flow.results
        try:
            whole = [await results.data(item) for item in items_of(self._current_step)]
        except MissingValue as missing:
            return fail_with("missing_input", str(missing))
        cap = self.flow.scope.context.result_cap
        shown, stored = await results.store.shorten(ToolResult(to_json_text(whole), whole), cap)
        _, kept = await results.keep_result(shown.text, whole, stored)
        return await self.flow.judge(self.step, whole, kept)

    def _build_end(self, changed: FlowStep, ends: Sequence[StepEnd]) -> StepEnd:
        """What this pass did for the step and its items."""
        step = FlowStep(id=self.step["id"], items=self.items) | changed
        counted = self.items or [self.step]
        step["attempts"] = sum(one["attempts"] for one in counted)
        step["seconds"] = round(sum(one["seconds"] for one in counted), 3)
        if self.items:
            step["evidence"] = [name for item in self.items for name in item["evidence"]]
        end = StepEnd(
            step=step,
            evidence=[record for one in ends for record in one["evidence"]],
            waiting=[call for one in ends for call in one["waiting"]],
            spend=reduce(add_spend, (one["spend"] for one in ends), Spend()),
            warnings=[text for one in ends for text in one["warnings"]],
            took_all=[name for one in ends for name in one.get("took_all", [])],
        )
        if wishes := [wish for one in ends for wish in one.get("wishes", [])]:
            end["wishes"] = wishes
        if stops := [one["stopped"] for one in ends if one.get("stopped")]:
            end["stopped"] = stops[0]
        if step["status"] != "pending":
            self.flow.tell_end(step)
        return end

    def _tell(self, kind: str, **about: object) -> None:
        self.flow.tell(kind, self.step["id"], **about, **counts_of_items(self._current_step))
