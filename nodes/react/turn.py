"""How a turn of react begins and ends."""

from collections.abc import Sequence
from typing import Any, Final, cast

from langchain_core.messages import AIMessage, AnyMessage

from ...hooks.contract import Verdict
from ...state.calls import UNCERTAIN, Evidence
from ...state.messages import ENDS, ROLE
from ...state.react import Observe, ReactState, ReactUpdate
from ...state.undone import describe_undone_calls, find_undone, format_call
from ...stream.turn_messages import make_message_id
from ...text.sentences import say
from ...turn.begin import answer_open_calls, carry_undone
from ...turn.end import REFUSALS, Facts, describe_results, get_refusal_reason, replace_rejected
from ...turn.scope import RunScope
from ..turns import TurnEnd


async def adopt_state(scope: RunScope, state: ReactState, *, observe: Observe) -> ReactUpdate:
    """Answer the calls that were cut off; a run's own `observe` wins over the graph's.

    Whoever handed the turn over may have made its first thought: the newest message.
    """
    messages, ended = await answer_open_calls(scope, state, state.calls)
    update = ReactUpdate(messages=messages, observe=scope.context.observe or observe)
    if (turn := scope.around.handed) and _is_thought(state.messages[-1], turn.turn_id):
        update |= ReactUpdate(phase="thought", iteration=1)
    return update | cast("ReactUpdate", carry_undone(state, ended))


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
    answer, undone = _own_answer(state), describe_undone_calls(state.evidence)
    refused = {str(r.get("reason")) for r in find_undone(state.evidence)} & REFUSALS
    return Facts(
        halt=state.halt,
        done=state.task_completed,
        refused=get_refusal_reason(refused),
        partly=state.task_completed and any("turn" in record for record in state.evidence),
        unmet=[*state.unmet, *(undone or _explain_vain_calls(state.evidence))],
        answer=answer,
        results=describe_results(state.evidence),
        evidence=state.evidence,
        message=str(state.messages[-1].id) if answer else make_message_id(state),
        kept="the messages are kept",
    )


def _own_answer(state: ReactState) -> str:
    """The last thought or action of this turn if it ended the turn; "" if none did."""
    newest = state.messages[-1] if state.messages else None
    if state.should_continue or not isinstance(newest, AIMessage):
        return ""
    of_this_turn = str(newest.id).startswith(f"{state.turn_id}.")
    return newest.text if of_this_turn and newest.additional_kwargs.get(ENDS) else ""


def _explain_vain_calls(evidence: Sequence[Evidence]) -> list[str]:
    """The last call, if no call of the turn gave anything: the answer has no evidence."""
    made = [record for record in evidence if "turn" not in record]
    known = any(r["status"] == "success" or r.get("reason") == UNCERTAIN for r in made)
    return [say("no_call_succeeded", call=format_call(r)) for r in made[-1:] if not known]


END: Final = TurnEnd("thought", facts_of, retry, lambda *_: {"phase": "idle"})
