"""A desk with hooks: words that no answer may have, a log, and statistics. Runs without a key."""

from collections import Counter
from typing import Any

from langchain_core.tools import tool
from stand_in import stand_in

from loopwright import build_customer_service, hook

ARTICLES = [
    {
        "id": "kb-1", "title": "Returns", "score": 1.0,
        "excerpt": "You can return a lamp within 30 days of its delivery.",
    },
    {"id": "kb-2", "title": "Prices", "score": 1.0, "excerpt": "Our lamps are the cheapest."},
]  # fmt: skip
FORBIDDEN = ("cheapest", "guaranteed", "risk-free")

counted: Counter[str] = Counter()
log: list[str] = []


@tool
def search_articles(query: str) -> dict[str, list[dict[str, object]]]:
    """Search the articles."""
    words = query.lower()
    return {"articles": [a for a in ARTICLES if str(a["title"]).lower()[:5] in words]}


search_articles.metadata = {"readOnlyHint": True}


@hook("BeforeAgent")
def heard(message: dict[str, Any]) -> None:
    """Log what customers write, and count it."""
    counted["messages"] += 1
    log.append(f"customer: {message['prompt']}")


@hook("AfterAgent", on_error="closed")
def said(turn: dict[str, Any]) -> dict[str, str] | None:
    """Let no answer out that promises what we must not promise."""
    answer = turn["prompt_response"]
    if word := next((one for one in FORBIDDEN if one in answer.lower()), ""):
        counted["rejected"] += 1
        return {"decision": "deny", "reason": f"say it without the word {word!r}"}
    counted["sourced" if "[kb-" in answer else "others"] += 1
    log.append(f"desk: {answer}")
    return None


graph = build_customer_service(model=stand_in(), tools=[search_articles], hooks=[heard, said])
messages: list[object] = []
for text in ("Hello", "How long can I return a lamp?", "What of your prices?", "Thanks, bye"):
    messages = graph.invoke({"messages": [*messages, ("user", text)]})["messages"]
    assert not any(word in messages[-1].text for word in FORBIDDEN[1:])
print("\n".join(log))  # noqa: T201
print(dict(counted))  # noqa: T201
