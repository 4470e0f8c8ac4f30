"""What results tell the desk: the articles that were found, and who the customer is."""

from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.messages import ToolMessage

from ...state.company import Company
from ...state.desk import DeskState, DeskUpdate, Source
from ...state.messages import since


def learnt(state: DeskState, company: Company) -> DeskUpdate:
    """What the newest results add to what is known."""
    this_turn = since(state.messages, state.request_message)
    update, sources, tickets = DeskUpdate(), dict(state.sources), dict(state.tickets)
    for message in this_turn:
        if not isinstance(message, ToolMessage) or message.status != "success":
            continue
        data = message.artifact.get("data") if isinstance(message.artifact, Mapping) else None
        for article in _articles(data):
            sources[str(article["id"])] = Source(
                title=str(article["title"]), url=str(article.get("url", "")),
                score=float(article.get("score", 0)), turn=state.turn,
            )  # fmt: skip
        if message.name == company.verified_by and isinstance(data, Mapping):
            verified = data.get("verified") is True
            who = {"customer_id": data.get("customer_id"), "turn": state.turn}
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


def _articles(data: Any) -> Iterator[Mapping[str, Any]]:
    """The articles in a result: objects with an id and a title, in a list at any place."""
    if isinstance(data, Mapping):
        for value in data.values():
            yield from _articles(value)
    elif isinstance(data, list):
        yield from (a for a in data if isinstance(a, Mapping) and {"id", "title"} <= a.keys())
