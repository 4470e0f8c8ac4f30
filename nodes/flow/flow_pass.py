"""One pass over a plan: what its calls work with, how they end, what their ends change."""

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NotRequired, cast

from typing_extensions import TypedDict

from ...calls.call_records import Call, PendingCall
from ...calls.commands import build_messages, merge_values
from ...calls.flow_values import FlowValues
from ...calls.result_store import MISSING, ResultStore
from ...calls.results import parse_container
from ...flow.expectations import find_unmet
from ...flow.references import MissingValue
from ...state.calls import Evidence, index_of, step_of
from ...state.flow import (
    Failure,
    FlowState,
    FlowStep,
    FlowUpdate,
    Shape,
    is_done,
    read_value,
    select_failed,
)
from ...state.outcome import Spend
from ...text.canonical import shorten_text
from ...text.sentences import say
from ...tools.catalog import Catalog
from ...turn.scope import RunScope
from ..parts import Parts

_SHOWN: Final = 2_000
_LEAST_SHOWN: Final = 300
_MAY_BE_LONG: Final = frozenset({"value", "stored"})
_LONG_CHECK: Final = 500  # characters of it as text


@dataclass
class StepResults:
    """Reads and keeps the results of the steps of one pass."""

    store: ResultStore
    """Where results are that were too long to be shown."""
    lasts: bool
    """Whether it is there after a restart; if not, the state keeps them whole."""
    _read: dict[str, Any] = field(default_factory=dict)

    async def read_result(self, call: Call) -> tuple[Any, FlowStep]:
        """The result of a call that succeeded: as data, and as its step keeps it."""
        return await self.keep_result(call.outcome.text, call.outcome.data, call.stored)

    async def keep_unread(self, call: Call) -> FlowStep:
        """The same, where the store could not be read just now: what of it can still be kept."""
        if not call.stored:
            return (await self.read_result(call))[1]
        shape: Shape = "stored" if self.lasts else "text"
        return FlowStep(result=call.outcome.text, shape=shape, value=None, stored=call.stored)

    async def keep_result(self, text: str, data: Any, stored: str) -> tuple[Any, FlowStep]:
        """A result as data, and as a step keeps it; `stored` is the id of the whole text."""
        whole = await self.store.load_data(stored) if stored else MISSING
        if whole is not MISSING:
            data = whole
            shape: Shape = "stored" if self.lasts else "value"
        else:
            data = parse_container(text) if data is None else data
            shape = _shape(text, data)
        value, where = data if shape == "value" else None, stored if shape == "stored" else ""
        return data, FlowStep(result=text, shape=shape, value=value, stored=where)

    async def data(self, step: FlowStep) -> Any:
        """The result of a finished step; a MissingValue if it was stored and is gone."""
        if step.get("shape") != "stored":
            return read_value(step)
        key = step["stored"]
        if key not in self._read:
            whole = await self.store.load_data(key)
            if whole is MISSING:
                raise MissingValue(say("result_lost", step=repr(step["id"])))
            self._read[key] = whole
        return self._read[key]


def _shape(text: str, data: Any) -> Shape:
    """How the state can hold data of which this is the text."""
    if data == text:
        return "text"
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return "value"
    same = type(said) is type(data) and said == data  # False is no 0
    return "json" if same else "value"


Values = dict[str, Any]
"""Results of steps as data, by id."""


class StepEnd(TypedDict):
    """What one pass did for a step.

    `step` holds its id, status and changes; it stays `pending` if a question is `waiting`, or if it
    could not begin. `stopped`: why a hook ends the run. `took_all`: spare writes it has the results
    of. `wishes`: what its tool wants changed in the state.
    """

    step: FlowStep
    evidence: list[Evidence]
    waiting: list[Any]
    spend: Spend
    warnings: list[str]
    stopped: NotRequired[str]
    took_all: NotRequired[list[str]]
    wishes: NotRequired[list[dict[str, Any]]]


@dataclass(kw_only=True)
class FlowPass:
    """What the calls of one pass share; a task is a step, or an item of one."""

    state: FlowState
    parts: Parts
    scope: RunScope
    catalog: Catalog
    results: StepResults
    made: Mapping[str, FlowStep]
    """The spare writes of earlier plans, by their call."""
    approved: Mapping[str, PendingCall]
    """By task: the calls that a human has decided on."""
    asked: Collection[str]
    """Tasks with a question that is still to be answered."""
    begun: Mapping[str, dict[str, Any]]
    """By task: the arguments its write was sent with, in a run that was cut off."""
    values: FlowValues = field(init=False)
    """Tells what the calls of steps are made from."""
    steps: dict[str, FlowStep] = field(init=False)
    """By id: each as it stands now."""
    broken: bool = field(init=False)
    """A step that the goal needs has failed: nothing more that may change the world is begun."""
    stopped: bool = False
    """A hook wants the run to end: nothing more is begun."""
    heard: set[str] = field(default_factory=set)
    """Tasks that ended in this process, and told so."""

    def __post_init__(self) -> None:
        """Note how things stand before the pass."""
        self.steps = {step["id"]: step for step in self.state.todos}
        self.broken = bool(select_failed(self.state.todos))

    def hear(self, end: "StepEnd") -> None:
        """Take note of how a task ended, in this process or before a crash."""
        ended = end["step"]
        self.heard.add(ended["id"])
        self.scope.budget.count_branch(ended["id"], end["spend"])
        self.stopped |= bool(end.get("stopped"))
        step = self.steps[step_of(ended["id"])]
        if index_of(ended["id"]) is None:
            self.steps[ended["id"]] = step | ended
        self.broken |= ended["status"] == "failed" and not step["optional"]

    def is_shut(self, step: FlowStep) -> bool:
        """Whether no call of the step may be begun any more."""
        broken = self.broken and step["changes"]
        return self.stopped or self.scope.budget.reached_limit is not None or broken

    def tell(self, kind: str, name: str, **about: object) -> None:
        """Tell an event of a step."""
        self.scope.emit({"type": kind, "step_id": name, **about})

    def tell_end(self, ended: FlowStep) -> None:
        """Tell how a step ended."""
        step: FlowStep = {**self.steps[ended["id"]], **ended}
        success = step["status"] == "completed"
        output = (step["result"] if success else step["feedback"])[:_SHOWN]
        counted = {"seconds": step["seconds"], "attempts": step["attempts"]}
        about = {"success": success, "status": step["status"], "output": output, **counted}
        self.tell("prompt_flow_step_result", step["id"], **about, **counts_of_items(step))

    async def values_of(self, inputs: Mapping[str, FlowStep], names: Collection[str]) -> Values:
        """The results of those of the inputs that are named, by id."""
        return {i: await self.results.data(inputs[i]) for i in inputs if i in names}

    @property
    def variables(self) -> dict[str, Any]:
        """The plan's own."""
        variables: dict[str, Any] = self.state.plan.get("global_variables", {})
        return variables

    async def judge(self, step: FlowStep, data: Any, kept: FlowStep) -> FlowStep:
        """The end of a step with this result: whether it is what the plan expects."""
        if expect := step.get("expect"):
            # A check of many rows takes seconds, and so does one with many cases.
            is_long = kept["shape"] in _MAY_BE_LONG or len(str(expect)) > _LONG_CHECK
            checked = asyncio.to_thread(find_unmet, data, expect) if is_long else None
            if wrong := await checked if checked else find_unmet(data, expect):
                return self.keep_if_made(step, fail_with("unexpected_result", wrong), kept)
        return FlowStep(status="completed", feedback="", failure="", denied="") | kept

    def keep_if_made(self, step: FlowStep, end: FlowStep, kept: FlowStep) -> FlowStep:
        """A failure with what the call gave, where it has changed the world: not to be repeated."""
        tool = self.catalog.find(step["tool"])
        if tool is not None and tool.resendable:
            return end
        shown = shorten_text(kept["result"], _LEAST_SHOWN)
        return end | kept | FlowStep(feedback=say("made_once", why=end["feedback"], result=shown))


def end_without_call(step: FlowStep) -> StepEnd:
    """The end of a step, or an item, of which nothing was called in this pass."""
    return StepEnd(step=step, evidence=[], waiting=[], spend=Spend(), warnings=[])


def hold_back(name: str) -> StepEnd:
    """The end of one that could not begin."""
    return end_without_call(FlowStep(id=name, status="pending"))


def fail_with(failure: Failure, why: str, *, denied: str = "") -> FlowStep:
    """A failure; `denied` says why nobody lets the call run: another plan could not change it."""
    return FlowStep(status="failed", failure=failure, feedback=why, denied=denied)


def counts_of_items(step: FlowStep) -> dict[str, int]:
    """Of a step with items, for its events: how many there are, and how many are done."""
    items = step.get("items") or []
    if step.get("for_each") is None:
        return {}
    return {"items": len(items), "done": sum(map(is_done, items))}


# What the ends of a pass change in the run.


def fold_ends(ends: Sequence[StepEnd], steps: Sequence[FlowStep]) -> FlowUpdate:
    """The steps, evidence and warnings of a pass; items count if a crash hid their step's end."""
    took = {one for end in ends for one in end.get("took_all", [])}
    evidence = [record for end in ends for record in end["evidence"]]
    # Every call is told by the step that has its result now: two would make it two writes.
    used = (s["id"] for s in steps if s["spare"] and s.get("items") and _all_used(s, evidence))
    return FlowUpdate(
        todos=[
            *(end["step"] for end in ends if index_of(end["step"]["id"]) is None),
            *_with_items(ends, steps),
            *(FlowStep(id=name, gone=True) for name in dict.fromkeys([*took, *used])),
        ],
        evidence=evidence,
        warnings=[text for end in ends for text in end["warnings"]],
    )


def wishes_of(ends: Sequence[StepEnd]) -> list[dict[str, Any]]:
    """What the tools of these calls want changed besides."""
    return [wish for end in ends for wish in end.get("wishes", [])]


def item_after(item: FlowStep, ended: FlowStep) -> FlowStep:
    """An item after its call: its place names it."""
    after = item | ended
    after.pop("id", None)
    return after


def _all_used(step: FlowStep, evidence: Sequence[Evidence]) -> bool:
    """Whether other calls have the results of all calls that were made for a step's items."""
    taken = {record.get("reused_from", "") for record in evidence}
    made = step.get("evidence") or []
    return bool(made) and taken.issuperset(made)


def apply_tool_wishes(state: FlowState, wishes: Sequence[Mapping[str, Any]]) -> FlowUpdate:
    """What tools want changed besides; their messages follow the conversation."""
    added = build_messages(wishes, state.turn_id, state.messages)
    return FlowUpdate(messages=added) | cast("FlowUpdate", merge_values(wishes))


def _with_items(ends: Sequence[StepEnd], steps: Sequence[FlowStep]) -> list[FlowStep]:
    """The steps of which only items ended, with these."""
    whole = {end["step"]["id"] for end in ends}
    known = {step["id"]: [*(step.get("items") or [])] for step in steps}
    found: dict[str, list[FlowStep]] = {}
    for end in ends:
        name, place = step_of(end["step"]["id"]), index_of(end["step"]["id"])
        if place is None or name in whole or name not in known:
            continue
        items = found.setdefault(name, known[name])
        items += [FlowStep(status="pending") for _ in range(len(items), place + 1)]
        items[place] = item_after(items[place], end["step"])
    return [FlowStep(id=name, items=items) for name, items in found.items()]
