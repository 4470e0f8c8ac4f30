"""review_plan: shows an agent's first large list before the work; one question, nothing before."""

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from langgraph.runtime import Runtime
from langgraph.types import Overwrite, interrupt

from ...state.agent import AgentState, AgentUpdate
from ...state.context import Context
from ...state.plan import Task, describe_plan, make_plan_question
from ...state.questions import Answer
from ...state.todo_list import apply_items, open_todos, problems_of
from ...text.sentences import say
from ...turn.event_emitter import emit_answered
from .shared.agent import Agent
from .shared.requests import append_to_newest
from .tools.write_todos import tell_todos


async def review_todos(
    state: AgentState, runtime: Runtime[Context], *, agent: Agent
) -> AgentUpdate:
    """Approve lets the agent work, an edit replaces the list, words have it written anew.

    The agent reads the answer in its next request. Until a list is approved nothing is changed.
    """
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
    """The items of an edited list; what is none makes the list unsound."""
    given = answer.read_edited_plan("todos").get("todos")
    items = given if isinstance(given, list) else [given]
    return [item if isinstance(item, Mapping) else {} for item in items]


def _apply_edit(old: Sequence[Task], items: Sequence[Mapping[str, Any]]) -> list[Task]:
    """The list as the user wrote it: what was open and is left out is not cancelled, but gone."""
    gone, todos = {todo["id"] for todo in open_todos(old)}, apply_items(old, items)
    cut = len(todos) - len(items)
    return [*(todo for todo in todos[:cut] if todo["id"] not in gone), *todos[cut:]]
