"""The offline model in a conversation: what it is asked, its calls so far, and what is next. Pure.

Which calls were for which clause is read from the words beside them: "Step 1 of 2: …".
"""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from ...state.attachments import blocks_in
from ...state.messages import ROLE
from .matching import Match, Tool, clauses
from .tasks import Call, answer, has_failed, next_part

_SHOWN = 200


class Talk(NamedTuple):
    """The newest request, its clauses, and the calls made for them: (number, call)."""

    request: str = ""
    asked: Sequence[str] = ()
    calls: Sequence[tuple[int, Call]] = ()
    must_answer: bool = False
    attached: bool = False  # it holds more than words


def read_talk(messages: Sequence[BaseMessage]) -> Talk:
    """Read the shared messages.

    The request is the newest message of the user that the thread holds: it has an id. The loop
    signs its cues; only the last, which wants the answer now, has neither signature nor id.
    """
    human = [at for at, message in enumerate(messages) if message.type == "human"]
    said = [at for at in human if ROLE not in messages[at].additional_kwargs]
    kept = [at for at in said if messages[at].id] or said
    if not kept:
        return Talk()
    newest, since = messages[kept[-1]], messages[kept[-1] :]
    named = [(re.match(r"Step (\d+) of \d+: ", message.text), message) for message in since]
    calls = [(int(n[1]) if n else 1, call) for n, m in named for call in read_calls(messages, m)]
    must_answer = kept[-1] < said[-1] == len(messages) - 1
    return Talk(newest.text, clauses(newest.text), calls, must_answer, bool(blocks_in(newest)))


def read_calls(messages: Sequence[BaseMessage], *whose: BaseMessage) -> list[Call]:
    """The calls of some messages that have their results among all of them."""
    results = {m.tool_call_id: m for m in messages if isinstance(m, ToolMessage)}
    made = [call for m in whose if isinstance(m, AIMessage) for call in m.tool_calls]
    pairs = [(call, results[call["id"] or ""]) for call in made if call["id"] in results]
    return [Call(c["name"], c["args"], has_failed(r.status, r.text), r.text) for c, r in pairs]


def work(
    messages: Sequence[BaseMessage], tools: Sequence[Tool], *, last: bool = False
) -> tuple[str, Match, list[str]]:
    """What is said, the calls beside it, and what is not done yet; without calls it is the end."""
    talk = read_talk(messages)
    results = [call.text for _, call in talk.calls if not call.failed]
    own = [[call for n, call in talk.calls if n == at + 1] for at in range(len(talk.asked))]
    parts = [next_part(*one, tools, results) for one in zip(talk.asked, own, strict=True)]
    undone = [part.asked for part in parts if not part.done]
    for number, part in enumerate(parts, start=1):
        if part.match.calls and not last:
            return f"Step {number} of {len(parts)}: {part.asked[:_SHOWN]}", part.match, undone
    return answer(parts), Match(), undone


def think(messages: Sequence[BaseMessage], tools: Sequence[Tool]) -> str:
    """The thought: the next step, or the answer; only where that is whole does it end the loop."""
    last = read_talk(messages).must_answer
    text, _, undone = work(messages, tools, last=last)
    more = bool(undone) and not last
    # A result that speaks of such a tag must not be read as one.
    told = re.sub(r"(?i)agent(?=[\s_-]?meta\b)", "agent.", text)
    return f"{told}\n\n<agent_meta>{json.dumps({'shouldContinue': more})}</agent_meta>"


def act(messages: Sequence[BaseMessage], tools: Sequence[Tool]) -> tuple[str, Match]:
    """The action: its text and its calls; without a call the text is the end."""
    return work(messages, tools)[:2]


def observe(messages: Sequence[BaseMessage]) -> str:
    """One sentence on what the last calls brought."""
    calls = read_talk(messages).calls
    last = [call for number, call in calls if number == calls[-1][0]]
    told = [f"{c.tool}{' failed' if c.failed else ''}: {' '.join(c.text.split())}" for c in last]
    return "; ".join(text[:_SHOWN] for text in told) or "There is no result."
