"""What a tool gave back, in one shape: text for the model, data for programs, nothing random.

Long texts keep head and tail; the whole is stored once and can be read on with `read_result`.
"""

import hashlib
import itertools
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.store.base import BaseStore
from langgraph.types import Command
from pydantic_core import PydanticSerializationError, to_jsonable_python

from ..state.canonical import storable, storable_json, weigh
from ..state.told import say
from ..tools.catalog import READ_RESULT

_LEAVES: Final = 200


@dataclass(frozen=True)
class Media:
    """An image, a sound or a file in a result; kept in the store, never in the state."""

    kind: str
    mime_type: str
    base64: str

    @property
    def id(self) -> str:
        """Under which id the store keeps it."""
        return digest(self.base64)


@dataclass(frozen=True)
class ToolResult:
    """A normalised result.

    Attributes:
        text: What the model reads.
        data: The structured part as JSON, or None.
        is_error: The tool failed.
        artifact: What programs may want besides (`links`, `media`, the tool's own artifact).
        media: Binary parts, not yet stored.
    """

    text: str
    data: Any = None
    is_error: bool = False
    artifact: dict[str, Any] = field(default_factory=dict)
    media: tuple[Media, ...] = ()


def normalise(raw: object) -> ToolResult:
    """Read whatever a tool returned: a message, an MCP answer, blocks, a text or any value."""
    if isinstance(raw, ToolResult):
        return raw
    if any(isinstance(item, Command) for item in (raw if isinstance(raw, list) else [raw])):
        return failure(say("tool_gave_a_command"))
    if isinstance(raw, ToolMessage):
        return _from_message(raw)
    if isinstance(raw, Mapping) and isinstance(raw.get("content"), list) and _is_answer(raw):
        return _from_answer(raw)
    if isinstance(raw, list) and raw and all(_is_block(block) for block in raw):
        return _from_blocks(raw, None, is_error=False)
    data = to_json(raw)
    text = data if isinstance(data, str) else _json(data)
    return ToolResult(storable(text), None if isinstance(data, str) else data)


def failure(why: str) -> ToolResult:
    """A failed call as a result: one sentence, and what the model can do."""
    text = say("failed_call", why=why.rstrip(". "), advice=say("correct_it"))
    return ToolResult(storable(text), is_error=True)


def from_exception(name: str, error: BaseException) -> ToolResult:
    """An exception as a result: its type and message, no traceback."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    words = told(error).strip()
    kind = type(error).__name__
    told_so = "tool_raised" if words else "tool_raised_silently"
    return failure(say(told_so, tool=name, error=kind, why=words))


def to_json(value: object) -> Any:
    """A value as plain JSON; what has no JSON form becomes its text."""
    try:
        plain = to_jsonable_python(value, fallback=str)
        # JSON has no NaN and no Infinity; every other constant is its own.
        plain = json.loads(json.dumps(plain, ensure_ascii=False), parse_constant=str)
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        return storable(told(value))
    return storable_json(plain)


def told(value: object) -> str:
    """A value in its own words, where it has any: a `__str__` may raise like all code of others."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - whatever it raises, there is a value to name
        return f"<{type(value).__name__}>"


def _from_message(message: ToolMessage) -> ToolResult:
    blocks = [message.content] if isinstance(message.content, str) else message.content
    answer = {"content": blocks, "isError": message.status == "error"}
    own = message.artifact
    if isinstance(own, Mapping) and "structured_content" in own:  # as LangChain's MCP adapter does
        return _from_answer({**answer, "structuredContent": own["structured_content"]})
    result = _from_answer(answer)
    if own is None:
        return result
    return replace(result, artifact={**result.artifact, "own": to_json(own)})


def _from_answer(answer: Mapping[str, Any]) -> ToolResult:
    data = answer.get("structuredContent")
    is_error = answer.get("isError") is True
    inner = data.get("result", {}) if isinstance(data, Mapping) and len(data) == 1 else {}
    if not isinstance(inner, dict):
        data = inner  # the wrapper that servers put around values that are no objects
    result = _from_blocks(answer["content"], data, is_error=is_error)
    if is_error and result.text == say("no_output"):
        return failure(say("tool_failed_silently"))
    return result


def _is_answer(raw: Mapping[str, Any]) -> bool:
    return all(_is_block(block) for block in raw["content"]) and bool(
        raw["content"] or {"isError", "structuredContent", "_meta", "meta"} & set(raw)
    )


def _is_block(value: object) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("type"), str)


def _from_blocks(blocks: Iterable[Any], data: Any, *, is_error: bool) -> ToolResult:
    media: list[Media] = []
    links: list[dict[str, Any]] = []
    text = "\n".join(filter(None, [_shown(block, media, links) for block in blocks]))
    plain = to_json(data) if data is not None else None
    if data is None and text.lstrip().startswith(("{", "[")):
        plain = storable_json(parsed(text))
    if data is not None and not _covers(text, plain):
        text = "\n".join(filter(None, [text, _json(plain)]))
    artifact = {"links": links} if links else {}
    return ToolResult(storable(text) or say("no_output"), plain, is_error, artifact, tuple(media))


def _shown(block: Any, media: list[Media], links: list[dict[str, Any]]) -> str:
    """The words for one block; what is no text is put aside."""
    if isinstance(block, str):
        return block
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text") or "")
    if kind == "resource_link":
        link = {k: block[k] for k in ("uri", "name", "description", "mimeType") if block.get(k)}
        links.append(to_json(link))
        words = ": ".join(str(link[k]) for k in ("name", "description") if k in link)
        return f"[link {link.get('uri', '')} {words}]".replace(" ]", "]")
    if kind == "resource" and isinstance(block.get("resource"), Mapping):
        return _resource(block["resource"], media)
    found = _media(block, kind)
    if found is None:
        # Random ids make equal results look different.
        return _json(to_json({k: v for k, v in block.items() if k != "id"}))
    media.append(found)
    return _placeholder(found)


def _resource(resource: Mapping[str, Any], media: list[Media]) -> str:
    uri = resource.get("uri", "")
    if isinstance(resource.get("text"), str):
        return f"[resource {uri}]\n{resource['text']}"
    found = Media(
        "file", str(resource.get("mimeType") or "unknown"), str(resource.get("blob") or "")
    )
    media.append(found)
    return f"[resource {uri}] {_placeholder(found)}"


def _media(block: Any, kind: object) -> Media | None:
    """An image, audio or file block, in MCP's, LangChain's or OpenAI's spelling."""
    if kind not in ("image", "audio", "file", "image_url", "video"):
        return None
    content = block.get("data") or block.get("base64")
    mime = block.get("mimeType") or block.get("mime_type")
    url = block.get("image_url", {})
    url = url.get("url") if isinstance(url, Mapping) else url
    if not content and isinstance(url, str) and url.startswith("data:") and "," in url:
        head, content = url.split(",", 1)
        mime = head[5:].split(";")[0]
    if not isinstance(content, str):
        return None
    return Media(str(kind).removesuffix("_url"), str(mime or "unknown"), content)


def _placeholder(media: Media) -> str:
    size = len(media.base64) * 3 // 4
    return say("media_kept", kind=media.kind, type=media.mime_type, size=size, id=media.id)


def parsed(text: str) -> Any:
    """The JSON that a text spells; None where it spells none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _covers(text: str, data: Any) -> bool:
    """Whether the text already says what the structured part does."""
    if not text:
        return False
    leaves = list(itertools.islice(_leaves(data), _LEAVES + 1))
    if len(leaves) > _LEAVES:
        return len(text) * 2 >= len(_json(data))
    lowered = text.lower()
    return all(leaf.lower() in lowered for leaf in leaves)


def _leaves(data: Any) -> Iterable[str]:
    if isinstance(data, Mapping | list):
        for item in data.values() if isinstance(data, Mapping) else data:
            yield from _leaves(item)
    elif data is not None:
        yield data if isinstance(data, str) else json.dumps(data)


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False)


def digest(text: str) -> str:
    """A short name for a text, the same for equal texts."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


log = logging.getLogger(__name__)

_NOTE: Final = 240
"""Characters kept free for the line that says what was left out; a cap is 500 at least."""

_HEAD: Final = 0.75


def has_stored(messages: Sequence[BaseMessage]) -> bool:
    """Whether one of these messages was shortened, so that `read_result` is of use."""
    return any(isinstance(m, ToolMessage) and "stored" in m.additional_kwargs for m in messages)


class ResultStore:
    """The long results of one thread, in the run's store. Equal texts are kept once."""

    def __init__(self, store: BaseStore, thread_id: str) -> None:
        """Use a store for one thread; threads never see each other's results."""
        self._store = store
        # A label of a namespace must be non-empty and without periods.
        label = thread_id.replace("%", "%25").replace(".", "%2E") or "-"
        self._namespace = ("loopwright", "results", label)

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
            await self._keep(media.id, value)
        listed = [{"id": m.id, "type": m.kind, "mime_type": m.mime_type} for m in result.media]
        artifact = {**result.artifact, **({"media": listed} if listed else {})}
        if weigh(result.text) <= cap:
            fits = result.data is None or len(_json(result.data)) <= cap
            data = result.data if fits else None
            return ToolResult(result.text, data, result.is_error, artifact), ""
        key = digest(result.text)
        kept = await self._keep(key, {"text": result.text})
        text = _shortened(result.text, cap, key if kept else "")
        return ToolResult(text, None, result.is_error, artifact), key if kept else ""

    async def whole(self, key: str) -> str | None:
        """A stored text as the tool gave it; None where there is none of this id."""
        item = await self._store.aget(self._namespace, key)
        text = item.value.get("text") if item is not None else None
        return text if isinstance(text, str) else None

    async def read(self, args: Mapping[str, Any], cap: int) -> ToolResult:
        """Answer a call of `read_result`: the part of a stored text that starts at `offset`."""
        key, offset = str(args["id"]).strip(), int(args.get("offset") or 0)
        item = await self._store.aget(self._namespace, key)
        if item is None:
            return failure(say("no_such_result", id=repr(key)))
        text = item.value.get("text")
        if not isinstance(text, str):
            kind = item.value.get("type", "file")
            return failure(say("result_no_text", id=repr(key), kind=kind))
        if offset >= len(text):
            told = say("result_too_short", id=repr(key), length=len(text), offset=offset)
            return failure(told)
        end = offset + _fitting(text[offset : offset + cap], cap - _NOTE)
        told = say(
            "end_of_result" if end >= len(text) else "part_of_result",
            start=offset, end=end, total=len(text), reader=READ_RESULT, id=repr(key),
        )  # fmt: skip
        return ToolResult(f"{text[offset:end]}\n{told}")

    async def _keep(self, key: str, value: dict[str, Any]) -> bool:
        try:
            if await self._store.aget(self._namespace, key) is None:
                await self._store.aput(self._namespace, key, value, index=False)
        except Exception as error:  # noqa: BLE001 - any database; a result is shown even if unkept
            log.info("A long tool result could not be stored: %s", error)
            return False
        return True


def _shortened(text: str, cap: int, key: str) -> str:
    """Head and tail of a text, and a line between them that says how to read the rest."""
    room = cap - _NOTE
    head = _fitting(text, int(room * _HEAD))
    tail = _fitting(reversed(text), room - int(room * _HEAD))
    note = say(
        "middle_stored" if key else "middle_lost",
        left=len(text) - head - tail, total=len(text), reader=READ_RESULT, id=repr(key),
        offset=head,
    )  # fmt: skip
    return f"{text[:head]}\n{note}\n{text[len(text) - tail :]}"


def _fitting(text: Iterable[str], room: float) -> int:
    """How many leading characters weigh at most `room`; at least one, so that paging moves on."""
    count = 0
    for character in text:
        room -= weigh(character)
        if room < 0:
            break
        count += 1
    return max(count, 1)


ADVICE: Final = (
    "correct_it", "do_without", "report_doubt", "send_anew", "report_it", "answer_with_it"
)  # fmt: skip


def without_advice(text: str) -> str:
    """Why a call did not work, in one line, without what a model is to do about it."""
    for name in ADVICE:
        text = text.replace(say(name), "")
    return " ".join(text.split())
