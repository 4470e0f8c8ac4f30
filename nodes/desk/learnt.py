"""What results tell the desk: the articles that were found, and who the customer is."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from langchain_core.messages import ToolMessage

from ...state.company import Company
from ...state.desk import DeskState, DeskUpdate, Source
from ...state.grounding import Grounds
from ...state.mandates import KNOWLEDGE, data_of, names_of_searches
from ...state.messages import since
from .human.stretch import who_said

_TEXTS: Final = ("excerpt", "text", "content", "snippet", "answer")


def learnt(state: DeskState, company: Company) -> DeskUpdate:
    """What the newest results add to what is known."""
    this_turn = since(state.messages, state.request_message)
    update, sources, tickets = DeskUpdate(), dict(state.sources), dict(state.tickets)
    for message in this_turn:
        if not isinstance(message, ToolMessage) or message.status != "success":
            continue
        data = data_of(message)
        for article in _articles(data):
            sources[str(article["id"])] = Source(
                title=str(article["title"]), url=str(article.get("url", "")),
                score=float(article.get("score", 0)), turn=state.turn, text=text_of(article),
            )  # fmt: skip
        if message.name == company.verified_by and isinstance(data, Mapping):
            verified = data.get(company.verified_if) is True
            who = {"customer_id": data.get(company.verified_as), "turn": state.turn}
            update["identity"] = who if verified else {}
        if (
            isinstance(data, Mapping)
            and data.get("ticket_id")
            and message.name == company.tickets_by
        ):
            tickets[state.issue] = str(data["ticket_id"])
    if tickets != state.tickets:
        update["tickets"] = tickets
    if sources != state.sources:
        update["sources"] = sources
    return update


def text_of(article: Mapping[str, Any]) -> str:
    """What an article says, as far as a search tells it."""
    return next((str(article[key]) for key in _TEXTS if article.get(key)), "")


def grounds_of(state: DeskState, sources: Mapping[str, Source], company: Company) -> Grounds:
    """What an answer may stand on: articles that fit, and what other tools and people told."""
    found = {
        name: f"{source['title']}\n{text}" if (text := source.get("text", "")) else ""
        for name, source in sources.items()
        if source["score"] >= company.enough
    }
    searches = names_of_searches(state.messages)
    facts = [
        message.text
        for message in state.messages
        if (message.type == "tool" and message.name not in searches)
        or who_said(message) == "colleague"
    ]
    said = [message.text for message in state.messages if message.type == "human"]
    return Grounds(
        articles=found, facts="\n".join([*facts, company.told()]),
        said="\n".join(said), links={source["url"] for source in sources.values()},
        language=state.language, asked=state.intent in KNOWLEDGE,
    )  # fmt: skip


def _articles(data: Any) -> Iterator[Mapping[str, Any]]:
    """The articles in a result: objects with an id and a title, in a list at any place."""
    if isinstance(data, Mapping):
        for value in data.values():
            yield from _articles(value)
    elif isinstance(data, list):
        yield from (a for a in data if isinstance(a, Mapping) and {"id", "title"} <= a.keys())
