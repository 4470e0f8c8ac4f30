"""Results that are made to be looked at: texts, JSON and components, in the order they stand in.

A tool returns `{"items": [{"type": "text", "value": "…"}, {"type": "component", "name": …, "props":
{…}}, …]}`, also `json` and `webcomponent`; `content` for `items` and `component` for `name` are
read too. A model is told the text of each item. What a `webcomponent` holds is never rendered: it
is text like any other.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError

from ..stream.components import COMPONENTS, OF_TOOLS, text_of
from ..text.canonical import make_storable
from .results import SHOWN, ToolResult, to_json_text

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
        one["text"] if one else _render_text(item) for one, item in zip(shown, items, strict=True)
    ]
    components = [one for one in shown if one is not None][:_MOST]
    artifact = {**result.artifact, **({SHOWN: components} if components else {})}
    return replace(result, text=make_storable("\n\n".join(filter(None, texts))), artifact=artifact)


def _read_items(data: Any) -> Sequence[Mapping[str, Any]]:
    """The items of a result, if that is what it is: at least one of them is to be drawn."""
    if not isinstance(data, Mapping) or len(data.keys() & {"items", "content"}) != 1:
        return []
    items = data.get("items", data.get("content"))
    if not isinstance(items, list) or not all(isinstance(one, Mapping) for one in items):
        return []
    kinds = {str(one.get("type")) for one in items}
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
    given = {**item, **value} if isinstance(value, Mapping) else item
    return str(given.get("name") or given.get("component") or ""), given.get("props")


def _render_text(item: Mapping[str, Any]) -> str:
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
