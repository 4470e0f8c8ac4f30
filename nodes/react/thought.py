"""Thought: decides the next step, or writes the answer. It may call no tool."""

from dataclasses import dataclass
from typing import Final

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.runtime import Runtime

from ...models.ask import Answer, ask
from ...models.drafts import make_draft_listeners
from ...models.hidden_tags import AgentMeta, read_thought
from ...models.reading import Reading
from ...state.context import Context
from ...state.messages import ENDS, REPEATS
from ...state.outcome import Reason
from ...state.react import ReactState, ReactUpdate
from ...stream.turn_messages import make_message_id
from ...text.sentences import say
from ...turn.budget import get_limit_reason
from ...turn.repetition import LAST_STRIKE, find_repeated_words
from ...turn.scope import RunScope, make_scope
from ..conversation import sign_message
from ..parts import Parts
from .phases import MOST_ASKS, build_request, list_recent_words

NO_FLAG: Final = "The thought phase did not say whether to go on; the action phase decided."


async def thought(state: ReactState, runtime: Runtime[Context], *, parts: Parts) -> ReactUpdate:
    """Ask for the next step or the answer; where a limit is reached, for the answer alone."""
    scope = await make_scope(state, runtime, parts)
    halt, by_itself = _find_halt(scope, state)
    iteration = state.iteration if halt else state.iteration + 1
    scope.emit({"type": "phase", "role": "thought", "action": "thinking", "iteration": iteration})
    catalog = await parts.toolbox.catalog(scope.user)
    messages, tools = build_request(scope, "thought", state, catalog)
    if halt and not by_itself:
        messages.append(HumanMessage(say("answer_now")))
    name = make_message_id(state)
    reader = _Reader(must_answer=halt is not None, request=state.request)
    answer = await ask(
        scope, parts.models, "thought", messages, tools=tools, may_call=False, read=reader.read,
        spare_tools=catalog.spare_specs,
        listeners=make_draft_listeners(scope, name, "thought"),
        most_asks=1 if halt and not by_itself else MOST_ASKS,
    )  # fmt: skip
    if by_itself and reader.all_done and not answer.problems:
        halt = None
    update = _decide_next(answer, halt)
    if update.get("should_continue", True):
        update |= _check_repetition(state, answer.message.text, scope)
    more = answer.parsed is not None and answer.parsed.should_continue
    if answer.message.text and not (halt and more):  # a last thought asks for no further step
        ends = not update.get("should_continue", True)
        marks = {ENDS: ends, REPEATS: "strikes" in update}
        update["messages"] = [
            sign_message(answer.message, name, "thought", answer.reasoning, marks)
        ]
    if not (halt or answer.refused or answer.parsed):
        scope.notes.append(NO_FLAG)
    return update | ReactUpdate(
        phase="thought",
        iteration=iteration,
        spend=scope.add_seconds(answer.spend),
        warnings=[*catalog.warnings, *scope.notes],
    )


@dataclass
class _Reader:
    """Reads the answers of one thought, and keeps whether one of them wanted a further step."""

    must_answer: bool
    request: str
    all_done: bool = True

    def read(self, message: AIMessage) -> Reading[AgentMeta]:
        reading = read_thought(message, must_answer=self.must_answer, request=self.request)
        self.all_done &= reading.parsed is None or not reading.parsed.should_continue
        return reading


def _find_halt(scope: RunScope, state: ReactState) -> tuple[Reason | None, bool]:
    """Why no step may follow this turn, and whether the thought may still end by itself.

    A spent budget still grants one call: this one.
    """
    if spent := scope.budget.reached_limit:
        scope.budget.grant_last_turn()
        return get_limit_reason(spent), spent == "tool_calls"
    last = state.iteration >= scope.context.max_iterations
    return ("MAX_TURNS" if last else None), last


def _check_repetition(state: ReactState, text: str, scope: RunScope) -> ReactUpdate:
    """Warn a model that says the same again and again; the second time it ends the turn."""
    said = [*list_recent_words(state.messages), text]
    chant = find_repeated_words(said, scope.context.loop_repeats, scope.context.loop_phrases)
    if not chant:
        return ReactUpdate()
    strikes = state.strikes + 1
    scope.emit({"type": "loop", "task": state.path, "strike": strikes, "what": chant})
    if strikes < LAST_STRIKE:
        return ReactUpdate(strikes=strikes)
    why = say("loop_of_these_words", words=chant)
    return ReactUpdate(strikes=strikes, halt="LOOP_DETECTED", unmet=[why])


def _decide_next(answer: Answer[AgentMeta], halt: Reason | None) -> ReactUpdate:
    """Go on to the action, or end with the text; a flag that cannot be read asks for nothing."""
    if halt:
        more = answer.parsed is not None and answer.parsed.should_continue
        unmet = [say("thing_not_done", what=answer.message.text)] if more else []
        return ReactUpdate(halt=halt, should_continue=False, demanded=False, unmet=unmet)
    if answer.refused:
        halt, why = get_limit_reason(answer.refused), answer.problems[-1:]
        return ReactUpdate(halt=halt, should_continue=False, unmet=why)
    if answer.parsed is None:  # nothing was said, so that the action alone can end nothing well
        return ReactUpdate(demanded=not answer.message.text)
    if answer.problems and not answer.parsed.should_continue:
        told = say("ended_without_answer", why="; ".join(answer.problems))
        return ReactUpdate(demanded=False, should_continue=False, unmet=[told])
    go_on = answer.parsed.should_continue
    return ReactUpdate(demanded=go_on, should_continue=go_on, task_completed=not go_on)
