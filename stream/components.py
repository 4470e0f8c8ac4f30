"""Components: what a front end draws beside the text. Names, their props, and each in plain text.

A component is a UI message of LangGraph's generative UI, whole each time: of two with one id the
one with the higher `metadata.seq` counts. `metadata.message_id` names the message it stands under.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, cast

from langgraph.graph.ui import AnyUIMessage
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from ..state.channels import Component

Details = dict[str, JsonValue]


class Props(BaseModel):
    """Base of all props: JSON, snake_case, unknown fields are left out."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    def text(self) -> str:
        """The component in plain text: its values, a line each."""
        given = self.model_dump(exclude_defaults=True)
        return "\n".join(
            f"{name.replace('_', ' ')}: {_as_plain_text(one)}" for name, one in given.items()
        )


class Todo(Props):
    """One task of a plan."""

    id: str
    description: str = ""
    status: str = "pending"
    depends_on: list[str] = Field(default_factory=list)

    def text(self) -> str:
        """Status, id and description."""
        return f"[{self.status}] {self.id} {self.description}".rstrip()


class Step(Todo):
    """One step of a plan of tool calls."""

    tool: str = ""
    items: int = 0
    done: int = 0
    attempts: int = 0
    seconds: float = 0.0
    result: str = ""

    def text(self) -> str:
        """Status, id, description, tool, and what it waits for."""
        after = f" (after {', '.join(self.depends_on)})" if self.depends_on else ""
        items = f" {self.done}/{self.items}" if self.items else ""
        return f"{super().text()}: {self.tool}{items}{after}"


class PlannerResponse(Props):
    """A plan as its planner writes it; `streaming` while it does."""

    summary: str = ""
    todos: list[Step] = Field(default_factory=list)
    missing_information: list[str] = Field(default_factory=list)
    streaming: bool = False

    def text(self) -> str:
        """The summary, the tasks, the questions."""
        planned = (f"{todo.id}. {todo.description or todo.tool}" for todo in self.todos)
        return "\n".join(filter(None, [self.summary, *planned, *self.missing_information]))


class ExecutorResponse(Props):
    """How a task goes, at its end with its result."""

    task: str
    description: str = ""
    status: str = "in_progress"
    attempt: int = 1
    summary: str = ""
    streaming: bool = False

    def text(self) -> str:
        """The task with its status, and its result."""
        head = f"{self.task}. {self.description}: {self.status}"
        return f"{head}\n\n{self.summary}" if self.summary else head


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

    def text(self) -> str:
        """The verdict on the whole, then on each task, then what must be mended."""
        tasks = (
            f"{'+' if one.completed else '-'} {one.id}: {one.feedback or one.completed}"
            for one in self.tasks
        )
        lines = [self.feedback, *tasks, *(f"- {one}" for one in self.improvements)]
        return "\n".join(filter(None, lines)) or f"passed: {self.passed}"


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

    def text(self) -> str:
        """A line for each task."""
        return "\n".join(todo.text() for todo in self.todos)


class FlowGraph(Props):
    """The plan of tool calls with the status of each step."""

    steps: list[Step] = Field(default_factory=list)

    def text(self) -> str:
        """A line for each step."""
        return "\n".join(step.text() for step in self.steps)


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

    def text(self) -> str:
        """The call as it was made, its status and its result."""
        why = f" ({self.reason})" if self.reason else ""
        head = f"{self.tool}({_as_plain_text(self.arguments)}): {self.status}{why}"
        return f"{head}\n{self.result}" if self.result else head


class Action(Props):
    """What is asked about: a tool, or what a question of the package's is named."""

    name: str = ""
    args: Details = Field(default_factory=dict)


class Approval(Props):
    """A question to the user.

    `kind` is `tool_approval`, `uncertain_call`, `elicitation`, `ask_user`, `review_plan` or
    `review_flow`. `id` is that of the call, which the question itself has too. `answered` is ""
    while it is open.
    """

    id: str
    kind: str = "tool_approval"
    description: str = ""
    action: Action = Field(default_factory=Action)
    answered: Literal["", "approve", "edit", "reject", "respond", "expired", "superseded"] = ""

    def text(self) -> str:
        """What is asked, and the answer."""
        asked = self.description or f"{self.action.name}({_as_plain_text(self.action.args)})"
        return f"{asked}: {self.answered or 'open'}"


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

    def text(self) -> str:
        """A line for each."""
        lines = (": ".join(filter(None, [r.name, r.description])) for r in self.resources)
        return "\n".join(filter(None, [self.title, *(f"- {line}" for line in lines)]))


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
    "resource-list": ResourceList,
    "resource-info": ResourceInfo,
    "task-info": TaskInfo,
    "handoff": Handoff,
}
"""The one table of components."""

OF_TOOLS: Final = frozenset({"resource-list", "resource-info", "task-info", "handoff"})
"""Those of them that a tool's result may show. The others are what the run says of itself: a tool
that could draw a question or a verdict would speak in its name."""


def text_of(name: str, props: Mapping[str, Any]) -> str:
    """A component in plain text; one that is not known, or whose props are wrong, by its props."""
    try:
        return COMPONENTS[name].model_validate(props).text()
    except (KeyError, ValidationError):
        return _as_plain_text(dict(props))


def _as_plain_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


"""A UI message: `type` "ui", `id`, `name`, `props`, `metadata`."""


def make_component(
    name: str, key: str, props: Props | Mapping[str, Any], *, under: str, seq: int, **more: Any
) -> Component:
    """A component as the stream and the state have it.

    Args:
        name: Which one.
        key: What makes its id, the same however often it is shown.
        props: Its props.
        under: Id of the message it stands under.
        seq: Number of the event that it tells.
        more: Goes into its metadata.
    """
    given = props.model_dump(mode="json") if isinstance(props, Props) else dict(props)
    about = {"message_id": under, "seq": seq, **more}
    return {"type": "ui", "id": f"{key}.{name}", "name": name, "props": given, "metadata": about}


def remove_under(drawn: Iterable[AnyUIMessage], gone: Sequence[str]) -> list[Component]:
    """The writes that remove the components under messages that go."""
    places = ((one["id"], cast("Component", one).get("metadata") or {}) for one in drawn)
    lost = [name for name, about in places if about.get("message_id") in gone]
    return [{"type": "remove-ui", "id": name} for name in lost]
