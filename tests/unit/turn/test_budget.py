import threading

import pytest

from loopwright.state.context import Context
from loopwright.state.outcome import Spend, model_spend
from loopwright.turn.budget import Budget, Most


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_calls_are_counted_when_reserved_and_not_again_when_added() -> None:
    ledger = Budget(Context(max_model_calls=3))
    assert ledger.reserve_model_call()
    assert ledger.used["model_calls"] == 1
    ledger.add_tokens(model_spend("planner", "m", 10, 5))
    assert ledger.used["model_calls"] == 1
    assert ledger.used["tokens"] == 15
    assert ledger.reserve_model_call()
    assert ledger.reserve_model_call()
    assert not ledger.reserve_model_call()
    assert ledger.exhausted == "model_calls"


@pytest.mark.req("S0-152")
def test_what_was_spent_before_a_resume_counts() -> None:
    before = model_spend("planner", "m", 300, 199)
    ledger = Budget(Context(max_tokens=1_000), before)
    assert ledger.exhausted is None
    assert ledger.reserve_model_call()
    ledger.add_tokens(model_spend("planner", "m", 490, 11))
    assert ledger.exhausted == "tokens"
    assert not ledger.reserve_model_call()
    assert before["input_tokens"] == 300


def test_seconds_are_those_before_and_those_since() -> None:
    clock = Clock()
    ledger = Budget(Context(max_seconds=60), Spend(seconds=40.0), clock=clock)
    clock.now += 15
    assert ledger.used["seconds"] == 55
    assert ledger.reserve_model_call()
    ledger.add_tokens(Spend(seconds=30.0))
    assert ledger.exhausted is None
    clock.now += 5
    assert ledger.exhausted == "seconds"
    assert not ledger.reserve_model_call()
    assert not ledger.reserve_tool_call()


def test_tool_calls_are_granted_as_far_as_they_reach_and_leave_the_model_its_say() -> None:
    ledger = Budget(Context(max_tool_calls=5))
    assert [ledger.reserve_tool_call() for _ in range(7)] == [True] * 5 + [False] * 2
    assert ledger.used["tool_calls"] == 5
    assert ledger.exhausted == "tool_calls"
    assert ledger.reserve_model_call()


def test_one_last_turn_is_granted_once() -> None:
    ledger = Budget(Context(max_model_calls=1))
    assert ledger.reserve_model_call()
    assert not ledger.reserve_model_call()
    ledger.last_turn()
    ledger.last_turn()
    assert ledger.reserve_model_call()
    assert not ledger.reserve_model_call()


def test_each_limit_warns_once_at_four_fifths() -> None:
    ledger = Budget(Context(max_model_calls=5))
    for _ in range(3):
        ledger.reserve_model_call()
    assert ledger.near() == []
    ledger.reserve_model_call()
    assert ledger.near() == [{"type": "budget", "limit": "model_calls", "used": 4, "of": 5}]
    ledger.reserve_model_call()
    assert ledger.near() == []
    assert Budget(Context(max_model_calls=5), Spend(model_calls=4)).near() == []


def test_seconds_that_branches_used_before_a_resume_count_as_long_as_these_branches_took() -> None:
    ledger = Budget(Context(max_seconds=10), clock=Clock())
    ledger.span = lambda known: sum(known.values())
    assert ledger.recalled_seconds == 0
    ledger.recall("a", Spend(seconds=4, tool_calls=1))
    assert ledger.recalled_seconds == 4
    ledger.recall("b", Spend(seconds=5))
    ledger.recall("c", Spend())
    ledger.recall("c", Spend(seconds=3))  # only what is told first of a branch counts
    assert (ledger.recalled_seconds, ledger.exhausted) == (9, None)
    ledger.recall("d", Spend(seconds=1))
    assert ledger.exhausted == "seconds"


def test_branches_cannot_overrun_a_limit_together() -> None:
    ledger = Budget(Context(max_model_calls=100))
    granted: list[bool] = []

    def branch() -> None:
        granted.extend(ledger.reserve_model_call() for _ in range(50))

    threads = [threading.Thread(target=branch) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(granted) == 100


@pytest.mark.req("P-27")
def test_what_a_call_may_take_is_held_until_it_has_ended_also_above() -> None:
    turn = Budget(Context(max_tokens=1_000, max_cost=1))
    agent = Budget(Context(), limits={"usd": 0.5}, parent=turn)
    assert agent.reserve_model_call(Most(600, 0.4))
    assert (turn.room("tokens"), agent.room("tokens")) == (400, 400)
    assert turn.room("usd") == pytest.approx(0.6)
    assert agent.room("usd") == pytest.approx(0.1)
    assert not turn.reserve_model_call(Most(401, 0.1))
    assert not agent.reserve_model_call(Most(10, 0.2))
    assert turn.exhausted is None, "what is held may come back"
    agent.settle(Most(600, 0.4), model_spend("agent", "m", 90, 10, 0.05))
    assert (turn.used["tokens"], turn.used["usd"]) == (100, 0.05)
    assert turn.reserve_model_call(Most(900, 0.9))
    assert not turn.reserve_model_call(Most(1, 0))
    taken = {"model_calls": 2, "tool_calls": 0, "tokens": 1_000, "usd": pytest.approx(0.95)}
    assert turn.tab.taken == taken


def test_dollars_warn_and_are_exhausted_while_one_call_more_would_fit() -> None:
    ledger = Budget(Context(max_cost=1))
    for _ in range(9):
        assert ledger.reserve_model_call()
        ledger.add_tokens(model_spend("agent", "m", 1, 1, 0.1))
    (event,) = ledger.near()
    assert (event["limit"], event["of"]) == ("usd", 1)
    assert ledger.exhausted == "usd"
    assert not ledger.reserve_tool_call()
    ledger.last_turn()
    assert ledger.reserve_model_call(Most(1, 0.1))
