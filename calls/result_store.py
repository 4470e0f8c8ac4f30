"""Long results: the model sees head and tail, the whole text is stored once.

`read_result` reads the rest, and references use the stored data. Others may write into a store, so
a stored text counts only if its digest is the id that the thread has saved.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from langgraph.store.base import BaseStore

from ..state.calls import results_of
from ..state.history import History
from ..text.canonical import make_storable, weigh
from ..text.sentences import say
from ..tools.catalog import READ_RESULT
from .call_records import Call
from .results import MEDIA, ToolResult, hash_text, make_failure, parse_container, to_json_text

if TYPE_CHECKING:
    from .path import PassScope, Then

log = logging.getLogger(__name__)

_NOTE: Final = 240
"""Characters kept free for the line that says what was left out; a cap is 500 at least."""

_HEAD: Final = 0.75


class Missing:
    """What is no longer in the store."""


MISSING: Final = Missing()


class ResultStore:
    """The long results of one thread, in the run's store. Equal texts are kept once."""

    def __init__(self, store: BaseStore, thread_id: str, past: History | None = None) -> None:
        """Use a store for one thread; threads never see each other's results.

        What calls before gave, by their ids in `past`, can be read too.
        """
        self._store = store
        self._past = past or History()
        self._namespace = results_of(thread_id)

    async def shorten(self, result: ToolResult, cap: int) -> tuple[ToolResult, str]:
        """Bring a result under the cap and put its binary parts aside.

        Args:
            result: A normalised result.
            cap: Characters to show at most; a CJK character counts as 2.7.

        Returns:
            What to show, and the id under which the whole text can be read ("" where all is shown).
        """
        for media in result.media:
            value = {"type": media.kind, "mime_type": media.mime_type, "base64": media.base64}
            await self._save_value(media.id, value)
        listed = [{"id": m.id, "type": m.kind, "mime_type": m.mime_type} for m in result.media]
        artifact = {**result.artifact, **({"media": listed} if listed else {})}
        is_shown = weigh(result.text) <= cap
        data = to_json_text(result.data)
        if is_shown and (result.data is None or len(data) <= cap):
            return replace(result, artifact=artifact, media=()), ""
        value = {"text": result.text}
        if result.data is not None and parse_container(result.text) != result.data:
            value["json"] = data  # as text: databases change the spelling of numbers and keys
        key = _name_value(value)
        key = key if await self._save_value(key, value) else ""
        text = result.text if is_shown else _shorten_text(result.text, cap, key)
        told = result.to_model if is_shown else ""
        return replace(
            result, text=text, to_model=told, data=None, artifact=artifact, media=()
        ), key

    async def load_data(self, key: str) -> Any:
        """The data of a stored result; MISSING if there is none with this id."""
        value = await self._load(key)
        if value is None or _name_value(value) != key or "text" not in value:
            return MISSING
        return json.loads(value["json"]) if "json" in value else parse_container(value["text"])

    async def load_text(self, key: str) -> str:
        """A stored text of this thread; "" if there is none with this id."""
        value = await self._load(key)
        return str(value.get("text", "")) if value and _name_value(value) == key else ""

    async def save_text(self, text: str) -> str:
        """Keep a text; gives its id."""
        key = _name_value({"text": text})
        await self._store.aput(self._namespace, key, {"text": text}, index=False)
        return key

    async def answer_read(self, args: Mapping[str, Any], cap: int) -> ToolResult:
        """Answer a call of `read_result`: the part of a stored text that starts at `offset`."""
        key, offset = make_storable(str(args["id"]).strip()), int(args.get("offset") or 0)
        text = self._past.find_result(key)
        if text is None:
            value = await self._load(key)
            if value is None:
                return make_failure(say("no_such_result", id=repr(key)))
            if _name_value(value) != key:
                return make_failure(say("result_replaced", id=repr(key)))
            if "text" not in value:
                kind = value.get("type")
                kind = kind if kind in MEDIA else "file"
                return make_failure(say("result_no_text", id=repr(key), kind=kind))
            text = str(value["text"])
        if offset >= len(text):
            why = say("result_too_short", id=repr(key), length=len(text), offset=offset)
            return make_failure(why)
        end = offset + _count_fitting(text[offset : offset + cap], cap - _NOTE)
        note = say(
            "end_of_result" if end >= len(text) else "part_of_result",
            start=offset, end=end, total=len(text), reader=READ_RESULT, id=repr(key),
        )  # fmt: skip
        return ToolResult(f"{text[offset:end]}\n{note}")

    async def _load(self, key: str) -> Mapping[str, Any] | None:
        item = await self._store.aget(self._namespace, key)
        return item.value if item is not None else None

    async def _save_value(self, key: str, value: dict[str, Any]) -> bool:
        try:
            kept = await self._load(key)
            if kept is None or _name_value(kept) != key:
                await self._store.aput(self._namespace, key, value, index=False)
        except Exception as error:  # noqa: BLE001 - any database; a result is shown even if unkept
            log.info("A long tool result could not be stored: %s", error)
            return False
        return True


def _name_value(value: Mapping[str, Any]) -> str:
    """The id of what is stored, which is its digest."""
    if "text" not in value:
        return hash_text(str(value.get("base64")))
    text, data = str(value["text"]), value.get("json")
    return hash_text(text.replace("\0", "") if data is None else f"{text}\0{data}")


def _shorten_text(text: str, cap: int, key: str) -> str:
    """Head and tail of a text, and a line between them that says how to read the rest."""
    room = cap - _NOTE
    head = _count_fitting(text, int(room * _HEAD))
    tail = _count_fitting(reversed(text), room - int(room * _HEAD))
    note = say(
        "middle_stored" if key else "middle_lost",
        left=len(text) - head - tail, total=len(text), reader=READ_RESULT, id=repr(key),
        offset=head,
    )  # fmt: skip
    return f"{text[:head]}\n{note}\n{text[len(text) - tail :]}"


def _count_fitting(text: Iterable[str], room: float) -> int:
    """How many leading characters weigh at most `room`; at least one, so that paging moves on."""
    count = 0
    for character in text:
        room -= weigh(character)
        if room < 0:
            break
        count += 1
    return max(count, 1)


async def cap_size(work: "PassScope", call: Call, then: "Then") -> None:
    """Make a call and bring its result under the cap; the store keeps the whole."""
    await then(call)
    cap = work.scope.context.result_cap
    call.result, call.stored = await work.results.shorten(call.outcome, cap)
