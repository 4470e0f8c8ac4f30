"""An agent's list of what is to be done: the tool write_todos, and the review of a large list."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, assert_never, cast

from langgraph.runtime import Runtime
from langgraph.types import Overwrite, interrupt

from ...calls.call_records import PendingCall, update_call
from ...calls.results import ToolResult, make_failure
from ...calls.sending import HandlerScope
from ...state.agent import COMPLETE_TASK, MAIN, AgentState, AgentUpdate
from ...state.context import Context
from ...state.plan import Task, count_progress, describe_plan, make_plan_question
from ...state.questions import Answer
from ...state.todo_list import LARGE, WRITE_TODOS, apply_items, open_todos, problems_of
from ...stream.events import make_question_event
from ...text.sentences import say
from ...tools.catalog import CatalogTool, make_own_tool
from ...turn.event_emitter import emit_answered
from ...turn.scope import RunScope
from .shared.agent import Agent
from .shared.requests import append_to_newest

_LONGEST: Final = 500


def todo_schema() -> dict[str, Any]:
    """One item of the list; the words a status is read from are more than those it is told."""
    return {
        "type": "object",
        "properties": {
            "description": {"type": "string", "maxLength": _LONGEST},
            "status": {"type": "string", "description": say("todo_statuses")},
            "note": {"type": "string", "maxLength": _LONGEST, "description": say("todo_note")},
        },
        "required": ["description", "status"],
    }


def write_todos() -> CatalogTool:
    """The tool; each call of it writes the whole list."""
    listed = {"todos": {"type": "array", "items": todo_schema()}}
    return make_own_tool(WRITE_TODOS, say("write_todos_tool"), listed, _write, required=["todos"])


async def _write(args: Mapping[str, Any], own: HandlerScope) -> ToolResult:
    """Take the list, unless it is unsound; a large one waits for the user where one reviews."""
    state, scope = cast("AgentState", own.state), own.scope
    if problems := problems_of(args["todos"], scope.context.max_tasks):
        return make_failure(say("todos_unsound", problems="; ".join(problems)))
    todos = apply_items(state.todos, args["todos"], [*state.own_evidence, *own.beside], state.round)
    tell_todos(scope, state, todos)
    update: dict[str, Any] = {"todos": Overwrite(todos)}
    done, total = count_progress(todos)
    text = say("todos_written", done=done, total=total)
    if not _is_reviewed(scope, state, todos):
        return ToolResult(text, update=update)
    if not scope.can_ask:
        update |= {"halt": "NOT_INTERACTIVE", "unmet": [*state.unmet, say("nobody_to_review")]}
        return ToolResult(text, update=update)
    words = describe_plan(todos)
    scope.emit(make_question_event("review_plan", words))
    await scope.notify("PlanReview", "The plan waits for a review.", {"todos": todos})
    waits = say("plan_waits")
    return ToolResult(f"{text} {waits}", update={**update, "planning": "review"})


def tell_todos(scope: RunScope, state: AgentState, todos: Sequence[Task]) -> None:
    """Tell the list as it is now; that of a sub-agent is its own affair."""
    if state.path == MAIN:
        under = next(str(m.id) for m in reversed(state.messages) if m.type == "ai")
        told = {"type": "todos", "round": state.round, "todos": list(todos), "message_id": under}
        scope.emit(told | dict(zip(("done", "total"), count_progress(todos), strict=True)))


def _is_reviewed(scope: RunScope, state: AgentState, todos: Sequence[Task]) -> bool:
    """Whether the user must see this list first: the first large one, or its replacement."""
    if not scope.context.review_plan or state.path != MAIN or state.planning == "ready":
        return False
    return state.planning == "again" or len(open_todos(todos)) >= LARGE


def hold_for_review(
    scope: RunScope, state: AgentState, calls: Sequence[PendingCall]
) -> list[PendingCall]:
    """The calls of a message; if a plan must be approved first, calls that could write fail."""
    sound = [call for call in calls if call["action"] != "error"]  # others have any arguments
    lists = [call["args"]["todos"] for call in sound if call["name"] == WRITE_TODOS]
    asked = any(
        not problems_of(items, scope.context.max_tasks)
        and _is_reviewed(scope, state, apply_items(state.todos, items)) for items in lists
    )  # fmt: skip
    rejected = scope.context.review_plan and state.planning == "again"
    if not asked and not rejected:
        return [*calls]
    free = (WRITE_TODOS, COMPLETE_TASK)
    return [
        call if call["read_only"] or call["name"] in free or call["action"] == "error"
        else update_call(call, action="error", reason=say("plan_not_approved"))
        for call in calls
    ]  # fmt: skip


async def review_todos(
    state: AgentState, runtime: Runtime[Context], *, agent: Agent
) -> AgentUpdate:
    """Approve lets the agent work, an edit replaces the list, words have it written again."""
    answer = interrupt(make_plan_question(open_todos(state.todos)), response_schema=Answer)
    scope = await agent.scope(state, runtime)
    emit_answered(answer.type)
    match answer.type:
        case "approve":
            return _tell_agent(state, say("plan_approved"), AgentUpdate(planning="ready"))
        case "reject" | "respond":
            return _tell_agent(
                state, _explain_replan(answer.plan_feedback), AgentUpdate(planning="again")
            )
        case "edit":
            items = _read_items(answer)
            problems = problems_of(items, scope.context.max_tasks)
            if problems or not items:
                wish = say(
                    "unsound_edit",
                    plan=answer.args,
                    problems="; ".join(problems) or say("no_todos"),
                )
                return _tell_agent(state, _explain_replan(wish), AgentUpdate(planning="again"))
            todos = _apply_edit(state.todos, items)
            tell_todos(scope, state, todos)
            told = say("plan_edited", plan=describe_plan(todos))
            return _tell_agent(state, told, AgentUpdate(planning="ready", todos=Overwrite(todos)))
        case _:
            assert_never(answer.type)


def _tell_agent(state: AgentState, text: str, update: AgentUpdate) -> AgentUpdate:
    return update | AgentUpdate(messages=append_to_newest(state, text))


def _explain_replan(why: str) -> str:
    return say("plan_anew", why=why.rstrip("."))


def _read_items(answer: Answer) -> Sequence[Mapping[str, Any]]:
    """The items of an edited list; an entry that is no item makes the list invalid."""
    given = answer.read_edited_plan("todos").get("todos")
    items = given if isinstance(given, list) else [given]
    return [item if isinstance(item, Mapping) else {} for item in items]


def _apply_edit(old: Sequence[Task], items: Sequence[Mapping[str, Any]]) -> list[Task]:
    """The list as the user wrote it: what was open and is left out is not cancelled, but gone."""
    gone, todos = {todo["id"] for todo in open_todos(old)}, apply_items(old, items)
    cut = len(todos) - len(items)
    return [*(todo for todo in todos[:cut] if todo["id"] not in gone), *todos[cut:]]
