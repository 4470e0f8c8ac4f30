"""What a tool gave back, in one shape: text for the model, data for programs, nothing random."""

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from langchain_core.messages import ToolMessage
from pydantic import ValidationError

from ..stream.components import COMPONENTS, OF_TOOLS, text_of
from ..text.canonical import make_storable, make_storable_json
from ..text.secrets import Secrets
from ..text.sentences import say
from ..tools.values import NoJson, ReturnedValue, as_json, to_text

SHOWN: Final = "components"
"""Key of an artifact: the components of a result, each with its name, its props and its text."""

MEDIA: Final = ("image", "audio", "file", "image_url", "video")
_LEAVES: Final = 200
_MEDIA_KEYS: Final = frozenset({
    "type", "data", "base64", "mimeType", "mime_type", "image_url", "source_type", "id", "detail",
})  # fmt: skip


@dataclass(frozen=True)
class Media:
    """An image, a sound or a file in a result; kept in the store, never in the state."""

    kind: str
    mime_type: str
    base64: str

    @property
    def id(self) -> str:
        """Under which id the store keeps it."""
        return hash_text(self.base64)


@dataclass(frozen=True)
class ToolResult:
    """A normalised result.

    Attributes:
        text: What it gave, or why it did not: what people read, and the records keep.
        data: The structured part as JSON, or None.
        is_error: The tool failed.
        artifact: What programs may want besides (`links`, `media`, the tool's own artifact).
        media: Binary parts, not yet stored.
        update: What the tool wants changed in the graph's state, as JSON; see `commands`.
        to_model: What the model reads in its place, such as with what to do next; of this `text`.
        is_own: The package says it, not the tool: there was no answer in time.
    """

    text: str
    data: Any = None
    is_error: bool = False
    artifact: dict[str, Any] = field(default_factory=dict)
    media: tuple[Media, ...] = ()
    update: dict[str, Any] = field(default_factory=dict)
    to_model: str = ""
    is_own: bool = False


def mask_result(result: ToolResult, secrets: Secrets) -> ToolResult:
    """The result with secrets masked: what is shown and stored of it, and what references read."""
    return replace(
        result,
        text=secrets.mask_text(result.text),
        to_model=secrets.mask_text(result.to_model),
        data=secrets.mask_json(result.data),
        artifact=secrets.mask_json(result.artifact),
        update=secrets.mask_json(result.update),
    )


def normalize_result(raw: object) -> ToolResult:
    """Read what a tool gave: its message, or its value as it returned it."""
    if isinstance(raw, ToolResult):
        return raw
    if isinstance(raw, ToolMessage):
        return _from_message(raw)
    return _from_value(raw if isinstance(raw, ReturnedValue) else ReturnedValue(raw))


def make_failure(why: str) -> ToolResult:
    """A failed call as a result: one sentence, and for the model what it can do."""
    why = make_storable(why.rstrip(". "))
    told = say("failed_call", why=why, advice=say("correct_it"))
    return ToolResult(say("call_ended_so", why=why), is_error=True, to_model=told)


def from_exception(name: str, error: BaseException) -> ToolResult:
    """An exception as a result: its type and message, no traceback."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    words = to_text(error).strip()
    sentence = "tool_raised" if words else "tool_raised_silently"
    return make_failure(say(sentence, tool=name, error=type(error).__name__, why=words))


def to_plain_json(value: object) -> Any:
    """A value as plain JSON for programs that want it besides; bytes become their text."""
    try:
        return as_json(value)
    except NoJson as error:
        return str(error)


def _from_value(returned: ReturnedValue) -> ToolResult:
    """What a Python tool returned: the value for programs, a text of it for a model."""
    value = returned.value
    if _is_content(value, said=returned.is_content):
        result = _from_blocks(value, None, is_error=False)
    else:
        data = as_json(value)
        result = ToolResult(_render_value(data) or say("no_output"), _extract_data(data))
    if returned.artifact is None:
        return result
    return replace(result, artifact={**result.artifact, "own": to_plain_json(returned.artifact)})


def _render_value(data: Any) -> str:
    """The text a model reads of a value."""
    if isinstance(data, str):
        return data
    if isinstance(data, list):
        plain = [b["text"] if _is_mere_text(b) else b for b in data]
        if all(isinstance(item, str) for item in plain):
            return "\n".join(filter(None, plain))
    return to_json_text(data)


def _extract_data(data: Any) -> Any:
    """The value, unless its text says it: a text that spells an object or a list is that."""
    if not isinstance(data, str):
        return data
    if data.lstrip().startswith(("{", "[")):
        return make_storable_json(parse_json(data))
    return data if data in ("", "null") else None


def _is_mere_text(block: Any) -> bool:
    is_text = isinstance(block, dict) and block.keys() == {"type", "text"}
    return is_text and block["type"] == "text" and isinstance(block["text"], str)


def _is_content(value: Any, *, said: bool) -> bool:
    """Whether a list is meant for a model's eyes; rows that have a field `type` are data.

    A tool says so; or its blocks have LangChain's own ids, or hold pictures and nothing else.
    """
    if not isinstance(value, list) or not value or not all(map(_is_block, value)):
        return False
    return said or (all(map(_is_marked, value)) and not all(map(_is_mere_text, value)))


def _is_marked(block: Any) -> bool:
    if str(block.get("id", "")).startswith("lc_") or _is_mere_text(block):
        return True
    return set(block) <= _MEDIA_KEYS and _read_media(block, block["type"]) is not None


def _from_message(message: ToolMessage) -> ToolResult:
    """A message; LangChain's MCP adapter puts the structured part into its artifact."""
    blocks = [message.content] if isinstance(message.content, str) else message.content
    own, is_error, data = message.artifact, message.status == "error", None
    structured = isinstance(own, Mapping) and "structured_content" in own
    if structured:
        data = own["structured_content"]
        inner = data.get("result", {}) if isinstance(data, Mapping) and len(data) == 1 else {}
        if not isinstance(inner, dict):
            data = inner  # the wrapper that servers put around values that are no objects
    result = _from_blocks(blocks, data, is_error=is_error)
    if is_error and result.text == say("no_output"):
        return make_failure(say("tool_failed_silently"))
    if own is None or structured:
        return result
    return replace(result, artifact={**result.artifact, "own": to_plain_json(own)})


def _is_block(value: object) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("type"), str)


def _from_blocks(blocks: Iterable[Any], data: Any, *, is_error: bool) -> ToolResult:
    media: list[Media] = []
    links: list[dict[str, Any]] = []
    text = "\n".join(filter(None, [_render_block(block, media, links) for block in blocks]))
    plain = to_plain_json(data) if data is not None else None
    if data is None and text.lstrip().startswith(("{", "[")):
        plain = make_storable_json(parse_json(text))
    if data is not None and not _covers(text, plain):
        text = "\n".join(filter(None, [text, to_json_text(plain)]))
    artifact = {"links": links} if links else {}
    return ToolResult(
        make_storable(text) or say("no_output"), plain, is_error, artifact, tuple(media)
    )


def _render_block(block: Any, media: list[Media], links: list[dict[str, Any]]) -> str:
    """The words for one block; what is no text is put aside."""
    if isinstance(block, str):
        return block
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text") or "")
    if kind == "resource_link":
        link = {k: block[k] for k in ("uri", "name", "description", "mimeType") if block.get(k)}
        links.append(to_plain_json(link))
        words = ": ".join(str(link[k]) for k in ("name", "description") if k in link)
        return f"[link {link.get('uri', '')} {words}]".replace(" ]", "]")
    if kind == "resource" and isinstance(block.get("resource"), Mapping):
        return _render_resource(block["resource"], media)
    found = _read_media(block, kind)
    if found is None:
        # Random ids make equal results look different.
        return to_json_text(to_plain_json({k: v for k, v in block.items() if k != "id"}))
    media.append(found)
    return _render_placeholder(found)


def _render_resource(resource: Mapping[str, Any], media: list[Media]) -> str:
    uri = resource.get("uri", "")
    if isinstance(resource.get("text"), str):
        return f"[resource {uri}]\n{resource['text']}"
    found = Media(
        "file", str(resource.get("mimeType") or "unknown"), str(resource.get("blob") or "")
    )
    media.append(found)
    return f"[resource {uri}] {_render_placeholder(found)}"


def _read_media(block: Any, kind: object) -> Media | None:
    """An image, audio or file block, in MCP's, LangChain's or OpenAI's spelling."""
    if kind not in MEDIA:
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


def _render_placeholder(media: Media) -> str:
    size = len(media.base64) * 3 // 4
    return say("media_kept", kind=media.kind, type=media.mime_type, size=size, id=media.id)


def parse_container(text: str) -> Any:
    """The object, the list or the null that a text spells; else the text itself."""
    if text == "null" or not text.lstrip().startswith(("{", "[")):
        return None if text == "null" else text
    return text if (found := parse_json(text)) is None else found


def parse_json(text: str) -> Any:
    """The JSON value of a text; None if the text is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _covers(text: str, data: Any) -> bool:
    """Whether the text already says what the structured part does."""
    if not text:
        return False
    leaves = list(itertools.islice(_list_leaves(data), _LEAVES + 1))
    if len(leaves) > _LEAVES:
        return len(text) * 2 >= len(to_json_text(data))
    lowered = text.lower()
    return all(leaf.lower() in lowered for leaf in leaves)


def _list_leaves(data: Any) -> Iterable[str]:
    if isinstance(data, Mapping | list):
        for item in data.values() if isinstance(data, Mapping) else data:
            yield from _list_leaves(item)
    elif data is not None:
        yield data if isinstance(data, str) else json.dumps(data)


def to_json_text(data: Any) -> str:
    """Data as one line of JSON."""
    return json.dumps(data, ensure_ascii=False)


def hash_text(text: str) -> str:
    """A name for a text, the same for equal texts; nobody finds another text of this name."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:24]


# Results that are made to be looked at: texts, JSON and components, in the order they stand in.
# A tool returns `{"items": [{"type": "text", "value": "…"}, {"type": "component", "name": …,
# "props": {…}}, …]}`, also `json` and `webcomponent`; `content` for `items` and `component` for
# `name` are read too. A `webcomponent` is never rendered: it is text like any other.

_KINDS: Final = frozenset({"text", "json", "component", "webcomponent"})
_DRAWN: Final = frozenset({"component", "webcomponent"})
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,63}")
_MOST: Final = 20
_LONGEST: Final = 20_000
_MOST_LINKS: Final = 200


def render_items(result: ToolResult) -> ToolResult:
    """The result with the text of its items for a model, and their components for people."""
    if not (items := _read_items(result.data)):
        return _add_links(result)
    shown = [_build_component(item) for item in items]
    texts = [
        drawn["text"] if drawn else _render_item(item)
        for drawn, item in zip(shown, items, strict=True)
    ]
    components = [drawn for drawn in shown if drawn is not None][:_MOST]
    artifact = {**result.artifact, **({SHOWN: components} if components else {})}
    text = make_storable("\n\n".join(filter(None, texts)))
    return replace(result, text=text, artifact=artifact)


def _read_items(data: Any) -> Sequence[Mapping[str, Any]]:
    """The items of a result, if that is what it is: at least one of them is to be drawn."""
    if not isinstance(data, Mapping) or len(data.keys() & {"items", "content"}) != 1:
        return []
    items = data.get("items", data.get("content"))
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        return []
    kinds = {str(item.get("type")) for item in items}
    return items if kinds <= _KINDS and kinds & _DRAWN else []


def _build_component(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """A component that can be drawn; None for what is shown as text."""
    if item["type"] != "component":
        return None
    name, props = _parse_component(item)
    if not _NAME.fullmatch(name) or not isinstance(props, Mapping):
        return None
    if name in COMPONENTS:
        if name not in OF_TOOLS:
            return None
        try:
            checked = COMPONENTS[name].model_validate(props)
        except ValidationError:
            return None
        props = checked.model_dump(mode="json")
    if len(to_json_text(props)) > _LONGEST:
        return None
    return {"name": name, "props": dict(props), "text": text_of(name, props)}


def _parse_component(item: Mapping[str, Any]) -> tuple[str, Any]:
    """The name and the props of an item, which may stand in its `value`."""
    value = item.get("value")
    fields = {**item, **value} if isinstance(value, Mapping) else item
    return str(fields.get("name") or fields.get("component") or ""), fields.get("props")


def _render_item(item: Mapping[str, Any]) -> str:
    """An item that is not drawn, in words."""
    if item["type"] == "component":
        name, props = _parse_component(item)
        return text_of(name, props) if isinstance(props, Mapping) else name
    value = item.get("value")
    return value if isinstance(value, str) else to_json_text(value)


def _add_links(result: ToolResult) -> ToolResult:
    """Links that a server gave with its result are resources."""
    links = [
        {
            "name": str(link.get("name") or link.get("uri") or ""),
            "uri": str(link.get("uri") or ""),
            "description": str(link.get("description") or ""),
            "mime_type": str(link.get("mimeType") or ""),
        }
        for link in result.artifact.get("links", ())
    ]
    if not links:
        return result
    several = {"resources": links[:_MOST_LINKS]}
    name, props = ("resource-info", links[0]) if len(links) == 1 else ("resource-list", several)
    component = {"name": name, "props": props, "text": text_of(name, props)}
    return replace(result, artifact={**result.artifact, SHOWN: [component]})
