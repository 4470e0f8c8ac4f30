import json
from typing import Any

import pytest

from loopwright.calls.policy import grant, is_granted
from loopwright.tools.catalog import CatalogTool, flags


def tool(name="save", server="disk", original="save") -> Any:
    return CatalogTool(
        name=name, description="", schema={}, server=server, original=original, **flags({})
    )


ARGS = {"path": "notes/a.md", "text": "(1+1)?", "n": [1, 2]}


@pytest.mark.req("P-42")
def test_only_what_the_answer_remembers_is_granted():
    assert grant("save", "disk", ARGS, "") is None
    of_tool = grant("save", "disk", ARGS, "tool")
    assert of_tool == {"tool": "save", "server": "disk", "arguments": {}}
    assert is_granted(of_tool, tool(), {"anything": 1})


@pytest.mark.parametrize(
    ("args", "granted"),
    [
        (ARGS, True),
        (dict(reversed(ARGS.items())), True),
        (ARGS | {"path": "notes/b.md"}, False),
        (ARGS | {"force": True}, False),
        ({"path": "notes/a.md"}, False),
        ({}, False),
    ],
)
def test_the_same_call_is_the_one_with_these_arguments_and_no_others(args, granted):
    given = grant("save", "disk", ARGS, "call")
    assert given is not None
    assert is_granted(json.loads(json.dumps(given)), tool(), args) == granted


def test_patterns_are_searched_in_the_arguments_and_all_must_fit():
    given = grant("save", "disk", ARGS, {"path": "^notes/", "n": "1"})
    assert given is not None
    assert is_granted(given, tool(), ARGS | {"text": "other"})
    assert not is_granted(given, tool(), ARGS | {"path": "/etc/notes/"})
    assert not is_granted(given, tool(), {"path": "notes/a.md"})


def test_a_tool_is_known_by_its_own_name_on_its_server():
    given = grant("save", "disk", ARGS, "tool")
    assert given is not None
    assert is_granted(given, tool("disk_save"), ARGS)
    assert not is_granted(given, tool("disk_save", "other"), ARGS)
    assert not is_granted(given, tool("save_all", original="save_all"), ARGS)
    own = grant("save", None, ARGS, "tool")
    assert own is not None
    assert not is_granted(own, tool(), ARGS)
    assert is_granted(own, tool(server=None), ARGS)


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"tool": "save", "server": "disk"},
        {"tool": "save", "server": "disk", "arguments": None},
        {"tool": "save", "server": "disk", "arguments": {"path": "("}},
        {"tool": "save", "server": "disk", "arguments": {"path": 1}},
        {"tool": "save", "server": "disk", "arguments": {1: "x"}},
        {"tool": "*", "server": "disk", "arguments": {}},
    ],
)
def test_what_cannot_be_read_grants_nothing(broken):
    assert not is_granted(broken, tool(), ARGS)
