"""act: one model turn of the desk; it calls tools, or writes what the customer is told."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.runtime import Runtime

from ...calls.call_records import PendingCall
from ...calls.gate import open_calls, set_call_ids
from ...models.ask import Answer, ask
from ...models.drafts import make_draft_listeners
from ...models.hidden_tags import read_words
from ...policy.values import list_leaves
from ...prompts.prompt import render_section
from ...state.agent import DELEGATE
from ...state.calls import find_stop_in_calls
from ...state.context import Context
from ...state.desk import DeskState, DeskUpdate, Proposal
from ...state.errors import ModelCallFailed, ModelUnavailable
from ...stream.turn_messages import make_message_id
from ...text.sentences import say
from ...turn.budget import get_limit_reason
from ...turn.end import build_answer_id
from ...turn.scope import RunScope, make_scope
from ..conversation import sign_message, system_message
from .call_results import name_records, read_call_results
from .consult import select_tools
from .desk import Desk, intercept_hand_over, mark_colleagues
from .proposals import build_agreed_calls, hold_for_consent

Phase = Callable[..., Awaitable[DeskUpdate]]


async def run_or_hand_off(
    state: DeskState, runtime: Runtime[Context], *, desk: Desk, phase: Phase
) -> DeskUpdate:
    """The phase, or an end of the turn that is handed over."""
    try:
        return await phase(state, runtime, desk=desk)
    except (ModelCallFailed, ModelUnavailable) as error:
        return DeskUpdate(halt="ERROR", unmet=[str(error)], warnings=[str(error)], calls=[])


_MOST_ASKS = 2
_OF_CUSTOMER: Final = ("customer", "identity", "slots", "proposal", "tickets")


async def act(state: DeskState, runtime: Runtime[Context], *, desk: Desk) -> DeskUpdate:
    """Take the next step: the change that was agreed to, calls of the model, or its words."""
    scope = await make_scope(state, runtime, desk.parts)
    round_ = state.round + 1
    scope.emit({"type": "phase", "role": "support", "action": "working", "round": round_})
    if state.strategy == "carry_out" and state.proposal is not None:
        update = DeskUpdate(proposal=None, strategy="answer", round=round_)
        scope, agreed = _know_values(scope, state.proposal), build_agreed_calls(state.proposal)
        return update | await _plan_calls(scope, state, desk, agreed, round_)
    news = read_call_results(state, desk.company)
    if round_ > scope.context.max_turns:
        return news | DeskUpdate(halt="MAX_TURNS", unmet=[say("rounds_used_up")])
    catalog = await desk.parts.toolbox.catalog(scope.user)
    known: dict[str, Any] = {key: news[key] for key in _OF_CUSTOMER if key in news}
    state = replace(state, **known)
    request = _build_request(scope, state, desk, catalog.deferred_tools.render_listing())
    tools = select_tools(catalog.specs(state.found), state, news.get("sources", state.sources))
    answer: Answer[Any] = await ask(
        scope, desk.parts.models, "support", request, tools=tools, spare_tools=catalog.spare_specs,
        read=partial(read_words, with_tools=True), most_asks=_MOST_ASKS,
        listeners=make_draft_listeners(scope, build_answer_id(state), "support")
        if scope.context.drafts else [],
    )  # fmt: skip
    update = news | DeskUpdate(
        round=round_,
        spend=scope.add_seconds(answer.spend),
        warnings=[*catalog.warnings, *scope.notes],
    )
    if answer.refused:
        return update | DeskUpdate(
            halt=get_limit_reason(answer.refused), unmet=answer.problems[-1:]
        )
    message = answer.message
    if not (message.tool_calls or message.invalid_tool_calls):
        return update | DeskUpdate(answer=message.text, calls=[])
    called = await _plan_calls(scope, state, desk, message, round_, complete=answer.complete)
    return update | called


def _know_values(scope: RunScope, put: Proposal) -> RunScope:
    """The scope, to which nothing of a proposal is foreign: that was judged when it was put.

    What was read since changes nothing about it.
    """
    values = [str(value) for one in put["calls"] for _, value in list_leaves(one["args"])]
    chain = replace(scope.around.chain, more=values)
    return replace(scope, around=replace(scope.around, chain=chain))


async def _plan_calls(
    scope: RunScope, state: DeskState, desk: Desk, message: AIMessage, round_: int,
    *, complete: bool = True,
) -> DeskUpdate:  # fmt: skip
    """Plan the calls of a message; a change that nobody has agreed to is put to the customer."""
    message = _set_ticket_issue(state, desk, message)
    calls = await open_calls(scope, desk.parts.toolbox, message, round_=round_, complete=complete)
    if stopped := find_stop_in_calls(calls):
        return DeskUpdate(halt="DENIED", unmet=[stopped])
    calls, handed = intercept_hand_over(calls, desk.company)
    calls, proposed = hold_for_consent(state, calls, desk)
    given = [call for call in calls if call["name"] == DELEGATE and call["action"] == "allow"]
    own = [call for call in calls if call not in given]
    update = DeskUpdate(
        calls=own, delegations=given, messages=[_sign_message(state, message, calls)]
    )
    return update | proposed | handed


def _sign_message(state: DeskState, message: AIMessage, calls: list[PendingCall]) -> AIMessage:
    """The message without its words: nobody checks what stands beside calls, so nobody sees it."""
    content: Any = ""
    if not isinstance(message.content, str):
        content = [b for b in message.content if isinstance(b, dict) and b.get("type") != "text"]
    settled = set_call_ids(message, calls).model_copy(update={"content": content})
    return sign_message(settled, make_message_id(state), "support")


def _set_ticket_issue(state: DeskState, desk: Desk, message: AIMessage) -> AIMessage:
    """The message, its tickets made for the issue as the desk knows it: there is one for each."""
    calls = [
        {**call, "args": {**call["args"], "issue": state.issue}}
        if call["name"] == desk.company.tickets_by and "issue" in call["args"] and state.issue
        else call
        for call in message.tool_calls
    ]
    return message.model_copy(update={"tool_calls": calls})


def choose_guidance(state: DeskState) -> str:
    """How to deal with this turn: by its intent, the mood, and what did not help before."""
    upset = bool(state.mood) and state.mood[-1]["mood"] in ("upset", "angry")
    told = {
        f"desk_guide_{state.intent}": True,
        "desk_guide_upset": upset,
        "desk_guide_again": state.again > 0,
        "desk_guide_changed": state.consent == "changed",
        "desk_guide_unclear": state.consent == "unclear",
        "desk_guide_ticket": state.issue in state.tickets,
    }
    ticket = state.tickets.get(state.issue, "")
    return " ".join(say(name, ticket=ticket) for name, holds in told.items() if holds)


def _build_request(scope: RunScope, state: DeskState, desk: Desk, listed: str) -> list[BaseMessage]:
    """The conversation, and behind it what is known by now: so requests begin like the last."""
    prompt = scope.parts.prompts.get_prompt("support", **scope.build_contexts())
    system = system_message(scope, prompt, listed, state.hook_context)
    situation = {
        "intent": state.intent,
        "guidance": choose_guidance(state),
        "mood": state.mood[-1]["mood"] if state.mood else "calm",
        "language": state.language,
        "known": state.slots,
        "identity": state.identity,
        "articles": {one: source["title"] for one, source in state.sources.items()},
        "mend": state.improvements,
    }
    if state.owner == "returning":
        situation["handed_back"] = say("desk_handed_back")
    shown = HumanMessage(render_section("situation", situation))
    told = mark_colleagues([*state.messages_with_customer])
    return [system, *name_records(told, desk.company), shown]
