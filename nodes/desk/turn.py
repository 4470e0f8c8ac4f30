"""How a turn of the desk begins and ends."""

from typing import Any, Final

from langchain_core.messages import AIMessage

from ...calls.policy import NOT_INTERACTIVE
from ...hooks.contract import Verdict
from ...policy.desk.reply import find_cited_ids
from ...state.desk import DeskState, DeskUpdate
from ...state.messages import ENDS, make_signature
from ...state.undone import describe_not_run
from ...text.sentences import say_to
from ...turn.begin import answer_open_calls
from ...turn.end import Facts, build_answer_id, replace_rejected
from ...turn.scope import RunScope
from ..turns import TurnEnd


async def adopt_state(scope: RunScope, state: DeskState) -> DeskUpdate:
    """Answer the calls that were cut off; what is known of the customer stays."""
    calls = [*state.calls, *state.delegations]
    messages, _ = await answer_open_calls(scope, state, calls)
    return DeskUpdate(messages=messages)


SOURCES: Final = "sources"
"""Key in an answer's `additional_kwargs`: id, title and url of each article it cites, in order."""


def add_answer(state: DeskState, _: Facts, update: dict[str, Any]) -> dict[str, Any]:
    """What the customer is told; a thread that a human gave back is the desk's again."""
    outcome, added = update.get("outcome"), dict[str, Any]()
    if outcome is not None and state.owner == "returning":
        added["owner"] = "bot"
    if outcome is not None and state.answer and outcome["answer"] == state.answer:
        added["messages"] = [*update["messages"], _build_answer(state)]
    elif outcome is not None:
        added["messages"] = [_reword_end(state, message) for message in update["messages"]]
    return added


def _reword_end(state: DeskState, message: Any) -> Any:
    """The last words of a turn that came to nothing: why is in the outcome, for the operator."""
    if message.type != "ai" or message.id != build_answer_id(state):
        return message
    return message.model_copy(update={"content": say_to(state.language, "desk_stops_here")})


def _build_answer(state: DeskState) -> AIMessage:
    cited = [one for one in find_cited_ids(state.answer, state.sources) if one in state.sources]
    shown = [{"id": one, **{k: state.sources[one][k] for k in ("title", "url")}} for one in cited]
    about = {**make_signature("support"), ENDS: True, **({SOURCES: shown} if shown else {})}
    return AIMessage(state.answer, id=build_answer_id(state), additional_kwargs=about)


def retry(state: DeskState, verdict: Verdict) -> dict[str, Any]:
    """Answer again: the rejected answer of this issue is forgotten."""
    answered = {k: v for k, v in state.answered.items() if k != state.issue}
    rejected = replace_rejected(state, verdict, _build_answer(state))
    return {"unmet": [], "answered": answered, **rejected}


def facts_of(state: DeskState) -> Facts:
    """The facts; a turn ends well with checked words. If nobody could be asked it is blocked."""
    unasked = [record for record in state.evidence if record.get("reason") == NOT_INTERACTIVE]
    return Facts(
        halt=state.halt, done=state.task_completed, refused="NOT_INTERACTIVE" if unasked else None,
        unmet=[*state.unmet, *map(describe_not_run, unasked)], answer=state.answer,
        evidence=state.evidence, message=build_answer_id(state), kept="the messages are kept",
    )  # fmt: skip


END: Final = TurnEnd("support", facts_of, retry, add_answer)
