"""What taints a run, and what only the package says to a model."""

import pytest

from loopwright import ScriptedModel, build_task_agent
from support.reacting import said
from support.scripts import call


@pytest.mark.parametrize("wrong", [("book", {"seat": "?"}), ("books", {"seat": 7})])
def test_what_the_package_says_of_a_call_that_it_did_not_make_is_no_strangers_word(wrong):
    booked = []

    def book(seat: int) -> str:
        """Book a seat."""
        booked.append(seat)
        return "ok"

    calls = [call(wrong[0], "a", **wrong[1]), call("book", "b", seat=7)]
    end = call("complete_task", "c", summary="Seat 7 is booked.")
    model = ScriptedModel({"agent": [[one] for one in (*calls, end)]})
    result = build_task_agent(model=model, tools=[book]).invoke(said("Book me a good seat."))
    assert "__interrupt__" not in result
    assert booked == [7]
