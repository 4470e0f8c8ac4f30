"""What the journal knows of the calls of a turn that a crash ended before its state knew it."""

from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from loopwright.calls.stored import ResultStore
from loopwright.doors.journal import CallKey, memory_journal
from loopwright.nodes.cut_off import taken_up
from loopwright.nodes.flow.cut_off_writes import with_made_writes
from loopwright.nodes.flow.step_values import StepResults
from loopwright.state.flow import FlowState, value_of, was_made
from support.flow_steps import steps
from support.flows import step
from support.scope import scope_with

PUT = {"text": "put", "data": {"put": 7}, "is_error": False, "artifact": {}, "stored": ""}
NOTHING_ENDED: Any = {"todos": [], "evidence": []}


async def journal_with(*calls):
    """A journal of calls, each an id with how it ended and what it gave; None: it never did."""
    journal = memory_journal()
    for call, state, result in calls:
        key = CallKey("t", "", "1-a", call, f"hash of {call}")
        await journal.claim(key, tool="put", server=None, arguments={"what": 7})
        if state:
            await journal.end(key, state, result)
    return journal


def cut_off(**more):
    """A state whose only step was planned when its turn was cut off."""
    todos = steps(step("a", "put", arguments={"what": 7}, expect=more.pop("expect", None)))
    todos[0] |= more.pop("a", {})
    return FlowState(**{"turn": 1, "turn_id": "1-a", "todos": todos} | more)


async def taken(*calls, same_request=False, **more):
    journal = await journal_with(*calls)
    scope = scope_with(journal=journal, thread="t", turn="1-a")
    return await taken_up(scope, cut_off(**more), NOTHING_ENDED, same_request=same_request)


async def resumed(*calls, **more):
    """The step as the next turn begins with it."""
    before = await taken(*calls, **more)
    assert before is not None
    results = StepResults(ResultStore(InMemoryStore(), "t"), lasts=True)
    (a,) = await with_made_writes(before, results)
    return a


@pytest.mark.req("P-06")
async def test_a_write_that_succeeded_completes_its_step():
    a = await resumed(("a.3.0", "finished", PUT), a={"attempts": 2, "rounds": 2})
    assert (a["status"], a["result"], value_of(a)) == ("completed", "put", {"put": 7})
    assert (a["attempts"], a["rounds"], a["evidence"]) == (3, 3, ["a.3.0"])
    assert a["feedback"] == ""


@pytest.mark.req("P-06")
async def test_one_whose_result_fails_its_check_keeps_the_result_and_is_not_done():
    a = await resumed(("a.1.0", "finished", PUT), expect="put == 8")
    assert (a["status"], value_of(a)) == ("pending", {"put": 7})
    assert was_made(a), "its call is not made again"
    assert "called put(" in a["feedback"]


@pytest.mark.req("P-06")
@pytest.mark.parametrize(
    ("state", "result", "told"),
    [
        ("failed", {"text": "no room", "is_error": True}, "which gave: no room"),
        ("uncertain", None, "may have taken effect: check before you repeat it"),
        (None, None, "may have taken effect: check before you repeat it"),
    ],
)
async def test_one_that_failed_or_nobody_knows_the_end_of_leaves_its_step_open(state, result, told):
    a = await resumed(("a.1.0", state, result))
    assert (a["status"], a["result"], was_made(a)) == ("pending", "", False)
    assert told in a["feedback"]


@pytest.mark.parametrize("ends", [("finished", "failed"), ("failed", "finished")])
async def test_the_newest_call_of_a_step_counts(ends):
    calls = [(f"a.{n}.0", end, PUT) for n, end in enumerate(ends, start=1)]
    a = await resumed(*calls)
    assert a["status"] == ("completed" if ends[-1] == "finished" else "pending")


async def test_a_call_whose_end_the_state_knows_is_no_news():
    known: Any = {"id": "a.1.0", "task": "a", "tool": "put", "arguments": {}, "status": "success"}
    a = await resumed(("a.1.0", "finished", PUT), evidence=[known])
    assert (a["status"], a["feedback"]) == ("pending", "")


async def test_a_step_that_is_done_stays_as_it_is():
    done = {"status": "completed", "result": "first", "shape": "text"}
    a = await resumed(("a.2.0", "finished", PUT), a=done)
    assert (a["result"], a["attempts"]) == ("first", 0)


@pytest.mark.parametrize(("same_request", "kept"), [(True, True), (False, False)])
async def test_of_a_turn_that_came_to_its_end_only_the_same_request_goes_on(same_request, kept):
    ended = {"status": "failed", "reason": "ERROR"}
    before = await taken(("a.1.0", "finished", PUT), same_request=same_request, outcome=ended)
    assert (before is not None) == kept


@pytest.mark.parametrize(
    "calls",
    [(), (("a.1.0", "uncertain", {"paused": True}),)],
    ids=["none", "one that asked a question of its own"],
)
async def test_of_a_turn_that_had_done_nothing_another_request_keeps_nothing(calls):
    assert await taken(*calls) is None
    before = await taken(*calls, same_request=True)
    assert before is not None
    assert (before.evidence, before.tasks[0]["feedback"]) == ([], "")
