"""How a turn of react begins and ends."""

from collections.abc import Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage

from ...hooks.contract import Verdict
from ...state.calls import UNCERTAIN, Evidence
from ...state.messages import ENDS, ROLE
from ...state.react import Observe, ReactState, ReactUpdate
from ...stream.turn_messages import make_message_id
from ...text.sentences import say
from ...turn.begin import answer_open_calls
from ...turn.end import (
    Facts,
    describe_not_run,
    describe_results,
    format_call,
    get_refusal_reason,
    replace_rejected,
)
from ...turn.scope import RunScope
from ..turns import TurnEnd


async def adopt_state(scope: RunScope, state: ReactState, *, observe: Observe) -> ReactUpdate:
    """Answer the calls that were cut off; a run's own `observe` wins over the graph's.

    Whoever handed the turn over may have made its first thought: the newest message.
    """
    messages = await answer_open_calls(scope, state, state.calls)
    update = ReactUpdate(messages=messages, observe=scope.context.observe or observe)
    if (turn := scope.around.handed) and _is_thought(state.messages[-1], turn.turn_id):
        update |= ReactUpdate(phase="thought", iteration=1)
    return update


def _is_thought(message: AnyMessage, turn: str) -> bool:
    """Whether it is a thought of this turn that wants a step."""
    about = message.additional_kwargs
    own = about.get(ROLE) == "thought" and str(message.id).startswith(f"{turn}.")
    return own and not about.get(ENDS)


def retry(state: ReactState, verdict: Verdict) -> dict[str, Any]:
    """Go back to the thought, which is shown why its answer was rejected."""
    return {"unmet": [], **replace_rejected(state, verdict, state.messages[-1])}


def facts_of(state: ReactState) -> Facts:
    """The facts; a turn ends well with a thought or an action that left nothing undone."""
    answer, refused = _own_answer(state), _list_refused(state.evidence)
    return Facts(
        halt=state.halt,
        done=state.task_completed,
        refused=get_refusal_reason({str(record.get("reason")) for record in refused}),
        unmet=[
            *state.unmet,
            *(_explain_not_run(r) for r in refused or _find_vain_call(state.evidence)),
        ],
        answer=answer,
        results=describe_results(state.evidence),
        evidence=state.evidence,
        message=str(state.messages[-1].id) if answer else make_message_id(state),
        kept="the messages are kept",
    )


def _own_answer(state: ReactState) -> str:
    """The words with which a thought or an action of this turn ended it; "" where none did."""
    newest = state.messages[-1] if state.messages else None
    if state.should_continue or not isinstance(newest, AIMessage):
        return ""
    of_this_turn = str(newest.id).startswith(f"{state.turn_id}.")
    return newest.text if of_this_turn and newest.additional_kwargs.get(ENDS) else ""


def _find_vain_call(evidence: Sequence[Evidence]) -> Sequence[Evidence]:
    """The last call, where calls were made and none gave anything: the answer rests on nothing."""
    known = any(r["status"] == "success" or r.get("reason") == UNCERTAIN for r in evidence)
    return [] if known else evidence[-1:]


def _explain_not_run(record: Evidence) -> str:
    if record["status"] != "cancelled":
        return say("no_call_succeeded", call=format_call(record))
    return describe_not_run(record)


def _list_refused(evidence: Sequence[Evidence]) -> list[Evidence]:
    """The calls of the newest iteration with calls that were not run because somebody said no."""
    newest = _iteration(evidence[-1]) if evidence else ""
    return [r for r in evidence if r["status"] == "cancelled" and _iteration(r) == newest]


def _iteration(record: Evidence) -> str:
    return record["id"].rpartition(".")[0]


END: Final = TurnEnd("thought", facts_of, retry, lambda *_: {"phase": "idle"})
