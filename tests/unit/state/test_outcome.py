import pytest

from loopwright.state.outcome import denial, judge, unmet_of

DONE = {"id": "1", "description": "a", "status": "completed", "result": "r"}
FAILED = {"id": "2", "description": "b", "status": "failed", "feedback": "no file"}


@pytest.mark.parametrize(
    ("reason", "tasks", "status"),
    [
        ("GOAL", [DONE], "complete"),
        ("GOAL", [DONE, FAILED], "partial"),
        ("GOAL", [DONE, {**FAILED, "status": "skipped"}], "complete"),
        ("BUDGET", [DONE, FAILED], "partial"),
        ("BUDGET", [FAILED], "exhausted"),
        ("TIMEOUT", [], "exhausted"),
        ("MAX_ROUNDS", [DONE, FAILED], "partial"),
        ("SAME_BLOCKERS", [DONE], "stuck"),
        ("DENIED", [DONE], "blocked"),
        ("MISSING_INFORMATION", [], "blocked"),
        ("ABORTED", [], "cancelled"),
        ("ERROR", [DONE], "failed"),
    ],
)
def test_the_status_follows_from_reason_and_work(reason, tasks, status):
    assert judge(reason, tasks) == status


def test_unfinished_tasks_are_named_with_their_reason():
    assert unmet_of([DONE, FAILED], ["read b"]) == ["b (failed: no file)", "read b"]


def test_a_refused_call_is_why_a_task_stands_still():
    assert denial([DONE, FAILED]) is None
    assert denial([{**FAILED, "denied": "rejected"}]) == "DENIED"
    assert denial([{**FAILED, "denied": "not_interactive"}]) == "NOT_INTERACTIVE"
    assert denial([{**DONE, "denied": "rejected"}]) is None


def test_calls_that_went_in_circles_are_why_a_run_is_stuck():
    looped = {**FAILED, "denied": "loop_detected"}
    assert denial([DONE, looped]) == "LOOP_DETECTED"
    assert judge("LOOP_DETECTED", [DONE, looped]) == "stuck"
    assert denial([looped, {**FAILED, "denied": "denied"}]) == "DENIED", "a human can mend that"
    assert denial([looped, {**FAILED, "denied": "uncertain"}]) == "NOT_INTERACTIVE"
    assert denial([{**DONE, "denied": "loop_detected"}]) is None
