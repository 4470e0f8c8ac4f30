"""The one path of a tool call, on a whole graph: approvals, crashes, doubt, order, limits."""

import asyncio
import shutil
import time
from itertools import pairwise
from typing import Any

import pytest
from langchain.tools import ToolRuntime
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import (
    AnswerRejected,
    Context,
    ScriptedModel,
    build_plan_execute_verify,
    open_durability,
)
from loopwright.prompts.prompt import read_json
from loopwright.state.calls import TRANSITIONS
from support import paying
from support.scripts import call, failed, passed, plan, report, todo

THREAD = paying.THREAD
DO_IT = {"messages": [{"role": "user", "content": "Do it."}]}


@pytest.fixture(scope="module")
def crashed(tmp_path_factory):
    """A thread whose process was killed in `pay`, after its effect."""
    folder = tmp_path_factory.mktemp("paying") / "run"
    paying.die_paying(folder)
    return folder


@pytest.fixture
def till(crashed, tmp_path):
    shutil.copytree(crashed, tmp_path / "run")
    return paying.Till(tmp_path / "run")


@pytest.mark.req("P-06", "P-04")
@pytest.mark.parametrize(
    ("answer", "paid", "status", "reason", "words"),
    [
        ("approve", 2, "complete", "GOAL", "paid 3"),
        ("respond: it was paid, number 17", 1, "complete", "GOAL", "number 17"),
        ("reject: look at it tomorrow", 1, "blocked", "DENIED", "look at it tomorrow"),
    ],
)
def test_a_write_cut_off_by_a_crash_is_asked_about(till, answer, paid, status, reason, words):
    with open_durability(till.url) as durability:
        graph = till.graph(durability)
        (question,) = graph.invoke(None, THREAD)["__interrupt__"]
        assert question.value["type"] == "uncertain_call"
        assert question.value["review_configs"][0]["allowed_decisions"] == [
            "approve", "respond", "reject",
        ]  # fmt: skip
        assert "may have run already" in question.value["description"]
        assert till.did("pay") == 1
        result = graph.invoke(Command(resume=answer), THREAD)
        evidence = graph.get_state(THREAD).values["evidence"]
    outcome = result["outcome"]
    assert (outcome["status"], outcome["reason"]) == (status, reason)
    assert till.did("pay") == paid
    assert till.did("quick") == 1, "the finished sibling is not repeated"
    assert evidence[0]["status"] == "success"
    assert words in evidence[1]["result"]
    assert outcome["uncertain_calls"] == []
    assert outcome["spend"]["tool_calls"] == (2 if answer == "approve" else 1)


@pytest.mark.req("P-06", "P-37")
def test_an_edit_is_no_answer_to_a_call_in_doubt(till):
    with open_durability(till.url) as durability:
        graph = till.graph(durability)
        graph.invoke(None, THREAD)
        edit = {"type": "edit", "args": {"amount": 1}}
        (again,) = graph.invoke(Command(resume=edit), THREAD)["__interrupt__"]
    assert "cannot be edited" in again.value["description"]
    assert till.did("pay") == 1


@pytest.mark.req("P-06", "P-02")
def test_an_approval_is_good_for_one_run(till):
    """The process that was told to run it again is killed too: nobody has approved a third run."""
    with open_durability(till.url) as durability:
        till.graph(durability).invoke(None, THREAD)
    paying.die_paying(till.folder, "approve")
    assert till.did("pay") == 2
    with open_durability(till.url) as durability:
        graph = till.graph(durability)
        (question,) = graph.invoke(None, THREAD)["__interrupt__"]
        assert question.value["type"] == "uncertain_call"
        assert till.did("pay") == 2
        graph.invoke(Command(resume="approve"), THREAD)
    assert (till.did("pay"), till.did("quick")) == (3, 1)


@pytest.mark.req("P-06")
def test_with_nobody_to_ask_a_call_in_doubt_blocks_the_run(till):
    with open_durability(till.url) as durability:
        graph = till.graph(durability)
        outcome = graph.invoke(None, THREAD, context=Context(interactive=False))["outcome"]
        assert (outcome["status"], outcome["reason"]) == ("blocked", "NOT_INTERACTIVE")
        (task,) = outcome["tasks"]
        assert task["status"] == "failed"
        assert "uncertain:" in outcome["unmet"][0]
        (in_doubt,) = outcome["uncertain_calls"]
        assert (in_doubt["id"], in_doubt["task"], in_doubt["tool"]) == ("1.1.1", "1", "pay")
        assert in_doubt["arguments"] == {"amount": 3}
        assert "may have taken effect" in in_doubt["why"]
        assert till.did("pay") == 1
        # Somebody takes the thread up: the same call is still in doubt, until it is settled.
        (question,) = graph.invoke(None, THREAD)["__interrupt__"]
        assert question.value["type"] == "uncertain_call"
        outcome = graph.invoke(Command(resume="respond: it was paid"), THREAD)["outcome"]
    assert (outcome["status"], outcome["uncertain_calls"]) == ("complete", [])
    assert till.did("pay") == 1


@pytest.mark.req("P-06", "P-05")
def test_a_new_message_instead_of_a_resume_does_not_pay_again_unasked(till):
    with open_durability(till.url) as durability:
        graph = till.graph(durability)
        (question,) = graph.invoke(paying.PAY, THREAD)["__interrupt__"]
        assert question.value["type"] == "uncertain_call"
        assert till.did("pay") == 1
        outcome = graph.invoke(Command(resume="approve"), THREAD)["outcome"]
    assert outcome["status"] == "complete"
    assert till.did("pay") == 2


def worker(*turns):
    """A model with one task that makes these turns of calls, then reports what came of the last."""

    def executor(messages, offered):
        rounds = sum(m.type == "ai" for m in messages)
        if rounds < len(turns):
            return list(turns[rounds])
        found = [m for m in messages if m.type == "tool"]
        done = any(m.status == "success" for m in found)
        return report("; ".join(m.text for m in found)[:2000], taskCompleted=done)

    def verifier(messages, offered):
        human = next(m.text for m in messages if m.type == "human")
        good = [e["id"] for e in read_json(human, "evidence") if e["status"] == "success"]
        return passed("All of it was done.", t1=good) if good else failed("do it", t1=False)

    return ScriptedModel(
        {"planner": [plan(todo("1", "do it", []))] * 5, "executor": executor, "verifier": verifier}
    )


def gate(name, *ids, **args):
    return [call(name, i, n=i, **args) for i in ids]


class Log:
    """Tools that note what they did: a read, an ungated write, and one that asks."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def tools(self):
        def look(n: str) -> str:
            """Look."""
            self.done.append(f"look {n}")
            return f"looked at {n}"

        def write(n: str) -> str:
            """Write."""
            self.done.append(f"write {n}")
            return f"wrote {n}"

        def ask(n: str) -> str:
            """Do what needs an approval."""
            self.done.append(f"ask {n}")
            return f"asked {n}"

        hints = {"look": {"readOnlyHint": True}, "ask": {"destructiveHint": True}}
        made = [StructuredTool.from_function(f) for f in (look, write, ask)]
        for one in made:
            one.metadata = hints.get(one.name, {})
        return made

    def graph(self, *turns, **more):
        more.setdefault("checkpointer", InMemorySaver())
        return build_plan_execute_verify(model=worker(*turns), tools=self.tools(), **more)


def asked(result):
    return result["__interrupt__"][0].value


def answer(graph, value="approve", **more):
    return graph.invoke(Command(resume=value), THREAD, **more)


def evidence_of(graph):
    return graph.get_state(THREAD).values["evidence"]


@pytest.mark.req("P-04")
def test_a_payment_beside_two_questions_is_made_once():
    log = Log()
    graph = log.graph([call("write", "p", n="pay"), *gate("ask", "a", "b")])
    assert asked(graph.invoke(DO_IT, THREAD))["tool_call_id"] == "a"
    assert log.done == ["write pay"]
    assert asked(answer(graph))["tool_call_id"] == "b"
    assert log.done == ["write pay", "ask a"]
    assert answer(graph)["outcome"]["status"] == "complete"
    assert log.done == ["write pay", "ask a", "ask b"]


@pytest.mark.req("P-01", "S0-103")
@pytest.mark.parametrize("limit", [300, 5])
def test_twelve_approvals_cost_no_model_call_and_refill_no_allowance(limit):
    log, context = Log(), Context(max_tool_calls=limit)
    names = [f"c{n}" for n in range(12)]
    graph = log.graph(gate("ask", *names))
    result = graph.invoke(DO_IT, THREAD, context=context)
    for n, name in enumerate(names):
        assert asked(result)["tool_call_id"] == name
        assert len(log.done) == min(n, limit)
        result = answer(graph, context=context)
    spend = result["outcome"]["spend"]
    assert len(log.done) == spend["tool_calls"] == min(12, limit)
    assert spend["model_calls"] == 4
    assert [r["call_id"] for r in evidence_of(graph)] == names


@pytest.mark.req("P-37")
def test_a_wrong_answer_leaves_the_question_as_it_was():
    log = Log()
    graph = log.graph(gate("ask", "a"))
    graph.invoke(DO_IT, THREAD)
    for wrong in ("oops", [], {}):
        with pytest.raises(AnswerRejected):
            answer(graph, wrong)
    other = {"type": "approve", "tool_call_id": "b"}
    again = asked(answer(graph, other))
    assert "The answer was for the call 'b'" in again["description"]
    assert not log.done
    assert answer(graph, {"type": "approve", "tool_call_id": "a"})["outcome"]["status"] == (
        "complete"
    )
    assert log.done == ["ask a"]


@pytest.mark.req("P-42")
@pytest.mark.parametrize(
    ("late", "status", "reason"),
    [("approve", "cancelled", "expired"), ("reject", "cancelled", "rejected")],
)
def test_an_answer_after_the_question_has_expired_approves_nothing(late, status, reason):
    log, context = Log(), Context(question_expires_in=0.05)
    graph = log.graph(gate("ask", "a"))
    assert "T" in asked(graph.invoke(DO_IT, THREAD, context=context))["expires_at"]
    time.sleep(0.1)
    outcome = answer(graph, late, context=context)["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("blocked", "DENIED")
    (record,) = evidence_of(graph)
    assert (record["status"], record["reason"]) == (status, reason)
    assert not log.done


def slow_payment(effects, error=None):
    async def pay(amount: int) -> str:
        """Pay."""
        effects.append(amount)
        if error:
            raise error
        await asyncio.sleep(30)
        return "paid"

    return pay


@pytest.mark.req("P-06")
@pytest.mark.parametrize("error", [None, ConnectionResetError("gone")])
def test_a_write_without_an_answer_is_not_made_again_unasked(error):
    effects: list[int] = []
    model = worker([call("pay", amount=3)], [call("pay", "again", amount=3)])
    graph = build_plan_execute_verify(
        model=model, tools=[slow_payment(effects, error)], checkpointer=InMemorySaver()
    )
    context = Context(tool_deadline=0.2)
    question = asked(graph.invoke(DO_IT, THREAD, context=context))
    assert effects == [3], "the framework did not retry"
    assert (question["type"], question["tool_call_id"]) == ("uncertain_call", "again")
    told = [m.text for a in model.asked for m in a.messages if m.type == "tool"]
    assert "may have taken effect all the same: check that before you repeat it" in told[0]
    outcome = answer(graph, "reject", context=context)["outcome"]
    first, second = evidence_of(graph)
    assert (first["status"], first["reason"]) == ("error", "uncertain")
    assert (second["status"], second["reason"]) == ("cancelled", "gave_up")
    assert outcome["uncertain_calls"] == []
    assert effects == [3]


@pytest.mark.req("S4-27", "S4-29", "S0-60")
def test_each_step_of_a_call_is_told_in_an_allowed_order():
    log = Log()
    calls = [*gate("ask", "a"), call("look", "l", n="l"), call("nope", "x")]
    graph = log.graph(calls)
    events = list(graph.stream(DO_IT, THREAD, stream_mode="custom"))
    events += graph.stream(Command(resume="approve"), THREAD, stream_mode="custom")
    told: dict[str, list[str]] = {}
    for event in events:
        if event["type"] == "tool_call":
            told.setdefault(event["id"], []).append(event["status"])
    assert told == {
        "1.1.0": ["validating", "awaiting_approval", "scheduled", "executing", "success"],
        "1.1.1": ["validating", "scheduled", "executing", "success"],
        "1.1.2": ["validating", "error"],
    }
    for steps in told.values():
        assert all(after in TRANSITIONS[before] for before, after in pairwise(steps))


@pytest.mark.req("P-06")
def test_a_tool_sees_the_key_by_which_a_repeated_call_is_known():
    keys: list[Any] = []

    @tool
    def with_config(n: int, config: RunnableConfig) -> str:
        """Note the key."""
        keys.append(config["metadata"]["loopwright/idempotency_key"])
        raise TimeoutError

    @tool
    def with_runtime(n: int, runtime: ToolRuntime[Context, Any]) -> str:
        """Note the key."""
        keys.append(runtime.config["metadata"]["loopwright/idempotency_key"])
        assert runtime.tool_call_id == "r"
        assert (runtime.context.resource_id, runtime.context.task_id) == ("res-7", "task-9")
        return "noted"

    with_config.metadata = {"idempotentHint": True}
    model = worker([call("with_config", n=1), call("with_runtime", "r", n=1)])
    graph = build_plan_execute_verify(model=model, tools=[with_config, with_runtime])
    graph.invoke(DO_IT, context=Context(resource_id="res-7", task_id="task-9"))
    assert len(keys) == 2
    assert keys[0] != keys[1]
    assert all(len(key) == 64 for key in keys)
