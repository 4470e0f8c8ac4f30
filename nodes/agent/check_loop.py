"""check_loop: an agent that goes round in circles is told so once; the second time it ends."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.runtime import Runtime

from ...models.ask import ask
from ...state.agent import MODEL_TURN, AgentState, AgentUpdate, find_objective
from ...state.context import Context
from ...state.contracts import LoopVerdict
from ...state.errors import ModelCallFailed, ModelUnavailable
from ...state.outcome import Spend, add_spend
from ...text.canonical import shorten_text
from ...text.sentences import say
from ...turn.repetition import LAST_STRIKE
from ...turn.scope import RunScope
from .shared.agent import Agent
from .shared.loop_watch import Sign, find_sign, record_look
from .shared.requests import append_to_newest

_ROLE: Final = "loop_judge"
_SEEN: Final = 20
_SHOWN: Final = 500
_MOST_ASKS: Final = 2


async def check_loop(state: AgentState, runtime: Runtime[Context], *, agent: Agent) -> AgentUpdate:
    """Take note of what goes round in circles; a model says whether it does, but of plain words.

    Where none can be asked, turns that brought nothing new count, and what was only due does not.
    """
    scope, sign = await agent.scope(state, runtime), find_sign(state)
    spend, verdict, what = Spend(), None, ""
    if sign is not None and sign.kind == "words":
        what = say("loop_of_these_words", words=sign.words)
    elif sign is not None:
        verdict, spend = await _ask_judge(scope, state, agent)
        what = _describe_loop(state, sign, verdict)
    sure = None if verdict is None else verdict.confidence
    update = AgentUpdate(
        watch=record_look(state, sure), spend=scope.add_seconds(spend), warnings=scope.notes
    )
    return update | (_strike(scope, state, what) if what else AgentUpdate())


def _describe_loop(state: AgentState, sign: Sign, verdict: LoopVerdict | None) -> str:
    """What goes round in circles, in words; "" where nothing does."""
    if verdict is not None:
        sure = verdict.confidence >= state.watch["sure"]
        return say("loop_judged", what=verdict.analysis.strip().rstrip(".")) if sure else ""
    return say("loop_of_idle_turns", turns=sign.turns) if sign.kind == "idle" else ""


def _strike(scope: RunScope, state: AgentState, what: str) -> AgentUpdate:
    """Warn the agent, or end its work."""
    strikes = state.strikes + 1
    told = say("seen_in_turn", what=what, turn=state.turn_name)
    scope.emit({"type": "loop", "task": state.path, "strike": strikes, "what": told})
    if strikes >= LAST_STRIKE:
        return AgentUpdate(strikes=strikes, halt="LOOP_DETECTED", unmet=[*state.unmet, told])
    return AgentUpdate(
        strikes=strikes, messages=append_to_newest(state, say("loop_nudge", what=told))
    )


async def _ask_judge(
    scope: RunScope, state: AgentState, agent: Agent
) -> tuple[LoopVerdict | None, Spend]:
    """What a model says, and where it is sure also a stronger one; None where none can be asked."""
    told = {"role": _ROLE, "action": "checking", "round": state.round}
    scope.emit({"type": "phase", **told})
    data = {
        "request": find_objective(state),
        "conversation": [*_iter_history(state.messages[-_SEEN:])],
    }
    messages = scope.build_opening(_ROLE, data)
    verdict, spend = None, Spend()
    for bump in (0, 1):
        try:
            answer = await ask(
                scope, agent.parts.models, _ROLE, messages, contract=LoopVerdict,
                most_asks=_MOST_ASKS, bump=bump,
            )  # fmt: skip
        except (ModelCallFailed, ModelUnavailable):
            break
        spend = add_spend(spend, answer.spend)
        verdict = answer.parsed or verdict
        if answer.parsed is None or answer.parsed.confidence < state.watch["sure"]:
            break
    return verdict, spend


def _iter_history(messages: Sequence[AnyMessage]) -> Iterator[dict[str, Any]]:
    for message in messages:
        text = shorten_text(message.text, _SHOWN)
        if isinstance(message, AIMessage):
            calls = [
                f"{call['name']}({shorten_text(str(call['args']), _SHOWN)})"
                for call in message.tool_calls
            ]
            turn = message.additional_kwargs.get(MODEL_TURN, "")
            yield {"turn": turn, "says": text, "calls": calls}
        elif message.type == "tool":
            yield {"tool": message.name, "result": text}
        else:
            yield {"user": text}
