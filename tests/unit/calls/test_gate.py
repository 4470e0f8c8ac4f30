import json
import re
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import InjectedToolArg, tool

from loopwright.calls.gate import Gate, plan_calls, set_call_ids
from loopwright.calls.policy import Policy
from loopwright.tools.catalog import build_catalog
from loopwright.tools.mcp.config import ServerConfig
from loopwright.tools.mcp.server import Listing
from loopwright.tools.python_tools import read_tools
from support.scope import scope_with


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


WRITE = {
    "name": "write",
    "description": "Write a text. " + "x" * 400,
    "inputSchema": {"type": "object", "properties": {"t": {"type": "string"}}},
}
CATALOG = build_catalog(read_tools([add]), [Listing(ServerConfig(name="disk"), (WRITE,))])


def plan(message, **more) -> Any:
    complete = more.pop("complete", True)
    catalog = more.pop("catalog", CATALOG)
    gate = Gate(catalog, Policy(), scope_with(**more))
    return plan_calls(message, task="2", round_=3, gate=gate, complete=complete)


def calling(*calls) -> Any:
    return AIMessage("", tool_calls=[{"name": n, "args": a, "id": i} for n, a, i in calls])


@pytest.mark.req("S0-47", "S0-53", "S0-157")
def test_a_call_is_looked_up_checked_and_decided_on():
    one, two = plan(calling(("add", {"a": "1"}, "x"), ("write", {"t": "hi"}, "y")))
    assert one.pop("intent") != two["intent"]
    assert one == {
        "id": "2.3.0", "task": "2", "call_id": "x", "name": "add", "server": None,
        "about": "Add two numbers.", "args": {"a": 1}, "action": "allow",
        "reason": "tool of the program", "read_only": False, "status": "validating",
        "again": False, "undeclared": True,
    }  # fmt: skip
    assert (two["id"], two["server"], two["action"]) == ("2.3.1", "disk", "ask")
    json.dumps([one, two])


@pytest.mark.req("S0-56")
def test_arguments_that_are_no_json_never_become_empty_ones():
    why = "it is a list"
    bad = {"type": "invalid_tool_call", "name": "add", "args": '{"a": 1', "id": "x", "error": None}
    listed = {**bad, "args": "[1]", "id": None, "error": why}
    lost = {**bad, "args": None, "name": None, "id": "z"}
    calls = plan(AIMessage("", invalid_tool_calls=[bad, listed, lost]))
    assert [call["action"] for call in calls] == ["error"] * 3
    assert "no complete JSON object" in calls[0]["reason"]
    assert why in calls[1]["reason"]
    assert [call["args"] for call in calls] == [{}, {}, {}]
    assert len({call["call_id"] for call in calls}) == 3


@pytest.mark.req("W-14")
@pytest.mark.parametrize("name", ["multi_tool_use.parallel", "functions add", "", "x" * 99, "加"])
def test_a_made_up_name_is_kept_as_providers_take_it(name):
    refused = {"name": name or None, "args": "{", "id": "y", "error": "cut off"}
    message = AIMessage("", tool_calls=[{"name": name, "args": {}, "id": "x"}])
    message.invalid_tool_calls = [{**refused, "type": "invalid_tool_call"}]
    calls = plan(message)
    assert repr(name) in calls[0]["reason"]  # the model is told the name it used
    settled = set_call_ids(message, calls)
    for made in (*settled.tool_calls, *settled.invalid_tool_calls):
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", made["name"])


def test_forged_injected_arguments_are_not_heard():
    @tool
    def pay(amount: int, user: Annotated[str, InjectedToolArg] = "nobody") -> str:
        """Pay."""
        return f"{user} pays {amount}"

    catalog = build_catalog(read_tools([pay]), [])
    assert "user" not in catalog.tools["pay"].schema["properties"]
    (one,) = plan(calling(("pay", {"amount": 1, "user": "root"}, "x")), catalog=catalog)
    assert one["args"] == {"amount": 1}
