"""State of prompt_flow: the steps of the plan it follows, and what became of them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, NotRequired

from langgraph.channels.delta import DeltaChannel
from langgraph.channels.ephemeral_value import EphemeralValue
from langgraph.types import Overwrite
from typing_extensions import TypedDict

from .calls import CallState, CallsUpdate, Evidence, call_id, item_task
from .history import EarlierRecords
from .loop import LoopInput, LoopState, LoopUpdate
from .plan import Task, merge_tasks

PATH: Final = "prompt_flow"
"""Whose calls they are where no step is named."""

FlowPlanning = Literal["again", "review", "ready"]

Failure = Literal[
    "tool_not_found", "bad_arguments", "missing_input", "tool_error", "timeout",
    "unexpected_result", "uncertain", "refused", "budget", "execution_error",
]  # fmt: skip
"""Why a step failed. `refused`: policy, a hook or a human does not let it run. `uncertain`: it may
have taken effect. `execution_error`: an exception of ours."""

Shape = Literal["text", "json", "value", "stored"]
"""Where a step has its result as data; see `FlowStep.shape`."""
Strategy = Literal["retry_step", "replan_from_failure", "complete_replan", "give_up"]


class FlowStep(Task, total=False):
    """One step: a task that is one call of one tool.

    `depends_on` has all steps it waits for, also those it refers to; `result` is the text that
    models see; `feedback` says why it failed; `attempts` counts its calls; `rounds` numbers them
    over the whole request, so the call's id is `<step>.<round>.0`.
    """

    tool: str
    arguments: dict[str, Any]
    """As planned, with references."""
    changes: bool
    """Its tool may change the world, as known when the plan was adopted: after a resume the order
    of steps must be the same, even if the tool is gone."""
    optional: bool
    retries: int
    expect: dict[str, Any] | str | None
    timeout: float | None
    when: str | None
    """The condition under which it is to run; see `flow.conditions`."""
    for_each: Any
    """The list, as planned, of which each item is a call of its own; None for one call."""
    max_items: int
    items: list["FlowStep"]
    """The calls of its items, in order; empty before its list is known. Each holds only what its
    own call changed; its id is `<step>[<place>]`."""
    unwanted: bool
    """It was skipped because its condition, or that of a step it needs, does not hold."""
    expected_output: str
    spare: bool
    """A write of an earlier plan that this plan does not list. A step that would send the same
    takes its result, and this one goes."""
    claims: list[str]
    """Journal names under which its call was, or may have been, made for earlier plans."""
    failure: Failure | Literal[""]
    shape: Shape | Literal[""]
    """Where the result as data is: the `result` text, the JSON in it, `value`, or the store under
    `stored`; '' before the step is done."""
    value: Any
    """The result as data, if its text does not say it."""
    stored: str
    """Id of a result in the store that is too long for the state."""
    origins: dict[str, str]
    """In words, by argument: which tools give what stands there."""
    made_of: str
    """The fingerprint of a step carried over from an earlier plan, under that plan's variables; of
    an item a hash of its call."""


class Draft(TypedDict):
    """One plan that is not adopted: the planner's text, the plan in it, what is wrong."""

    text: str
    plan: dict[str, Any] | None
    """The plan as ExecutionPlan's JSON by field name; None where the answer is no plan."""
    findings: list[str]
    given: NotRequired[bool]
    """It was handed in: no model is asked to change it."""
    tools: NotRequired[list[str]]
    """With many tools: the ones that the planner sees next to these findings."""
    told: NotRequired[list[str]]
    """What it has asked to read."""
    looks: NotRequired[bool]
    """It only looks for tools or reads skills: nothing in it is wrong."""


class Given(TypedDict, total=False):
    """What the program handed in for a request."""

    plan: dict[str, Any] | None
    """The plan as ExecutionPlan's JSON by field name; None if it cannot be read."""
    variables: dict[str, Any]
    """Values for the plan's variables: every plan of the request has them."""


class Cause(TypedDict):
    """One failed step, as whoever repairs the plan is shown it."""

    step: str
    description: str
    tool: str
    arguments: dict[str, Any]
    failure: str
    error: str
    attempts: int
    safe_to_repeat: bool
    """Running it twice leaves the world as running it once."""


@dataclass(kw_only=True)
class FlowInput(LoopInput):
    """What a caller gives prompt_flow: messages, and perhaps a plan for them."""

    execution_plan: Annotated[dict[str, Any] | str | None, EphemeralValue] = None
    """A plan to follow, as an object or as text; without one a model plans."""
    variables: Annotated[dict[str, Any] | None, EphemeralValue] = None
    """Values for the variables that the plan reads as {{global.name}}."""


@dataclass(kw_only=True)
class FlowState(CallState, LoopState, FlowInput):
    """State of plan → check → run → recover → answer."""

    record = "work_state"

    todos: Annotated[list[FlowStep], DeltaChannel(merge_tasks, snapshot_frequency=50)] = field(
        default_factory=list
    )
    """The steps; intake empties them or keeps what goes on, check_flow and review_flow put a new
    plan in their place, run_flow updates them, recover opens those that are tried again."""
    plan: dict[str, Any] = field(default_factory=dict)
    """The plan without its steps: goal, plan_id, global_variables, left_out, metadata; check_flow
    and review_flow write it with the steps, intake clears it. Also whether it is `tainted`, made
    after foreign words were read; the `sinks` of the first plan and its `words`; and in what it
    is `widened` beyond that: see `flow.origins`."""
    planning: FlowPlanning = "ready"
    """What check_flow or review_flow decided; their routers read it."""
    drafts: list[Draft] = field(default_factory=list)
    """Unsound answers of the planner, oldest first; plan_flow appends, check_flow adds the
    findings; a sound plan clears them, and recover."""
    prints: list[str] = field(default_factory=list)
    """Fingerprints of the plans this turn adopted; check_flow and review_flow append."""
    strategy: Strategy | Literal[""] = ""
    """What recover decided last; its router reads it. '' before the first failure."""
    recoveries: dict[str, int] = field(default_factory=dict)
    """How often each strategy was taken this turn; recover counts."""
    failures_seen: list[str] = field(default_factory=list)
    """Failures this turn has met, by call and error; recover appends."""
    causes: list[Cause] = field(default_factory=list)
    """What failed this turn, for every further plan; recover adds."""
    reviewed: list[FlowStep] = field(default_factory=list)
    """The steps as the user was shown them last; review_flow writes."""
    objection: list[str] = field(default_factory=list)
    """What is wrong with the plan as the user edited it; review_flow writes, and asks again."""
    cut_off: list[Any] = field(default_factory=list)
    """Steps that ended before a new message cut run_flow off; the doors write, intake reads."""
    not_enough: str = ""
    """What the answerer missed in the results, once a turn; answer_flow writes it."""
    given: Given = field(default_factory=Given)
    """What the program handed in for this request; intake writes it."""
    earlier: EarlierRecords = field(default_factory=list)
    """What the calls of earlier turns brought, under ids of their own; intake adds to it."""

    # Call ids repeat in every turn: an old answer must not count for a new call.
    per_turn = LoopState.per_turn | {
        "calls", "decisions", "objections", "evidence", "denied", "todos", "plan", "planning",
        "drafts", "prints", "strategy", "recoveries", "failures_seen", "causes", "reviewed",
        "objection", "cut_off", "given", "not_enough",
    }  # fmt: skip

    by_tools = frozenset({"messages", "improvements"})

    @property
    def path(self) -> str:
        """The flow's own name; every call names its step."""
        return PATH


class FlowUpdate(LoopUpdate, CallsUpdate, total=False):
    """What a node of prompt_flow may change."""

    todos: list[FlowStep] | Overwrite
    plan: dict[str, Any]
    planning: FlowPlanning
    drafts: list[Draft]
    prints: list[str]
    strategy: Strategy | Literal[""]
    recoveries: dict[str, int]
    failures_seen: list[str]
    causes: list[Cause]
    reviewed: list[FlowStep]
    objection: list[str]
    cut_off: list[Any]
    given: Given
    earlier: list[Evidence]
    not_enough: str


def select_finished(steps: Sequence[FlowStep]) -> list[FlowStep]:
    """The steps that are done."""
    return [step for step in steps if step["status"] == "completed"]


def select_unfinished(steps: Sequence[FlowStep]) -> list[FlowStep]:
    """The steps that are still to be done."""
    return [step for step in steps if step["status"] != "completed"]


def select_failed(steps: Sequence[FlowStep]) -> list[FlowStep]:
    """The steps that failed and that the goal cannot be met without."""
    return [step for step in steps if step["status"] == "failed" and not step.get("optional")]


def is_spared(step: FlowStep) -> bool:
    """Whether a condition of the plan left the step out."""
    return step["status"] == "skipped" and bool(step.get("unwanted"))


def was_made(step: FlowStep) -> bool:
    """Whether a step that is not completed has changed the world, perhaps with some of its items.

    Its result failed the check. The call is not made again; another plan may check otherwise.
    """
    if step["status"] == "completed":
        return False
    items = step.get("items") or []
    return bool(step.get("shape")) or (step["changes"] and any(map(is_done, items)))


def is_done(item: FlowStep) -> bool:
    """Whether the call of an item was made, and gave a result."""
    return item.get("status") == "completed"


def items_of(step: FlowStep) -> list[FlowStep]:
    """The items of a step as steps of their own."""
    alone = FlowStep(for_each=None, expect=None, items=[], claims=[], rounds=0)
    return [
        step | alone | item | FlowStep(id=item_task(step["id"], place))
        for place, item in enumerate(step.get("items") or [])
    ]


def make_call_name(revision: str, step: FlowStep, more: int = 1) -> str:
    """The journal name of a step's next call in a plan; with `more=0` of its last one."""
    return f"{revision}.{call_id(step['id'], step['rounds'] + more)}"


def reopen_items(items: Sequence[FlowStep], *, all_of_them: bool = False) -> list[FlowStep]:
    """Items to be tried again: those that are not done, or all of them."""
    shut = FlowStep(status="pending", failure="", denied="", feedback="")
    return [item | shut if all_of_them or not is_done(item) else item for item in items]


def read_value(step: FlowStep) -> Any:
    """The result of a finished step as data; of a stored one the head and tail in the state."""
    shape = step.get("shape", "")
    if shape == "value":
        return step.get("value")
    return json.loads(step["result"]) if shape == "json" else step.get("result", "")
