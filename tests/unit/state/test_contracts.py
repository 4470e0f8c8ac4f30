import pytest
from pydantic import ValidationError

from loopwright.state.contracts import (
    ExecutorResponse,
    PlannerResponse,
    Todo,
    VerifierResponse,
    decide_task,
)
from support.contracts import CONTRACTS, OF_PLAN

DONE = {"id": "1", "status": "done"}


@pytest.mark.req("S0-12", "S0-38", "S0-41", "S0-42", "S0-43")
def test_the_schema_on_the_wire_is_named_like_its_class_and_camel_case():
    for role in OF_PLAN:
        schema = CONTRACTS[role].wire_schema()
        assert schema["title"] == f"{role.capitalize()}Response"
        assert all("_" not in name for name in schema["properties"])


def test_whoever_changes_the_schema_changes_it_for_nobody_else():
    changed = PlannerResponse.wire_schema()
    changed["properties"].clear()
    assert "todos" in PlannerResponse.wire_schema()["properties"]


@pytest.mark.req("S0-40", "S0-116", "S0-117")
def test_a_plan_as_models_write_it_is_read():
    plan = PlannerResponse.model_validate(
        {
            "type": "component",
            "component": "planner-response",
            "summary": "s",
            "needsMorePlanning": "false",
            "missingInformation": None,
            "todos": [
                {"id": 1, "description": "d", "priority": "2", "status": "executing"},
                {
                    "id": "2",
                    "description": "e",
                    "acceptance": "works",
                    "inputs": "file a",
                    "dependsOn": ["1"],
                },
            ],
            "somethingElse": 3,
        }
    )
    assert [t.id for t in plan.todos] == ["1", "2"]
    assert plan.todos[0].status == "in_progress"
    assert plan.todos[0].depends_on is None
    assert plan.todos[1].acceptance_criteria == ["works"]
    assert plan.todos[1].inputs == "file a"
    assert plan.todos[1].depends_on == ["1"]
    assert plan.component == "planner-response"


def test_snake_case_is_accepted_too():
    answer = ExecutorResponse.model_validate({"task_completed": True, "summary": "42"})
    assert answer.task_completed


def test_a_plan_without_tasks_must_say_that_more_planning_is_needed():
    with pytest.raises(ValidationError, match="at least one todo"):
        PlannerResponse.model_validate({"todos": []})
    assert PlannerResponse.model_validate({"needsMorePlanning": True}).todos == []


@pytest.mark.req("S0-125", "S0-127")
def test_completed_without_a_result_is_a_contradiction():
    with pytest.raises(ValidationError, match="summary is empty"):
        ExecutorResponse.model_validate({"taskCompleted": True, "summary": " "})


@pytest.mark.req("S0-10", "S0-134", "S0-135", "S0-136", "S0-27")
def test_a_verdict_needs_a_summary_or_improvements():
    passed = {"allCompleted": True, "userNeedsSatisfied": True}
    assert VerifierResponse.model_validate({**passed, "summary": "Ada owns it."}).passed
    for empty in ("", "  ", "Done.", "All tasks completed successfully.", "OK"):
        with pytest.raises(ValidationError, match="concrete data"):
            VerifierResponse.model_validate({**passed, "summary": empty})
    for flags in ((True, False), (False, True), (False, False)):
        failed = {"allCompleted": flags[0], "userNeedsSatisfied": flags[1]}
        with pytest.raises(ValidationError, match="improvements"):
            VerifierResponse.model_validate({**failed, "improvements": ["", " "]})
        assert not VerifierResponse.model_validate({**failed, "improvements": ["read b"]}).passed


def test_all_completed_contradicts_an_uncompleted_task():
    with pytest.raises(ValidationError, match="not completed"):
        VerifierResponse.model_validate(
            {
                "allCompleted": True,
                "userNeedsSatisfied": True,
                "summary": "Ada owns it.",
                "tasks": [{"id": "1", "completed": False}],
            }
        )


@pytest.mark.req("S0-101", "S0-106", "P-22")
@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        ({"taskCompleted": True, "summary": "x", "nextAction": "continue"}, "complete"),
        ({"taskCompleted": False, "nextAction": "complete"}, "complete"),
        ({"taskCompleted": False, "nextAction": "skip", "todos": [DONE]}, "skip"),
        ({"taskCompleted": False, "nextAction": "retry"}, "retry"),
        ({"taskCompleted": False, "nextAction": "continue", "todos": [DONE]}, "continue"),
        ({"taskCompleted": False, "todos": [DONE]}, "complete"),
        ({"taskCompleted": False, "todos": [{"id": "1", "status": "failed"}]}, "fail"),
        ({"taskCompleted": False, "todos": [{"id": "2", "status": "done"}]}, "continue"),
        ({"taskCompleted": False, "shouldContinue": False}, "fail"),
        ({"taskCompleted": False, "summary": "all done, completed, finished"}, "continue"),
        ({"taskCompleted": False, "summary": "None of the criteria are met"}, "continue"),
    ],
)
def test_the_end_of_a_task_is_read_by_precedence_never_by_words(answer, decision):
    assert decide_task(ExecutorResponse.model_validate(answer), "1") == decision


def test_a_task_needs_a_description():
    with pytest.raises(ValidationError):
        Todo.model_validate({"id": "1", "description": ""})
