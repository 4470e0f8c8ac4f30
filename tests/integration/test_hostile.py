"""Models that lie, tools that misbehave, answers that make no sense: nothing runs twice."""

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import AnswerRejected, Context, ScriptedModel, build_plan_execute_verify
from support.scripts import call, failed, passed, plan, report, todo

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


@pytest.mark.parametrize("odd", [10**22, -(2**70)], ids=["huge", "tiny"])
def test_a_number_no_checkpoint_can_hold_ends_no_run(odd):
    asked = []

    def balance() -> dict:
        """Look at the balance."""
        asked.append(1)
        return {"wei": odd, "nested": [[{"n": odd}]]}

    model = one_task(executor=[[call("balance")], report("Looked.")])
    graph = build_plan_execute_verify(model=model, tools=[balance], checkpointer=InMemorySaver())
    assert run(graph)["outcome"]["status"] == "complete"
    assert len(asked) == 1


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


@pytest.mark.parametrize("error", [Panic("boom"), Unprintable(), GeneratorExit(), SystemExit(3)])
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


def test_twins_in_a_plan_are_both_carried_over():
    write, written = writer()
    todos = [todo("A", "append x"), todo("B", "append x"), todo("C", "fail")]
    no = report("cannot", taskCompleted=False, shouldContinue=False)
    append = [[call("write", text="x")], report("Appended x.")]
    model = one_task(
        planner=[plan(*todos)] * 2,
        executor=[*append, *append, no, no],
        verifier=[failed("mend C", tC=False)] * 2,
    )
    outcome = run(build_plan_execute_verify(model=model, tools=[write]))["outcome"]
    assert [t["status"] for t in outcome["tasks"]] == ["completed", "completed", "failed"]
    assert written == ["x", "x"]


@pytest.mark.parametrize(
    "nonsense", ["approve", "yes", "respond:", "respond:   ", {"type": "edit", "args": {"x": 1}}]
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
        ({"type": "edit", "args": {"text": 7}}, "The edit cannot run"),
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


def test_other_words_under_a_known_message_id_are_another_request():
    model = one_task(
        executor=[report("Seven."), report("Eight.")],
        verifier=[passed("It is 7.", t1=["1.report"]), passed("It is 8.", t1=["1.report"])],
    )
    graph = build_plan_execute_verify(model=model, checkpointer=InMemorySaver())
    for words, answer in (("seven?", "It is 7."), ("eight?", "It is 8.")):
        message = {"messages": [HumanMessage(words, id="same")]}
        outcome = graph.invoke(message, THREAD, context=Context())["outcome"]
        assert outcome["answer"] == answer
    assert len([a for a in model.asked if a.role == "executor"]) == 2
