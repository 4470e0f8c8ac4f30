"""What makes a dialogue right: its own data, and the rules that hold for all of them."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AnyMessage, ToolMessage

from loopwright.policy.desk.reply import find_cited_ids
from loopwright.state.desk import MOST_CLARIFICATIONS
from loopwright.state.messages import calls_in

if TYPE_CHECKING:
    from support.dialogues import Talk

_YES = re.compile(
    r"(yes|yeah|ok|sure|correct|go ahead|please|thanks|that is right|i confirm|[,.! ])+"
    r"|[是好对确认的可以同意，。请谢办理]+"
)
"""A plain yes as these rules read it, told apart from how the package reads it."""
_MARK = re.compile(r"from 1 \(|从 ?1 ?（")
_PUT = re.compile(r"1 \(yes\)|1（是）")
_LONG = 60


def filled(value: Any, known: Mapping[str, Any]) -> Any:
    """Names in braces stand for what the cast knows; one alone keeps its type."""
    if isinstance(value, dict):
        return {key: filled(one, known) for key, one in value.items()}
    if isinstance(value, list):
        return [filled(one, known) for one in value]
    if not isinstance(value, str):
        return value
    alone = value.removeprefix("{").removesuffix("}")
    return known[alone] if value == f"{{{alone}}}" and alone in known else value.format(**known)


def wrong(dialogue: Mapping[str, Any], talk: "Talk", known: Mapping[str, Any]) -> list[str]:
    """What keeps a talk from being right."""
    return [
        *_of_world(dialogue, talk, known),
        *_of_turns(talk),
        *_never(filled(dialogue.get("never", []), known), talk),
        *_said_once(talk),
        *_private(talk),
        *_agreed(talk),
        *_sourced(talk),
        *_of_owner(talk),
    ]


def _of_world(dialogue: Mapping[str, Any], talk: "Talk", known: Mapping[str, Any]) -> Iterator[str]:
    refunds = [float(one) for one in filled(dialogue.get("refunds", []), known)]
    if talk.refunds != refunds:
        yield f"refunds {talk.refunds}, not {refunds}"
    for name in ("tickets", "transfers"):
        if getattr(talk, name) != dialogue.get(name, 0):
            yield f"{getattr(talk, name)} {name}, not {dialogue.get(name, 0)}"
    owner = talk.state.get("owner", "bot")
    if owner != dialogue.get("owner", "bot"):
        yield f"the thread is the {owner}'s"
    for key, value in filled(dialogue.get("state", {}), known).items():
        if (talk.state.get(key) or None) != (value or None):
            yield f"{key} is {talk.state.get(key)!r}, not {value!r}"


def _of_turns(talk: "Talk") -> Iterator[str]:
    for number, turn in enumerate(talk.turns):
        told = talk.told[number]
        lacks = [text for text in turn.get("told", []) if not _has(told, text)]
        if lacks or any(_has(told, text) for text in turn.get("not_told", [])):
            yield f"turn {number} lacks {lacks} or has {turn.get('not_told')}: {told!r}"
        if turn.get("quiet") and talk.calls[number]:
            yield f"turn {number} asked a model {talk.calls[number]} times"


def _never(texts: Sequence[object], talk: "Talk") -> Iterator[str]:
    if said := [text for text in texts if any(_has(one, text) for one in talk.said)]:
        yield f"{said} was said"


def _has(told: str, text: object) -> bool:
    return str(text).lower() in told.lower()


def _said_once(talk: "Talk") -> Iterator[str]:
    """No answer twice, one question for a mark, two questions back on one issue."""
    new = [text for text in talk.said if len(text) > _LONG and not _PUT.search(text)]
    if twice := [text for text, times in Counter(new).items() if times > 1]:
        yield f"said twice: {twice[0]!r}"
    if sum(bool(_MARK.search(text)) for text in talk.said) > 1:
        yield "asked for a mark twice"
    back = Counter(state["issue"] for state in talk.states if state.get("asked") == "detail")
    if max(back.values(), default=0) > MOST_CLARIFICATIONS:
        yield f"asked back {back}"


def _private(talk: "Talk") -> Iterator[str]:
    if any(re.search(r"C-1001|Ada Byron|ada@post", said) for said in talk.said):
        yield "somebody else's data was told"


def _agreed(talk: "Talk") -> Iterator[str]:
    """Money goes back only on a plain yes to all details, or because a colleague approved."""
    if any(str(turn.get("colleague", "")).startswith("approve") for turn in talk.turns):
        return
    messages: Sequence[AnyMessage] = talk.state["messages"]
    args: dict[str, Any] = {}
    for place, message in enumerate(messages):
        args |= {one["id"]: one["args"] for one in calls_in(message)}
        if not isinstance(message, ToolMessage) or message.name != "request_refund":
            continue
        if message.status != "success":
            continue
        human = max(n for n in range(place) if messages[n].type == "human")
        if not _YES.fullmatch(messages[human].text.strip().lower()):
            yield f"paid back on {messages[human].text!r}"
        put = messages[human - 1].text
        if lacks := [v for v in args[message.tool_call_id].values() if not _is_shown(v, put)]:
            yield f"paid back without {lacks} in {put!r}"


def _is_shown(value: object, put: str) -> bool:
    """Whether a detail stands in a proposal, money as people write it."""
    money = f"{value:,.2f}" if isinstance(value, float) else str(value)
    return str(value) in put or money in put


def _sourced(talk: "Talk") -> Iterator[str]:
    found = talk.state.get("sources", {})
    if made_up := [i for said in talk.said for i in find_cited_ids(said) if i not in found]:
        yield f"cites {made_up}, which no search gave"


def _of_owner(talk: "Talk") -> Iterator[str]:
    """While the thread is a human's no model is asked, and what the customer says is kept."""
    for number, turn in enumerate(talk.turns[1:], 1):
        theirs = talk.states[number - 1].get("owner") == "human"
        if theirs and "says" in turn and talk.calls[number]:
            yield f"a model was asked in turn {number}, while a human had the thread"
    kept = [m.text for m in talk.state["messages"] if m.type == "human"]
    if kept != [turn["says"] for turn in talk.turns if "says" in turn]:
        yield f"the customer's messages are {kept}"
