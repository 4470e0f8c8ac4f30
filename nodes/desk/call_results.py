"""What results tell the desk: the articles that were found, and who the customer is."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AnyMessage, ToolMessage

from ...calls.memories import RECALL_MEMORIES
from ...policy.desk.articles import Article, ArticleFields
from ...policy.desk.checks import read_data
from ...policy.desk.company import Company
from ...policy.desk.reply import Grounds
from ...state.agent import DELEGATE
from ...state.desk import DeskState, DeskUpdate, Source
from ...state.hand_over import find_speaker
from ...state.messages import slice_since
from ..agent.team.sub_agents import is_within

_NO_RECORDS: Final = (DELEGATE, RECALL_MEMORIES)
"""Tools whose results no reply may stand on."""
SURE: Final = 0.5
"""The least confidence of a sub-agent whose findings count."""


def read_call_results(state: DeskState, company: Company) -> DeskUpdate:
    """What the results of calls that the desk has made add; a caller may send others along."""
    worked = (record for record in state.evidence if record["status"] == "success")
    made = {record.get("call_id") for record in worked if record["tool"] != RECALL_MEMORIES}
    sources, tickets = dict(state.sources), dict(state.tickets)
    verifications = []
    for message in slice_since(state.messages, state.request_message):
        if not isinstance(message, ToolMessage) or message.tool_call_id not in made:
            continue
        data = read_data(message)
        own = message.name != DELEGATE
        known = company.articles
        found = known.find_articles(data) if own else _iter_sub_agent_articles(state, data, known)
        sources |= {article.id: _build_source(article, state.turn) for article in found}
        if isinstance(data, Mapping) and message.name in company.verified_by.split():
            verifications.append(data)
        if isinstance(data, Mapping) and message.name == company.tickets_by:
            told = data.get(company.ticket_as)
            tickets |= {state.issue: str(told)} if told else {}
    update = DeskUpdate()
    if tickets != state.tickets:
        update["tickets"] = tickets
    if sources != state.sources:
        update["sources"] = sources
    return update | _read_identity(state, company, verifications)


def _read_identity(
    state: DeskState, company: Company, answers: Sequence[Mapping[str, Any]]
) -> DeskUpdate:
    """Who the customer is by the newest of the answers; of another one before nothing is kept."""
    if not answers:
        return DeskUpdate()
    who = answers[-1].get(company.verified_as)
    if answers[-1].get(company.verified_if) is not True:
        return DeskUpdate(identity={})
    update = DeskUpdate(identity={"customer_id": who, "turn": state.turn})
    if who != state.customer.get("id"):
        update["customer"] = {"id": who, "since": state.request_message if state.customer else ""}
    if who != state.customer.get("id", who):
        update |= DeskUpdate(slots={}, tickets={}, answered={}, promises=[], proposal=None)
    return update


def _build_source(article: Article, turn: int) -> Source:
    return Source(
        title=article.title, url=article.url, score=article.score, turn=turn, text=article.text
    )


def _iter_sub_agent_articles(
    state: DeskState, data: Any, known: ArticleFields
) -> Iterator[Article]:
    """What the searches of a sub-agent gave, whatever it says of them; nothing if it is unsure."""
    output = data.get("output") if isinstance(data, Mapping) else None
    sure = output.get("confidence", 0) if isinstance(output, Mapping) else 0
    if not isinstance(sure, int | float) or sure < SURE:
        return
    for record in state.evidence:
        inside = is_within(record["task"], str(data["path"]))
        if inside and record["tool"] and record["status"] == "success":
            yield from _parse_articles(record["result"], known)


def _parse_articles(text: str, known: ArticleFields) -> Iterator[Article]:
    """The articles in a result as text, which may be cut off."""
    read, place = json.JSONDecoder(), 0
    while (place := text.find("{", place)) >= 0:
        try:
            found, place = read.raw_decode(text, place)
        except (ValueError, RecursionError):
            place += 1
            continue
        yield from known.find_articles([found])
        yield from known.find_articles(found)


def name_records(messages: Sequence[AnyMessage], company: Company) -> list[AnyMessage]:
    """The messages as a model is told them: each record of a tool under the name it is cited by."""
    named = {message.id: name for name, message in _iter_records(messages, company)}
    return [
        m.model_copy(update={"content": f"{named[m.id]} = {m.text}"}) if m.id in named else m
        for m in messages
    ]


def _iter_records(
    messages: Iterable[AnyMessage], company: Company
) -> Iterator[tuple[str, ToolMessage]]:
    """The results that are data and no articles, as `r1`, `r2` … in the order of the thread."""
    number = 0
    for message in messages:
        if not isinstance(message, ToolMessage) or message.status != "success":
            continue
        data = read_data(message)
        if message.name in _NO_RECORDS or not isinstance(data, dict | list):
            continue
        if company.articles.is_search(data):
            continue
        number += 1
        yield f"r{number}", message


def collect_grounds(state: DeskState, sources: Mapping[str, Source], company: Company) -> Grounds:
    """What a reply may stand on: articles that fit, records, and what people told."""
    found = {
        name: f"{source['title']}\n{source.get('text', '')}"
        for name, source in sources.items()
        if source["score"] >= company.enough
    }
    known = state.messages_with_customer
    records = dict(_iter_records(known, company))
    kept = {message.id for message in records.values()}
    told = [
        message.text
        for message in known
        if find_speaker(message) == "colleague" or _is_text_result(message, kept, company)
    ]
    said = [message.text for message in known if message.type == "human"]
    return Grounds(
        articles=found, records={name: read_data(message) for name, message in records.items()},
        told="\n".join([*told, company.render_profile()]), said="\n".join(said),
        links=frozenset(source["url"] for source in sources.values()), language=state.language,
    )  # fmt: skip


def _is_text_result(message: AnyMessage, records: Collection[str | None], company: Company) -> bool:
    if not isinstance(message, ToolMessage) or message.name in _NO_RECORDS or message.id in records:
        return False
    return not company.articles.is_search(read_data(message))
