"""What an agent's models are sent, whatever they answer and people do: no provider refuses it."""

import random
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import ToolException
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import AgentDefinition, Context, ScriptedModel, build_task_agent
from support.reacting import THREAD, said
from support.scripts import call
from support.strict_messages import problems

SCOUT = AgentDefinition(name="scout", description="Looks around.")
CALLS: list[dict[str, Any]] = [
    call("look", name="owner"), call("look", name="nothing"), call("put", what="owner"),
    call("multi_tool_use.parallel"), call(""), call("zork"), call("recall", id="x"),
    call("note", text="mind the owner"), call("delegate_to_agent", agent_name="scout",
    objective="look"), call("summarize_and_continue"), call("complete_task", summary=" "),
    call("complete_task", summary="Ada owns it.", status="odd"),
]  # fmt: skip
ENDS = [
    call("complete_task", summary="Ada owns it.", status=status)
    for status in ("success", "partial", "blocked")
]
ANSWERS: list[Any] = ["approve", "reject: not now", "respond: it is Ada"]


def look(name: str) -> str:
    """Look up a fact."""
    if name == "nothing":
        msg = "there is no such fact"
        raise ToolException(msg)
    return f"fact {name}"


def put(what: str) -> str:
    """Write a fact down."""
    return f"{what} is written"


class Chance:
    """A model that answers anything, and notes each request that a provider would refuse."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.refused: list[Any] = []

    def __call__(self, messages, offered):
        self.refused += [(p, [m.pretty_repr()[:99] for m in messages]) for p in problems(messages)]
        words = self.dice.choice(["", "I look."])
        match self.dice.randrange(10):
            case 0:
                return self.dice.choice(["Hm.", AIMessage("")])
            case 1:
                name, id_ = (
                    self.dice.choice(["look", "complete_task"]),
                    self.dice.choice(["i", None]),
                )
                cut = {"name": name, "args": '{"na', "id": id_, "error": None}
                return AIMessage(words, invalid_tool_calls=[{**cut, "type": "invalid_tool_call"}])
            case 2 | 3:
                return [self.dice.choice(ENDS)]
        made = self.dice.choices(CALLS, k=self.dice.randint(1, 3))
        ids = ("a", "b", "b", "", None)
        return AIMessage(words, tool_calls=[{**one, "id": self.dice.choice(ids)} for one in made])


@pytest.mark.parametrize("seed", range(8))
def test_no_provider_refuses_what_an_agent_sends(seed):
    chance = Chance(seed)
    dice = chance.dice
    looked = {"analysis": "it may", "confidence": 0.5}
    model = ScriptedModel(
        {"agent": chance, "loop_judge": lambda *_: looked, "summariser": lambda *_: "no snapshot"}
    )
    graph = build_task_agent(
        model=model, tools=[look, put], checkpointer=InMemorySaver(), agents=[SCOUT],
        definition=AgentDefinition(lenient=dice.random() < 0.3, agents=("scout",)),
        policy=dice.choice(["allow", [{"tool": "put", "action": "ask"}]]),
    )  # fmt: skip
    context, given = Context(max_turns=dice.choice([2, 4])), said()
    for _ in range(4):
        values = graph.invoke(given, THREAD, context=context)
        if "__interrupt__" in values:
            named = {one.id: dice.choice(ANSWERS) for one in values["__interrupt__"]}
            given = dice.choice([Command(resume=named), said("Never mind.")])
            continue
        outcome = values["outcome"]
        assert outcome["answer"] == values["messages"][-1].text.strip() != ""
        assert (outcome["status"] == "complete") != bool(outcome["unmet"])
        given = dice.choice([None, said("And then?")])
    assert chance.refused == []
