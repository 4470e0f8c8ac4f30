"""However a turn ends, its state says so, and the next turn begins with nothing of it."""

import asyncio

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import Context, Hook
from support.flows import (
    DOWN,
    REPLAN,
    THREAD,
    World,
    asking,
    decide,
    ended,
    flow,
    look,
    planning,
    put,
    raising,
    said,
)

BAD = flow(look("a", "down"))
GOOD = flow(look("a", "a"))
STOP = {"continue": False, "stopReason": "the shop is closed"}


def other_errors():
    return [raising(ValueError(f"error {n}")) for n in range(9)]


def hook(event, output):
    return {"hooks": [Hook(event=event, run=lambda _: output)]}


ENDS = {
    "complete": (("complete", "GOAL"), {}),
    "all but an optional step": (
        ("partial", "GOAL"), {"plans": [flow(look("a", "down", optional=True), look("b", "b"))]}
    ),
    "given up": (("failed", "ERROR"), {"plans": [BAD], "recovery": [decide("give_up")]}),
    "nothing came of it": (
        ("stuck", "SAME_BLOCKERS"), {"plans": [flow(look("a", "down", optional=True))]}
    ),
    "no plan": (("failed", "ERROR"), {"plans": ["no", "no", "no"]}),
    "the same failure": (
        ("stuck", "SAME_BLOCKERS"),
        {"plans": [BAD, flow(look("a", "down"), look("c", "c"))], "recovery": REPLAN},
    ),
    "the same plan": (("stuck", "SAME_PLAN"), {"plans": [BAD, BAD], "recovery": REPLAN}),
    "too many repairs": (
        ("partial", "MAX_ROUNDS"),
        {"plans": [BAD, BAD | {"steps": [look("b", "down"), look("c", "c")]}],
         "down": other_errors, "recovery": [*REPLAN, *[decide("retry_step")] * 2],
         "settings": {"max_recoveries": 1}},
    ),
    "no model call left for the plan": (
        ("exhausted", "BUDGET"), {"plans": ["no"], "settings": {"max_model_calls": 1}}
    ),
    "no tool call left": (
        ("partial", "BUDGET"),
        {"plans": [flow(put("a", 1), put("b", 2))], "settings": {"max_tool_calls": 1}},
    ),
    "no time left": (
        ("partial", "TIMEOUT"),
        {"plans": [flow(look("a", "slow"), put("b", 2, ["a"]))], "settings": {"max_seconds": 0.3}},
    ),
    "refused by policy": (
        ("blocked", "DENIED"), {"plans": [flow(put("a", 1))], "policy": "deny"}
    ),
    "nobody to ask": (
        ("blocked", "NOT_INTERACTIVE"),
        {"plans": [flow(put("a", 1))], "settings": {"interactive": False},
         "policy": [{"tool": "put", "action": "ask"}]},
    ),
    "nobody to review": (
        ("blocked", "NOT_INTERACTIVE"), {"settings": {"review_plan": True, "interactive": False}}
    ),
    "nothing asked": (("blocked", "MISSING_INFORMATION"), {"words": " "}),
    "refused by a hook": (("blocked", "DENIED"), hook("BeforeAgent", {"decision": "deny"})),
    "stopped before the plan": (("blocked", "DENIED"), hook("BeforeModel", STOP)),
    "stopped at a step": (("blocked", "DENIED"), hook("AfterTool", STOP)),
    "answer rejected twice": (("blocked", "DENIED"), hook("AfterAgent", {"decision": "deny"})),
}  # fmt: skip


def turn(plans=(GOOD,), *, down=lambda: DOWN, words=None, settings=None, **more):
    """A turn that comes to its end, and the graph it ran on."""
    own = {key: more.pop(key) for key in ("policy", "hooks") if key in more}
    world = World(down=down(), slow=lambda: asyncio.sleep(0.4))
    model = planning(*plans, flow(look("z", "z")), **more)
    graph = world.graph(model, checkpointer=InMemorySaver(), **own)
    given = said() if words is None else said(words)
    return graph, graph.invoke(given, THREAD, context=Context(**(settings or {})))


@pytest.mark.req("S2-48")
@pytest.mark.parametrize(("end", "about"), ENDS.values(), ids=ENDS)
def test_at_the_end_nothing_goes_on(end, about):
    graph, result = turn(**about)
    outcome, state = result["outcome"], graph.get_state(THREAD)
    assert ended(outcome) == end
    assert state.next == ()
    assert state.values["should_continue"] is False
    assert bool(state.values.get("task_completed")) == (end[1] == "GOAL")
    assert bool(outcome["unmet"]) == (end[0] != "complete")
    assert result["messages"][-1].text == outcome["answer"]


@pytest.mark.req("S2-44")
@pytest.mark.parametrize("name", ["given up", "no plan", "complete"])
def test_the_next_request_begins_anew(name):
    graph, _ = turn(**ENDS[name][1])
    result = graph.invoke(said("Something else."), THREAD)
    outcome = result["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert [task["id"] for task in outcome["tasks"]] == ["z"]
    assert outcome["spend"]["model_calls"] == 2
    state = graph.get_state(THREAD).values
    assert (state["should_continue"], state["task_completed"]) == (False, True)


def test_while_a_question_waits_the_turn_goes_on():
    graph = asking(World(), planning(flow(put("w", 1))))
    graph.invoke(said(), THREAD)
    state = graph.get_state(THREAD)
    assert state.next
    assert state.values.get("should_continue", True) is True
    assert state.values.get("outcome") is None
