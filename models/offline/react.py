"""The offline model as thought, action and observation: a step for each clause. Pure.

The thought sees no parameters. It ends the loop only where every clause is done; otherwise it asks
for a step, and the action takes the first that can be taken. Where none can, the action says so.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from ...state.attachments import blocks_in
from ...state.messages import ROLE
from .matching import Match, Tool, clauses
from .tasks import WORDS_ONLY, Call, Step, answer, failed, next_step, settled

_SHOWN: Final = 200


@dataclass(frozen=True)
class Talk:
    """The clauses of the newest request, and the calls made for them: (number, call)."""

    asked: list[str]
    calls: list[tuple[int, Call]]
    must_answer: bool = False
    attached: bool = False
    """The request holds more than words."""

    def about(self, number: int) -> tuple[list[str], list[Call]]:
        """What all calls gave, and the calls made for one clause."""
        results = [call.text for _, call in self.calls if not call.failed]
        return results, [call for place, call in self.calls if place == number]

    def in_order(self) -> list[int]:
        """The numbers of the clauses, beginning with the one worked on last."""
        last = self.calls[-1][0] if self.calls else 1
        return sorted(range(1, len(self.asked) + 1), key=lambda number: number < last)

    def statement(self, number: int) -> str:
        """What a thought or an action says of its step; later ones read the number."""
        return f"Step {number} of {len(self.asked)}: {self.asked[number - 1][:_SHOWN]}"

    def answer(self, ends: Mapping[int, Step]) -> str:
        """What is done and what is not; ids of calls are not in messages, so none is cited."""
        told = [(self.asked[number - 1], ends[number]) for number in sorted(ends)]
        parts = [(asked, end.text, ()) for asked, end in told if end.done]
        undone = [f'"{asked}": {end.text}' for asked, end in told if not end.done]
        return answer(parts, [*undone, *([WORDS_ONLY] if self.attached else [])])


def _read(messages: Sequence[BaseMessage]) -> Talk:
    """Read the shared messages.

    The request is the newest message of the user that the thread holds: it has an id. The loop
    signs its cues; only the last, which wants the answer now, has neither signature nor id.
    """
    human = [place for place, message in enumerate(messages) if message.type == "human"]
    said = [place for place in human if ROLE not in messages[place].additional_kwargs]
    kept = [place for place in said if messages[place].id] or said
    if not kept:
        return Talk([], [])
    calls = [(_number(m), call) for m in messages[kept[-1] :] for call in calls_of(messages, m)]
    must_answer = kept[-1] < said[-1] == len(messages) - 1
    newest = messages[kept[-1]]
    return Talk(clauses(newest.text), calls, must_answer, bool(blocks_in(newest)))


def _number(message: BaseMessage) -> int:
    """The number of the step that an action says it takes."""
    named = re.match(r"Step (\d+) of \d+: ", message.text)
    return int(named[1]) if named else 1


def calls_of(messages: Sequence[BaseMessage], *whose: BaseMessage) -> list[Call]:
    """The calls of some messages that have their results among all of them."""
    results = {m.tool_call_id: m for m in messages if isinstance(m, ToolMessage)}
    made = [call for m in whose if isinstance(m, AIMessage) for call in m.tool_calls]
    pairs = [(call, results[call["id"] or ""]) for call in made if call["id"] in results]
    return [Call(c["name"], c["args"], failed(r.status, r.text), r.text) for c, r in pairs]


def think(messages: Sequence[BaseMessage], tools: Sequence[Tool]) -> str:
    """The thought: the next open step, or the answer where all is done or none may be taken."""
    talk = _read(messages)
    ends = {n: settled(talk.asked[n - 1], tools, *talk.about(n)) for n in talk.in_order()}
    undone = [number for number, end in ends.items() if end is None or not end.done]
    more = bool(undone) and not talk.must_answer
    if more:
        text = talk.statement(next((n for n in undone if ends[n] is None), undone[0]))
    else:
        late = Step(text="It was not reached within the allowed iterations.")
        text = talk.answer({number: end or late for number, end in ends.items()})
    # A result that speaks of such a tag must not be read as one.
    told = re.sub(r"(?i)agent(?=[\s_-]?meta\b)", "agent.", text)
    return f"{told}\n\n<agent_meta>{json.dumps({'shouldContinue': more})}</agent_meta>"


def act(messages: Sequence[BaseMessage], tools: Sequence[Tool]) -> tuple[str, Match]:
    """The action: its text and its calls; without a call the text is the end."""
    text, match, _ = work(messages, tools)
    return text, match


def work(messages: Sequence[BaseMessage], tools: Sequence[Tool]) -> tuple[str, Match, list[str]]:
    """The next step as words and calls; without a call the answer, and what is not done."""
    talk = _read(messages)
    ends: dict[int, Step] = {}
    for number in talk.in_order():
        step = next_step(talk.asked[number - 1], tools, *talk.about(number))
        if step.match:
            return talk.statement(number), step.match, []
        ends[number] = step
    undone = [talk.asked[number - 1] for number, end in ends.items() if not end.done]
    return talk.answer(ends), Match(), [*undone, *([WORDS_ONLY] if talk.attached else [])]


def observe(messages: Sequence[BaseMessage]) -> str:
    """One sentence on what the last calls brought."""
    last = next((m for m in reversed(messages) if isinstance(m, AIMessage) and m.tool_calls), None)
    calls = calls_of(messages, last) if last else []
    told = [f"{c.tool}{' failed' if c.failed else ''}: {' '.join(c.text.split())}" for c in calls]
    return "; ".join(text[:_SHOWN] for text in told) or "There is no result."
