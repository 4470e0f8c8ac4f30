from loopwright.nodes.plan.work import end_of, fold_ends, missing_for, results_for
from loopwright.turn.schedule import sum_spend
from support.scope import scope_with

TASK = {"id": "2", "description": "sum", "depends_on": ["1"], "status": "pending", "attempts": 1,
        "rounds": 3, "rounds_this_turn": 1, "seconds": 1.0}  # fmt: skip
CALL = {"id": "2.4.0", "task": "2", "tool": "add", "status": "success", "result": "3"}


def done(name, result="r"):
    return {"id": name, "description": name, "status": "completed", "result": result}


def test_counts_go_on_over_attempts():
    final = {"status": "completed", "round": 2, "result": "3", "evidence": [CALL]}
    end = end_of(TASK, final, 0.5)["task"]
    assert (end["rounds"], end["rounds_this_turn"], end["attempts"]) == (5, 3, 2)
    assert end["seconds"] == 1.5
    blocked = end_of(TASK, {"status": "blocked", "feedback": "waits"})["task"]
    assert (blocked["rounds"], blocked["attempts"]) == (3, 1), "it never started"


def test_a_completed_task_forgets_that_a_call_was_refused_on_the_way():
    final = {"status": "completed", "round": 1, "denied": "rejected"}
    assert end_of(TASK, final)["task"]["denied"] == ""
    assert end_of(TASK, final | {"status": "failed"})["task"]["denied"] == "rejected"


def test_a_task_builds_on_its_dependencies_only_a_sequential_one_on_everything():
    known = [done("1"), done("3")]
    assert [r["id"] for r in results_for(TASK, known)] == ["1"]
    assert [r["id"] for r in results_for({**TASK, "depends_on": None}, known)] == ["1", "3"]
    assert missing_for(TASK, known) == []
    assert missing_for(TASK, [done("3")]) == ["1"]


def test_evidence_is_the_calls_or_the_report_of_a_task_without_any():
    called = end_of(TASK, {"status": "completed", "round": 1, "result": "3", "evidence": [CALL]})
    silent = end_of({**TASK, "id": "3"}, {"status": "failed", "round": 1, "result": "no"})
    nothing = end_of({**TASK, "id": "4"}, {"status": "blocked"})
    update = fold_ends([], [called, silent, nothing])
    assert [(r["id"], r["status"]) for r in update["evidence"]] == [
        ("2.4.0", "success"),
        ("3.report", "error"),
    ]
    assert [t["evidence"] for t in update["todos"]] == [["2.4.0"], [], []]


def test_wishes_for_other_tasks_only_leave_them_out():
    wishes = {"5": "skipped", "2": "failed", "6": "completed"}
    end = end_of(TASK, {"status": "completed", "round": 1, "wishes": wishes})
    others = [{"id": i, "description": i, "status": "pending"} for i in ("5", "6")]
    changed = fold_ends([TASK, *others], [end])["todos"]
    assert [(t["id"], t["status"]) for t in changed] == [("2", "completed"), ("5", "skipped")]


def test_spend_adds_up_but_seconds_do_not():
    ends = [end_of(TASK, {"status": "completed", "spend": {"model_calls": 1, "seconds": 2.0}})] * 2
    used = sum_spend(scope_with(), ends)
    assert used["model_calls"] == 2
    assert used["seconds"] < 2.0
