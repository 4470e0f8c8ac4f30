"""What was said and found in earlier turns reaches planner, executor and verifier."""

import json
import re
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import Context, ScriptedModel, build_plan_execute_verify, open_durability
from loopwright.prompts.prompt import read_json
from loopwright.state.history import INDEX_CAP
from loopwright.state.messages import TALK_CAP
from support import forked
from support.places import TESTS
from support.scripts import call, passed, plan, report, todo

THREAD = {"configurable": {"thread_id": "t"}}
WHOLE = "".join(f"row {number}; " for number in range(400))


def rows(calls=None):
    """A tool that reads, with a long result."""

    def read_rows(table: str) -> str:
        """Read all rows of a table."""
        if calls is not None:
            calls.append(table)
        return WHOLE if table != "gone" else f"{table}: {1 / 0}"

    return StructuredTool.from_function(read_rows, metadata={"readOnlyHint": True})


def send(text: str) -> str:
    """Send a mail."""
    return f"sent {text}"


def ask(graph, goal, **options):
    return graph.invoke({"messages": [HumanMessage(goal)]}, THREAD, **options)


def seen(asked, name):
    return read_json(next(m.text for m in asked.messages if m.type == "human"), name)


def of(model, role):
    return [asked for asked in model.asked if asked.role == role]


def first_turn():
    return {
        "planner": [plan(todo("1", "Read the orders"))],
        "executor": [[call("read_rows", table="orders")], report("There are 400 orders.")],
        "verifier": [passed("There are 400 orders.", t1=["1.1.0"])],
    }


def then(**scripts):
    """Two turns: the first one reads, the second one is scripted."""
    return ScriptedModel({role: [*turns, *scripts[role]] for role, turns in first_turn().items()})


FIRST_PROCESS = """
    import sys
    sys.path.insert(0, sys.argv[2])
    from test_earlier_turns import *
    with open_durability(f"sqlite:///{sys.argv[1]}") as database:
        model = ScriptedModel(first_turn())
        graph = build_plan_execute_verify(model=model, tools=[rows()], durability=database)
        context = Context(result_cap=int(sys.argv[3]))
        assert ask(graph, "How many orders?", context=context)["outcome"]["status"] == "complete"
"""


@pytest.mark.req("W-07", "S0-04")
def test_a_second_turn_in_a_new_process_opens_what_the_first_one_found(tmp_path):
    cap = 1_000
    file = tmp_path / "threads.db"
    here = str(Path(__file__).parent)
    code = dedent(FIRST_PROCESS)
    args = [forked.server().python, "-c", code, str(file), here, str(cap)]
    subprocess.run(args, check=True, cwd=TESTS)
    calls = []
    model = ScriptedModel(
        {
            "planner": [plan(todo("1", "Name the last order"))],
            "executor": lambda messages, _: opened(messages),
            "verifier": [passed("Row 399 is the last.", t1=["1.1.0"])],
        }
    )
    with open_durability(f"sqlite:///{file}") as database:
        graph = build_plan_execute_verify(model=model, tools=[rows(calls)], durability=database)
        outcome = ask(graph, "Which is the last?", context=Context(result_cap=cap))["outcome"]
    assert outcome["status"] == "complete"
    assert calls == [], "nothing was read from the table again"
    talk = [{"role": "user", "text": "How many orders?"},
            {"role": "assistant", "text": "There are 400 orders."}]  # fmt: skip
    for role in ("planner", "executor", "verifier"):
        for asked in of(model, role):
            assert seen(asked, "conversation") == talk
            (found,) = seen(asked, "earlier_evidence")
            about = (found["id"], found["tool"], found["arguments"], found["status"])
            assert about == ("t1:1.1.0", "read_rows", {"table": "orders"}, "success")
            assert WHOLE.startswith(found["result"].partition("[…")[0].strip())
    assert all("read_result" in asked.tools for asked in of(model, "executor"))


def opened(messages):
    """Open the result by its id, then read on by the id it names, to its end."""
    results = [m.text for m in messages if isinstance(m, ToolMessage)]
    if not results:
        return [call("read_result", id="t1:1.1.0")]
    if WHOLE[-300:] in "".join(results):
        return report("It is row 399.")
    key = re.search(r"'([0-9a-f]{8,})'", results[0])
    return [call("read_result", f"c{len(results)}", id=key[1], offset=len(WHOLE) - 300)]


@pytest.mark.req("W-07", "S0-04")
def test_what_the_conversation_holds_is_reported_without_a_call():
    calls = []
    model = then(
        planner=[plan(todo("1", "Say again how many orders there are"))],
        executor=[report("400, as was said before.")],
        verifier=[passed("400.", t1=["t1:1.1.0"])],
    )
    graph = build_plan_execute_verify(
        model=model, tools=[rows(calls)], checkpointer=InMemorySaver()
    )
    ask(graph, "How many orders?")
    outcome = ask(graph, "How many was it?")["outcome"]
    assert outcome["status"] == "complete"
    assert outcome["tasks"][0]["evidence"] == ["t1:1.1.0"], "the proof of the first turn, as such"
    assert calls == ["orders"]
    assert outcome["spend"]["tool_calls"] == 0


@pytest.mark.req("W-07")
def test_an_earlier_write_and_a_read_after_a_failure_prove_nothing_now():
    verdicts = [
        passed("Sent.", t1=["1.1.0"]),
        passed("Sent.", t1=["t1:1.1.0"]),
        passed("Sent again.", t1=["1.report"]),
    ]
    model = ScriptedModel(
        {
            "planner": [plan(todo("1", "Send it"))] * 2,
            "executor": [[call("send", text="a")], report("Sent a."), report("It was sent.")],
            "verifier": verdicts,
        }
    )
    graph = build_plan_execute_verify(model=model, tools=[send], checkpointer=InMemorySaver())
    ask(graph, "Send a")
    ask(graph, "Send a again")
    told = of(model, "verifier")[-1].messages[-1].text
    assert "t1:1.1.0" in told
    assert "earlier turn" in told

    model = then(
        planner=[plan(todo("1", "Read them again"))] * 3,
        executor=[
            [call("read_rows", table="gone")],
            report("400 as before.", taskCompleted=True),
            *[report("400 as before.")] * 2,
        ],
        verifier=[passed("400.", t1=["t1:1.1.0"])] * 9,
    )
    graph = build_plan_execute_verify(model=model, tools=[rows()], checkpointer=InMemorySaver())
    ask(graph, "How many orders?")
    assert ask(graph, "Look again")["outcome"]["status"] != "complete"


@pytest.mark.req("W-07", "S0-74")
def test_each_call_of_the_executor_has_the_whole_history_and_extends_the_one_before():
    model = then(
        planner=[plan(todo("1", "Read the items"), todo("2", "Read the prices"))],
        executor=[
            [call("read_rows", table="items")],
            report("400 items."),
            [call("read_rows", table="prices")],
            report("400 prices."),
        ],
        verifier=[passed("400 and 400.", t1=["1.1.0"], t2=["2.1.0"])],
    )
    graph = build_plan_execute_verify(model=model, tools=[rows()], checkpointer=InMemorySaver())
    ask(graph, "How many orders?")
    ask(graph, "Items and prices?")
    first, then_, second, last = of(model, "executor")[2:]
    for before, after in ((first, then_), (second, last)):
        assert after.messages[: len(before.messages)] == before.messages, "the prefix is stable"
        assert after.tools == before.tools
        assert isinstance(after.messages[-1], ToolMessage)
    assert [r["id"] for r in seen(first, "earlier_evidence")] == ["t1:1.1.0"]
    assert [r["id"] for r in seen(second, "earlier_evidence")] == ["t1:1.1.0", "1.1.0"]
    prompt = first.messages[0].text
    for section in ("conversation", "earlier_evidence", "results_so_far", "same arguments"):
        assert section in prompt
    assert "messages above" not in prompt


@pytest.mark.req("W-07")
def test_a_long_thread_is_shown_in_bounds_and_told_that_it_was_cut():
    turns = 20
    model = ScriptedModel(
        {
            "planner": lambda *_: plan(todo("1", "Read the orders")),
            "executor": lambda messages, _: (
                report("400.") if messages[-1].type == "tool" else [call("read_rows", table="o")]
            ),
            "verifier": lambda *_: passed("There are 400 orders. " * 100, t1=["1.1.0"]),
        }
    )
    graph = build_plan_execute_verify(model=model, tools=[rows()], checkpointer=InMemorySaver())
    for turn in range(turns):
        ask(graph, f"Turn {turn}. " + "Please. " * 250)
    for role in ("planner", "executor", "verifier"):
        last = of(model, role)[-1]
        left, *talk = seen(last, "conversation")
        assert left["left_out"].startswith(str(2 * (turns - 1) - len(talk)))
        assert talk[-2]["text"].startswith(f"Turn {turns - 2}.")
        assert sum(len(entry["text"]) for entry in talk) <= TALK_CAP
        left, *index = seen(last, "earlier_evidence")
        assert left["left_out"].startswith(str(turns - 1 - len(index)))
        assert index[-1]["id"] == f"t{turns - 1}:1.1.0"
        assert len(json.dumps(index)) < 1.2 * INDEX_CAP
    sizes = [sum(len(m.text) for m in asked.messages) for asked in of(model, "executor")]
    most = TALK_CAP + 1.2 * INDEX_CAP + sizes[1]
    assert max(sizes) <= most, "what is sent does not grow with the thread"


@pytest.mark.req("W-105")
def test_what_the_talk_no_longer_shows_an_executor_recalls():
    """A word of the first turn and a result of it, after twenty turns of long words."""
    recalled = []

    def executor(messages, offered):
        if messages[-1].type == "tool":
            recalled.append(messages[-1].text)
            return report("400.")
        if "recall" not in offered:
            return [call("read_rows", table="o")]
        return [call("recall", words="password of the harbour")]

    model = ScriptedModel(
        {
            "planner": lambda *_: plan(todo("1", "Read the orders")),
            "executor": executor,
            "verifier": lambda *_: passed("There are 400 orders. " * 100, t1=["1.1.0"]),
        }
    )
    graph = build_plan_execute_verify(model=model, tools=[rows()], checkpointer=InMemorySaver())
    ask(graph, "The password of the harbour is Heron-83.")
    assert "recall" not in of(model, "executor")[0].tools, "nothing is left out yet"
    for turn in range(20):
        ask(graph, f"Turn {turn}. " + "Please. " * 250)
    last = of(model, "executor")[-1]
    assert "Heron-83" not in json.dumps(seen(last, "conversation"))
    assert "user: The password of the harbour is Heron-83." in recalled[-1]
