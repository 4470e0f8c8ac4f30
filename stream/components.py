"""Components that a front end draws beside the text: their names and props, and plain text.

A component is a UI message of LangGraph's generative UI. Of two with one id the one with the
higher `metadata.seq` counts; `metadata.message_id` names the message it stands under.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, cast

from langgraph.graph.ui import AnyUIMessage
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from ..state.channels import Component
from ..text.display import show_text

Details = dict[str, JsonValue]


class Props(BaseModel):
    """Base of all props: JSON, snake_case, unknown fields are left out."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Todo(Props):
    """One task of a plan."""

    id: str
    description: str = ""
    status: str = "pending"
    depends_on: list[str] = Field(default_factory=list)


class Step(Todo):
    """One step of a plan of tool calls."""

    tool: str = ""
    items: int = 0
    done: int = 0
    attempts: int = 0
    seconds: float = 0.0
    result: str = ""


class PlannerResponse(Props):
    """A plan as its planner writes it; `streaming` while it does."""

    summary: str = ""
    todos: list[Step] = Field(default_factory=list)
    missing_information: list[str] = Field(default_factory=list)
    streaming: bool = False


class ExecutorResponse(Props):
    """How a task goes, at its end with its result."""

    task: str
    description: str = ""
    status: str = "in_progress"
    attempt: int = 1
    summary: str = ""
    streaming: bool = False


class Judged(Props):
    """What a verdict says of one task."""

    id: str
    completed: bool = False
    feedback: str = ""


class VerifierResponse(Props):
    """A verdict; `passed` is None while it is written."""

    passed: bool | None = None
    feedback: str = ""
    improvements: list[str] = Field(default_factory=list)
    tasks: list[Judged] = Field(default_factory=list)
    streaming: bool = False


class SummaryResponse(Props):
    """How a turn ended, and how much of its plan is done."""

    status: str
    reason: str = ""
    done: int = 0
    total: int = 0
    unmet: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)


class TodoList(Props):
    """The plan with the status of each task."""

    todos: list[Todo] = Field(default_factory=list)


class FlowGraph(Props):
    """The plan of tool calls with the status of each step."""

    steps: list[Step] = Field(default_factory=list)


class ToolCall(Props):
    """One call."""

    id: str
    tool: str
    task: str = ""
    arguments: Details = Field(default_factory=dict)
    status: str = "executing"
    reason: str = ""
    result: str = ""
    seconds: float = 0.0
    reused_from: str = ""


class Action(Props):
    """What is asked about: a tool, or what a question of the package's is named."""

    name: str = ""
    args: Details = Field(default_factory=dict)


class Approval(Props):
    """A question to the user.

    `kind` is `tool_approval`, `uncertain_call`, `elicitation`, `ask_user`, `review_plan` or
    `review_flow`; `id` is that of the call; `answered` is "" while it is open.
    """

    id: str
    kind: str = "tool_approval"
    description: str = ""
    action: Action = Field(default_factory=Action)
    answered: Literal["", "approve", "edit", "reject", "respond", "expired", "superseded"] = ""


class Proposal(Props):
    """Changes that the customer is asked a yes for; `answered` is "" while that is open.

    A button answers with a message of theirs: `1` for yes or `2` for no, a space and the `id`.
    """

    id: str
    lines: list[str] = Field(default_factory=list)
    answered: Literal["", "yes", "no", "other"] = ""


class ReceiptLine(Props):
    """What became of one change that was asked for; `text` is in the customer's language."""

    kind: Literal["done", "proposed", "refused", "failed", "uncertain", "colleague", "nothing"]
    text: str


class Receipt(Props):
    """What was done in a turn, and what was not."""

    lines: list[ReceiptLine] = Field(default_factory=list)


class ResourceInfo(Props):
    """One thing outside: a file, an order, a page."""

    name: str
    uri: str = ""
    description: str = ""
    mime_type: str = ""
    details: Details = Field(default_factory=dict)


class ResourceList(Props):
    """Several of them."""

    resources: list[ResourceInfo]
    title: str = ""


class TaskInfo(Props):
    """A task of the application, such as a ticket."""

    id: str
    title: str = ""
    description: str = ""
    status: str = ""
    details: Details = Field(default_factory=dict)


class Handoff(Props):
    """The conversation goes to somebody else."""

    target: str
    source: str = ""
    reason: str = ""
    summary: str = ""
    reference: str = ""
    status: str = ""


COMPONENTS: Final[Mapping[str, type[Props]]] = {
    "planner-response": PlannerResponse,
    "executor-response": ExecutorResponse,
    "verifier-response": VerifierResponse,
    "summary-response": SummaryResponse,
    "todo-list": TodoList,
    "flow-graph": FlowGraph,
    "tool-call": ToolCall,
    "approval": Approval,
    "proposal": Proposal,
    "receipt": Receipt,
    "resource-info": ResourceInfo,
    "resource-list": ResourceList,
    "task-info": TaskInfo,
    "handoff": Handoff,
}
"""The one table of components."""

OF_TOOLS: Final = frozenset({"resource-list", "resource-info", "task-info", "handoff"})
"""Those that a tool's result may show. A tool may not draw questions or verdicts in the run's
name."""


def text_of(name: str, props: Mapping[str, Any]) -> str:
    """A component in plain text, a line for each prop that is set.

    An unknown one, or one whose props are wrong, is shown as JSON.
    """
    try:
        given = COMPONENTS[name].model_validate(props).model_dump(exclude_defaults=True)
    except (KeyError, ValidationError):
        return json.dumps(dict(props), ensure_ascii=False, default=str)
    lines = (f"{key.replace('_', ' ')}: {_render(value)}" for key, value in given.items())
    return "\n".join(line.replace(": \n", ":\n", 1) for line in lines)


def _render(value: Any) -> str:
    """A text as it is, a list with a line for each item, an object as `a: 1, b: 2` on one."""
    if isinstance(value, list):
        return "".join(f"\n- {_render(item)}" for item in value)
    if isinstance(value, Mapping):
        shown = ((k, show_text(v) if isinstance(v, str) else _render(v)) for k, v in value.items())
        return ", ".join(f"{key}: {text}" for key, text in shown)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def make_component(
    event: Mapping[str, Any],
    name: str,
    key: str,
    props: Props | Mapping[str, Any],
    *,
    under: str | None = None,
    **more: Any,
) -> Component:
    """A component that an event draws, as the stream and the state have it.

    Args:
        event: What draws it; it has the number.
        name: Which one.
        key: Begins its id, the same however often it is shown; without one `under` does.
        props: Its props.
        under: Id of the message it stands under, if that is not the event's.
        more: Goes into its metadata.
    """
    given = props.model_dump(mode="json") if isinstance(props, Props) else dict(props)
    place = event.get("message_id", "") if under is None else under
    about = {"message_id": place, "seq": event["seq"], **more}
    own = f"{key or place}.{name}"
    return {"type": "ui", "id": own, "name": name, "props": given, "metadata": about}


def remove_under(drawn: Iterable[AnyUIMessage], gone: Sequence[str]) -> list[Component]:
    """The writes that remove the components under messages that go."""
    places = (
        (component["id"], cast("Component", component).get("metadata") or {}) for component in drawn
    )
    lost = [name for name, about in places if about.get("message_id") in gone]
    return [{"type": "remove-ui", "id": name} for name in lost]
