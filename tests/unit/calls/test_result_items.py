"""Results that hold components."""

import json

import pytest
from langchain_core.messages import ToolMessage

from loopwright.calls.results import SHOWN, normalize_result, render_items
from loopwright.stream.components import COMPONENTS, OF_TOOLS
from loopwright.tools.values import ReturnedValue

LIST = {"title": "Orders", "resources": [{"name": "A", "description": "x", "noise": 1}]}
HTML = "<img src=x onerror=alert(1)>"


def shown(value):
    """The text a model reads, and the components people see."""
    result = render_items(normalize_result(ReturnedValue(value)))
    return result.text, [(one["name"], one["props"]) for one in result.artifact.get(SHOWN, [])]


@pytest.mark.req("S0-85", "S0-89", "S0-91")
@pytest.mark.parametrize("key", ["items", "content"])
@pytest.mark.parametrize(
    "component",
    [
        {"type": "component", "name": "resource-list", "props": LIST},
        {"type": "component", "component": "resource-list", "props": LIST},
        {"type": "component", "value": {"name": "resource-list", "props": LIST}},
    ],
)
def test_a_result_mixes_text_json_and_components(key, component):
    items = [{"type": "text", "value": "Two."}, component, {"type": "json", "value": {"n": 2}}]
    text, components = shown({key: items})
    listed = "resources:\n- name: A, description: x\ntitle: Orders"
    assert text == f'Two.\n\n{listed}\n\n{{"n": 2}}'
    ((name, props),) = components
    assert (name, props["title"], "noise" in json.dumps(props)) == (
        "resource-list",
        "Orders",
        False,
    )
    told = ToolMessage(json.dumps({key: items}), tool_call_id="1")
    of_server = render_items(normalize_result(told))
    assert (of_server.text, len(of_server.artifact[SHOWN])) == (text, 1)


@pytest.mark.req("S0-86", "D13")
def test_raw_html_is_text():
    text, components = shown({"items": [{"type": "webcomponent", "value": HTML}]})
    assert (text, components) == (HTML, [])


@pytest.mark.req("S0-97")
@pytest.mark.parametrize(
    "item",
    [
        {"name": "resource-list", "props": {"resources": "none"}},
        {"name": "resource-info", "props": {}},
        {"name": "resource-info"},
        {"props": {"name": "A"}},
        {"name": "Not A Name", "props": {"a": 1}},
        {"name": "own", "props": {"a": "x" * 30_000}},
        {"name": "task-info", "props": ["id"]},
    ],
)
def test_what_cannot_be_drawn_is_text(item):
    text, components = shown({"items": [{"type": "component", **item}]})
    assert (components, isinstance(text, str)) == ([], True)


@pytest.mark.parametrize("name", sorted(COMPONENTS.keys() - OF_TOOLS))
def test_a_tool_does_not_draw_what_the_run_says_of_itself(name):
    props = {"id": "1.1.0", "task": "1", "tool": "look", "status": "success", "todos": []}
    asked = {"description": "Approve it?", "action": {"name": "look", "args": {}}}
    item = {"type": "component", "name": name, "props": {**props, **asked}}
    text, components = shown({"items": [item, {"type": "text", "value": "Seen."}]})
    assert (components, text.endswith("Seen.")) == ([], True)


@pytest.mark.parametrize(
    "value",
    [
        {"items": [{"type": "text", "value": "rows"}]},
        {"items": [{"type": "component"}, {"type": "apple"}]},
        {"items": []},
        {"items": [1], "content": []},
        {"items": "component"},
        [{"type": "component", "name": "todo-list", "props": {}}],
    ],
)
def test_data_stays_data(value):
    plain = normalize_result(ReturnedValue(value))
    assert render_items(plain) is plain
