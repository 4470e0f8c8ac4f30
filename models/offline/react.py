"""The offline model as thought, action and observation: a step for each clause. Pure.

The thought sees no parameters. It ends the loop only where every clause is done; otherwise it asks
for a step, and the action takes the first that can be taken. Where none can, the action says so.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from ...state.attachments import blocks_in
from ...state.messages import ROLE
from .matching import Match, Tool, clauses
from .tasks import Call, answer, failed, next_step

_SHOWN: Final = 200
_LATE: Final = "It was not reached within the allowed iterations."


@dataclass(frozen=True)
class Talk:
    """The newest request, its clauses, and the calls made for them: (number, call)."""

    request: str
    asked: list[str]
    calls: list[tuple[int, Call]]
    must_answer: bool = False
    attached: bool = False  # it holds more than words

    def statement(self, number: int) -> str:
        """What a thought or an action says of its step; later ones read the number."""
        return f"Step {number} of {len(self.asked)}: {self.asked[number - 1][:_SHOWN]}"


def read_talk(messages: Sequence[BaseMessage]) -> Talk:
    """Read the shared messages.

    The request is the newest message of the user that the thread holds: it has an id. The loop
    signs its cues; only the last, which wants the answer now, has neither signature nor id.
    """
    human = [place for place, message in enumerate(messages) if message.type == "human"]
    said = [place for place in human if ROLE not in messages[place].additional_kwargs]
    kept = [place for place in said if messages[place].id] or said
    if not kept:
        return Talk("", [], [])
    newest, since = messages[kept[-1]], messages[kept[-1] :]
    named = [(re.match(r"Step (\d+) of \d+: ", message.text), message) for message in since]
    calls = [(int(n[1]) if n else 1, call) for n, m in named for call in calls_of(messages, m)]
    must_answer = kept[-1] < said[-1] == len(messages) - 1
    return Talk(newest.text, clauses(newest.text), calls, must_answer, bool(blocks_in(newest)))


def calls_of(messages: Sequence[BaseMessage], *whose: BaseMessage) -> list[Call]:
    """The calls of some messages that have their results among all of them."""
    results = {m.tool_call_id: m for m in messages if isinstance(m, ToolMessage)}
    made = [call for m in whose if isinstance(m, AIMessage) for call in m.tool_calls]
    pairs = [(call, results[call["id"] or ""]) for call in made if call["id"] in results]
    return [Call(c["name"], c["args"], failed(r.status, r.text), r.text) for c, r in pairs]


def think(messages: Sequence[BaseMessage], tools: Sequence[Tool]) -> str:
    """The thought: the next open step, or the answer where all is done or none may be taken."""
    talk = read_talk(messages)
    text, match, undone = work(messages, tools, last=talk.must_answer)
    more = bool(match.calls or undone) and not talk.must_answer
    if more and undone:
        text = talk.statement(1 + talk.asked.index(undone[0]))
    # A result that speaks of such a tag must not be read as one.
    told = re.sub(r"(?i)agent(?=[\s_-]?meta\b)", "agent.", text)
    return f"{told}\n\n<agent_meta>{json.dumps({'shouldContinue': more})}</agent_meta>"


def act(messages: Sequence[BaseMessage], tools: Sequence[Tool]) -> tuple[str, Match]:
    """The action: its text and its calls; without a call the text is the end."""
    return work(messages, tools)[:2]


def work(
    messages: Sequence[BaseMessage], tools: Sequence[Tool], *, last: bool = False
) -> tuple[str, Match, list[str]]:
    """The next step as words and calls; without one, or at last, the answer and what is undone."""
    talk = read_talk(messages)
    results = [call.text for _, call in talk.calls if not call.failed]
    own = [[call for n, call in talk.calls if n == at + 1] for at in range(len(talk.asked))]
    ends = [next_step(talk.asked[at], tools, results, made) for at, made in enumerate(own)]
    for number, end in enumerate(ends, start=1):
        if end.match and not last:
            return talk.statement(number), end.match, []
    told = [*zip(talk.asked, ends, strict=True)]
    undone = {part: end.text or _LATE for part, end in told if not end.done}
    # Ids of calls are not in messages, so none is cited.
    parts = [(part, end.text, ()) for part, end in told if end.done]
    text = answer(parts, [f'"{part}": {why}' for part, why in undone.items()])
    return text, Match(), [*undone]


def observe(messages: Sequence[BaseMessage]) -> str:
    """One sentence on what the last calls brought."""
    calls = read_talk(messages).calls
    last = [call for number, call in calls if number == calls[-1][0]]
    told = [f"{c.tool}{' failed' if c.failed else ''}: {' '.join(c.text.split())}" for c in last]
    return "; ".join(text[:_SHOWN] for text in told) or "There is no result."
