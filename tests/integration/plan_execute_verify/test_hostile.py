"""Models that lie, tools that misbehave, answers that make no sense: nothing runs twice."""

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import (
    AnswerRejected,
    ScriptedModel,
    build_plan_execute_verify,
    build_react,
    open_durability,
)
from support import paying
from support.scripts import call, passed, plan, report, thought, todo

THREAD = {"configurable": {"thread_id": "t"}}


def one_task(**scripts):
    return ScriptedModel(
        {
            "planner": [plan(todo("1", "Do it"))] * 3,
            "executor": [report("Done it, 7.")] * 9,
            "verifier": [passed("It is 7.", t1=["1.1.0"])] * 9,
        }
        | scripts
    )


def run(graph, goal="go", **options):
    return graph.invoke({"messages": [HumanMessage(goal)]}, THREAD, **options)


def writer():
    """A write tool and what it wrote."""
    written = []

    def write(text: str) -> str:
        """Write a line."""
        written.append(text)
        return f"wrote {text}"

    return write, written


@pytest.mark.parametrize(
    "end",
    [
        report("needless", taskCompleted=False, nextAction="skip"),
        report("no", taskCompleted=False, todos=[{"id": "1", "status": "cancelled"}]),
    ],
    ids=["skip", "cancelled"],
)
def test_leaving_everything_out_is_not_complete(end):
    claim = passed("All invoices were deleted.") | {"tasks": []}
    model = one_task(executor=[end] * 9, verifier=[claim] * 9)
    outcome = run(build_plan_execute_verify(model=model))["outcome"]
    assert outcome["status"] != "complete"
    assert "deleted" not in outcome["answer"]


def test_arguments_no_checkpoint_can_hold_are_refused_with_a_next_step():
    write, written = writer()
    deep = "x"
    for _ in range(500):
        deep = [deep]
    calls = [
        call("write", "a", text=10**40),
        call("write", "b", text=deep),
        call("nope", "c", n=10**40),
    ]
    model = one_task(executor=[calls, [call("write", "d", text="ok")], report("Wrote ok.")],
                     verifier=[passed("Wrote ok.", t1=["1.2.0"])])  # fmt: skip
    graph = build_plan_execute_verify(model=model, tools=[write], checkpointer=InMemorySaver())
    assert run(graph)["outcome"]["status"] == "complete"
    assert written == ["ok"]


class Panic(BaseException):
    """What bindings to other languages raise."""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize("error", [Panic("boom"), Unprintable(), SystemExit(3)])
def test_whatever_a_tool_raises_its_siblings_run_once(error):
    write, written = writer()

    def boom() -> str:
        """Fail."""
        raise error

    model = one_task(
        executor=[[call("write", "a", text="x"), call("boom", "b")], report("Wrote x.")],
    )
    graph = build_plan_execute_verify(
        model=model, tools=[write, boom], checkpointer=InMemorySaver()
    )
    outcome = run(graph)["outcome"]
    assert outcome["status"] == "complete"
    assert written == ["x"]
    failed_call = graph.get_state(THREAD).values["evidence"][1]
    assert failed_call["status"] == "error"
    assert type(error).__name__ in failed_call["result"]


@pytest.mark.parametrize(
    "nonsense", ["approve", "respond:", "respond:   ", {"type": "edit", "args": {"x": 1}}]
)
def test_an_answer_without_words_leaves_the_question_open(nonsense):
    unclear = {"needsMorePlanning": True, "missingInformation": ["Which one?"]}
    model = one_task(
        planner=[unclear, plan(todo("1", "Do it"))], verifier=[passed("It is 7.", t1=["1.report"])]
    )
    graph = build_plan_execute_verify(model=model, checkpointer=InMemorySaver())
    assert run(graph)["__interrupt__"]
    with pytest.raises(AnswerRejected, match="stays open"):
        graph.invoke(Command(resume=nonsense), THREAD)
    assert graph.get_state(THREAD).interrupts
    outcome = graph.invoke(Command(resume="respond: the red one"), THREAD)["outcome"]
    assert outcome["status"] == "complete"


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ({"type": "edit", "args": {"nope": 1}}, "The edit cannot run"),
        ({"type": "edit", "args": {"text": [7]}}, "The edit cannot run"),
        ({"type": "edit", "name": "other", "args": {"text": "x"}}, "not the tool"),
    ],
)
def test_an_edit_that_cannot_run_is_asked_about_again(edit, why):
    write, written = writer()
    model = one_task(executor=[[call("write", text="a")], report("Wrote it.")])
    graph = build_plan_execute_verify(
        model=model, tools=[write], policy="ask", checkpointer=InMemorySaver()
    )
    run(graph)
    again = graph.invoke(Command(resume=edit), THREAD)["__interrupt__"][0].value
    assert why in again["description"]
    assert written == []
    graph.invoke(Command(resume={"type": "edit", "args": {"text": "b"}}), THREAD)
    assert written == ["b"]


def test_half_a_character_from_a_model_ends_no_run():
    model = one_task(
        executor=[report("Found \ud83d\x00 7.")], verifier=[passed("It is 7.", t1=["1.report"])]
    )
    outcome = run(build_plan_execute_verify(model=model))["outcome"]
    assert outcome["status"] == "complete"
    assert outcome["tasks"][0]["result"] == "Found \ufffd\ufffd 7."


@pytest.mark.parametrize("answer", ["respond: It was paid.", "approve"])
def test_a_call_a_crash_cut_off_is_never_called_not_run_because_its_tool_is_gone(answer, tmp_path):
    """The same where policy denies it by now: that it never ran is for the journal to say."""
    paying.die_paying(tmp_path)
    till = paying.Till(tmp_path)
    with open_durability(till.url) as durability:
        tools = [tool for tool in till.tools() if tool.__name__ != "pay"]
        graph = build_plan_execute_verify(model=paying.payer(), tools=tools, durability=durability)
        asked = graph.invoke(None, THREAD)["__interrupt__"][0].value
        assert asked["type"] == "uncertain_call"
        outcome = graph.invoke(Command(resume=answer), THREAD)["outcome"]
    doubts = [one["tool"] for one in outcome["uncertain_calls"]]
    assert doubts == ([] if answer.startswith("respond") else ["pay"])
    assert (outcome["status"] == "complete") is (not doubts)
    assert till.did("pay") == 1


@pytest.mark.req("W-45")
@pytest.mark.parametrize(
    "pattern", ["^(a+)+$", "a{99999999999}", "(" * 6_000], ids=["slow", "huge", "deep"]
)
def test_what_looks_like_a_pattern_in_an_answer_is_a_text(pattern):
    write, written = writer()
    model = one_task(executor=[[call("write", text="x")], report("Wrote.")])
    graph = build_plan_execute_verify(
        model=model, tools=[write], policy="ask", checkpointer=InMemorySaver()
    )
    run(graph)
    graph.invoke(Command(resume={"type": "approve", "remember": {"text": pattern}}), THREAD)
    assert not graph.get_state(THREAD).interrupts
    assert written == ["x"]


@pytest.mark.parametrize("args", [{"text": 10**30}, {"text": [10**30]}], ids=["flat", "nested"])
def test_an_answer_no_checkpoint_can_hold_leaves_the_question_open(args):
    write, written = writer()
    model = ScriptedModel({
        "thought": [thought("I write with write.", more=True), thought("Written.")],
        "action": [[call("write", text="x")]],
        "observation": ["It is written."],
    })  # fmt: skip
    graph = build_react(model=model, tools=[write], policy="ask", checkpointer=InMemorySaver())
    run(graph)
    with pytest.raises(AnswerRejected, match="cannot be saved"):
        graph.invoke(Command(resume={"type": "edit", "args": args}), THREAD)
    result = graph.invoke(Command(resume="approve"), THREAD)
    assert result["outcome"]["status"] == "complete"
    assert written == ["x"]


@pytest.mark.req("P-42")
async def test_a_deleted_thread_takes_its_approvals_along(tmp_path):
    """Another conversation under the same id is another person's, perhaps."""
    write, written = writer()
    steps = {"thought": [thought("Write.", more=True), thought("Written.")] * 3}
    model = ScriptedModel(steps | {"action": [[call("write", text="a")]] * 3})
    with open_durability(f"sqlite:///{tmp_path}/t.db") as durability:
        graph = build_react(
            model=model, tools=[write], policy="ask", durability=durability, observe="direct"
        )
        talk = {"messages": [HumanMessage("go")]}
        await graph.ainvoke(talk, THREAD)
        await graph.ainvoke(Command(resume={"type": "approve", "remember": "tool"}), THREAD)
        assert not (await graph.aget_state(THREAD)).interrupts
        await durability.checkpointer.adelete_thread("t")
        await graph.ainvoke(talk, THREAD)
        assert (await graph.aget_state(THREAD)).interrupts
        assert written == ["a"]
        assert durability.journal.rows("t") == []
