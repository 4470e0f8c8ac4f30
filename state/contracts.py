"""What a model must answer: one Pydantic contract a role, checked for contradictions.

Field names on the wire are camelCase (`taskCompleted`); snake_case is accepted too. The class
name is the schema's name on the wire.
"""

import re
from collections.abc import Collection, Mapping
from copy import deepcopy
from functools import cache
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)
from pydantic.alias_generators import to_camel

from ..text.canonical import make_storable
from ..text.sentences import say, says_nothing, synonyms_of

TaskStatus = Literal[
    "pending", "in_progress", "completed", "failed", "skipped", "cancelled", "blocked"
]

STATUSES: Final[frozenset[str]] = frozenset(get_args(TaskStatus))
FINISHED: Final[frozenset[str]] = frozenset({"completed", "skipped"})
"""Of tasks that are done, or were found to need no doing."""

_SHOWN: Final = 80

# A completed task stays completed: only a verdict (not a wish of a model) may reopen it.
_CHANGES: Final[dict[TaskStatus, frozenset[TaskStatus]]] = {
    "pending": frozenset({"in_progress", "skipped", "cancelled", "blocked"}),
    "in_progress": frozenset({"completed", "failed", "skipped", "cancelled", "blocked"}),
    "blocked": frozenset({"pending", "in_progress", "skipped", "cancelled"}),
    "failed": frozenset({"pending", "in_progress"}),
    "completed": frozenset(),
    "skipped": frozenset({"pending"}),
    "cancelled": frozenset({"pending"}),
}


def read_word(
    value: object, words: Collection[str], also: Mapping[str, str] | None = None
) -> object:
    """Read one word of a set as models spell it: `RETRY_STEP` and `retryStep` are one.

    `also` has synonyms, in small letters and digits. Anything else comes back unchanged.
    """
    if not isinstance(value, str):
        return value
    known = {**(also or {}), **{_squash(word): word for word in words}}
    last = value.rsplit(".", 1)[-1]  # of an enum as Python prints it
    return known.get(_squash(value)) or known.get(_squash(last)) or value


def _squash(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).lower()


def read_status(value: object) -> object:
    """Map a status as models write it to the vocabulary; anything else comes back as it is."""
    return read_word(value, STATUSES, synonyms_of("status"))


def may_change(old: TaskStatus, new: TaskStatus) -> bool:
    """Say whether a task may go from one status to the other."""
    return old == new or new in _CHANGES[old]


def as_list(value: object) -> object:
    """Read null as an empty list and a lone value as a list of one: models send both."""
    if value is None:
        return []
    return value if isinstance(value, list | tuple) else [value]


def _read_text(value: object) -> object:
    """Read numbers and null as text, and replace characters that cannot be stored."""
    if value is None:
        return ""
    if isinstance(value, str):
        return make_storable(value)
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


Flag = Annotated[
    bool, BeforeValidator(lambda value: read_word(value, ("true", "false"), synonyms_of("flag")))
]
Text = Annotated[str, BeforeValidator(_read_text)]
Texts = Annotated[list[Text], BeforeValidator(as_list)]
Id = Annotated[str, BeforeValidator(_read_text), Field(max_length=200)]
Status = Annotated[TaskStatus, BeforeValidator(read_status)]


def _must_be(wanted: str, *also: str) -> AfterValidator:
    """The kind of an answer, if it names one, must be the kind that was asked for."""
    known = {_squash(name): wanted for name in also}

    def read(given: str) -> str:
        if given and read_word(given, [wanted], known) != wanted:
            raise ValueError(say("another_kind", given=repr(given[:_SHOWN]), wanted=repr(wanted)))
        return wanted

    return AfterValidator(read)


class Contract(BaseModel):
    """Base of all contracts: camelCase on the wire, unknown fields ignored."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")

    @classmethod
    def read_other_spelling(cls, text: str) -> dict[str, Any] | None:  # noqa: ARG003 - of the few that have one
        """The contract in a text that is not JSON; None without one."""
        return None

    @classmethod
    def wire_schema(cls) -> dict[str, Any]:
        """The JSON schema for the provider, a copy; its title is the class name."""
        return deepcopy(_build_schema(cls))


@cache  # takes milliseconds, and each model call needs it
def _build_schema(contract: type[Contract]) -> dict[str, Any]:
    return contract.model_json_schema(by_alias=True)


class Todo(Contract):
    """One task of a plan."""

    id: Id = Field(default="", description="Short unique id, such as '1'.")
    description: Text = Field(min_length=1, description="What to do, concrete and executable.")
    priority: int = Field(default=1, ge=1, le=1_000_000, description="1 is done first.")
    status: Status = Field(default="pending", description="Always 'pending' in a new plan.")
    acceptance_criteria: Texts = Field(
        default_factory=list,
        validation_alias=AliasChoices("acceptanceCriteria", "acceptance_criteria", "acceptance"),
        description="What must be true for the task to count as done.",
    )
    inputs: Text = Field(default="", description="Key information the task needs.")
    depends_on: Annotated[
        list[Id] | None, BeforeValidator(lambda v: None if v is None else as_list(v))
    ] = Field(default=None, description="Ids of the tasks whose results this one needs.")


class PlannerResponse(Contract):
    """The plan, or what is missing to make one."""

    type: Annotated[Text, _must_be("component", "planner-response")] = "component"
    component: Annotated[Text, _must_be("planner-response", "planner")] = "planner-response"
    summary: Text = Field(default="", description="One or two sentences on the plan.")
    needs_more_planning: Flag = Field(
        default=False,
        description="True if another planning round or an answer of the user is needed.",
    )
    missing_information: Texts = Field(
        default_factory=list, description="Questions only the user can answer."
    )
    todos: Annotated[list[Todo], BeforeValidator(as_list)] = Field(default_factory=list)

    @model_validator(mode="after")
    def _plans_something(self) -> Self:
        if not self.todos and not self.needs_more_planning:
            raise ValueError(say("no_todos"))
        return self


class TodoStatus(Contract):
    """The status a model wishes for one task."""

    id: Id
    status: Status


NextAction = Literal["continue", "complete", "skip", "retry"]

_ACTIONS: Final[frozenset[str]] = frozenset(get_args(NextAction))


def _read_action(value: object) -> object:
    if isinstance(value, str) and not value.strip():
        return None
    return read_word(value, _ACTIONS, synonyms_of("next action"))


class ExecutorResponse(Contract):
    """The executor's report on its task."""

    type: Annotated[Text, _must_be("component", "executor-response")] = "component"
    component: Annotated[Text, _must_be("executor-response", "executor")] = "executor-response"
    summary: Text = Field(
        default="", description="Process, the actual result with its data, and problems met."
    )
    task_completed: Flag | None = Field(
        default=None, description="True only if the task's result is in the summary; always say."
    )
    should_continue: Flag | None = Field(default=None, description="True to take another round.")
    next_action: Annotated[NextAction | None, BeforeValidator(_read_action)] = None
    todos: Annotated[list[TodoStatus], BeforeValidator(as_list)] = Field(default_factory=list)
    is_current: Flag | None = None

    @model_validator(mode="after")
    def _says_how_it_stands(self) -> Self:
        if self.task_completed is None and self.next_action is None:
            if self.should_continue is None and not self.todos:
                raise ValueError(say("completed_or_not"))
            completed = any(todo.status == "completed" for todo in self.todos)
        else:
            by_action = self.task_completed is None and self.next_action == "complete"
            completed = self.task_completed is True or by_action
        if completed and says_nothing(self.summary):
            empty = not self.summary.strip()
            raise ValueError(say("completed_without_result" if empty else "says_nothing"))
        return self


class TaskVerdict(Contract):
    """The verifier's judgement of one task."""

    id: Id
    completed: Flag
    feedback: Text = ""
    evidence: Texts = Field(
        default_factory=list, description="Ids of the evidence that proves completion."
    )
    findings: Texts = Field(
        default_factory=list,
        description="Ids of calls whose error is itself the answer, such as 'no such order'.",
    )


class VerifierResponse(Contract):
    """The verdict on the whole run.

    Models write the fields in this order: the answer first, so that it streams, then the tasks one
    by one, then what follows from them.
    """

    summary: Text = Field(
        default="",
        description="The final answer, with concrete data; '' if the evidence cannot carry one.",
    )
    tasks: Annotated[list[TaskVerdict], BeforeValidator(as_list)] = Field(default_factory=list)
    overall_feedback: Text = ""
    all_completed: Flag = Field(description="Every task fully reached its criteria.")
    user_needs_satisfied: Flag = Field(description="The user's own words are answered.")
    improvements: Texts = Field(default_factory=list, description="What the next plan must fix.")
    type: Annotated[Text, _must_be("component", "verifier-response")] = "component"
    component: Annotated[Text, _must_be("verifier-response", "verifier")] = "verifier-response"

    @property
    def is_met(self) -> bool:
        """Both flags true."""
        return self.all_completed and self.user_needs_satisfied

    @model_validator(mode="after")
    def _does_not_contradict_itself(self) -> Self:
        self.improvements = [text for text in self.improvements if text.strip()]
        if self.is_met and says_nothing(self.summary):
            raise ValueError(say("passed_without_summary"))
        if self.all_completed and any(not task.completed for task in self.tasks):
            raise ValueError(say("all_but_not_all"))
        if not self.is_met and not self.improvements:
            raise ValueError(say("not_passed_without_improvements"))
        return self


TaskDecision = Literal["complete", "continue", "skip", "retry", "fail"]

_BY_STATUS: Final[Mapping[str, TaskDecision]] = {
    "completed": "complete",
    "skipped": "skip",
    "cancelled": "skip",
    "failed": "fail",
    "blocked": "fail",
}


def decide_task(answer: ExecutorResponse, task_id: str) -> TaskDecision:
    """Read the end of a task's turn: taskCompleted, then nextAction, then the status in todos.

    If taskCompleted is false, the others cannot complete the task. Words in the summary count for
    nothing.
    """
    if answer.task_completed:
        return "complete"
    status = next((todo.status for todo in answer.todos if todo.id == task_id), "")
    for wish in (answer.next_action, _BY_STATUS.get(status)):
        if wish and (wish != "complete" or answer.task_completed is None):
            return wish
    return "fail" if answer.should_continue is False else "continue"


class LoopVerdict(Contract):
    """Whether an agent goes round in circles."""

    analysis: Text = Field(
        default="", description="What comes again and again, or what new it brings; one sentence."
    )
    confidence: float = Field(
        ge=0, le=1, description="How sure you are that it goes round in circles: 0 no, 1 yes."
    )
