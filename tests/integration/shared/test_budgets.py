"""Limits that hold: through crashes in the middle of a call, and through questions."""

import signal

import pytest
from langgraph.types import Command

from loopwright import Context, ScriptedModel, build_react, open_durability
from support import dying, killed
from support.patience import PATIENCE
from support.reacting import DONE, THREAD, said, shelf
from support.scripts import call, thought


@pytest.mark.req("P-01", "P-27")
def test_crashes_in_model_calls_do_not_refill_the_allowance(tmp_path):
    """Each call is on record before it is made."""
    (tmp_path / "asked").write_text("0")
    for given in (said(), None, None):
        process = killed.spawn(dying.begin, tmp_path, given)
        process.join(PATIENCE)
        assert process.exitcode == -signal.SIGKILL
    model = ScriptedModel({"thought": [DONE]})
    with open_durability(f"sqlite:///{tmp_path}/t.db") as durability:
        graph = build_react(model=model, tools=[shelf()], durability=durability)
        outcome = graph.invoke(None, THREAD, context=dying.AT_MOST_3)["outcome"]
    assert outcome["reason"] == "BUDGET"
    assert outcome["status"] in ("partial", "exhausted")
    assert len(model.asked) <= 1, "one last turn at most"


@pytest.mark.req("P-01")
def test_questions_do_not_refill_limits(tmp_path):
    """Two model calls a turn and eight approvals: the third model call is the last turn."""
    paid = []

    def pay(n: int) -> str:
        """Pay."""
        paid.append(n)
        return "paid"

    steps = [thought(f"Pay {n}.", more=True) for n in range(8)]
    model = ScriptedModel(
        {"thought": [*steps, DONE], "action": [[call("pay", n=n)] for n in range(8)]}
    )
    with open_durability(f"sqlite:///{tmp_path}/t.db") as durability:
        graph = build_react(
            model=model, tools=[pay], policy="ask", durability=durability, observe="direct"
        )
        context = Context(max_model_calls=4)
        result = graph.invoke(said(), THREAD, context=context)
        while graph.get_state(THREAD).interrupts:
            result = graph.invoke(Command(resume="approve"), THREAD, context=context)
    assert result["outcome"]["reason"] == "BUDGET"
    assert len(model.asked) == 5, "four, and one last turn"
    assert paid == [0, 1]
