"""Sub-agents of task_agent: what they do, what who delegated is told, and what harms none."""

import asyncio
import json
from collections import Counter as Counts

import pytest
from langchain_core.tools import StructuredTool
from langgraph.types import Command

from loopwright import (
    AgentLimits,
    Context,
    ScriptedModel,
    SettingsError,
    build_task_agent,
    codebase_investigator,
    open_durability,
)
from loopwright.graphs.build import workspace_mcp
from loopwright.models.scripted import Slow
from loopwright.state.messages import make_repairs
from loopwright.text.sentences import say
from support.office import Office, done, give, notebook, told_to
from support.reacting import THREAD, said, shelf
from support.scripts import call


@pytest.mark.req("S3-39", "S3-42", "S4-45")
def test_two_side_by_side_and_what_their_parent_is_told(tmp_path):
    look = shelf()
    heard = []

    def chief(messages, offered):
        if not (results := told_to(messages)):
            return give("scout", "clerk")
        heard.extend(results)
        return done("All is known.")

    office = Office(
        chief=chief,
        scout=[[call("look", name="owner")], done("Ada owns it.")],
        clerk=[[call("look", name="price")], done("It costs 7 euro.", output={"euro": 7})],
    )
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        schema = {"type": "object", "properties": {"euro": {"type": "integer"}}}
        graph = office.graph(kept, [look], {"clerk": {"output": schema}})
        result = graph.invoke(said(), THREAD)
    assert result["outcome"]["status"] == "complete", result["outcome"]
    scout, clerk = heard
    assert (scout["agent"], scout["status"], scout["summary"]) == (
        "scout",
        "success",
        "Ada owns it.",
    )
    assert scout["evidence"] == ["agent/scout.1.0.1.0"]
    assert clerk["output"] == {"euro": 7}
    assert clerk["evidence"] == ["agent/clerk.1.1.1.0"]
    assert scout["spent"]["turns"] == 2
    spend = result["outcome"]["spend"]
    assert (spend["model_calls"], spend["tool_calls"]) == (6, 2)


SAVES = [{"tool": "save", "action": "ask"}]


def saver(name):
    return [[call("save", text=name)], done(f"{name} is saved.")]


@pytest.mark.req("S4-45")
def test_three_levels_each_ask_and_the_answers_find_their_way(tmp_path):
    save = notebook()
    heard = []

    def chief(messages, offered):
        heard.extend(results := told_to(messages))
        return done("All saved.") if results else give("left", "right", "quiet")

    office = Office(
        chief=chief,
        left=[give("deep"), done("left is done.")],
        right=saver("right"),
        deep=saver("deep"),
        quiet=[done("Nothing to do.")],
    )
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = office.graph(kept, [save], {"left": {"agents": ("deep",)}}, policy=SAVES)
        graph.invoke(said(), THREAD)
        questions = {q.value["id"]: q for q in graph.get_state(THREAD).interrupts}
        assert set(questions) == {"agent/left.1.0/deep.1.0.1.0", "agent/right.1.1.1.0"}
        no = {"type": "reject", "message": "not that"}
        answers = {
            questions["agent/left.1.0/deep.1.0.1.0"].id: {"type": "approve"},
            questions["agent/right.1.1.1.0"].id: no,
        }
        shown = graph.get_state(THREAD).values
        result = graph.invoke(Command(resume=answers), THREAD)
    (delegates,) = [m for m in shown["messages"] if m.type == "ai"]
    assert {c["name"] for c in delegates.tool_calls} == {"delegate_to_agent"}
    asked = [one for one in shown["ui"] if one["name"] == "approval"]
    assert {one["props"]["id"] for one in asked} == set(questions)
    assert {one["metadata"]["message_id"] for one in asked} == {delegates.id}
    assert save.saved == ["deep"]
    left, right, quiet = heard
    assert left["evidence"] == ["agent/left.1.0/deep.1.0.1.0", "agent/left.1.0.1.0"]
    assert right["status"] == "partial"
    assert quiet["status"] == "success"
    assert result["outcome"]["status"] == "partial"  # somebody refused a write


class Fails(Exception):
    """What a sub-agent's model raises."""


def raises(messages, offered):
    if not any(m.type == "tool" for m in messages):
        return [call("look", name="owner")]
    raise Fails("nobody is there")


def endless(messages, offered):
    return [call("look", name=f"e{len(messages)}")]


def late(messages, offered):
    return [call("look", name=f"l{len(messages)}")] if "look" in offered else done("So far.")


async def sleeps() -> str:
    """Never come back."""
    await asyncio.sleep(300)
    return "awake"


NINE = {
    "raises": raises,
    "mute": lambda m, o: "",
    "hangs": lambda m, o: Slow(300, done()),
    "waits": [[call("sleeps")], done("It slept.")],
    "endless": endless,
    "asks": saver("it"),
    "well": [[call("look", name="price")], done("7 euro")],
    "late": late,
    "vague": ["It is about 7 euro."],
    "void": [[call("look", name="nothing")], done("Found.")],
}
ENDS = {
    "raises": ("failed", "ERROR"),
    "mute": ("failed", "ERROR_NO_COMPLETE_TASK_CALL"),
    "hangs": ("failed", "ERROR"),
    "waits": ("partial", None),
    "endless": ("failed", "BUDGET"),
    "asks": ("success", None),
    "well": ("success", None),
    "late": ("partial", "MAX_TURNS"),
    "vague": ("responded", None),
    "void": ("partial", None),
}


@pytest.mark.req("P-15", "S3-41", "S4-45")
def test_whatever_becomes_of_one_its_siblings_are_unharmed_and_its_parent_is_told(tmp_path):
    save, look, told = notebook(), shelf(), {}

    def chief(messages, offered):
        told.update((one["agent"], one) for one in told_to(messages))
        return done("Told.") if told else give(*NINE)

    special = {
        "endless": {"limits": AgentLimits(tool_calls=2)},
        "late": {"limits": AgentLimits(turns=2)},
        "vague": {"lenient": True},
    }
    settings = Context(max_parallel_tasks=10, model_retries=0, model_deadline=2, tool_deadline=2)
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = Office(chief=chief, **NINE).graph(kept, [save, look, sleeps], special, policy=SAVES)
        graph.invoke(said(), THREAD, context=settings)
        (question,) = graph.get_state(THREAD).interrupts
        assert question.value["id"] == "agent/asks.1.5.1.0"
        assert look.calls.count("price") == 1
        result = graph.invoke(Command(resume="approve"), THREAD, context=settings)
    assert {name: (one["status"], one.get("reason")) for name, one in told.items()} == ENDS
    assert "nobody is there" in told["raises"]["unmet"][0]
    assert told["raises"]["evidence"] == ["agent/raises.1.0.1.0"]
    assert told["late"]["summary"] == "So far."
    assert len(told["endless"]["evidence"]) == 2
    assert (save.saved, look.calls.count("price")) == (["it"], 1)
    outcome = result["outcome"]
    assert [one["id"] for one in outcome["uncertain_calls"]] == ["agent/waits.1.3.1.0"]
    assert (outcome["status"], outcome["answer"]) == ("partial", "Told.")


@pytest.mark.req("P-31", "W-107")
def test_a_stop_reaches_sub_agents_and_a_resume_knows_what_they_did(tmp_path):
    save, heard, begun = notebook(), [], []

    async def halt() -> str:
        """Stop the turn."""
        await graph.astop(THREAD)
        return "stopped"

    def chief(messages, offered):
        heard.append([m.text for m in messages if m.type == "tool"])
        return done("Resumed.") if heard[1:] else give("quick", "busy", "never")

    office = Office(
        chief=chief, quick=[done("Quick.")], never=lambda m, o: begun.append(m) or done(),
        busy=[[call("save", text="x")], [call("halt")], [call("save", text="y")], done("Busy.")],
    )  # fmt: skip
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = office.graph(kept, [save, halt])
        stopped = graph.invoke(said(), THREAD, context=Context(max_parallel_tasks=1))["outcome"]
        after = graph.get_state(THREAD).values
        resumed = graph.invoke(None, THREAD)["outcome"]
    assert (stopped["status"], stopped["reason"]) == ("cancelled", "ABORTED")
    assert stopped["spend"]["tool_calls"] == 2
    assert (save.saved, begun) == (["x"], [])
    assert "agent/busy.1.1.1.0" in {record["id"] for record in after["evidence"]}
    assert (resumed["status"], resumed["answer"]) == ("partial", "Resumed.")
    assert ["busy" in resumed["unmet"][0], '"never"' in resumed["unmet"][1]] == [True, True]
    quick, busy, never = heard[1]
    assert json.loads(quick)["summary"] == "Quick."
    assert json.loads(busy)["reason"] == "ABORTED"
    assert json.loads(busy)["evidence"] == ["agent/busy.1.1.1.0", "agent/busy.1.1.2.0"]
    assert never == say("stopped_first")


@pytest.mark.req("P-31")
def test_a_new_message_while_a_sub_agent_waits_says_what_it_had_written(tmp_path):
    save, heard = notebook(), []

    def chief(messages, offered):
        heard.append([m.text for m in messages if m.type == "tool"])
        return done("Changed.") if heard[1:] else give("writer", "quick")

    def jot(text: str) -> str:
        """Note a text."""
        return f"noted {text}"

    writer = [[call("jot", text="x")], [call("save", text="y")], done("Written.")]
    office = Office(chief=chief, writer=writer, quick=[done("Quick.")])
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = office.graph(kept, [save, jot], policy=SAVES)
        graph.invoke(said(), THREAD)
        assert len(graph.get_state(THREAD).interrupts) == 1
        outcome = graph.invoke(said("Leave it."), THREAD)["outcome"]
        messages = graph.get_state(THREAD).values["messages"]
    assert (outcome["status"], outcome["answer"], save.saved) == ("complete", "Changed.", [])
    writer_told, quick = heard[1]
    assert 'jot({"text": "x"})' in writer_told
    assert json.loads(quick)["status"] == "success"
    assert make_repairs(messages, lambda _: None) == []


FOUND = {
    "SummaryOfFindings": "A constant.",
    "ExplorationTrace": ["read shop.py"],
    "RelevantLocations": [
        {"FilePath": "shop.py", "Reasoning": "It has the price.", "KeySymbols": ["price"]}
    ],
}


def looks_into_it(messages, offered):
    """An investigator that tries to write, then reads, and forgets half of its report at first."""
    results = [m.text for m in messages if m.type == "tool"]
    if not results:
        return [call("write_file", path="x.py", content="")]
    if len(results) == 1:
        return [call("read_file", path="shop.py")]
    return done("Found.", output=FOUND if len(results) > 2 else {"SummaryOfFindings": "A."})


@pytest.mark.req("S4-47", "S4-48", "S4-49", "S4-50", "S4-81")
def test_the_investigator_reads_alone_and_reports_where_to_look(tmp_path):
    ships, told = codebase_investigator(), []
    (tmp_path / "shop.py").write_text("def price():\n    return 7\n")
    assert (ships.limits.turns, ships.limits.seconds) == (15, 300)
    for part in ("checklist", "open questions", "key findings", "irrelevant paths"):
        assert part in ships.prompt.lower()
    assert "no open question is left" in ships.prompt

    def turn(messages, offered):
        if "delegate_to_agent" not in offered:
            return looks_into_it(messages, offered)
        told.extend(told_to(messages))
        wanted = call("delegate_to_agent", agent_name=ships.name, objective="Where is it?")
        return done("In shop.py.") if told else [wanted]

    model = ScriptedModel(turn)
    mcp = workspace_mcp(str(tmp_path))
    graph = build_task_agent(model=model, mcp=mcp, policy="allow", agents=[ships])
    outcome = graph.invoke(said())["outcome"]
    of_it = [asked for asked in model.asked if "delegate_to_agent" not in asked.tools]
    assert {"list_files", "read_file", "search_text"} <= set(of_it[0].tools)
    assert not {"write_file", "append_file"} & set(of_it[0].tools)
    refused, _, half = [m.text for m in of_it[-1].messages if m.type == "tool"]
    assert "Unauthorized" in refused
    assert "ExplorationTrace" in half
    assert told[0]["output"] == FOUND
    assert (outcome["status"], told[0]["status"]) == ("partial", "partial")
    assert outcome["unmet"][0].startswith("write_file(")
    assert not (tmp_path / "x.py").exists()


class Counted:
    """A read that is counted, and agents that want nothing else."""

    def __init__(self):
        self.calls = []

    def tool(self):
        def count(name: str) -> str:
            """Count."""
            self.calls.append(name)
            return f"counted {name}"

        return StructuredTool.from_function(count, metadata={"readOnlyHint": True})

    def script(self, name, *first):
        """Delegates first, if to anybody, then counts until it may not."""

        def turn(messages, offered):
            if "count" not in offered:
                return done("So far.")
            if first and not told_to(messages):
                return give(*first)
            return [call("count", name=f"{name} {len(messages)} {i}") for i in range(2)]

        return turn


@pytest.mark.req("P-27")
def test_limits_hold_for_the_whole_tree_across_resumes(tmp_path):
    """Each of three branches asks first, and is answered alone; nothing is given anew."""
    counted = Counted()
    office = Office(
        chief=counted.script("chief", "left", "right"),
        left=counted.script("left", "deep"),
        right=counted.script("right"),
        deep=counted.script("deep"),
    )
    limited = {
        "left": {"agents": ("deep",)},
        "right": {"limits": AgentLimits(tool_calls=4)},
        "deep": {"limits": AgentLimits(tool_calls=5)},
    }
    first = {"tool": "count", "arguments": {"name": r"(left|right|deep) [24] 0"}, "action": "ask"}
    settings, resumes, asks = Context(max_tool_calls=14), 0, []
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = office.graph(kept, [counted.tool()], limited, policy=[first])
        graph.invoke(said(), THREAD, context=settings)
        while questions := graph.get_state(THREAD).interrupts:
            asks.append({question.value["task"] for question in questions})
            result = graph.invoke(Command(resume="approve"), THREAD, context=settings)
            resumes += 1
        evidence, outcome = graph.get_state(THREAD).values["evidence"], result["outcome"]
    assert resumes == 3
    assert asks[0] == {"agent/left.1.0/deep.1.0", "agent/right.1.1"}
    made = Counts(r["task"] for r in evidence if r["tool"] == "count" and r["status"] == "success")
    assert made["agent/right.1.1"] == 1, "the others had used up what was left"
    assert made["agent/left.1.0/deep.1.0"] == 5
    assert len(counted.calls) == sum(made.values()) == outcome["spend"]["tool_calls"] == 14
    assert (outcome["status"], outcome["reason"]) == ("partial", "BUDGET")
    turns = Counts(r["id"].rsplit(".", 1)[0] for r in evidence if r["status"] == "error")
    assert len(turns) <= 4, "an agent that may call nothing any more ends its work"


@pytest.mark.req("S4-45")
def test_an_agent_that_delegates_to_itself_ends_at_the_depth_that_is_allowed():
    told = []

    def again(messages, offered):
        told.extend(results := told_to(messages))
        return done("Enough.") if results else give("echo")

    office = Office(chief=again, echo=again)
    graph = office.graph(agents={"echo": {"agents": ("echo",)}})
    outcome = graph.invoke(said(), context=Context(max_agent_depth=2))["outcome"]
    assert [one["status"] for one in told] == ["failed", "partial", "success"]
    assert "2 times" in told[0]["unmet"][0]
    assert (outcome["status"], outcome["spend"]["model_calls"]) == ("complete", 6)
    with pytest.raises(SettingsError, match="no such agent"):
        office.graph(agents={"echo": {"agents": ("nobody",)}})
    with pytest.raises(SettingsError, match="Two agents"):
        build_task_agent(model=office.model, agents=[*office.agents(), *office.agents()])
