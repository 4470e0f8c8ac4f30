from typing import Any

import pytest
from langchain_core.tools import StructuredTool

from loopwright.calls.policy import Policy
from loopwright.state.context import Context
from loopwright.state.errors import SettingsError
from loopwright.tools.catalog import READ_RESULT, build_catalog
from loopwright.tools.mcp.config import ServerConfig, read_servers
from loopwright.tools.mcp.server import Listing
from loopwright.tools.python_tools import read_tools


def listing(server, *names, warning="", **entry) -> Any:
    tools = tuple({"name": name, "inputSchema": {}, **entry} for name in names)
    return Listing(ServerConfig(name=server), tools, warning)


def found(catalog: Any, name: str, server: str | None = None) -> Any:
    return catalog.find(name, server)


def search(query: str) -> str:
    """Search."""
    return query


def names(*listings, python=()) -> Any:
    return [
        (tool.name, tool.server, tool.original)
        for tool in build_catalog(read_tools(python), listings).tools.values()
    ]


@pytest.mark.req("S0-49", "S0-53", "P-09")
def test_equal_names_get_their_servers_prefix():
    assert names(listing("a", "search", "x"), listing("b", "search")) == [
        ("a_search", "a", "search"),
        ("x", "a", "x"),
        ("b_search", "b", "search"),
    ]


def test_names_are_short_and_plain_and_stay_apart():
    long_a, long_b = "x" * 70 + "a", "x" * 70 + "b"
    given = [n for n, _, _ in names(listing("s", long_a, long_b, "поиск", "a.b/c d"))]
    assert len(set(given)) == 4
    assert all(len(name) <= 64 for name in given)
    assert given[3] == "a_b_c_d"


@pytest.mark.req("P-09")
def test_a_call_finds_its_server_when_names_change_on_the_way():
    both = build_catalog((), [listing("a", "search"), listing("b", "search")])
    only_a = build_catalog((), [listing("a", "search"), listing("b", warning="dead")])
    assert found(both, "search", "a").name == "a_search"
    assert found(both, "search", "b").name == "b_search"
    assert found(only_a, "a_search", "a").original == "search"
    assert only_a.find("b_search", "b") is None
    assert both.find("search") is None
    assert only_a.warnings == ("dead",)


@pytest.mark.req("S0-55")
def test_nearest_names_are_offered_for_an_unknown_one():
    catalog = build_catalog((), [listing("a", "read_file", "write_file", "list_orders")])
    assert catalog.find_nearest("readfile")[0] == "read_file"
    assert "list_orders" in catalog.find_nearest("orders.list")
    assert catalog.find_nearest("zzz") == ["read_file", "write_file", "list_orders"]
    assert build_catalog((), []).find_nearest("x") == []


@pytest.mark.req("S0-52", "S0-123")
def test_specs_are_stable_and_offer_reading_on_from_the_first_request_on():
    catalog = build_catalog(read_tools([search]), [listing("a", "x", description="Does x.")])
    assert [one["function"]["name"] for one in catalog.specs()] == ["search", "x", READ_RESULT]
    assert catalog.specs() == catalog.specs()
    assert build_catalog((), []).specs() == []
    assert found(catalog, READ_RESULT).read_only
    assert catalog.summaries("")[1] == {"name": "x", "description": "Does x."}
    parameters = catalog.specs()[0]["function"]["parameters"]
    assert parameters["required"] == ["query"]


@pytest.mark.req("W-77")
@pytest.mark.parametrize(
    ("hints", "stricter"),
    [
        ({"readOnlyHint": True, "destructiveHint": True}, (False, True, False)),
        ({"readOnlyHint": True, "read_only_hint": False}, (False, False, False)),
        ({"readOnlyHint": True, "annotations": {"destructiveHint": True}}, (False, True, False)),
        (
            {"idempotentHint": True, "mcp": {"tool": {"idempotentHint": False}}},
            (False, False, False),
        ),
        ({"readOnlyHint": True, "destructiveHint": False}, (True, False, True)),
    ],
    ids=str,
)
def test_of_hints_that_contradict_each_other_the_stricter_counts(hints, stricter):
    (tool,) = build_catalog((), [listing("a", "x", annotations=hints)]).tools.values()
    assert (tool.read_only, tool.destructive, tool.resendable) == stricter
    # A rule on annotations sees what counts, not what was said.
    assert tool.declared.get("readOnlyHint", False) is tool.read_only


@pytest.mark.req("W-68")
@pytest.mark.parametrize("name", ["3d_render", "-", "_", "a" * 64, "9", "A-b_C"])
def test_a_program_may_name_a_tool_as_providers_do(name):
    tool = StructuredTool.from_function(search, name=name)
    assert [tool.name for tool in read_tools([tool])] == [name]


@pytest.mark.req("W-68")
@pytest.mark.parametrize("name", ["größe", "a" * 65, "a.b", "a b", "a\n", "٣", "查询", "a/b"])
def test_a_name_that_providers_refuse_is_refused_at_once(name):
    with pytest.raises(SettingsError, match="is refused by model providers: use 1 to 64"):
        read_tools([StructuredTool.from_function(search, name=name)])


@pytest.mark.req("W-125")
@pytest.mark.parametrize(
    ("entry", "free"),
    [
        ({"url": "http://h/mcp"}, False), ({"url": "http://h/mcp", "trust": True}, True),
        ({"command": "x"}, True), ({"command": "x", "trust": False}, False),
    ],
)  # fmt: skip
def test_a_strangers_hint_frees_no_tool_unless_the_operator_vouches_for_it(entry, free):
    """What runs as the operator's own process is believed at its first word."""
    (config,) = read_servers({"s": entry})
    hints = {"look": {"readOnlyHint": True}, "put": {"idempotentHint": True}}
    hints["wipe"] = {"readOnlyHint": True, "destructiveHint": True}
    listed = tuple({"name": n, "inputSchema": {}, "annotations": h} for n, h in hints.items())
    tools = build_catalog((), [Listing(config, listed)]).tools
    assert (tools["look"].read_only, tools["put"].resendable) == (free, free)
    assert tools["wipe"].destructive
    decided = Policy().decide(tools["look"], {}, context=Context(), can_ask=True)
    assert decided.action == ("allow" if free else "ask")
    assert free or "is not trusted" in decided.reason
    allows = Policy.of([{"action": "allow", "annotations": {"readOnlyHint": True}}])
    ruled = allows.decide(tools["look"], {}, context=Context(), can_ask=True)
    assert ruled.action == ("allow" if free else "ask")


@pytest.mark.req("W-125")
def test_what_a_server_said_first_of_a_tool_becomes_no_freer():
    (config,), said = read_servers({"s": {"command": "x"}}), dict[Any, Any]()

    def listed(asks=None, **hints) -> Any:
        raw = {"name": "put", "annotations": hints, "_meta": {"loopwright/asks": asks or {}}}
        return build_catalog((), [Listing(config, (raw,))], said=said).tools["put"]

    assert listed({"path": "[.]key$"}, readOnlyHint=True).read_only
    assert listed(readOnlyHint=True).asks == {"path": "[.]key$"}
    assert listed({"path": "^$"}, readOnlyHint=True).asks == {"path": ""}, "asks about each"
    assert not listed().read_only
    assert not listed(readOnlyHint=True, idempotentHint=True).resendable
    assert listed(destructiveHint=True).destructive
    assert listed(destructiveHint=False).declared["destructiveHint"] is True
    assert listed(idempotentHint=True).definition != listed(idempotentHint=False).definition
