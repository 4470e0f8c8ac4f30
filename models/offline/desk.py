"""The offline model at a desk: it searches, and shows the best article as it stands. Pure."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from .matching import READ, Match, Tool
from .react import act, read_talk
from .tasks import NO_MODEL

_ID: Final = re.compile(r"\b[A-Z]{1,3}-\d+\b")
_SEARCHES: Final = re.compile("(?i)article|faq|help|knowledge")
NO_CASES: Final = (
    f"{NO_MODEL}: I can look things up in our articles, but I cannot deal with orders, refunds or "
    "accounts. Ask for a human to be handed over."
)


def listened(request: str) -> dict[str, Any]:
    """What a customer wants: something about a case that they name by its id, or to know."""
    return {"intent": "order" if _ID.search(request) else "question"}


def supported(messages: Sequence[BaseMessage], tools: Sequence[Tool]) -> AIMessage | None:
    """A search for the request, the best article that it gave, or what cannot be done.

    Nothing where no tool searches.
    """
    search = _search_in(tools)
    if search is None:
        return None
    talk = read_talk(messages)
    if _ID.search(talk.request):
        return AIMessage(NO_CASES)
    if not talk.calls:
        call = {"name": search[0], "args": {search[1]: talk.request}, "id": None}
        return AIMessage("", tool_calls=[call])
    best = next((one for _, call in talk.calls for one in _articles(call.text)), None)
    if best is None:
        return AIMessage(f"{NO_MODEL}, and no article speaks of this.")
    text = " ".join(str(best.get("excerpt") or best["title"]).split())[:READ]
    return AIMessage(f"{text} [{best['id']}]")


def bare(messages: Sequence[BaseMessage], tools: Sequence[Tool]) -> tuple[str, Match]:
    """The next call, or what the calls gave and no word beside it, which no article would carry."""
    text, match = act(messages, tools)
    # Of a call that waited for a yes only the result stands behind it.
    since = takewhile(lambda m: m.type != "human" or not m.id, reversed(messages))
    results = [m.text for m in since if isinstance(m, ToolMessage) and m.status == "success"]
    return (text if match.calls else "\n\n".join(results[::-1]) or text), match


def _search_in(tools: Sequence[Tool]) -> tuple[str, str] | None:
    """The tool that searches articles by a text alone, and the name of the text; the plainest."""
    found = [
        (len(tool.parameters), tool.name, needed[0].name)
        for tool in tools
        if _SEARCHES.search(tool.name)
        and len(needed := [p for p in tool.parameters if p.required]) == 1
        and needed[0].name in ("query", "question", "q")
    ]
    return max(found)[1:] if found else None


def _articles(text: str) -> Iterator[Mapping[str, Any]]:
    try:
        told = json.loads(text)
    except ValueError:
        return
    listed = told.get("articles") if isinstance(told, dict) else None
    yield from (one for one in listed or () if {"id", "title"} <= one.keys())
