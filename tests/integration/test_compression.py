"""Long runs of task_agent: old messages are left out of requests, and nothing of them is lost."""

import json
import re

import pytest
from langchain_core.messages import AIMessage

from loopwright import (
    Context,
    Hook,
    ScriptedModel,
    build_task_agent,
    open_durability,
)
from loopwright.turn.budget import tokens_of
from support.reacting import THREAD
from support.scripts import call
from support.strict_messages import problems

TARGET = 6_000
SMALL = Context(
    context_budget=int(TARGET / 0.8), context_target=TARGET, max_turns=1_000, loop_check_after=9_999
)  # fmt: skip
GOAL = {"messages": [("user", "Write down the code of each warehouse. Never delete ledger_7.db.")]}
FACT = re.compile(r"The code of warehouse (\d+) is (\S+)\.")


def stock(number: int) -> str:
    """Look at the stock of a warehouse."""
    return f"The code of warehouse {number} is KX-{number * 37}. " + f"shelf {number} row " * 125


def handles(messages):
    """What the summariser is shown, by handle."""
    text = messages[-1].text.partition("<messages>")[2].partition("</messages>")[0]
    return {one["id"]: one for one in json.loads(text)}


def honest(messages, offered):
    """A summariser that writes each code down."""
    facts = [
        {"text": found[0], "from": [name]}
        for name, one in handles(messages).items() if (found := FACT.search(one["text"]))
    ]  # fmt: skip
    return {"keyKnowledge": facts, "taskState": []}


def worker(turns, ask=()):
    """Looks at one warehouse after the other, then asks and ends."""
    count = iter(range(1, 10_000))

    def answer(messages, offered):
        number = next(count)
        if number <= turns:
            return [call("stock", f"c{number}", number=number)]
        if number <= turns + len(ask):
            return [call(*ask[number - turns - 1][:1], f"c{number}", **ask[number - turns - 1][1])]
        return [call("complete_task", f"c{number}", summary="All are written down.")]

    return answer


def run(kept, model, context=SMALL, **more):
    graph = build_task_agent(model=model, tools=[stock], durability=kept, **more)
    return graph, graph.invoke(GOAL, THREAD, context=context)


def of_agent(model):
    return [asked for asked in model.asked if asked.role == "agent"]


@pytest.mark.req("S3-35", "S3-36", "S3-37", "S4-09", "S4-58", "P-14")
def test_a_long_run_stays_within_its_target_and_forgets_nothing(tmp_path):
    ask = [("recall", {"words": f"code of warehouse {n}"}) for n in (3, 20, 41)]
    model = ScriptedModel({"agent": worker(60, ask), "summariser": honest})
    seen = []
    hook = Hook(event="PreCompress", run=lambda given: seen.append(given["trigger"]))
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph, result = run(kept, model, hooks=[hook])
        state = graph.get_state(THREAD).values
    assert result["outcome"]["status"] == "complete"
    sizes = [tokens_of(asked.messages, AIMessage(""))[0] for asked in of_agent(model)]
    assert max(sizes) <= TARGET
    assert len(seen) == len([a for a in model.asked if a.role == "summariser"]) >= 3
    assert set(seen) == {"auto"}
    assert [problems(asked.messages) for asked in of_agent(model)] == [[]] * len(sizes)
    # What the user said stands in every request, and every message is still in the thread.
    assert all("Never delete ledger_7.db" in str(a.messages) for a in of_agent(model))
    assert len([m for m in result["messages"] if m.type == "tool"]) == 60 + 3 + 1
    found = [m.text for m in result["messages"] if m.type == "tool" and m.name == "recall"]
    assert [f"KX-{n * 37}." in text for n, text in zip((3, 20, 41), found, strict=True)] == [
        True
    ] * 3
    assert state["cut"]
