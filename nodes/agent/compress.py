"""compress: old messages are left out of requests and summed up; the conversation keeps them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from langchain_core.messages import AnyMessage, BaseMessage
from langgraph.runtime import Runtime

from ...models.ask import Answer, ask
from ...models.fitting import find_border
from ...state.agent import AgentState, AgentUpdate, estimate_next_window, list_request_messages
from ...state.context import Context
from ...state.errors import ModelCallFailed, ModelUnavailable
from ...state.messages import slice_since
from ...state.outcome import Spend
from ...state.snapshot import (
    KeptFact,
    KeptSnapshot,
    Snapshot,
    estimate_message_tokens,
    get_full_text,
    make_short_name,
    name_speaker,
)
from ...text.canonical import canonical, estimate_tokens, shorten_text
from ...turn.scope import RunScope
from .shared.agent import Agent
from .shared.memory import extend_snapshot, prove_facts, read_snapshot, render_snapshot
from .shared.memory_tools import read_notes
from .shared.requests import build_question

_KEPT_SHARE: Final = 0.3
"""How much of a request's room the newest messages take that stay as they are."""
_SMALLER: Final = 0.7
"""A summary must be so much smaller than what it stands for."""
_SHOWN_SHARE: Final = 2.0
"""Characters of the old messages that a summary is made from, for each token of the room."""
_FEWEST: Final = 200
_BEGINNING: Final = 80
"""Characters by which a message is known that stands in the request besides."""
_ROLE: Final = "summariser"
_LONGEST_REST: Final = 15


async def compress(state: AgentState, runtime: Runtime[Context], *, agent: Agent) -> AgentUpdate:
    """Bring the next request well below its room."""
    scope = await agent.scope(state, runtime)
    room = state.room or agent.measure_room(state, scope.context)
    before, shown = estimate_next_window(state), list_request_messages(state)
    border = find_border(shown, int(room * _KEPT_SHARE))
    if not border:  # the request is bounded when it is made
        return AgentUpdate(snapshot={**state.snapshot, "above": before + room // 10})
    await scope.fire("PreCompress", trigger="auto")
    work = _Work(state, shown[:border], room)
    found = await _summarize(scope, work, agent)
    doubted = await scope.journal.list_uncertain(scope.journal_thread, told=True)
    kept, cut = extend_snapshot(state, work.old, found.facts, room, doubted), str(shown[border].id)
    kept["notes"] = await read_notes(scope, agent.parts.toolbox.open_results(scope), state.path)
    kept["failed"], kept["rest"] = found.failed, found.rest
    after = _estimate_next_size(state, before, kept, cut)
    kept["above"] = after + room // 10
    scope.emit({
        "type": "compressed", "task": state.path, "how": "summary" if found.facts else "cut",
        "before": before, "after": after, "messages": len(work.old), "dropped": found.dropped,
        "facts": sum(map(len, found.facts.values())),
    })  # fmt: skip
    return AgentUpdate(
        snapshot=dict(kept), cut=cut, window=after, spend=scope.add_seconds(found.spend),
        warnings=scope.notes,
    )  # fmt: skip


@dataclass(frozen=True)
class _Work:
    """What is to be compressed: the `old` messages, which requests hold no more."""

    state: AgentState
    old: Sequence[AnyMessage]
    room: int


@dataclass(frozen=True)
class _Summary:
    """What a model made of the old messages; it `failed` so often, and is let `rest` so long."""

    facts: Mapping[str, list[KeptFact]]
    dropped: int = 0
    spend: Spend | None = None
    failed: int = 0
    rest: int = 0


async def _summarize(scope: RunScope, work: _Work, agent: Agent) -> _Summary:
    """Ask for a summary; without facts if none was needed, or if it is of no use."""
    kept = read_snapshot(work.state)
    failed, rest = kept.get("failed", 0), kept.get("rest", 0)
    if rest:
        return _Summary({}, failed=failed, rest=rest - 1)
    sources = {
        make_short_name(message.id): message
        for message in [*_iter_earlier_sources(work.state), *work.old]
    }
    longer = _Summary({}, failed=failed + 1, rest=min(2 ** (failed + 1) - 1, _LONGEST_REST))
    try:
        messages, tools = await _build_request(scope, work, agent)
        answer: Answer[Snapshot] = await ask(
            agent.bound_requests(work.state, scope), agent.parts.models, "summariser", messages,
            tools=tools, may_call=False, contract=Snapshot, most_asks=2,
        )  # fmt: skip
    except (ModelCallFailed, ModelUnavailable) as error:
        scope.emit({"type": "warning", "text": str(error)})
        return longer
    if answer.parsed is None:
        return replace(longer, spend=answer.spend)
    facts, dropped = prove_facts(answer.parsed, sources)
    made = sum(estimate_tokens(one["text"]) for some in facts.values() for one in some)
    if not facts or made > _SMALLER * estimate_message_tokens(work.old):
        return replace(longer, dropped=dropped, spend=answer.spend)
    return _Summary(facts, dropped, answer.spend)


async def _build_request(
    scope: RunScope, work: _Work, agent: Agent
) -> tuple[list[BaseMessage], list[dict[str, Any]]]:
    """Behind the agent's own request, which its provider knows; by itself where that is too long.

    So it is too where the summary is another model's.
    """
    messages, tools = await build_question(
        scope, work.state, agent, _ROLE, _build_data(work, _BEGINNING)
    )
    chosen = (agent.parts.models.find_built(role, scope.context) for role in (_ROLE, "agent"))
    same = len({one and one.name for one in chosen}) == 1
    size = estimate_message_tokens(messages) + estimate_tokens(canonical(tools))
    if same and size <= agent.measure_budget(work.state, scope.context):
        return messages, tools
    most = max(_FEWEST, int(_SHOWN_SHARE * work.room) // max(len(work.old), 1))
    return scope.build_opening(_ROLE, _build_data(work, most)), []


def _iter_earlier_sources(state: AgentState) -> Iterator[AnyMessage]:
    """The messages that the facts of the snapshot so far are from."""
    for facts in read_snapshot(state).get("facts", {}).values():
        for name in {name for fact in facts for name in fact["sources"]}:
            message = slice_since(state.messages, name)[:1]
            yield from (m for m in message if m.id == name)


def _build_data(work: _Work, most: int) -> dict[str, Any]:
    """The facts so far, and so many characters of each old message, with its handle."""
    facts = {
        name: [{"text": f["text"], "from": [*map(make_short_name, f["sources"])]} for f in some]
        for name, some in read_snapshot(work.state).get("facts", {}).items()
    }
    messages = [
        {
            "id": make_short_name(m.id),
            "by": name_speaker(m),
            "text": shorten_text(get_full_text(m), most),
        }
        for m in work.old
    ]
    return {"snapshot": facts, "messages": messages}


def _estimate_next_size(state: AgentState, before: int, kept: KeptSnapshot, cut: str) -> int:
    """Tokens of the next request, as far as they are known."""
    later = replace(state, snapshot=dict(kept), cut=cut)
    return max(0, before - _size(state)) + _size(later)


def _size(state: AgentState) -> int:
    return estimate_message_tokens([*render_snapshot(state), *list_request_messages(state)])
