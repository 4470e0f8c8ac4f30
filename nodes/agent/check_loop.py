"""check_loop: warns an agent that goes round in circles; the second time its work ends.

`turn/repetition` sees cycles of equal calls. This sees repeated words, and turns that bring nothing
new although the arguments change.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from langgraph.runtime import Runtime

from ...models.ask import ask
from ...state.agent import MODEL_TURN, AgentState, AgentUpdate, find_objective
from ...state.calls import Evidence
from ...state.context import Context
from ...state.contracts import LoopVerdict
from ...state.errors import ModelCallFailed, ModelUnavailable
from ...state.outcome import Spend, add_spend
from ...text.sentences import say
from ...turn.repetition import LAST_STRIKE, find_repeated_words
from ...turn.scope import RunScope
from .shared.agent import Agent
from .shared.requests import append_to_newest, build_question

SOONEST: Final = 5
LATEST: Final = 15
"""Turns until the next look of a model: the surer it was, the sooner."""

_WINDOW: Final = 50
_TEXT_WINDOW: Final = 5_000
_SHORT: Final = 500
_TIMES: Final = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b|\b1[5-9]\d{8}(?:\d{3}|\.\d+)?\b"
    r"|\b\d+(?:[.,]\d+)? ?(?:[µm]?s|sec|seconds?|milliseconds?)\b"
)


@dataclass(frozen=True)
class Sign:
    """Why a loop is looked at: repeated `words`, `turns` that were idle, or a look is due."""

    kind: Literal["words", "idle", "due"]
    words: str = ""
    turns: int = 0


def start_watch(context: Context) -> dict[str, Any]:
    """What `AgentState.watch` is at the first turn."""
    return {
        "due": context.loop_check_after,
        "repeats": context.loop_repeats,
        "phrases": context.loop_phrases,
        "sure": context.loop_confidence,
        "looked": 0,
    }


def record_look(state: AgentState, confidence: float | None) -> dict[str, Any]:
    """The next state of the check; None if no model said how sure it is."""
    wait = (SOONEST + LATEST) / 2 if confidence is None else LATEST - 10 * confidence
    due = max(state.watch["due"], state.round + round(wait))
    return {**state.watch, "looked": state.round, "due": due}


def find_sign(state: AgentState) -> Sign | None:
    """What there is to look at; None where there is nothing."""
    watch = state.watch
    if not watch or state.round <= watch["looked"]:
        return None
    most = 2 * watch["repeats"]
    newest = _find_progress(state, max(watch["looked"], state.round - most))
    if words := _find_repeated_words(state, newest):
        return Sign("words", words=words)
    if state.round - newest >= most:
        return Sign("idle", turns=state.round - newest)
    return Sign("due") if state.round >= watch["due"] else None


def _find_progress(state: AgentState, since: int) -> int:
    """The newest turn after this one with a call that brought something new, else this one."""
    evidence = state.evidence
    for place in range(len(evidence) - 1, -1, -1):
        if evidence[place]["task"] != state.path:  # of a sub-agent
            continue
        round_ = int(evidence[place]["id"].rsplit(".", 2)[1])
        if round_ <= since:
            break
        if _is_new(evidence, place):
            return round_
    return since


def _is_new(evidence: Sequence[Evidence], place: int) -> bool:
    """Whether a call brought something new; a poll that repeats the call before it does."""
    record = evidence[place]
    if record["status"] != "success" or record.get("same_as") or record.get("reused_from"):
        return False
    if not record.get("read_only"):
        return True
    before = [r for r in evidence[max(place - _WINDOW, 0) : place] if r["tool"] == record["tool"]]
    result = _strip_times(record["result"])
    if all(_strip_times(one["result"]) != result for one in before):
        return True
    return bool(before[-1]["arguments"] == record["arguments"])


def _strip_times(result: str) -> str:
    """A short result without clocks and durations, which differ though nothing is new."""
    return _TIMES.sub("", result) if len(result) <= _SHORT else result


def _find_repeated_words(state: AgentState, progress: int) -> str:
    """The words that come again in the newest turn, or in all turns since the last progress."""
    said: list[str] = []
    for message in reversed(state.messages):
        turn = message.additional_kwargs.get(MODEL_TURN)
        if message.type == "human" or sum(map(len, said)) > _TEXT_WINDOW:
            break
        if message.type != "ai" or not turn:
            continue
        round_ = int(str(turn).rpartition("#")[2])
        if round_ <= state.watch["looked"] or (said and round_ <= progress):
            break
        said.insert(0, message.text.strip())
    return find_repeated_words(said, state.watch["repeats"], state.watch["phrases"])


_ROLE: Final = "loop_judge"
_MOST_ASKS: Final = 2


async def check_loop(state: AgentState, runtime: Runtime[Context], *, agent: Agent) -> AgentUpdate:
    """Look for a loop; a model judges all signs but repeated words.

    Without a judge model only turns without new results are strikes.
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
    """A model's verdict, checked by a stronger one if it is sure; None without a model."""
    told = {"role": _ROLE, "action": "checking", "round": state.round}
    scope.emit({"type": "phase", **told})
    data = {"request": find_objective(state)}
    messages, tools = await build_question(scope, state, agent, _ROLE, data)
    verdict, spend = None, Spend()
    for bump in (0, 1):
        try:
            answer = await ask(
                agent.bound_requests(state, scope), agent.parts.models, _ROLE, messages,
                tools=tools, may_call=False, contract=LoopVerdict, most_asks=_MOST_ASKS, bump=bump,
            )  # fmt: skip
        except (ModelCallFailed, ModelUnavailable):
            break
        spend = add_spend(spend, answer.spend)
        verdict = answer.parsed or verdict
        if answer.parsed is None or answer.parsed.confidence < state.watch["sure"]:
            break
    return verdict, spend
