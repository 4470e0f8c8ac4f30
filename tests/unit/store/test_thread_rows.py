"""What a thread's row says of it is true after a death at any place: a resume goes on, or not."""

import asyncio
import copy
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import INTERRUPT
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from loopwright import ScriptedModel, build_plan_execute_verify, build_react
from loopwright.state.outcome import RESUMABLE
from loopwright.store.base import langgraph_keys as keys
from loopwright.store.checkpoints.thread_head import ThreadHead
from loopwright.store.postgres.saving import StateChange, StateTracker
from support.scripts import call, passed, plan, report, thought, todo

ON = {"configurable": {"thread_id": "t"}}
SAID = {"messages": [("user", "Go")]}


class Recording(InMemorySaver):
    """Remembers what it was given to save, and by which run."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[tuple[str, int, tuple[Any, ...]]] = []
        self.run = 0

    def put(self, config: Any, *args: Any) -> Any:
        self._note("put", config, args)
        return super().put(config, *args)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        self._note("put_writes", config, (writes, task_id, task_path))
        super().put_writes(config, writes, task_id, task_path)

    def _note(self, method: str, config: Any, args: tuple[Any, ...]) -> None:
        place = {k: v for k, v in config["configurable"].items() if not k.startswith("__")}
        place = {k: v for k, v in place.items() if k != "checkpoint_map"}
        self.given.append((method, self.run, ({"configurable": place}, *copy.deepcopy(args))))

    def keys(self) -> set[Any]:
        """What it has of tasks: a question that is asked again is the same."""
        checkpoints = {(ns, one) for ns, saved in self.storage["t"].items() for one in saved}
        written = {
            (at, one, str(self.serde.loads_typed(w[2])) if w[1] == INTERRUPT else "")
            for at, ws in self.writes.items()
            for one, w in ws.items()
        }
        return checkpoints | {one for one in written if one[1][0] != keys.NULL_TASK}


def told(given) -> list[StateChange | None]:
    """What is known after each thing that was saved."""
    standings, known, all_of_it = StateTracker(), None, list[StateChange | None]()
    for method, run, args in given:
        place = args[0]["configurable"]
        ns = place.get("checkpoint_ns", "")
        if method == "put":
            moved = standings.put("t", ns, args[1], run)
        else:
            moved = standings.put_writes(("t", ns, place["checkpoint_id"]), args[1], args[3], run)
        known = moved if known is None else known.merge(moved)
        all_of_it.append(known)
    return all_of_it


def pay(amount: int) -> str:
    """Pay."""
    return "paid"


def asks_one_by_one(saver):
    def think(messages, _):
        paid = [m for m in messages if m.type == "tool"]
        return thought("It is paid.") if len(paid) > 1 else thought("I pay.", more=True)

    model = ScriptedModel({
        "thought": think,
        "action": lambda messages, _: [call("pay", amount=len(messages))],
        "observation": lambda *_: "Go on.",
    })  # fmt: skip
    return build_react(model=model, tools=[pay], policy="ask", checkpointer=saver)


def asks_in_parallel(saver):
    """Two tasks beside each other, one of which asks."""

    def work(messages, _):
        mine = "one of them" in str(messages) and messages[-1].type != "tool"
        return [call("pay", amount=3)] if mine else report("1")

    two = plan(todo("1", "one of them"), todo("2", "two"))
    model = ScriptedModel({
        "planner": lambda *_: two,
        "executor": work,
        "verifier": lambda *_: passed("All.", **{f"t{n}": [f"{n}.report"] for n in (1, 2)}),
    })  # fmt: skip
    return build_plan_execute_verify(
        model=model, tools=[pay], policy="ask", mcp={}, checkpointer=saver
    )


class Log(TypedDict, total=False):
    messages: Any
    one: str
    two: str
    both: str


def meets_again(saver):
    """A graph of one's own, without any question, whose ways meet again."""
    builder = StateGraph(Log)
    builder.add_node("one", lambda _: {"one": "1"})
    builder.add_node("two", lambda _: {"two": "2"})
    builder.add_node("both", lambda state: {"both": state["one"] + state["two"]})
    builder.add_edge(START, "one")
    builder.add_edge(START, "two")
    builder.add_edge(["one", "two"], "both")
    return builder.compile(saver)


def asks_twice_inside(saver):
    """A graph inside another one, with two questions in one node."""
    inner = StateGraph(Log)
    inner.add_node("first", lambda _: {"one": interrupt("one?")})
    inner.add_node("then", lambda _: {"two": interrupt("two?") + interrupt("three?")})
    inner.add_edge(START, "first")
    inner.add_edge("first", "then")
    outer = StateGraph(Log)
    outer.add_node("inner", inner.compile())
    outer.add_node("end", lambda _: {"both": "done"})
    outer.add_edge(START, "inner")
    outer.add_edge("inner", "end")
    return outer.compile(saver)


@pytest.mark.req("W-93")
@pytest.mark.parametrize(
    "made", [asks_one_by_one, asks_in_parallel, meets_again, asks_twice_inside],
    ids=lambda made: made.__name__,
)  # fmt: skip
def test_it_is_known_after_a_death_at_any_place_whether_a_resume_goes_on(made):
    saver, known = Recording(), None
    graph, done = made(saver), run(made(saver), SAID)
    while "__interrupt__" in done:
        saver.run += 1
        answer = "yes" if made is asks_twice_inside else {"type": "approve"}
        done = run(graph, Command(resume={done["__interrupt__"][0].id: answer}))
    saver.run += 1
    run(graph, {"messages": [("user", "Again")]})
    seen = set()
    for place, known in enumerate(told(saver.given), 1):
        left = Recording()
        for method, _, args in saver.given[:place]:
            getattr(left, method)(*copy.deepcopy(args))
        if "" not in left.storage["t"]:
            continue
        before, head = left.keys(), ThreadHead(left.get_tuple(ON))
        run(made(left), None)
        rests = "asks" if head.list_interrupts() else "ended"
        anew = head.status in RESUMABLE and not head.find_next_nodes()  # with a fresh allowance
        goes_on = left.keys() - before and not anew
        assert known.state == ("unfinished" if goes_on else rests), place
        assert known.status == head.status
        seen.add(known.state)
    assert seen == (
        {"unfinished", "ended"} if made is meets_again else {"unfinished", "asks", "ended"}
    )


def run(graph, given):
    return asyncio.run(graph.ainvoke(given, ON))
