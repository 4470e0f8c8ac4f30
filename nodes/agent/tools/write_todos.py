"""write_todos: an agent's list of what is to be done, and the user's word on a large one."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from langgraph.types import Overwrite

from ....calls.call_records import PendingCall, update_call
from ....calls.results import ToolResult, make_failure
from ....calls.sending import HandlerScope
from ....state.agent import COMPLETE_TASK, MAIN, AgentState
from ....state.plan import Task, count_progress, describe_plan
from ....state.todo_list import LARGE, WRITE_TODOS, apply_items, open_todos, problems_of
from ....stream.events import make_question_event
from ....text.sentences import say
from ....tools.catalog import CatalogTool, make_own_tool
from ....turn.scope import RunScope

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
    """Whether the user must see this list before work: the first large one, or one made anew."""
    if not scope.context.review_plan or state.path != MAIN or state.planning == "ready":
        return False
    return state.planning == "again" or len(open_todos(todos)) >= LARGE


def hold_for_review(
    scope: RunScope, state: AgentState, calls: Sequence[PendingCall]
) -> list[PendingCall]:
    """The calls of a message; where a plan must be approved first, those that could write fail."""
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
