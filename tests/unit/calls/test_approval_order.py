"""Which planned calls go on, and which wait for a human."""

from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

from loopwright.calls.approval import (
    apply_decision,
    decision_key,
    find_decision,
    list_runnable,
    list_undecided,
    route_calls,
)
from loopwright.calls.gate import Gate
from loopwright.calls.policy import Policy
from loopwright.text.canonical import hash_of
from loopwright.tools.catalog import Catalog
from support.scope import call_of, scope_with

ANSWERS = ["approve", "reject", "edit", "respond", "expired"]


def call(id_, action="allow", *, read_only=False, **more) -> Any:
    return {"id": id_, "action": action, "read_only": read_only, "args": {"n": 1}, **more}


def ids(calls) -> Any:
    return [one["id"] for one in calls]


@pytest.mark.req("P-42", "S4-29")
def test_a_question_holds_back_the_writes_behind_it_and_nothing_else():
    calls = [
        call("w1"),
        call("ask", "ask"),
        call("read", read_only=True),
        call("w2"),
        call("bad", "error"),
        call("no", "deny"),
        call("ask2", "ask"),
    ]
    assert ids(list_runnable(calls, {})) == ["w1", "read", "bad", "no"]
    assert ids(list_undecided(calls, {})) == ["ask", "ask2"]
    approved = {"ask": {"type": "approve"}}
    assert ids(list_runnable(calls, approved)) == ["w1", "ask", "read", "w2", "bad", "no"]


@pytest.mark.req("P-02")
def test_an_answer_counts_for_the_arguments_it_was_given_for_and_for_one_doubt():
    asked = call("a", "ask")
    given_for = {"type": "approve", "arguments": hash_of({"n": 1})}
    assert find_decision(asked, {"a": given_for}) == given_for
    assert find_decision({**asked, "args": {"n": 2}}, {"a": given_for}) is None
    in_doubt = {**asked, "doubts": 1}
    assert decision_key(in_doubt) == "a?"
    assert find_decision(in_doubt, {"a": given_for}) is None
    assert find_decision({**asked, "doubts": 2}, {"a?": given_for}) is None


kinds = st.sampled_from(["allow", "ask", "deny", "error"])
flags = st.lists(st.tuples(kinds, st.booleans()), max_size=8)


@pytest.mark.req("P-42", "S4-29")
@given(flags, st.randoms(use_true_random=False))
def test_every_list_of_calls_comes_to_its_end_and_no_write_passes_a_question(shapes, random):
    """Played as a graph does it; a call may turn out to be in doubt as it is about to run."""
    calls = [call(str(n), action, read_only=read) for n, (action, read) in enumerate(shapes)]
    decisions: dict[str, Any] = {}
    steps = 0
    while (step := route_calls(calls, decisions)) != "done":
        steps += 1
        assert steps <= 4 * len(shapes), "each call is asked about twice at most"
        if step == "approve":
            asked = list_undecided(calls, decisions)[0]
            decisions[decision_key(asked)] = {"type": random.choice(ANSWERS)}
            continue
        now = ids(list_runnable(calls, decisions))
        for place, one in enumerate(calls):
            if one["id"] in now and writes(one, decisions):
                assert not list_undecided(calls[:place], decisions)
        calls = after_pass(calls, decisions, now, random)
    assert not calls


def writes(one, decisions) -> Any:
    decision = find_decision(one, decisions) or {"type": "approve"}
    runs = one["action"] in ("allow", "ask") and decision["type"] in ("approve", "edit")
    return runs and not one["read_only"]


def after_pass(calls, decisions, now, random) -> Any:
    """What is left; a write that turns out to be in doubt keeps those behind it from running."""
    left: list[Any] = []
    for one in calls:
        held = one["id"] not in now or (writes(one, decisions) and list_undecided(left, decisions))
        if held:
            left.append(one)
        elif writes(one, decisions) and not one.get("doubts") and random.random() < 0.2:
            left.append({**one, "action": "ask", "doubts": 1})
    return left


async def test_a_decision_of_an_unknown_kind_allows_nothing():
    call = call_of("a", action="ask", name="put", server=None)
    await apply_decision(
        Gate(Catalog({}), Policy(), scope_with()), call, cast("Any", {"type": "odd"})
    )
    assert (call.final_status, call.reason) == ("cancelled", "denied")
