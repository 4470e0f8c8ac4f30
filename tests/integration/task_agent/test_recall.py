"""What `recall` finds: everything that was said, called and returned, in any script."""

import json
import random
import re
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from loopwright import Context, ScriptedModel, build_task_agent
from loopwright.calls.recall import build_recall_tool
from loopwright.calls.sending import HandlerScope
from loopwright.state.history import History
from support.reacting import said
from support.scope import scope_with
from support.scripts import call

FACTS = json.loads((Path(__file__).parents[2] / "fixtures/fresh/facts.json").read_text("utf-8"))
CHANCE = random.Random(7)


def page_about(fact):
    """Two kilobytes in which a fact stands among pieces of all others in its language."""
    others = " ".join(one["fact"] for one in FACTS if one["language"] == fact["language"])
    spaced = fact["language"] not in ("zh", "ja")
    pieces = re.findall(r"[^\d\s]+" if spaced else r"[^\d\s]{2}", others)
    words = [CHANCE.choice(pieces) for _ in range(320)]
    words.insert(CHANCE.randrange(320), f" {fact['fact']} ")
    return (" " if spaced else "").join(words)


def history():
    """Four hundred turns, a fact in each second one."""
    for number, fact in enumerate(CHANCE.sample(FACTS, len(FACTS)) * 2):
        text = page_about(fact) if number < len(FACTS) else "shelf row crate " * 125
        asked = {"name": "page", "args": {"number": number}, "id": f"p{number}"}
        yield AIMessage("", tool_calls=[asked])
        yield ToolMessage(text, tool_call_id=asked["id"], name="page")


@pytest.mark.req("W-115")
def test_each_fact_of_four_hundred_turns_is_recalled_in_five_languages():
    asks = [call("recall", f"r{n}", words=fact["search"]) for n, fact in enumerate(FACTS)]
    turns = [asks[n : n + 20] for n in range(0, len(asks), 20)]
    done = [call("complete_task", summary="All are found.")]
    model = ScriptedModel(
        {"agent": [*turns, done], "summariser": lambda *_: {"scratchpad": "none"}}
    )
    graph = build_task_agent(model=model)
    given = {"messages": [HumanMessage("Read."), *history(), HumanMessage("Who has what?")]}
    result = graph.invoke(given, context=Context(max_tool_calls=500))
    assert result["outcome"]["status"] == "complete"
    told = [m.text for m in result["messages"] if m.name == "recall"]
    missed = [
        fact["search"] for fact, text in zip(FACTS, told, strict=True) if fact["answer"] not in text
    ]
    assert missed == []


@pytest.mark.req("W-115")
def test_a_result_that_was_too_long_to_be_shown_is_found_and_read_whole():
    def report() -> str:
        """Read the report."""
        return "row " * 20_000 + "The vault opens with 90-17-44. " + "row " * 20_000

    model = ScriptedModel([
        [call("report")],
        [call("recall", words="vault opens")],
        [call("recall", id="agent.1.0", offset=80_000)],
        [call("complete_task", summary="It is found.")],
    ])  # fmt: skip
    result = build_task_agent(model=model, tools=[report]).invoke(said())
    shown, found, page = [m.text for m in result["messages"] if m.type == "tool"][:3]
    assert "90-17-44" not in shown
    assert "90-17-44" in found
    assert page.splitlines()[1].startswith("The vault opens with 90-17-44.")
    assert len(page) < 50_000


@pytest.mark.req("W-105")
async def test_a_task_recalls_the_talk_around_it_and_earlier_calls():
    talk = [HumanMessage("The gate code is 4711.", id="h1"), AIMessage("Noted.", id="a1")]
    known = {"task": "1", "tool": "look", "status": "success", "seconds": 0.0}
    past = [{**known, "id": "t1:1.1.0", "arguments": {"n": 3}, "result": "Dock 3 is Ada's."}]
    scope = scope_with(public={"messages": talk}, past=History(records=past))

    async def recall(**args):
        return (await build_recall_tool().own(args, HandlerScope(scope, None, None))).text

    assert "4711" in await recall(words="gate")
    assert "[t1:1.1.0] result of look" in await recall(words="dock ada")
    assert 'look({"n":3})\nDock 3 is Ada\'s.' in await recall(id="t1:1.1.0")
    assert "4711" in await recall(id="h1")
    assert "no message" in await recall(id="t1:9.9.9")
