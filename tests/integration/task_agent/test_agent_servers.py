"""A sub-agent with MCP servers of its own: only it has their tools, under the graph's rules."""

import json

import pytest
from langgraph.types import Command

from loopwright import (
    AgentDefinition,
    ModelCallFailed,
    ScriptedModel,
    SettingsError,
    build_task_agent,
    open_durability,
)
from support.mcp_servers import stdio
from support.office import done, give
from support.reacting import THREAD, said
from support.scripts import call


class Pair:
    """A chief and a scout on scripts, what each was offered, and what was paid."""

    def __init__(self, chief, scout):
        self.offered, self.requests, self.paid = {}, {}, []
        self._scripts = {"chief": iter(chief), "scout": iter(scout)}

    def _turn(self, messages, offered):
        name = "scout" if "I am scout." in messages[0].text else "chief"
        self.offered[name], self.requests[name] = offered, messages
        return next(self._scripts[name])

    def pay(self, amount: int) -> str:
        """Pay."""
        self.paid.append(amount)
        return "paid"

    def graph(self, kept, scout, **options):
        return build_task_agent(
            ScriptedModel(self._turn), [self.pay], agents=[scout], durability=kept, **options
        )

    def results(self, name):
        return [m.text for m in self.requests[name] if m.type == "tool"]


@pytest.fixture
def kept(tmp_path):
    with open_durability(f"sqlite:///{tmp_path}/t.db") as durability:
        yield durability


def write_agent(folder, entry, more=""):
    """The file of an agent with a server, as Claude Code has it."""
    path = folder / "scout.md"
    servers = json.dumps({"desk": entry})
    path.write_text(
        f"---\nname: scout\ndescription: Looks.\ntools: nothing_else\nmcpServers: {servers}\n"
        f"{more}---\nI am scout.\n"
    )
    return path


def test_the_servers_of_an_agents_file_are_that_agents_alone(kept, tmp_path):
    pair = Pair(
        [[call("search", query="chief")], give("scout"), done("It was found.")],
        [[call("search", query="lamp"), call("pay", "p", amount=1)], done("desk:lamp it is.")],
    )
    graph = pair.graph(kept, write_agent(tmp_path, stdio("desk", trust=True)), policy="allow")
    outcome = graph.invoke(said(), THREAD)["outcome"]
    assert "search" in pair.offered["scout"]
    assert "search" not in pair.offered["chief"]
    assert "'search'" in pair.results("chief")[0]
    assert pair.results("scout")[0] == "desk:lamp"
    assert pair.paid == [], "it is not among its tools"
    assert outcome["answer"] == "It was found."


def test_calls_of_such_a_server_follow_the_graphs_policy_and_outlive_the_question(kept, tmp_path):
    scout = AgentDefinition(
        name="scout", prompt="I am scout.", mcp={"desk": stdio("desk", trust=True)}
    )
    log = tmp_path / "log"
    pair = Pair(
        [give("scout"), done("It is noted.")],
        [[call("desk_note", path=str(log), text="x")], [call("structured")], done("Noted it.")],
    )
    rules = [{"server": "desk", "tool": "note", "action": "ask"},
             {"server": "desk", "tool": "structured", "action": "deny"}]  # fmt: skip
    graph = pair.graph(kept, scout, policy=rules)
    graph.invoke(said(), THREAD)
    (asked,) = graph.get_state(THREAD).interrupts
    assert asked.value["action_requests"][0]["name"] == "desk_note"
    assert not log.exists()
    graph.invoke(Command(resume="approve"), THREAD)
    assert log.read_text() == "x\n"
    assert "apples" not in str(pair.results("scout"))


@pytest.mark.parametrize("new_process", [False, True])
def test_what_a_strangers_server_told_a_sub_agent_is_no_record_for_its_parent(new_process, kept):
    """Its parent has no such tool: the graph knows whose it is, and after a crash nobody yet."""
    entry = stdio("desk", trust=True, origin={"hidden": "foreign"})
    scout = AgentDefinition(name="scout", prompt="I am scout.", mcp={"desk": entry})
    turns = [give("scout"), [call("pay", amount=41)], done("It is paid.")]
    pair = Pair(turns[:1] if new_process else turns, [[call("hidden")], done("41")])
    graph = pair.graph(kept, scout, policy="allow")
    if new_process:
        with pytest.raises(ModelCallFailed):
            graph.invoke(said("Pay what the desk says."), THREAD)
        pair = Pair(turns[1:], [])
        graph = pair.graph(kept, scout, policy="allow")
        graph.invoke(None, THREAD)
    else:
        graph.invoke(said("Pay what the desk says."), THREAD)
    (asked,) = graph.get_state(THREAD).interrupts
    assert [one["value"] for one in asked.value["foreign"]] == ["41"]
    assert pair.paid == []


def test_two_servers_of_one_name_are_refused_and_one_of_two_agents_is_shared():
    desk, other = stdio("desk"), stdio("wiki")
    agents = [AgentDefinition(name=n, mcp={"desk": desk}) for n in ("one", "two")]
    build_task_agent(ScriptedModel([]), agents=agents)
    with pytest.raises(SettingsError, match="'desk' has the name of another one"):
        build_task_agent(ScriptedModel([]), agents=agents, mcp={"desk": other})
