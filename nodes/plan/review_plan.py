"""The planner's questions to the user: ask_user, and the review of a plan before it runs."""

from typing import assert_never

from langgraph.runtime import Runtime
from langgraph.types import Overwrite, interrupt

from ...models.reading import read_object
from ...state.calls import collect_rounds
from ...state.context import Context, context_of
from ...state.contracts import PlannerResponse
from ...state.loop import PlanState, PlanUpdate
from ...state.plan import adopt_plan, describe_plan, find_problems, make_plan_question, name_todos
from ...state.questions import Answer, Words, describe_review, make_question
from ...stream.turn_messages import make_phase_message
from ...text.sentences import say
from ...turn.event_emitter import emit_answered
from ...turn.scope import set_language
from ..parts import Parts


async def ask_user(state: PlanState) -> PlanUpdate:
    """Wait for an answer; a refusal to answer ends the run as blocked."""
    asked = " ".join(state.missing)
    answer = interrupt(
        make_question("ask_user", {"questions": state.missing}, asked, answers="respond"),
        response_schema=Words,
    )
    emit_answered(answer.type)
    match answer.type:
        case "reject":
            return PlanUpdate(planning="blocked", halt="MISSING_INFORMATION", should_continue=False)
        case "approve" | "edit" | "respond":
            given = {"question": asked, "answer": answer.words}
            return PlanUpdate(planning="again", missing=[], answers=[*state.answers, given])
        case _:
            assert_never(answer.type)


async def review_plan(state: PlanState, runtime: Runtime[Context], *, parts: Parts) -> PlanUpdate:
    """Approve runs it, an edit replaces it; words or an unsound edit mean another plan."""
    answer = interrupt(make_plan_question(state.todos), response_schema=Answer)
    set_language(runtime, parts)
    emit_answered(answer.type)
    match answer.type:
        case "approve":
            update = PlanUpdate(planning="ready")
        case "reject" | "respond":
            update = PlanUpdate(
                planning="again", improvements=[*state.improvements, answer.plan_feedback]
            )
        case "edit":
            update = _take_edit(answer, state, context_of(runtime).max_tasks)
        case _:
            assert_never(answer.type)
    plan = update.get("todos")
    text = describe_review(answer, describe_plan(plan.value) if isinstance(plan, Overwrite) else "")
    return update | PlanUpdate(messages=make_phase_message(state, "review_plan", text))


def _take_edit(answer: Answer, state: PlanState, most: int) -> PlanUpdate:
    plan, problems = read_object(
        answer.read_edited_plan("todos"),
        PlannerResponse,
        lambda plan: find_problems(name_todos(plan.todos), most),
    )
    if plan is None:
        wish = say("unsound_edit", plan=answer.args, problems="; ".join(problems))
        return PlanUpdate(planning="again", improvements=[*state.improvements, wish])
    tasks = adopt_plan(name_todos(plan.todos), state.todos, collect_rounds(state.evidence))
    return PlanUpdate(planning="ready", todos=Overwrite(tasks))
