"""Review plan: shows a plan before it runs, as one question, and nothing before it."""

from typing import assert_never

from langgraph.runtime import Runtime
from langgraph.types import Overwrite, interrupt

from ...models.reading import read_object
from ...state.calls import rounds_named
from ...state.context import Context, context_of
from ...state.contracts import PlannerResponse
from ...state.loop import PlanState, PlanUpdate
from ...state.plan import adopt_plan, find_problems, name_todos, plan_in_words, plan_question
from ...state.questions import Answer, reviewed
from ...stream.shown import phase_ended
from ...text.told import say
from ...turn.scope import speak
from ...turn.telling import answered
from ..parts import Parts


async def review_plan(state: PlanState, runtime: Runtime[Context], *, parts: Parts) -> PlanUpdate:
    """Approve runs it, an edit replaces it, words send it back to the planner.

    So does an edit that cannot run: the planner mends it by the user's words.
    """
    answer = interrupt(plan_question(state.todos), response_schema=Answer)
    speak(runtime, parts)
    answered(answer.type)
    match answer.type:
        case "approve":
            update = PlanUpdate(planning="ready")
        case "reject" | "respond":
            update = PlanUpdate(planning="again", improvements=[*state.improvements, answer.wish])
        case "edit":
            update = _edited(answer, state, context_of(runtime).max_tasks)
        case _:
            assert_never(answer.type)
    plan = update.get("todos")
    text = reviewed(answer, plan_in_words(plan.value) if isinstance(plan, Overwrite) else "")
    return update | PlanUpdate(messages=phase_ended(state, "review_plan", text))


def _edited(answer: Answer, state: PlanState, most: int) -> PlanUpdate:
    plan, problems = read_object(
        answer.edited("todos"),
        PlannerResponse,
        lambda plan: find_problems(name_todos(plan.todos), most),
    )
    if plan is None:
        wish = say("unsound_edit", plan=answer.args, problems="; ".join(problems))
        return PlanUpdate(planning="again", improvements=[*state.improvements, wish])
    tasks = adopt_plan(name_todos(plan.todos), state.todos, rounds_named(state.evidence))
    return PlanUpdate(planning="ready", todos=Overwrite(tasks))
