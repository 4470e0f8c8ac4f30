"""What the doors refuse, and how a resume finds its question, over real SQLite files."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph import END, START
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel, ValidationError

from loopwright.run.graph import LoopBuilder
from loopwright.state.errors import (
    AnswerRejected,
    SettingsError,
    ThreadIncompatible,
)
from loopwright.state.loop import MIGRATIONS, SCHEMA_VERSION
from loopwright.state.questions import Answer
from loopwright.store.durability import open_durability
from support.toy_graphs import ToyInput, ToyState, ask, asker, hello, on


@pytest.fixture
def database(tmp_path):
    with open_durability(f"sqlite:///{tmp_path}/threads.db") as opened:
        yield opened


# --- nodes a graph does not have ---------------------------------------------------------------


@pytest.mark.req("P-07")
@pytest.mark.parametrize("given", [Command(resume="ok"), None, hello()])
def test_a_renamed_node_is_an_error_not_a_silent_end(database, given):
    asker("review").compile(database.checkpointer).invoke(hello(), on("t"))
    renamed = asker("approve").compile(database.checkpointer, name="toy")
    with pytest.raises(ThreadIncompatible, match=r"Thread 't' waits at 'review'.*graph 'toy'"):
        renamed.invoke(given, on("t"))
    # Nothing was written: the graph that saved it goes on.
    result = asker("review").compile(database.checkpointer).invoke(Command(resume="ok"), on("t"))
    assert result["log"] == ["greet", "ask:ok", "end"]


@pytest.mark.req("P-07")
def test_a_renamed_node_inside_a_subgraph_is_an_error(database):
    def nested(question: str) -> Any:
        builder = LoopBuilder(ToyState, input_schema=ToyInput)
        builder.add_node("child", asker(question).compile())
        builder.add_edge(START, "child")
        return builder.compile(database.checkpointer)

    nested("review").invoke(hello(), on("t"))
    with pytest.raises(ThreadIncompatible, match="'review'"):
        nested("approve").invoke(Command(resume="ok"), on("t"))
    assert nested("review").invoke(Command(resume="ok"), on("t"))["log"][-1] == "end"


# --- older schemas -----------------------------------------------------------------------------


@dataclass(kw_only=True)
class OldState(ToyState):
    todos: list[dict[str, Any]] = field(default_factory=list)
    schema_version: int = 0


@dataclass(kw_only=True)
class NewState(OldState):
    added: str = "default"


OLD = SCHEMA_VERSION - 1


@pytest.fixture
def migration(monkeypatch):
    """An example of a step: an older version had other words."""

    def step(values: Any) -> dict[str, Any]:
        return {"todos": [{**todo, "status": "pending"} for todo in values["todos"]]}

    monkeypatch.setitem(MIGRATIONS, OLD, step)


def planned(schema: type[OldState], seen: list[Any]) -> LoopBuilder[Any, Any, Any, Any]:
    async def plan(state: OldState) -> dict[str, Any]:
        version = SCHEMA_VERSION if schema is NewState else OLD
        return {"todos": [{"id": "1", "status": "executing"}], "schema_version": version}

    async def work(state: OldState) -> dict[str, Any]:
        answers = [interrupt("first"), interrupt("second")]
        seen.append(state)
        return {"log": answers}

    plan.__annotations__["state"] = work.__annotations__["state"] = schema
    builder = LoopBuilder(schema, input_schema=ToyInput)
    builder.add_node("plan", plan)
    builder.add_node("work", work)
    builder.add_edge(START, "plan")
    builder.add_edge("plan", "work")
    return builder


@pytest.mark.req("P-07")
@pytest.mark.usefixtures("migration")
def test_a_thread_of_an_old_schema_that_waits_resumes_under_the_present_one(tmp_path):
    url = f"sqlite:///{tmp_path}/old.db"
    seen: list[Any] = []
    with open_durability(url) as database:
        asked = planned(OldState, []).compile(database.checkpointer).invoke(hello(), on("t"))
    with open_durability(url) as database:
        graph = planned(NewState, seen).compile(database.checkpointer)
        before = graph.get_state(on("t"))
        # A partial answer leaves the migrated checkpoint in place: it is not migrated twice.
        again = graph.invoke(Command(resume="a"), on("t"))
        after = graph.get_state(on("t"))
        assert again["__interrupt__"][0].value == "second"
        assert before.interrupts == tuple(asked["__interrupt__"])
        assert before.next == after.next == ("work",)
        assert before.config == after.config
        result = graph.invoke(Command(resume="b"), on("t"))
    assert result["log"] == ["a", "b"]
    assert result["schema_version"] == SCHEMA_VERSION
    assert seen[-1].added == "default"
    assert [todo["status"] for todo in seen[-1].todos] == ["pending"]


@pytest.mark.req("P-07")
@pytest.mark.parametrize("given", [None, Command(resume="a"), hello()], ids=["on", "answer", "new"])
def test_a_thread_of_an_older_package_is_refused_in_one_sentence(database, given):
    planned(OldState, []).compile(database.checkpointer).invoke(hello(), on("t"))
    graph = planned(NewState, []).compile(database.checkpointer)
    said = rf"Thread 't' was saved by an earlier version \(schema {OLD}\), .* start a new thread\."
    with pytest.raises(ThreadIncompatible, match=said):
        graph.invoke(given, on("t"))
    assert graph.get_state(on("t")).next == ("work",), "what is saved can still be looked at"


@pytest.mark.req("P-07")
def test_a_thread_of_a_newer_package_is_refused(database):
    graph = planned(NewState, []).compile(database.checkpointer)
    graph.invoke(hello(), on("t"))
    graph.update_state(on("t"), {"schema_version": SCHEMA_VERSION + 1}, as_node="plan")
    with pytest.raises(ThreadIncompatible, match="upgrade loopwright"):
        graph.invoke(Command(resume="a"), on("t"))


# --- answers -----------------------------------------------------------------------------------


def several(count: int = 3) -> LoopBuilder[Any, Any, Any, Any]:
    def split(state: ToyState) -> list[Send]:
        return [Send("gate", number) for number in range(count)]

    async def gate(number: Any) -> dict[str, Any]:
        # The first gate asks last: task order is not the order of asking.
        await asyncio.sleep(0.03 * (count - number))
        return {"log": [f"{number}:{interrupt(f'gate {number}')}"]}

    builder = LoopBuilder(ToyState, input_schema=ToyInput)
    builder.add_node("gate", cast("Any", gate))
    builder.add_conditional_edges(START, split, ["gate"])
    builder.add_edge("gate", END)
    return builder


def test_a_bare_answer_goes_to_the_first_pending_question(database):
    graph = several().compile(database.checkpointer)
    graph.invoke(hello(), on("t"))
    for answer in "abc":
        first = graph.get_state(on("t")).interrupts[0].value
        result = graph.invoke(Command(resume=answer), on("t"))
        assert first == f"gate {'abc'.index(answer)}"
    assert result["log"] == ["0:a", "1:b", "2:c"]


def test_a_bad_answer_does_not_brick_the_thread(database):
    class Decision(BaseModel):
        go: bool

    async def decide(state: ToyState) -> dict[str, Any]:
        return {"log": [str(interrupt("go?", response_schema=Decision).go)]}

    builder = LoopBuilder(ToyState, input_schema=ToyInput)
    builder.add_node("decide", decide)
    builder.add_edge(START, "decide")
    graph = builder.compile(database.checkpointer)
    graph.invoke(hello(), on("t"))
    answers: tuple[Any, ...] = ("oops", [], {})
    for bad in answers:
        with pytest.raises(ValidationError):
            graph.invoke(Command(resume=bad), on("t"))
    assert graph.invoke(Command(resume={"go": True}), on("t"))["log"] == ["True"]


def test_a_server_that_repeats_a_crashed_resume_does_not_answer_twice(database):
    crashes = [RuntimeError("crash")]

    async def crash(state: ToyState) -> dict[str, Any]:
        if crashes:
            raise crashes.pop()
        return {"log": ["recovered"]}

    builder = LoopBuilder(ToyState, input_schema=ToyInput)
    builder.add_sequence([("one", ask), ("crash", crash), ("two", ask)])
    builder.add_edge(START, "one")
    graph = builder.compile(database.checkpointer)
    graph.invoke(hello(), on("t", run_id="r0"))
    with pytest.raises(RuntimeError, match="crash"):
        graph.invoke(Command(resume="first"), on("t", run_id="r1"))
    for _ in range(2):
        result = graph.invoke(Command(resume="first"), on("t", run_id="r1"))
        assert result["log"] == ["ask:first", "recovered"]
        assert len(result["__interrupt__"]) == 1
    result = graph.invoke(Command(resume="second"), on("t", run_id="r2"))
    assert result["log"] == ["ask:first", "recovered", "ask:second"]


@pytest.mark.req("W-94")
@pytest.mark.parametrize("between", [False, True], ids=["next", "after another run"])
def test_a_server_that_repeats_a_crashed_run_says_nothing_twice(database, between):
    crashes, sent = [RuntimeError("crash")], []

    async def send(state: ToyState) -> dict[str, Any]:
        sent.append(state.messages[-1].text)
        return {"log": ["sent"]}

    async def crash(state: ToyState) -> dict[str, Any]:
        if crashes:
            raise crashes.pop()
        return {"log": ["recovered"]}

    builder = LoopBuilder(ToyState, input_schema=ToyInput)
    builder.add_sequence([("send", send), ("crash", crash)])
    builder.add_edge(START, "send")
    graph = builder.compile(database.checkpointer)
    served = {"assistant_id": "toy"}
    first = {"messages": [HumanMessage("first")]}
    with pytest.raises(RuntimeError, match="crash"):
        graph.invoke(first, on("t", run_id="r1", **served))
    said = ["first"]
    if between:
        graph.invoke({"messages": [HumanMessage("second")]}, on("t", run_id="r2", **served))
        said += ["second"]
    for _ in range(2):
        values = graph.invoke(first, on("t", run_id="r1", **served))
        assert sent == said == [message.text for message in values["messages"]]
        assert values["log"][-1] == "recovered"
        assert not graph.get_state(on("t")).next


# --- what there is to resume -------------------------------------------------------------------


# --- what pydantic refuses, in one sentence -----------------------------------------------------


@pytest.mark.req("P-37")
def test_an_answer_in_no_known_shape_is_refused_in_words_and_the_question_stays(database):
    async def decide(state: ToyState) -> dict[str, Any]:
        return {"log": [interrupt("go?", response_schema=Answer).type]}

    builder = LoopBuilder(ToyState, input_schema=ToyInput)
    builder.add_node("decide", decide)
    builder.add_edge(START, "decide")
    graph = builder.compile(database.checkpointer)
    graph.invoke(hello(), on("t"))
    edit = {"type": "edit"}
    for bad, reason in (("perhaps", "an answer is approve"), (edit, "an edit needs the new")):
        with pytest.raises(AnswerRejected) as refused:
            graph.invoke(Command(resume=bad), on("t"))
        assert str(refused.value).startswith("The answer to thread 't' is not taken, its question")
        assert reason in str(refused.value)
        assert "pydantic" not in str(refused.value)
    assert graph.invoke(Command(resume="approve"), on("t"))["log"] == ["approve"]


@pytest.mark.req("W-66")
@pytest.mark.parametrize("deep", [900, 50_000])
def test_an_input_that_no_checkpoint_can_hold_is_refused_before_anything_runs(database, deep):
    graph = asker().compile(database.checkpointer)
    value: list[object] = []
    for _ in range(deep):
        value = [value]
    message = {"role": "user", "content": "hi", "additional_kwargs": {"x": value}}
    for given in (
        {"messages": [message]},
        {"messages": [HumanMessage("hi", additional_kwargs={"x": value})]},
    ):
        with pytest.raises(SettingsError, match="cannot be saved, so nothing was run"):
            graph.invoke(given, on("t"))
    assert database.checkpointer.get_tuple(on("t")) is None
