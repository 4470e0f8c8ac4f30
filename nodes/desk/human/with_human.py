"""with_human: the thread is a human's, who answers and gives it back; no model is asked."""

from typing import Any, assert_never

from langchain_core.messages import AIMessage
from langgraph.types import interrupt

from ....state.desk import OPERATOR, DeskState, DeskUpdate
from ....state.messages import PACKAGE, make_signature
from ....state.questions import ANSWERED_BY, TextAnswer, make_question
from ....text.sentences import say, say_to
from ....turn.event_emitter import emit_answered
from ..shared.speakers import has_open_message


async def with_human(state: DeskState) -> DeskUpdate:
    """Wait for the human: words are for the customer, an approval gives the thread back.

    Where a change waits for their decision, an approval runs exactly it and a rejection drops it.
    A message of the customer in between is kept for them. What is no answer to this hand-over is
    asked about again, with what is wrong.
    """
    name = str(state.packet.get("id", ""))
    answer = interrupt(_question(state, name), response_schema=TextAnswer)
    emit_answered(answer.type)
    if wrong := _find_problem(name, answer):
        return DeskUpdate(objections={name: wrong})
    match answer.type:
        case "respond" | "edit":
            return DeskUpdate(messages=_build_message(answer), promises=_keep_open_promises(state))
        case "approve" | "reject":
            return _give_back(state, answer)
        case _:
            assert_never(answer.type)


def _question(state: DeskState, name: str) -> dict[str, Any]:
    shown = {key: value for key, value in state.packet.items() if key not in ("turn", "request")}
    text = "\n\n".join(filter(None, [state.objections.get(name), str(shown.get("why", ""))]))
    asked = make_question("take_over", shown, text, answers="settle", tool_call_id=name)
    return {"type": "take_over", "id": name, ANSWERED_BY: "operator", **asked}


def _find_problem(name: str, answer: TextAnswer) -> str:
    """Why an answer is none to this hand-over; "" where it is one."""
    if answer.tool_call_id not in ("", name):
        return say("desk_other_hand_over", given=answer.tool_call_id, now=name, said=answer.message)
    if answer.type in ("respond", "edit") and not answer.message.strip():
        return say("desk_says_nothing")
    return ""


def _keep_open_promises(state: DeskState) -> list[str]:
    """What is still promised once a colleague has answered."""
    return [one for one in state.promises if one != say("desk_colleague_promised")]


def _build_message(answer: TextAnswer) -> list[AIMessage]:
    words = answer.message.strip()
    return [AIMessage(words, additional_kwargs=make_signature(OPERATOR))] if words else []


def _give_back(state: DeskState, answer: TextAnswer) -> DeskUpdate:
    """The thread as the desk goes on with it: with what was agreed to, or what is still open."""
    put, words = state.proposal, _build_message(answer)
    decides = put is not None and bool(put.get("why"))
    update = DeskUpdate(
        owner="returning", packet={}, strategy="", why="", answer="", improvements=[], calls=[],
        clarifications=0, again=0, asked="", task_completed=False,
        promises=_keep_open_promises(state), objections={},
    )  # fmt: skip
    note = AIMessage(
        say_to(state.language, "desk_returned_open"),
        id=f"{state.packet.get('id')}.returned", additional_kwargs=make_signature(PACKAGE),
    )  # fmt: skip
    if decides and put is not None:
        if answer.type == "approve":
            approved: Any = {**put, "approved": True}
            return update | DeskUpdate(
                proposal=approved, strategy="carry_out", messages=[*words, note]
            )
        words = words or [_build_decline(state)]
        update["proposal"] = None
    if has_open_message(state) and not words:
        return update | DeskUpdate(messages=[note])
    last = say_to(state.language, "desk_returned")
    return update | DeskUpdate(messages=words, answer=last, task_completed=True)


def _build_decline(state: DeskState) -> AIMessage:
    said = say_to(state.language, "desk_declined")
    name = f"{state.packet.get('id')}.declined.returned"
    return AIMessage(said, id=name, additional_kwargs=make_signature(PACKAGE))
