"""Whole runs in which a model repeats itself: what is reused, what is refused, how it ends."""

import itertools

import pytest
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import Context, ScriptedModel, build_plan_execute_verify
from loopwright.state.channels import unpack_fields
from support.scripts import call, failed, passed, plan, report, todo

THREAD = {"configurable": {"thread_id": "t"}}
READS = {"readOnlyHint": True}
GO_ON = {"taskCompleted": False, "shouldContinue": True, "nextAction": "continue"}


class Shelf:
    """A small world: a file that can be read and written, and a count of what really ran."""

    def __init__(self, **metadata):
        self.text = "first"
        self.ran = []
        self.tools = [
            self.tool("read", self.read, **(metadata or READS)),
            self.tool("write", self.write),
        ]

    @staticmethod
    def tool(name, function, **metadata):
        made = StructuredTool.from_function(function, name=name, description=f"{name} a file.")
        made.metadata = metadata or None
        return made

    def read(self, path: str = "a") -> str:
        self.ran.append(f"read {path}")
        return str(self.text)

    def write(self, text: str) -> str:
        self.ran.append(f"write {text}")
        self.text = text
        return "written"


def script(*turns, verdict=None):
    return ScriptedModel(
        {
            "planner": [plan(todo("1", "read it"))] * 2,
            "executor": list(turns),
            "verifier": [verdict or passed("It is read.", t1=["1.1.0"])] * 2,
        }
    )


def run(model, tools, context=None, config=THREAD, saver=None, words="Read it."):
    """The final state, the custom events, and the tool messages the executor saw last."""
    graph = build_plan_execute_verify(model=model, tools=tools, checkpointer=saver)
    events, state = [], None
    given = {"messages": [{"role": "user", "content": words}]}
    for mode, part in graph.stream(
        given, config, context=context or Context(), stream_mode=["custom", "values"]
    ):
        if mode == "custom":
            events.append(part)
        else:
            state = unpack_fields(part)
    return state, events


def tool_messages(model):
    last = [a for a in model.asked if a.role == "executor"][-1]
    return [m for m in last.messages if m.type == "tool"]


def ends(events):
    """The last event of each tool call, by the call's evidence id."""
    return {e["id"]: e for e in events if e["type"] == "tool_call"}


READ = [call("read", path="a")]
NOT_DONE = failed("read something else", **{"1": False})


@pytest.mark.req("P-17", "S4-30", "S0-05", "S0-69", "S0-70", "S0-71", "D2")
def test_a_model_that_repeats_a_read_is_stopped_with_the_evidence():
    shelf = Shelf()
    model = script(*[READ] * 9, verdict=NOT_DONE)
    state, events = run(model, shelf.tools)
    assert shelf.ran == ["read a"], "the second was reused, the third to fifth were refused"
    outcome = state["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("stuck", "LOOP_DETECTED")
    assert outcome["unmet"][0].startswith("read it (failed: loop detected: read was called")
    assert [a.role for a in model.asked] == ["planner", *["executor"] * 5, "verifier"]
    assert (outcome["spend"]["model_calls"], outcome["spend"]["tool_calls"]) == (7, 1)
    assert outcome["tasks"][0]["evidence"] == ["1.1.0", "1.2.0"]
    told = ends(events)
    assert [told[f"1.{n}.0"]["status"] for n in range(1, 6)] == ["success"] * 2 + ["error"] * 3
    assert told["1.2.0"]["reused_from"] == "1.1.0"
    assert told["1.3.0"]["reason"] == "repeated"
    assert told["1.5.0"]["reason"] == "loop_detected"
    assert [e["strike"] for e in events if e["type"] == "loop"][-1] == 2
    assert "do not repeat it" in model.asked[1].messages[0].text
    shown = tool_messages(model)
    assert shown[0].text == "first"
    assert shown[1].text.startswith("[reused from 1.1.0, ")
    assert shown[1].text.endswith("\nfirst")
    assert shown[1].artifact["reused_from"] == "1.1.0"
    assert "third identical call" in shown[2].text
    assert shown[2].text.endswith("first")
    assert shown[2].status == "error"


@pytest.mark.req("P-17", "W-05")
@pytest.mark.parametrize(
    ("turn", "made"), [(["read"], 5), (["read", "look"], 9)], ids=["one", "two by turns"]
)
def test_writes_that_bring_nothing_new_are_made_and_end_the_step_at_the_fifth(turn, made):
    """A tool that declares nothing counts as a write."""
    shelf = Shelf(title="undeclared")
    tools = [*shelf.tools, shelf.tool("look", shelf.read, title="undeclared")]
    model = script(*([call(name, path=name)] for name in turn * 5), verdict=NOT_DONE)
    state, events = run(model, tools, Context(max_executor_rounds=30))
    assert shelf.ran == [f"read {name}" for name in (turn * 5)[:made]]
    assert state["outcome"]["reason"] == "LOOP_DETECTED"
    assert {e["status"] for e in ends(events).values()} == {"success"}


@pytest.mark.req("W-05")
def test_the_third_identical_write_is_made_with_a_warning():
    shelf = Shelf()
    model = script(*[[call("write", text="x")]] * 3, report("It is written three times."))
    state, _ = run(model, shelf.tools)
    assert shelf.ran == ["write x"] * 3
    assert state["outcome"]["status"] == "complete"
    assert not [w for w in state.get("warnings", []) if "not made" in w]
    shown = tool_messages(model)
    assert [m.status for m in shown] == ["success"] * 3
    assert [m.text for m in shown[:2]] == ["written"] * 2
    assert shown[2].text.startswith("written\n\n[This was the third identical call.")


@pytest.mark.req("W-05")
def test_identical_writes_whose_results_are_new_go_on_as_long_as_they_are_wanted():
    receipts = itertools.count()
    pay = Shelf.tool("pay", lambda amount=3: f"receipt {next(receipts)}")
    model = script(*[[call("pay", amount=3)]] * 8, report("Paid eight times."))
    state, _ = run(model, [pay], Context(max_executor_rounds=30))
    assert next(receipts) == 8
    assert state["outcome"]["status"] == "complete"
    assert "This was" not in "".join(m.text for m in tool_messages(model))


@pytest.mark.req("W-05")
def test_the_outcome_names_a_call_that_was_not_made():
    model = script(READ, READ, READ, report("It says: first."))
    state, _ = run(model, Shelf().tools)
    assert state["outcome"]["status"] == "complete"
    (told,) = [w for w in state["outcome"]["warnings"] if "not made" in w]
    assert told.startswith("The call 1.3.0 of read was not made: it repeated 1.2.0")


FRESH = {"refresh": True}


def reads(*more):
    """One message with a read for each of these, the same but for what they say beside."""
    return [call("read", f"c{n}", path="a", **said) for n, said in enumerate(more)]


@pytest.mark.req("W-68")
@pytest.mark.parametrize(
    "message",
    [
        reads(FRESH, FRESH),
        reads(FRESH, FRESH, FRESH, {"retry_reason": "cut off"}),
        reads({}, FRESH, FRESH),
        reads(FRESH, {}, {}),
        [call("read", "x"), *reads({}, FRESH)],
    ],
)
def test_equal_reads_of_one_message_are_made_once_also_where_they_must_be_fresh(message):
    shelf = Shelf()
    model = script(message, report("It says: first."))
    state, _ = run(model, shelf.tools)
    assert shelf.ran == ["read a"]
    assert {m.status for m in tool_messages(model)} == {"success"}
    assert all("first" in m.text for m in tool_messages(model))
    assert state["outcome"]["spend"]["tool_calls"] == 1


@pytest.mark.req("W-68")
def test_a_write_between_equal_reads_makes_two_of_them():
    shelf = Shelf()
    message = [*reads(FRESH, FRESH), call("write", "w", text="second"), call("read", "r", path="a")]
    model = script(message, report("It says: second."))
    run(model, shelf.tools)
    assert shelf.ran == ["read a", "write second", "read a"]


@pytest.mark.req("P-48")
def test_what_is_read_after_a_write_is_fresh():
    shelf = Shelf()
    write = [call("write", text="second")]
    model = script(READ, write, READ, READ, report("second"))
    run(model, shelf.tools)
    assert shelf.ran == ["read a", "write second", "read a"]
    texts = [m.text for m in tool_messages(model)]
    assert texts[:3] == ["first", "written", "second"]
    assert texts[3].startswith("[reused from 1.3.0")


@pytest.mark.req("D3", "S1-34", "S0-73")
@pytest.mark.parametrize("more", [{"refresh": True}, {"retry_reason": "cut off"}])
def test_the_model_may_ask_for_a_fresh_result(more):
    shelf = Shelf()
    model = script(READ, READ, [call("read", path="a", **more)], report("first"))
    state, events = run(model, shelf.tools)
    assert shelf.ran == ["read a"] * 2
    assert ends(events)["1.3.0"]["arguments"] == {"path": "a"}, "the tool never sees the wish"
    assert state["outcome"]["status"] == "complete"


@pytest.mark.req("P-17")
def test_asking_for_fresh_results_for_ever_is_a_loop_too():
    shelf = Shelf()
    model = script(*[[call("read", path="a", refresh=True)]] * 9, verdict=NOT_DONE)
    state, _ = run(model, shelf.tools)
    assert state["outcome"]["reason"] == "LOOP_DETECTED"
    assert shelf.ran == ["read a"] * 2


@pytest.mark.req("D3")
def test_reuse_can_be_turned_off_and_ends_with_time():
    shelf = Shelf()
    run(script(READ, READ, report("first")), shelf.tools, Context(dedupe="off"))
    assert shelf.ran == ["read a"] * 2
    shelf = Shelf()
    run(script(READ, READ, report("first")), shelf.tools, Context(dedupe_seconds=1e-9))
    assert shelf.ran == ["read a"] * 2
    shelf = Shelf(title="undeclared")
    run(script(READ, READ, report("first")), shelf.tools, Context(dedupe="all"))
    assert shelf.ran == ["read a"]


@pytest.mark.req("S0-67", "S0-72")
def test_a_new_user_turn_reads_anew():
    shelf = Shelf()
    model = script(READ, report("first"), READ, report("first"))
    saver = InMemorySaver()
    graph = build_plan_execute_verify(model=model, tools=shelf.tools, checkpointer=saver)
    for words in ("Read it.", "Read it once more."):
        graph.invoke({"messages": [{"role": "user", "content": words}]}, THREAD)
    assert shelf.ran == ["read a"] * 2


@pytest.mark.req("S0-73")
def test_a_failed_read_is_made_again():
    attempts = itertools.count(1)

    def read(path: str) -> str:
        if next(attempts) == 1:
            msg = "the disk is busy"
            raise OSError(msg)
        return "first"

    model = script(READ, READ, report("first"), verdict=passed("It says: first.", t1=["1.2.0"]))
    state, _ = run(model, [Shelf.tool("read", read, **READS)])
    assert [m.status for m in tool_messages(model)] == ["error", "success"]
    assert state["outcome"]["status"] == "complete"


@pytest.mark.req("P-21")
def test_many_reads_and_polls_with_news_are_no_loop():
    progress = itertools.count(5, 5)
    status = Shelf.tool(
        "status", lambda: f"{next(progress)} % done", readOnlyHint=True, cacheable=False
    )
    shelf = Shelf()
    turns = [[call("read", path=f"{n}.md")] for n in range(50)]
    turns += [[call("status")] for _ in range(20)]
    model = script(*turns, report("all read"))
    state, events = run(model, [*shelf.tools, status], Context(max_executor_rounds=80))
    assert state["outcome"]["status"] == "complete"
    assert len(shelf.ran) == 50
    assert next(progress) == 105, "20 polls ran"
    assert not [e for e in events if e["type"] == "loop" or e.get("reused_from")]


SAME = "I am still looking at the file to find out what stands in it, one moment. "


def say(text):
    return report(text, **GO_ON)


@pytest.mark.req("P-21", "S4-31", "W-109")
@pytest.mark.parametrize("words", [SAME, "Working."])
@pytest.mark.parametrize("more", [{}, {"nextAction": "retry"}])
def test_a_model_that_only_talks_is_nudged_once_then_stopped(words, more):
    model = script(*[report(words, **{**GO_ON, **more})] * 30, verdict=NOT_DONE)
    state, events = run(model, Shelf().tools, Context(max_executor_rounds=40))
    assert (state["outcome"]["status"], state["outcome"]["reason"]) == ("stuck", "LOOP_DETECTED")
    assert "the same words came again and again: " in state["outcome"]["unmet"][0]
    assert [e["strike"] for e in events if e["type"] == "loop"] == [1, 2]
    executor = [a for a in model.asked if a.role == "executor"]
    assert len(executor) == 10
    told = [m.text for asked in executor for m in asked.messages]
    assert any("said the same" in text for text in told)


@pytest.mark.req("P-21")
def test_after_the_nudge_the_model_may_do_better_and_words_between_calls_are_no_loop():
    model = script(
        say(SAME * 12), READ, report("first"), verdict=passed("It says: first.", t1=["1.2.0"])
    )
    state, events = run(model, Shelf().tools)
    assert state["outcome"]["status"] == "complete"
    assert [e["strike"] for e in events if e["type"] == "loop"] == [1]
    shelf = Shelf()
    turns = [(say(SAME), [call("read", path=f"{n}")]) for n in range(15)]
    model = script(
        *itertools.chain(*turns), report("first"), verdict=passed("It says: first.", t1=["1.2.0"])
    )
    state, events = run(model, shelf.tools, Context(max_executor_rounds=40))
    assert state["outcome"]["status"] == "complete"
    assert not [e for e in events if e["type"] == "loop"]


@pytest.mark.req("W-107")
def test_a_call_that_was_refused_is_named_though_the_verdict_passes():
    verdict = passed("It says: first.", t1=["1.2.0"])
    model = script([call("write", text="x")], READ, report("first"), verdict=verdict)
    graph = build_plan_execute_verify(
        model=model, tools=Shelf().tools, policy=[{"tool": "write", "action": "deny"}]
    )
    outcome = graph.invoke({"messages": [("user", "Write x and read it.")]})["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("partial", "GOAL")
    assert outcome["unmet"] == ['write({"text": "x"}) was not run: it was not allowed.']
