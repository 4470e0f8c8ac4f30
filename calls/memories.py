"""remember, recall_memories, forget: what is known of a user in all of their threads.

It is data. What was written by a chain that had read a stranger's words comes back as a stranger's,
all else as words of a model at most: no record, and never an instruction.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from langchain_core.tools import ToolException
from langgraph.store.base import BaseStore

from ..policy.origins import Reading
from ..state.calls import Evidence
from ..state.errors import SettingsError
from ..store.checkpoints.async_adapters import ensure_async_store
from ..store.memories import LONGEST_MEMORY, MOST_MEMORIES, Memory, memories_of, read_memory
from ..text.canonical import hash_of, make_storable, shorten_text, weigh
from ..text.sentences import say
from ..tools.catalog import CatalogTool, make_own_tool
from .results import ToolResult, make_failure, parse_json, to_json_text

if TYPE_CHECKING:
    from .sending import HandlerScope

REMEMBER: Final = "remember"
RECALL_MEMORIES: Final = "recall_memories"
FORGET: Final = "forget"

_SHOWN: Final = 20
_OWN: Final = "own"
"""The origin of what no stranger can have written."""


def choose_memory(given: object) -> BaseStore | bool:
    """The option `memory=`: a store, True for the graph's own, False; else a SettingsError."""
    if isinstance(given, BaseStore):
        return ensure_async_store(given) or given
    if given is None or isinstance(given, bool):
        return bool(given)
    msg = (
        f"memory= is no store but {type(given).__name__}: pass True for the graph's own store, a"
        " LangGraph store, or leave it out."
    )
    raise SettingsError(msg)


def build_memory_tools(memory: BaseStore | bool) -> list[CatalogTool]:
    """The tools; none without memory."""
    if memory is False:
        return []
    given = None if memory is True else memory
    return [
        _make_tool(REMEMBER, "text", partial(_remember, given=given)),
        _make_tool(RECALL_MEMORIES, "query", partial(_recall, given=given), reads=True),
        _make_tool(FORGET, "id", partial(_forget, given=given)),
    ]


def _make_tool(
    name: str, argument: str, answer: Callable[..., Awaitable[Any]], *, reads: bool = False
) -> CatalogTool:
    about = {"type": "string", "minLength": 1, "description": say(f"memory_{argument}")}
    words, needed = say(f"{name}_tool", most=LONGEST_MEMORY), [] if reads else [argument]
    made = make_own_tool(name, words, {argument: about}, answer, required=needed, read_only=reads)
    return replace(made, is_work=True, origin="foreign" if reads else "")


def _open_place(own: "HandlerScope", given: BaseStore | None) -> tuple[BaseStore, tuple[str, ...]]:
    """Where the memories are of whom the run is for; ToolException where nobody is known."""
    store = own.scope.store if given is None else given
    if store is None:
        raise ToolException(say("memory_no_store"))
    chain = own.scope.around.chain
    while chain.outer and not hasattr(chain.state, "identity"):
        chain = chain.outer
    customer = getattr(chain.state, "identity", {}).get("customer_id")
    planned = (call["name"] for call in getattr(own.state, "calls", ()))
    others = {*planned, *(record["tool"] for record in own.beside)} - own.catalog.own.keys()
    if customer and others:  # one of them may verify somebody else
        raise ToolException(say("memory_alone"))
    if not (user := str(customer or own.scope.user or "")):
        raise ToolException(say("memory_no_user"))
    return store, memories_of(user, "customer" if customer else "user")


async def _remember(
    args: Mapping[str, Any], own: "HandlerScope", *, given: BaseStore | None
) -> ToolResult:
    """Keep a text once, however often its call runs: it is named by its call."""
    (store, place), text = _open_place(own, given), make_storable(str(args["text"])).strip()
    if not 0 < len(text) <= LONGEST_MEMORY:
        return make_failure(say("memory_too_long", most=LONGEST_MEMORY, length=len(text)))
    thread = own.scope.thread
    key = hash_of([thread, own.scope.turn, own.call["intent"]])[:12]
    kept = [one.key for one in await store.asearch(place, limit=MOST_MEMORIES)]
    if len(kept) >= MOST_MEMORIES and key not in kept:
        return make_failure(say("memory_full", most=MOST_MEMORIES))
    origin = own.call.get("kept") or {"foreign": True, "confidential": True}
    when = datetime.now(UTC).isoformat(timespec="milliseconds")
    value = {"text": text, "when": when, "thread": thread, **origin}
    if key not in kept:
        await store.aput(place, key, value, index=["text"])
    return ToolResult(say("memory_kept", id=key))


async def _forget(
    args: Mapping[str, Any], own: "HandlerScope", *, given: BaseStore | None
) -> ToolResult:
    """Delete an entry; one that is gone is no failure, as the call may run again after a crash."""
    (store, place), key = _open_place(own, given), make_storable(str(args["id"]))
    if await store.aget(place, key) is None:
        return ToolResult(say("memory_not_there", id=repr(shorten_text(key))))
    await store.adelete(place, key)
    return ToolResult(say("memory_forgotten", id=key))


async def _recall(
    args: Mapping[str, Any], own: "HandlerScope", *, given: BaseStore | None
) -> ToolResult:
    """The nearest by meaning, where the store can tell; else the newest."""
    store, place = _open_place(own, given)
    query = make_storable(str(args.get("query") or "")).strip()
    found = await store.asearch(place, query=query or None, limit=MOST_MEMORIES)
    near = [one for one in found if one.score is not None]
    entries = [read_memory(one) for one in near or found]
    if not near:
        entries.sort(key=lambda one: one["when"], reverse=True)
    shown = _select_shown(entries[:_SHOWN], own.scope.context.result_cap)
    return ToolResult(to_json_text({"memories": shown, "left_out": len(entries) - len(shown)}))


def _select_shown(entries: Sequence[Memory], cap: int) -> list[dict[str, Any]]:
    """The first entries as a model is shown them, as many as the cap allows; one at least."""
    shown: list[dict[str, Any]] = []
    for one in entries:
        entry: dict[str, Any] = {name: one[name] for name in ("id", "text", "when")}
        entry["origin"] = "foreign" if one["foreign"] else _OWN
        entry |= {"confidential": True} if one["confidential"] else {}
        if shown and weigh(to_json_text([*shown, entry])) > cap:
            break
        shown.append(entry | {"text": shorten_text(one["text"], max(cap // 4, 100))})
    return shown


def read_memories(record: Evidence, *, is_own: bool) -> Reading | None:
    """What a recall told a model: a stranger's, if an entry is.

    So is all of it if it was cut, or if nobody can tell whose tool it was: `is_own`.
    """
    if record["status"] != "success":
        return None
    data = parse_json(record["result"])
    found = data.get("memories") if is_own and isinstance(data, dict) else None
    if not isinstance(found, list):
        found = [{"text": record["result"], "confidential": True}]
    words = [one["text"] for one in found if one.get("origin") == _OWN]
    secret = any(one.get("confidential") for one in found)
    if len(words) == len(found) and not secret:
        return Reading(RECALL_MEMORIES, "", {}, "trusted", words=words)
    text = "\n".join(one["text"] for one in found)
    return Reading(RECALL_MEMORIES, text, None, "foreign", confidential=secret, words=words)
