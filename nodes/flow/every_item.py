"""A step that is called once for each item of a list: its calls, side by side or in order."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final

from ...calls.results import ToolResult, as_text
from ...flow.items import (
    NoItems,
    call_print,
    calls_for,
    items_in,
    placed,
    progress_of,
)
from ...flow.order import sources_of
from ...flow.references import ITEM, MissingValue
from ...state.calls import Evidence, index_of, item_task, rounds_named
from ...state.flow import FlowStep, is_done
from ...state.outcome import Spend, add_spend
from ...text.canonical import shortened
from ...text.told import say
from ...turn.schedule import run_parts
from .one_step import (
    FlowScope,
    StepEnd,
    StepRun,
    completed,
    failed,
    filled,
    held,
    judged,
    made_once,
    told_of,
)

# Of several failures the one that says most about what may be done now.
_GRAVEST: Final = ("refused", "uncertain", "timeout", "execution_error")


@dataclass(kw_only=True)
class ItemRun(StepRun):
    """Takes the call of one item to its end."""

    given: dict[str, Any]
    """The arguments, with what the item gives."""
    twin: bool
    """An item before it is the same: the answer to that one is none to this."""

    async def _filled(self, inputs: Mapping[str, FlowStep]) -> dict[str, Any]:  # noqa: ARG002 - a step's
        return self.given

    async def _planned(self, arguments: dict[str, Any], tries: int) -> list[Any]:
        calls = await super()._planned(arguments, tries)
        return [{**call, "again": True} for call in calls] if self.twin else calls

    def _tell(self, kind: str, **about: object) -> None:
        """Say nothing: the step tells of its items."""


@dataclass(kw_only=True)
class EachRun:
    """Takes a step with items as far as it goes.

    An item that fails fails the step once those beside it have ended; no write is begun after it.
    What is done stays done.
    """

    step: FlowStep
    flow: FlowScope
    approved: Mapping[str, Any]
    """By task: the calls that a human has decided on."""
    begun: Mapping[str, dict[str, Any]]
    """By task: the arguments that a write was sent with, in a run that was cut off."""
    asked: Collection[str]
    """Tasks that still wait for an answer."""
    may_begin: Callable[[], bool]
    """Whether another call may be made."""
    hear: Callable[[StepEnd], None]
    """Told of each item that ended."""
    items: list[FlowStep] = field(default_factory=list)
    runs: dict[str, ItemRun] = field(default_factory=dict)

    async def run(self, inputs: Mapping[str, FlowStep]) -> StepEnd:
        """Make the calls that are still to be made.

        Args:
            inputs: The finished steps it refers to, by id.
        """
        try:
            calls = await self._calls(inputs)
        except MissingValue as missing:
            return self._ended(failed("missing_input", str(missing)), [])
        except NoItems as none:
            return self._ended(failed("bad_arguments", str(none)), [])
        prints = [call_print(self.step["tool"], call) for call in calls]
        self.items = placed(self.step, prints, rounds_named(self.flow.state.evidence))
        self._begin()
        for place, call in enumerate(calls):
            self._plan(place, call, twin=prints[place] in prints[:place])
        order = self._order()
        before = {name: order[max(0, n - 1) : n] for n, name in enumerate(order)}
        waits = before if self.step["changes"] else {name: [] for name in order}
        ends = await run_parts(order, waits, self._one, self._heard)
        return self._ended(await self._outcome(ends), ends)

    async def _calls(self, inputs: Mapping[str, FlowStep]) -> list[dict[str, Any]]:
        """The arguments of all calls, before the first of them is made."""
        each, read = self.step["for_each"], sources_of(self.step)
        values = {i: await self.flow.results.data(inputs[i]) for i in inputs if i in read}
        variables = self.flow.state.plan.get("global_variables", {})
        items = items_in(each, self.step["max_items"], values, variables)
        return calls_for(items, lambda one: filled(self.step, {**values, ITEM: one}, variables))

    def _plan(self, place: int, call: dict[str, Any], *, twin: bool) -> None:
        task, item = item_task(self.step["id"], place), self.items[place]
        alone = FlowStep(id=task, for_each=None, expect=None, items=[])
        self.runs[task] = ItemRun(
            step=self.step | item | alone, flow=self.flow, given=call,
            twin=twin, approved=self.approved.get(task), begun=self.begun.get(task),
        )  # fmt: skip

    def _order(self) -> list[str]:
        """The items to be called in this pass; of writes none behind one that must wait."""
        order: list[str] = []
        for task, run in self.runs.items():
            if task in self.asked and self.step["changes"]:
                break
            if run.step["status"] == "pending" and task not in self.asked:
                order.append(task)
        return order

    async def _one(self, task: str, waited_for: dict[str, StepEnd]) -> StepEnd:
        """Make the call of one item, unless what stands before it keeps it from that."""
        self.flow.scope.budget.recall(task, Spend())
        run = self.runs[task]
        stopped = any(end["step"]["status"] != "completed" for end in waited_for.values())
        if stopped or (run.is_new and not self.may_begin()):
            return held(task)
        end = await run.run({})
        # Should a new message cut off the step, this is all that tells which item it was.
        end["step"]["made_of"] = run.step["made_of"]
        return end

    def _heard(self, end: StepEnd) -> None:
        """Note what came of an item, in this process or before a crash."""
        self.hear(end)
        place = index_of(end["step"]["id"])
        if place is None:
            return
        self.items[place] = item_after(self.items[place], end["step"])
        if end["step"]["status"] != "pending":
            success = end["step"]["status"] == "completed"
            self._tell("prompt_flow_step_item", item=place + 1, **self._progress, success=success)

    async def _outcome(self, ends: Sequence[StepEnd]) -> FlowStep:
        """What the step comes to, if nothing of it is left."""
        open_ = [item for item in self.items if item["status"] == "pending"]
        asks = any(end["waiting"] for end in ends)
        asks = asks or any(self.runs[task].step["status"] == "pending" for task in self._unasked)
        if (
            in_vain := [n for n, i in enumerate(self.items) if i["status"] == "failed"]
        ) and not asks:
            return self._failure(in_vain)
        if open_:
            return FlowStep(status="pending", feedback=progress_of(self._now))
        return await self._result()

    @property
    def _now(self) -> FlowStep:
        return {**self.step, "items": self.items}

    @property
    def _unasked(self) -> list[str]:
        return [task for task in self.runs if task in self.asked]

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
            told = say("more_items_failed", told=told, count=more, items=shortened(others))
        return failed(item["failure"] or "execution_error", told, denied=item["denied"])

    async def _result(self) -> FlowStep:
        """The results of all items as the result of the step, if they are as expected."""
        results, step = self.flow.results, self.step
        steps = [i | FlowStep(id=task) for task, i in zip(self.runs, self.items, strict=True)]
        try:
            whole = [await results.data(one) for one in steps]
        except MissingValue as missing:
            return failed("missing_input", str(missing))
        cap = self.flow.scope.context.result_cap
        shown, stored = await results.store.shorten(ToolResult(as_text(whole), whole), cap)
        _, kept = await results.kept(shown.text, whole, stored)
        if wrong := await judged(step.get("expect"), whole, kept["shape"]):
            end = failed("unexpected_result", wrong)
            tool = self.flow.catalog.find(step["tool"])
            return end if tool is not None and tool.resendable else made_once(end, kept)
        return completed(kept)

    def _ended(self, changed: FlowStep, ends: Sequence[StepEnd]) -> StepEnd:
        """What this pass did for the step and its items."""
        step = FlowStep(id=self.step["id"], items=self.items) | changed
        if self.items:
            step["attempts"] = sum(item["attempts"] for item in self.items)
            step["seconds"] = round(sum(item["seconds"] for item in self.items), 3)
            step["evidence"] = [name for item in self.items for name in item["evidence"]]
        else:
            step["attempts"], step["seconds"] = self.step["attempts"], self.step["seconds"]
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
            self._tell("prompt_flow_step_result", **told_of(step), **self._progress)
        return end

    @property
    def _progress(self) -> dict[str, int]:
        return {"items": len(self.items), "done": sum(map(is_done, self.items))}

    def _begin(self) -> None:
        attempt = sum(item["attempts"] for item in self.items) + 1
        about = {"description": self.step["description"], "tool": self.step["tool"]}
        self._tell("prompt_flow_step_start", **about, attempt=attempt, **self._progress)

    def _tell(self, kind: str, **about: object) -> None:
        self.flow.scope.emit({"type": kind, "step_id": self.step["id"], **about})


def item_after(item: FlowStep, ended: FlowStep) -> FlowStep:
    """An item after its call: its place names it."""
    after = item | ended
    after.pop("id", None)
    return after


def all_used(step: FlowStep, evidence: Sequence[Evidence]) -> bool:
    """Whether other calls have the results of all calls that were made for a step's items."""
    taken = {record.get("reused_from", "") for record in evidence}
    made = step.get("evidence") or []
    return bool(made) and taken.issuperset(made)
