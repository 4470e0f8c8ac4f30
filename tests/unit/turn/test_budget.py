import threading

import pytest

from loopwright.state.context import Context
from loopwright.state.outcome import Spend, model_spend
from loopwright.turn.budget import Budget, CallMaximum


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_calls_are_counted_when_reserved_and_not_again_when_added() -> None:
    ledger = Budget(Context(max_model_calls=3))
    assert ledger.reserve_model_call()
    assert ledger.usage["model_calls"] == 1
    ledger.add_tokens(model_spend("planner", "m", 10, 5))
    assert ledger.usage["model_calls"] == 1
    assert ledger.usage["tokens"] == 15
    assert ledger.reserve_model_call()
    assert ledger.reserve_model_call()
    assert not ledger.reserve_model_call()
    assert ledger.reached_limit == "model_calls"


def test_seconds_that_branches_used_before_a_resume_count_as_long_as_these_branches_took() -> None:
    ledger = Budget(Context(max_seconds=10), clock=Clock())
    ledger.span = lambda known: sum(known.values())
    assert ledger.recalled_seconds == 0
    ledger.count_branch("a", Spend(seconds=4, tool_calls=1))
    assert ledger.recalled_seconds == 4
    ledger.count_branch("b", Spend(seconds=5))
    ledger.count_branch("c", Spend())
    ledger.count_branch("c", Spend(seconds=3))  # only what is told first of a branch counts
    assert (ledger.recalled_seconds, ledger.reached_limit) == (9, None)
    ledger.count_branch("d", Spend(seconds=1))
    assert ledger.reached_limit == "seconds"


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
    assert agent.reserve_model_call(CallMaximum(600, 0.4))
    assert (turn.compute_room("tokens"), agent.compute_room("tokens")) == (400, 400)
    assert turn.compute_room("usd") == pytest.approx(0.6)
    assert agent.compute_room("usd") == pytest.approx(0.1)
    assert not turn.reserve_model_call(CallMaximum(401, 0.1))
    assert not agent.reserve_model_call(CallMaximum(10, 0.2))
    assert turn.reached_limit is None, "what is held may come back"
    agent.settle(CallMaximum(600, 0.4), model_spend("agent", "m", 90, 10, 0.05))
    assert (turn.usage["tokens"], turn.usage["usd"]) == (100, 0.05)
    assert turn.reserve_model_call(CallMaximum(900, 0.9))
    assert not turn.reserve_model_call(CallMaximum(1, 0))
    taken = {"model_calls": 2, "tool_calls": 0, "tokens": 1_000, "usd": pytest.approx(0.95)}
    assert turn.tab.totals == taken
