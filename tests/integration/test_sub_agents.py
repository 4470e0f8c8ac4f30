"""Sub-agents of task_agent: what they do, what who delegated is told, and what harms none."""

import json

import pytest
from langgraph.types import Command

from loopwright import AgentDefinition, ScriptedModel, build_task_agent, open_durability
from support.reacting import THREAD, said, shelf
from support.scripts import call


def done(summary="Done.", **more):
    return [call("complete_task", summary=summary, **more)]


def give(*names, **more):
    """A message that delegates to these, one after another."""
    return [
        call("delegate_to_agent", f"d{i}", agent_name=name, objective=f"work {i} of {name}", **more)
        for i, name in enumerate(names)
    ]


class Office:
    """Agents that are scripted by their own names; the graph's own is `chief`."""

    def __init__(self, **scripts):
        self.scripts = {
            name: script if callable(script) else iter(script) for name, script in scripts.items()
        }
        self.model = ScriptedModel(self.turn)

    def turn(self, messages, offered):
        name = messages[0].text.rpartition("I am ")[2].strip(".") or "chief"
        script = self.scripts[name]
        return script(messages, offered) if callable(script) else next(script)

    def agents(self, **more):
        names = [name for name in self.scripts if name != "chief"]
        return [
            AgentDefinition(
                **{"name": n, "description": f"Does {n}.", "prompt": f"I am {n}."} | more.get(n, {})
            )
            for n in names
        ]

    def graph(self, kept=None, tools=(), agents=None, **more):
        team = self.agents(**agents or {})
        chief = AgentDefinition(prompt="I am chief.")
        return build_task_agent(
            model=self.model, tools=tools, definition=chief, agents=team, durability=kept, **more
        )


def told_to(messages):
    """The results of sub-agents in a request."""
    return [
        json.loads(m.text) for m in messages if m.type == "tool" and m.name == "delegate_to_agent"
    ]


@pytest.mark.req("S4-45")
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


def notebook():
    saved = []

    def save(text: str) -> str:
        """Save a text."""
        saved.append(text)
        return f"saved {text}"

    save.saved = saved
    return save


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
        shown = graph.get_state(THREAD).values["messages"]
        result = graph.invoke(Command(resume=answers), THREAD)
    assert [m.tool_calls[0]["name"] for m in shown if m.type == "ai"] == [
        "delegate_to_agent",
        "save",
        "save",
    ]
    assert save.saved == ["deep"]
    left, right, quiet = heard
    assert left["evidence"] == ["agent/left.1.0/deep.1.0.1.0", "agent/left.1.0.1.0"]
    assert right["status"] == "partial"
    assert quiet["status"] == "success"
    assert result["outcome"]["status"] == "complete"
