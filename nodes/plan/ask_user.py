"""Ask user: puts what a planner must be told as one question, and nothing before it."""

from typing import assert_never

from langgraph.types import interrupt

from ...state.loop import PlanState, PlanUpdate
from ...state.questions import Words, make_question
from ...turn.event_emitter import emit_answered


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
