"""Plays the model at the desk where there is none: it searches, and shows the best article.

It reads no meaning: a request that names an order by its id is a case, which it cannot deal with;
any other is a question.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import BaseMessage, ToolMessage

from loopwright import ScriptedModel

NO_MODEL: Final = "No language model is configured"
NO_CASES: Final = (
    f"{NO_MODEL}: I can look things up in our articles, but I cannot deal with orders, refunds or "
    "accounts. Ask for a human to be handed over."
)
NO_ARTICLE: Final = f"{NO_MODEL}, and no article speaks of this."

_ID: Final = re.compile(r"\b[A-Z]{1,3}-\d+\b")
_REQUEST: Final = re.compile(r"<request>\n(.*?)\n</request>", re.DOTALL)


def stand_in() -> ScriptedModel:
    """A model for `build_customer_service(model=…)` that needs no key and no network."""
    return ScriptedModel({"listener": understand, "support": answer, "proofreader": proofread})


def understand(messages: Sequence[BaseMessage], _: Sequence[str]) -> dict[str, Any]:
    """Say what a message is about: a case, if it names one by its id, else a question."""
    request = _REQUEST.search(messages[-1].text)
    named = request and _ID.search(request[1])
    return {"intent": "order" if named else "question", "mood": "calm", "score": 0}


def answer(messages: Sequence[BaseMessage], offered: Sequence[str]) -> list[dict[str, Any]] | str:
    """Search for the request, then quote the best article; or say what cannot be done."""
    # What the customer wrote has an id; what the graph adds for the model has none.
    asked = max(place for place, m in enumerate(messages) if m.type == "human" and m.id)
    request = messages[asked].text
    search = next((name for name in offered if name.startswith("search_")), None)
    if search is None or _ID.search(request):
        return NO_CASES
    results = [m for m in messages[asked:] if isinstance(m, ToolMessage)]
    if not results:
        return [{"name": search, "args": {"query": request}}]
    best = next((article for result in results for article in _articles(result.text)), None)
    if best is None:
        return NO_ARTICLE
    return f"{' '.join(best['excerpt'].split())} [{best['id']}]"


def proofread(_: Sequence[BaseMessage], __: Sequence[str]) -> dict[str, Any]:
    """Find nothing wrong: what it writes is an article as it stands, or one of its sentences."""
    return {"unsupported": []}


def _articles(text: str) -> Iterator[Mapping[str, str]]:
    try:
        yield from json.loads(text)["articles"]
    except (ValueError, KeyError, TypeError):
        return  # the search failed, and its result is a sentence
