"""Data of the application on its way to the tools: whole, to tools alone, and no setting."""

import json
from pathlib import Path
from typing import Any

import pytest
from langchain.tools import ToolRuntime
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import ValidationError

from loopwright import Context, SettingsError, build_react, open_durability
from support.commanding import THREAD, flow_of, plan_of, react_of
from support.flows import step
from support.mcp_servers import serving, stdio
from support.reacting import one_step, said, shelf
from support.scripts import call

DATA: dict[str, Any] = {"tenant": "acme-4711", "page": {"rows": [1, 2.5, None, True]}, "größe": "é"}
GIVEN: dict[str, Any] = {"resource_id": "order-7", "task_id": "t-9", "tool_context": DATA}


def graph_of(name: str, tools: Any, called: str, **options: Any) -> Any:
    if name == "react":
        return react_of(tools, [call(called)], **options)
    if name == "prompt_flow":
        return flow_of(tools, step("s1", called), **options)
    return plan_of(tools, [call(called)], **options)


GRAPHS = ["react", "plan_execute_verify", "prompt_flow"]


def result_of(graph: Any, context: Any = None) -> str:
    graph.invoke(said(), THREAD, context=Context(**GIVEN) if context is None else context)
    (record,) = graph.get_state(THREAD).values["evidence"]
    assert record["status"] == "success"
    return str(record["result"])


@pytest.mark.req("W-28", "S0-57")
@pytest.mark.parametrize("name", GRAPHS)
def test_a_python_tool_has_it_and_cannot_change_it(name):
    seen: list[Context] = []

    @tool
    def look(runtime: ToolRuntime[Context, Any]) -> str:
        """Look."""
        seen.append(runtime.context.model_copy(deep=True))
        runtime.context.tool_context["tenant"] = "other"
        return "seen"

    graph = graph_of(name, [look], "look", checkpointer=InMemorySaver())
    given = Context(**GIVEN)
    assert result_of(graph, given) == "seen"
    assert seen == [given]
    assert given.tool_context["tenant"] == "acme-4711"
    assert "acme-4711" not in str(graph.get_state(THREAD).values)


@pytest.mark.req("W-28", "S0-57")
@pytest.mark.parametrize("name", GRAPHS)
def test_a_server_over_stdio_has_it_in_meta(name):
    graph = graph_of(
        name, [], "told", mcp={"mcpServers": {"desk": stdio("desk")}}, policy="allow",
        checkpointer=InMemorySaver(),
    )  # fmt: skip
    _check(json.loads(result_of(graph)))


@pytest.mark.req("W-28", "S0-57")
def test_a_server_over_http_has_it_in_meta():
    with serving() as (_, url):
        servers = {"mcpServers": {"desk": {"type": "http", "url": url}}}
        options = {"mcp": servers, "policy": "allow", "checkpointer": InMemorySaver()}
        _check(json.loads(result_of(react_of([], [call("told")], **options))))
        bare = json.loads(result_of(react_of([], [call("told")], **options), Context()))
        assert not [key for key in bare if key in {f"loopwright/{name}" for name in GIVEN}]


def _check(told: dict[str, Any]) -> None:
    assert {name: told[f"loopwright/{name}"] for name in GIVEN} == GIVEN
    assert told["loopwright/task"]
    assert told["loopwright/turn"]


@pytest.mark.req("W-28")
def test_a_mapping_as_context_does_as_well_and_nothing_of_it_is_saved(tmp_path):
    with open_durability(f"sqlite:///{tmp_path}/t.db") as durability:
        servers = {"mcpServers": {"desk": stdio("desk")}}
        graph = build_react(
            model=one_step(action=[[call("search", query="owner")]]), mcp=servers, policy="allow",
            durability=durability,
        )  # fmt: skip
        assert result_of(graph, GIVEN)
    for file in Path(tmp_path).glob("t.db*"):
        assert file.is_dir() or b"acme-4711" not in file.read_bytes(), file


@pytest.mark.req("W-28")
def test_models_are_not_told():
    model = one_step()
    build_react(model=model, tools=[shelf()]).invoke(said(), context=Context(**GIVEN))
    assert model.asked
    assert all("acme-4711" not in str(asked.messages) for asked in model.asked)


@pytest.mark.req("W-28")
def test_an_unknown_setting_is_refused_with_where_it_belongs():
    graph = build_react(model=one_step(), tools=[shelf()])
    for given in ({"tenant": "acme"}, {"max_tasks": 3, "tenant": "acme"}):
        with pytest.raises(SettingsError, match=r"'tenant': no setting .* into tool_context\.$"):
            graph.invoke(said(), context=given)
    with pytest.raises(ValidationError, match="into tool_context"):
        Context(tenant="acme")


@pytest.mark.req("W-28")
@pytest.mark.parametrize(
    "data",
    [
        {"a": object()},
        {"a": "\ud800"},
        {"a": "é" * 16_000},
    ],
)
def test_what_is_no_json_or_too_long_is_refused(data):
    graph = build_react(model=one_step(), tools=[shelf()])
    with pytest.raises(SettingsError, match="tool_context"):
        graph.invoke(said(), context={"tool_context": data})
