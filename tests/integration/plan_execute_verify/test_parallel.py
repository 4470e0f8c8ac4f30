"""Tasks side by side: their order, their failures, and the questions one of them asks."""

import threading
import time
from collections import defaultdict

import pytest
from langchain_core.tools import ToolException
from langgraph.types import Command

from loopwright import Context, ScriptedModel, build_plan_execute_verify, open_durability
from loopwright.prompts.prompt import read_json
from support.patience import PATIENCE
from support.scripts import call, passed, plan, report, todo

THREAD = {"configurable": {"thread_id": "t"}}
SAVES = [{"tool": "save", "action": "ask"}]


class Crew:
    """Scripted roles for one plan; each task makes the calls given for it, then reports."""

    def __init__(self, *todos, calls=None, slow=()):
        self.todos = todos
        self.calls = calls or {}
        self.slow = slow
        self.spans = {}
        self.begun = defaultdict(threading.Event)
        self.waits = {}
        self.saved = []
        self.model = ScriptedModel(self.turn)

    def turn(self, messages, offered):
        role = messages[0].text.split()[3].rstrip(".")
        human = next(m.text for m in messages if m.type == "human")
        if role == "planner":
            return plan(*self.todos)
        if role == "verifier":
            return self.judge(human)
        name = read_json(human, "task")["description"]
        results = [m for m in messages if m.type == "tool"]
        if not results:
            return self.calls.get(name, [call("work", name=name)])
        if results[-1].status == "error":
            return report(results[-1].text, taskCompleted=False, shouldContinue=False)
        return report(f"{name}: {results[-1].text}")

    def judge(self, human):
        tasks, evidence = read_json(human, "tasks"), read_json(human, "evidence")
        proof = {f"t{e['task']}": [e["id"]] for e in evidence if e["status"] == "success"}
        if all(t["status"] == "completed" for t in tasks):
            return passed("Everything is done, see the results.", **proof)
        judged = [
            {
                "id": t["id"],
                "completed": t["status"] == "completed",
                "evidence": proof.get(f"t{t['id']}", []),
            }
            for t in tasks
        ]
        return {
            "allCompleted": False,
            "userNeedsSatisfied": False,
            "tasks": judged,
            "improvements": ["finish what failed"],
        }

    def work(self, name: str) -> str:
        """Work on something."""
        began = time.monotonic()
        self.begun[name].set()
        if other := self.waits.get(name):
            assert self.begun[other].wait(PATIENCE), f"{other} waits for {name}"
        time.sleep(0.15 if name in self.slow else 0.01)
        self.spans.setdefault(name, []).append((began, time.monotonic()))
        if name == "fail":
            msg = "it cannot be done"
            raise ToolException(msg)
        return f"{name} done"

    def save(self, text: str) -> str:
        """Save a text."""
        self.saved.append(text)
        return f"saved {text}"

    def graph(self, **options):
        return build_plan_execute_verify(
            model=self.model, tools=[self.work, self.save], policy=SAVES, **options
        )

    def order(self):
        return sorted(self.spans, key=lambda name: self.spans[name][0][0])


def ask(graph, **options):
    return graph.invoke({"messages": [{"role": "user", "content": "Do it."}]}, THREAD, **options)


def answered(graph, answer):
    return graph.invoke(Command(resume=answer), THREAD)


def asked_about(result):
    return [i.value["action_requests"][0]["args"] for i in result["__interrupt__"]]


@pytest.mark.req("P-13")
def test_one_of_three_fails_fast_and_the_others_are_kept():
    crew = Crew(
        todo("1", "slow", []), todo("2", "fail", []), todo("3", "long", []), slow=("slow", "long")
    )
    outcome = ask(crew.graph(foreign="allow"))["outcome"]
    assert outcome["status"] == "stuck"
    assert [t["status"] for t in outcome["tasks"]] == ["completed", "failed", "completed"]
    assert {name: len(spans) for name, spans in crew.spans.items()} == {
        "slow": 1,
        "long": 1,
        "fail": 2,
    }
    assert any("it cannot be done" in text for text in outcome["unmet"])
    assert "slow done" in outcome["answer"]


@pytest.mark.req("P-13", "S0-153")
def test_a_diamond_of_seven_runs_each_task_as_soon_as_it_can():
    needs = {
        "a": [], "b": ["a"], "c": ["a"], "d": ["b"], "e": ["c"], "f": ["c"], "g": ["d", "e", "f"],
    }  # fmt: skip
    crew = Crew(*(todo(name, name, waits) for name, waits in needs.items()))
    # c and e run while b does, which is none of their inputs: it ends only then.
    crew.waits = {"b": "e"}
    context = Context(tool_deadline=2 * PATIENCE)
    outcome = ask(crew.graph(durability=None), context=context)["outcome"]
    assert outcome["status"] == "complete"
    spans = {name: times[0] for name, times in crew.spans.items()}
    assert all(spans[w][1] <= spans[name][0] for name, waits in needs.items() for w in waits)
    assert all(len(times) == 1 for times in crew.spans.values())


def test_a_plan_without_dependencies_runs_one_after_another_by_priority():
    crew = Crew(
        todo("1", "last", priority=3), todo("2", "first", priority=1),
        todo("3", "middle", priority=2), slow=("first",),
    )  # fmt: skip
    assert ask(crew.graph())["outcome"]["status"] == "complete"
    assert crew.order() == ["first", "middle", "last"]
    ends = [crew.spans[name][0] for name in crew.order()]
    assert all(ends[n][1] <= ends[n + 1][0] for n in range(2))


def savers(slow=()):
    """Two tasks that save, one that works beside them, and one that needs the first save."""
    return Crew(
        todo("1", "save a", []), todo("2", "beside", []), todo("3", "after a", ["1"]),
        todo("4", "save b", []),
        calls={
            "save a": [call("save", text="a")], "save b": [call("save", text="b")],
        },
        slow=slow,
    )  # fmt: skip


@pytest.mark.req("P-02", "P-04", "P-13")
def test_while_one_waits_for_a_human_others_run_on_and_dependants_wait(tmp_path):
    crew = savers()
    with open_durability(f"sqlite:///{tmp_path / 'threads.db'}") as durability:
        graph = crew.graph(durability=durability)
        asked = asked_about(ask(graph))
        assert crew.order() == ["beside"]
        assert not crew.saved
        assert {"text": "a"} in asked
        waiting = {
            i.value["action_requests"][0]["args"]["text"]: i.id
            for i in graph.get_state(THREAD).interrupts
        }
        second = answered(graph, {waiting["a"]: {"type": "approve"}})
        assert crew.saved == ["a"]
        assert asked_about(second) == [{"text": "b"}]
        assert crew.order() == ["beside", "after a"]
        outcome = answered(graph, "approve")["outcome"]
    assert outcome["status"] == "complete"
    assert crew.saved == ["a", "b"]
    assert [len(spans) for spans in crew.spans.values()] == [1, 1]
    assert outcome["spend"]["tool_calls"] == 4
    assert outcome["spend"]["model_calls"] == 10


@pytest.mark.req("S0-61")
def test_all_calls_of_one_message_run_and_are_waited_for():
    names = ["a", "fail", "slow", "b"]
    crew = Crew(
        todo("1", "all"),
        calls={"all": [call("work", f"c{n}", name=name) for n, name in enumerate(names)]},
        slow=("slow",),
    )
    outcome = ask(crew.graph())["outcome"]
    assert outcome["status"] == "complete"
    assert sorted(crew.spans) == sorted(names)
    told = [m for m in crew.model.asked[2].messages if m.type == "tool"]
    assert [(m.tool_call_id, m.status) for m in told] == [
        ("c0", "success"),
        ("c1", "error"),
        ("c2", "success"),
        ("c3", "success"),
    ]
