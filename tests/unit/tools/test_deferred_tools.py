"""Many tools: how many bytes of them a request has, and whether the right one is found."""

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from loopwright.calls.toolbox import Toolbox
from loopwright.tools.catalog import Catalog, build_catalog
from loopwright.tools.mcp.config import ServerConfig
from loopwright.tools.mcp.server import Listing
from support.public_tools import QUESTIONS, many


async def catalog(count: int) -> Catalog:
    return await Toolbox(many(count)).catalog()


def size(specs: object) -> int:
    return len(json.dumps(specs, ensure_ascii=False).encode())


@pytest.mark.req("W-110")
async def test_up_to_sixty_tools_are_shown_whole_and_more_only_by_name():
    few, more = await catalog(60), await catalog(61)
    assert [
        len(few.specs()),
        few.deferred_tools.render_listing(),
        few.deferred_tools.find_likely("merge it"),
    ] == [61, "", []]
    assert "find_tools" not in few.own
    assert [s["function"]["name"] for s in more.specs()] == ["read_result", "find_tools"]
    assert "- create_issue: Create an issue." in more.deferred_tools.render_listing()
    wide = {f"a{n}": {"type": "string", "description": "x" * 900} for n in range(100)}
    three = tuple({"name": f"w{n}", "inputSchema": {"properties": wide}} for n in range(3))
    for some, is_needed in ((three[:2], False), (three, True)):
        large = build_catalog((), [Listing(ServerConfig(name="s"), some, "")])
        assert large.deferred_tools.is_needed is is_needed


async def test_a_definition_says_once_what_the_tool_is_for():
    (spec,) = (s for s in (await catalog(1)).specs() if s["function"]["name"] != "read_result")
    assert json.dumps(spec).count(spec["function"]["description"]) == 1


@pytest.mark.req("W-110", "W-116")
async def test_several_names_are_looked_up_at_once_and_a_search_in_vain_gives_the_names():
    shelf = (await catalog(120)).deferred_tools
    names = ["create_issue", "move_file", "print_invoice_a"]
    assert shelf.look_up({"names": names}) == (names, "")
    assert shelf.look_up({"query": "merge a pull request"})[1] == ""
    found, vain = shelf.look_up({"names": ["move_file"], "query": "合并拉取请求"})
    assert found == ["move_file"]
    assert "'合并拉取请求'" in vain
    assert "merge_pull_request" in vain
    for nothing in ({}, {"names": []}, {"query": "zzz"}):
        assert shelf.look_up(nothing)[0] == []
        assert "create_issue" in shelf.look_up(nothing)[1]


@pytest.mark.req("W-116")
def test_in_four_languages_each_tool_is_found_or_named():
    fresh = Path(__file__).parents[2] / "fixtures" / "fresh" / "tool_queries.json"
    data = json.loads(fresh.read_text(encoding="utf-8"))
    schema = {"type": "object", "properties": {}}
    entries = tuple({**one, "inputSchema": one.get("parameters", schema)} for one in data["tools"])
    shelf = build_catalog((), [Listing(ServerConfig(name="s"), entries, "")]).deferred_tools
    answers = [(one["tool"], *shelf.look_up({"query": one["query"]})) for one in data["queries"]]
    assert [tool for tool, found, names in answers if tool not in found and tool not in names] == []


@pytest.mark.parametrize("count", [61, 64, 150, 300])
async def test_of_any_number_of_tools_a_first_request_holds_six_kilobytes(count):
    found = await catalog(count)
    sizes = [
        size(found.specs(found.deferred_tools.find_likely(question)))
        + len(found.deferred_tools.render_listing().encode())
        for question in QUESTIONS
    ]
    assert max(sizes) <= 6_000
    assert count < 300 or size([tool.spec() for tool in found.tools.values()]) > 70_000


async def test_among_300_tools_the_right_one_is_found_for_each_question():
    shelf = (await catalog(300)).deferred_tools
    missed = [q for q, name in QUESTIONS.items() if name not in shelf.find(q)]
    assert len(missed) <= 4, "synonyms are left to the model, which is given the list of names"
    at_once = [
        question for question, name in QUESTIONS.items() if name in shelf.find_likely(question)
    ]
    assert len(at_once) >= 0.7 * len(QUESTIONS)
    assert shelf.find("zzz") == shelf.find_likely("") == []


@given(st.integers(61, 300), st.integers(1, 300), st.text("abcä漢-_ ", max_size=70))
def test_the_list_is_short_whatever_servers_and_tools_are_called(count, servers, about):
    tools: list[list[dict[str, str]]] = [[] for _ in range(min(servers, count))]
    for number in range(count):
        name = f"{about[:40].strip()}_{number}"
        tools[number % len(tools)].append({"name": name, "description": about})
    offered = {f"{about[:20]}{n}": tuple(some) for n, some in enumerate(tools)}
    listings = [Listing(ServerConfig(name=name), some, "") for name, some in offered.items()]
    catalog_ = build_catalog((), listings)
    names = catalog_.deferred_tools.names
    assert len(names.encode()) <= 3_200
    assert any(name in names for name in catalog_.tools)
