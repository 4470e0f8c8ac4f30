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

    Args:
        value: As it was given; what is none of the words comes back as it is.
        words: The set.
        also: Other words, in small letters and digits alone, for words of the set.
    """
    if not isinstance(value, str):
        return value
    spelled = {_squash(word): word for word in words}
    whole = _squash(value)
    last = _squash(value.rsplit(".", 1)[-1])  # of an enum as Python prints it
    known = {**(also or {}), **spelled}
    return known.get(whole) or known.get(last) or value


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
    """Read numbers and null where a text is wanted; a text that could not be kept is mended."""
    if value is None:
        return ""
    if isinstance(value, str):
        return make_storable(value)
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _read_flag(value: object) -> object:
    return read_word(value, ("true", "false"), synonyms_of("flag"))


Flag = Annotated[bool, BeforeValidator(_read_flag)]
Text = Annotated[str, BeforeValidator(_read_text)]
Texts = Annotated[list[Text], BeforeValidator(as_list)]
Id = Annotated[str, BeforeValidator(_read_text), Field(max_length=200)]
Status = Annotated[TaskStatus, BeforeValidator(read_status)]


def _must_be(wanted: str, *also: str) -> AfterValidator:
    """What an answer says it is must be what was asked for; saying nothing is fine."""
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
        """The contract as an object, where a text holds it otherwise than as JSON."""
        return None

    @classmethod
    def wire_schema(cls) -> dict[str, Any]:
        """The JSON schema that goes to the provider; its title is the class name.

        Every caller gets a copy of its own: a provider's adapter may change what it is given.
        """
        return deepcopy(_schema_of(cls))


@cache  # milliseconds to make, and wanted at every call of a model
def _schema_of(contract: type[Contract]) -> dict[str, Any]:
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
        said = (self.task_completed, self.should_continue, self.next_action)
        if said == (None, None, None) and not self.todos:
            raise ValueError(say("completed_or_not"))
        if self._claims_completion and says_nothing(self.summary):
            empty = not self.summary.strip()
            raise ValueError(say("completed_without_result" if empty else "says_nothing"))
        return self

    @property
    def _claims_completion(self) -> bool:
        if self.task_completed is None and self.next_action is None:
            return any(todo.status == "completed" for todo in self.todos)
        return self.task_completed is True or (
            self.task_completed is None and self.next_action == "complete"
        )


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

    Providers write structured answers in the order of the schema: the answer comes first, so that
    it is shown while it is written, then what is judged one by one, and last what follows from it.
    """

    summary: Text = Field(
        default="",
        description="The final answer, with concrete data; '' if the evidence cannot carry one.",
    )
    tasks: Annotated[list[TaskVerdict], BeforeValidator(as_list)] = Field(default_factory=list)
    overall_feedback: Text = ""
    all_completed: Flag = Field(description="Every task fully reached its criteria.")
    user_needs_satisfied: Flag = Field(description="The user's own words are answered.")
    improvements: Texts = Field(default_factory=list, description="What the next plan must mend.")
    type: Annotated[Text, _must_be("component", "verifier-response")] = "component"
    component: Annotated[Text, _must_be("verifier-response", "verifier")] = "verifier-response"

    @property
    def passed(self) -> bool:
        """Both flags true."""
        return self.all_completed and self.user_needs_satisfied

    @model_validator(mode="after")
    def _does_not_contradict_itself(self) -> Self:
        self.improvements = [text for text in self.improvements if text.strip()]
        problem = _find_contradiction(self)
        if problem:
            raise ValueError(problem)
        return self


def _find_contradiction(verdict: VerifierResponse) -> str:
    if verdict.passed and says_nothing(verdict.summary):
        return say("passed_without_summary")
    if verdict.all_completed and any(not task.completed for task in verdict.tasks):
        return say("all_but_not_all")
    if not verdict.passed and not verdict.improvements:
        return say("not_passed_without_improvements")
    return ""


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

    Where taskCompleted is there it alone says whether the task is complete; the others may then
    still say what else becomes of it. Never from words in the summary.
    """
    if answer.task_completed:
        return "complete"
    wished = next((todo.status for todo in answer.todos if todo.id == task_id), "")
    wishes = (answer.next_action, _BY_STATUS.get(wished))
    decided = next((wish for wish in wishes if wish and _may_be(wish, answer)), None)
    return decided or ("fail" if answer.should_continue is False else "continue")


def _may_be(wish: TaskDecision, answer: ExecutorResponse) -> bool:
    return wish != "complete" or answer.task_completed is None


class LoopVerdict(Contract):
    """Whether an agent goes round in circles."""

    analysis: Text = Field(
        default="", description="What comes again and again, or what new it brings; one sentence."
    )
    confidence: float = Field(
        ge=0, le=1, description="How sure you are that it goes round in circles: 0 no, 1 yes."
    )
