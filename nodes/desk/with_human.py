"""with_human: the thread is a human's, who answers and gives it back; no model is asked."""

from typing import Any, Final, assert_never

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import interrupt

from ...run.client_access import resolve_identity
from ...state.desk import OPERATOR, DeskState, DeskUpdate
from ...state.hand_over import has_open_message
from ...state.messages import PACKAGE, make_signature
from ...state.questions import ANSWERED_BY, SHOWN, TextAnswer, make_question
from ...text.sentences import say, say_to
from ...turn.event_emitter import emit_answered

_HOLDER: Final = "holder"
"""Who has the thread, in the packet; in an answer, who is to have it, "" for nobody."""
_LONGEST: Final = 100


async def with_human(state: DeskState, config: RunnableConfig) -> DeskUpdate:
    """Wait for the human: words are for the customer, an approval gives the thread back.

    If a change waits for them, an approval runs exactly it and a rejection drops it. An answer that
    names a `holder` says whose the thread is from now on. One to another question, or of another
    than the holder, is asked about again.
    """
    name = str(state.packet.get("id", ""))
    answer = interrupt(_question(state, name), response_schema=TextAnswer)
    emit_answered(answer.type)
    if wrong := _find_problem(state, answer, _find_operator(answer, config)):
        return DeskUpdate(objections={name: wrong})
    if _HOLDER in (args := answer.args or {}):
        held = {**state.packet, _HOLDER: str(args[_HOLDER] or "").strip()[:_LONGEST]}
        return DeskUpdate(packet=held, objections={name: ""})
    match answer.type:
        case "respond" | "edit":
            return DeskUpdate(
                messages=_build_message(answer),
                promises=_keep_open_promises(state),
                objections={name: ""},
            )
        case "approve" | "reject":
            return _give_back(state, answer)
        case _:
            assert_never(answer.type)


def _question(state: DeskState, name: str) -> dict[str, Any]:
    """What the human is asked; the packet is made of the thread when somebody looks."""
    why = str(state.packet.get("why", ""))
    text = "\n\n".join(filter(None, [state.objections.get(name), why]))
    shown = {"id": name, "why": why, "since": state.packet.get("since", "")}
    asked = make_question("take_over", shown, text, answers="settle", tool_call_id=name)
    seen = say_to(state.language, "desk_handed_off")
    return {"type": "take_over", "id": name, ANSWERED_BY: "operator", SHOWN: seen, **asked}


def _find_operator(answer: TextAnswer, config: RunnableConfig) -> str:
    """Who answers: whom a server has authenticated, else who they say they are."""
    proven = resolve_identity(config.get("configurable", {}), served=True)
    return proven or str((answer.args or {}).get("operator") or "").strip()[:_LONGEST]


def _find_problem(state: DeskState, answer: TextAnswer, operator: str) -> str:
    """Why this is no answer to the hand-over; "" if it is one."""
    name, holder = str(state.packet.get("id", "")), state.packet.get(_HOLDER)
    if answer.tool_call_id not in ("", name):
        return say("desk_other_hand_over", given=answer.tool_call_id, now=name, said=answer.message)
    if holder and operator != holder:
        return say("desk_held", holder=holder, said=answer.message)
    silent = not (answer.message.strip() or _HOLDER in (answer.args or {}))
    if answer.type in ("respond", "edit") and silent:
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
        name, about = f"{state.packet.get('id')}.declined.returned", make_signature(PACKAGE)
        declined = say_to(state.language, "desk_declined")
        words = words or [AIMessage(declined, id=name, additional_kwargs=about)]
        update["proposal"] = None
    if has_open_message(state) and not words:
        return update | DeskUpdate(messages=[note])
    last = say_to(state.language, "desk_returned")
    return update | DeskUpdate(messages=words, answer=last, task_completed=True)
