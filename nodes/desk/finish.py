"""Finish: ends a turn of the desk with its honest outcome."""

from functools import partial
from typing import Final, cast

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from ...calls.policy import NOT_INTERACTIVE
from ...hooks.contract import Verdict
from ...state.context import Context
from ...state.desk import DeskState, DeskUpdate, find_cited_ids
from ...state.messages import ENDS, make_signature
from ...turn.end import Facts, build_answer_id, describe_not_run, end_turn, replace_rejected
from ...turn.scope import make_scope
from .shared.desk import Desk

SOURCES: Final = "sources"
"""Key in an answer's `additional_kwargs`: id, title and url of each article it cites, in order."""


async def desk_finish(state: DeskState, runtime: Runtime[Context], *, desk: Desk) -> DeskUpdate:
    """End the turn, or go on where a hook rejects the answer."""
    scope = await make_scope(state, runtime, desk.parts)
    typed = desk.parts.bind_typed_result(scope, "support", state.request)
    update: DeskUpdate = await end_turn(
        scope, state, facts_of(state), partial(_try_again, state), typed
    )
    outcome = update.get("outcome")
    if outcome is not None and state.owner == "returning":
        update["owner"] = "bot"
    if outcome is not None and state.answer and outcome["answer"] == state.answer:
        update["messages"] = [*update["messages"], _build_answer(state)]
    return update


def _build_answer(state: DeskState) -> AIMessage:
    cited = [one for one in find_cited_ids(state.answer, state.sources) if one in state.sources]
    shown = [{"id": one, **{k: state.sources[one][k] for k in ("title", "url")}} for one in cited]
    about = {**make_signature("support"), ENDS: True, **({SOURCES: shown} if shown else {})}
    return AIMessage(state.answer, id=build_answer_id(state), additional_kwargs=about)


def _try_again(state: DeskState, verdict: Verdict) -> DeskUpdate:
    answered = {k: v for k, v in state.answered.items() if k != state.issue}
    anew = {
        "unmet": [],
        "answered": answered,
        **replace_rejected(state, verdict, _build_answer(state)),
    }
    return cast("DeskUpdate", anew)


def facts_of(state: DeskState) -> Facts:
    """The facts; a turn ends well with words that were checked.

    What the policy forbids is explained to the customer. Where nobody could be asked, the desk is
    not set up to do what it offers.
    """
    unasked = [record for record in state.evidence if record.get("reason") == NOT_INTERACTIVE]
    return Facts(
        halt=state.halt, done=state.task_completed, refused="NOT_INTERACTIVE" if unasked else None,
        unmet=[*state.unmet, *map(describe_not_run, unasked)], answer=state.answer,
        evidence=state.evidence, message=build_answer_id(state), kept="the messages are kept",
    )  # fmt: skip
