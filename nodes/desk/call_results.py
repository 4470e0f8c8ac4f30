"""What results tell the desk: the articles that were found, and who the customer is."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AnyMessage, ToolMessage

from ...policy.desk.checks import read_data
from ...policy.desk.company import Company
from ...policy.desk.reply import Grounds
from ...state.agent import DELEGATE
from ...state.desk import DeskState, DeskUpdate, Source
from ...state.hand_over import find_speaker
from ...state.messages import slice_since
from ..agent.team.sub_agents import is_within

SURE: Final = 0.5
"""The least confidence of a sub-agent whose findings count."""
_TEXTS: Final = ("excerpt", "text", "content", "snippet", "answer")


def read_call_results(state: DeskState, company: Company) -> DeskUpdate:
    """What the results of calls that the desk has made add; a caller may send others along."""
    made = {record.get("call_id") for record in state.evidence if record["status"] == "success"}
    this_turn = slice_since(state.messages, state.request_message)
    update, sources, tickets = DeskUpdate(), dict(state.sources), dict(state.tickets)
    for message in this_turn:
        if not isinstance(message, ToolMessage) or message.tool_call_id not in made:
            continue
        data = read_data(message)
        own = message.name != DELEGATE
        found = _iter_articles(data) if own else _iter_sub_agent_articles(state, data)
        sources |= {str(article["id"]): _build_source(article, state.turn) for article in found}
        if not isinstance(data, Mapping):
            continue
        if message.name == company.verified_by:
            verified = data.get(company.verified_if) is True
            who = {"customer_id": data.get(company.verified_as), "turn": state.turn}
            update["identity"] = who if verified else {}
        if message.name == company.tickets_by and data.get("ticket_id"):
            tickets[state.issue] = str(data["ticket_id"])
    if tickets != state.tickets:
        update["tickets"] = tickets
    if sources != state.sources:
        update["sources"] = sources
    return update


def _build_source(article: Mapping[str, Any], turn: int) -> Source:
    return Source(
        title=str(article["title"]), url=str(article.get("url", "")),
        score=float(article.get("score", 0)), turn=turn, text=text_of(article),
    )  # fmt: skip


def _iter_sub_agent_articles(state: DeskState, data: Any) -> Iterator[Mapping[str, Any]]:
    """What the searches of a sub-agent gave, whatever it says of them; nothing if it is unsure."""
    output = data.get("output") if isinstance(data, Mapping) else None
    sure = output.get("confidence", 0) if isinstance(output, Mapping) else 0
    if not isinstance(sure, int | float) or sure < SURE:
        return
    for record in state.evidence:
        inside = is_within(record["task"], str(data["path"]))
        if inside and record["tool"] and record["status"] == "success":
            yield from _parse_articles(record["result"])


def _parse_articles(text: str) -> Iterator[Mapping[str, Any]]:
    """The articles in a result as text, which may be cut off."""
    read, place = json.JSONDecoder(), 0
    while (place := text.find("{", place)) >= 0:
        try:
            found, place = read.raw_decode(text, place)
        except (ValueError, RecursionError):
            place += 1
            continue
        yield from _iter_articles([found])
        yield from _iter_articles(found)


def text_of(article: Mapping[str, Any]) -> str:
    """What an article says, as far as a search tells it."""
    return next((str(article[key]) for key in _TEXTS if article.get(key)), "")


def name_records(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The messages as a model is told them: each record of a tool under the name it is cited by."""
    named = {message.id: name for name, message in _iter_records(messages)}
    return [
        m.model_copy(update={"content": f"{named[m.id]} = {m.text}"}) if m.id in named else m
        for m in messages
    ]


def _iter_records(messages: Iterable[AnyMessage]) -> Iterator[tuple[str, ToolMessage]]:
    """The results that are data and no articles, as `r1`, `r2` … in the order of the thread."""
    number = 0
    for message in messages:
        if not isinstance(message, ToolMessage) or message.status != "success":
            continue
        data = read_data(message)
        if message.name == DELEGATE or not isinstance(data, dict | list) or _is_search(data):
            continue
        number += 1
        yield f"r{number}", message


def _is_search(data: Any) -> bool:
    return (isinstance(data, Mapping) and "articles" in data) or any(_iter_articles(data))


def collect_grounds(state: DeskState, sources: Mapping[str, Source], company: Company) -> Grounds:
    """What a reply may stand on: articles that fit, records, and what people told."""
    found = {
        name: f"{source['title']}\n{source.get('text', '')}"
        for name, source in sources.items()
        if source["score"] >= company.enough
    }
    records = dict(_iter_records(state.messages))
    kept = {message.id for message in records.values()}
    told = [
        message.text
        for message in state.messages
        if find_speaker(message) == "colleague" or _is_text_result(message, kept)
    ]
    said = [message.text for message in state.messages if message.type == "human"]
    return Grounds(
        articles=found, records={name: read_data(message) for name, message in records.items()},
        told="\n".join([*told, company.render_profile()]), said="\n".join(said),
        links=frozenset(source["url"] for source in sources.values()), language=state.language,
    )  # fmt: skip


def _is_text_result(message: AnyMessage, records: Collection[str | None]) -> bool:
    if not isinstance(message, ToolMessage) or message.name == DELEGATE or message.id in records:
        return False
    return not _is_search(read_data(message))


def _iter_articles(data: Any) -> Iterator[Mapping[str, Any]]:
    """The articles in a result: objects with an id and a title, in a list at any place."""
    if isinstance(data, Mapping):
        for value in data.values():
            yield from _iter_articles(value)
    elif isinstance(data, list):
        yield from filter(_is_article, data)


def _is_article(one: Any) -> bool:
    if not (isinstance(one, Mapping) and {"id", "title"} <= one.keys()):
        return False
    return bool({"url", "score", *_TEXTS} & one.keys())
