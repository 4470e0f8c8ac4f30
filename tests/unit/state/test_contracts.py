import pytest
from pydantic import ValidationError

from loopwright.flow.execution_plan import RecoveryDecision
from loopwright.state.contracts import (
    ExecutorResponse,
    PlannerResponse,
    TodoStatus,
    VerifierResponse,
    decide_task,
)
from support.contracts import CONTRACTS, OF_PLAN

DONE = {"id": "1", "status": "done"}
FAILED, SKIPPED = ({"id": "1", "status": status} for status in ("failed", "skipped"))


@pytest.mark.req("S0-12", "S0-38", "S0-41", "S0-42", "S0-43")
def test_the_schema_on_the_wire_is_named_like_its_class_and_camel_case():
    for role in OF_PLAN:
        schema = CONTRACTS[role].wire_schema()
        assert schema["title"] == f"{role.capitalize()}Response"
        assert all("_" not in name for name in schema["properties"])


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
    assert VerifierResponse.model_validate({**passed, "summary": "Ada owns it."}).is_met
    for empty in ("", "  ", "Done.", "All tasks completed successfully.", "OK"):
        with pytest.raises(ValidationError, match="concrete data"):
            VerifierResponse.model_validate({**passed, "summary": empty})
    for flags in ((True, False), (False, True), (False, False)):
        failed = {"allCompleted": flags[0], "userNeedsSatisfied": flags[1]}
        with pytest.raises(ValidationError, match="improvements"):
            VerifierResponse.model_validate({**failed, "improvements": ["", " "]})
        assert not VerifierResponse.model_validate({**failed, "improvements": ["read b"]}).is_met


@pytest.mark.req("S0-101", "S0-102", "S0-106", "P-22", "W-08")
@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        ({"taskCompleted": True, "summary": "x", "nextAction": "continue"}, "complete"),
        ({"taskCompleted": False, "nextAction": "complete", "shouldContinue": False}, "fail"),
        ({"taskCompleted": True, "summary": "x", "todos": [FAILED]}, "complete"),
        ({"summary": "x", "nextAction": "complete", "todos": [FAILED]}, "complete"),
        ({"nextAction": "continue", "todos": [DONE]}, "continue"),
        ({"taskCompleted": None, "summary": "x", "todos": [DONE]}, "complete"),
        ({"summary": "x", "todos": [{"id": "2", "status": "done"}]}, "continue"),
        ({"shouldContinue": True}, "continue"),
        ({"taskCompleted": False, "nextAction": "retry"}, "retry"),
        ({"taskCompleted": False, "todos": [DONE]}, "continue"),
        ({"taskCompleted": False, "todos": [{"id": "2", "status": "done"}]}, "continue"),
        ({"taskCompleted": False, "summary": "all done, completed, finished"}, "continue"),
    ],
)
def test_the_end_of_a_task_is_read_by_precedence_never_by_words(answer, decision):
    assert decide_task(ExecutorResponse.model_validate(answer), "1") == decision


@pytest.mark.req("W-23")
@pytest.mark.parametrize(
    ("given", "read"),
    [("RETRY_STEP", "retry_step"), ("retryStep", "retry_step"), (" Retry-Step. ", "retry_step"),
     ("Strategy.RETRY_STEP", "retry_step"), ("retry", "retry_step"), ("Give up", "give_up"),
     ("`complete_replan`", "complete_replan"), ("ReplanFromFailure", "replan_from_failure")],
)  # fmt: skip
def test_a_strategy_is_read_as_models_spell_it(given, read):
    assert RecoveryDecision.model_validate({"strategy": given, "reason": "x"}).strategy == read


@pytest.mark.req("W-23")
@pytest.mark.parametrize("given", ["dance", "", "completely", 3, ["skip"], {"a": 1}, True])
def test_a_word_of_no_set_is_refused(given):
    for contract, said in (
        (TodoStatus, {"id": "1", "status": given}),
        (RecoveryDecision, {"strategy": given, "reason": "x"}),
    ):
        with pytest.raises(ValidationError):
            contract.model_validate(said)


SOUND = {
    PlannerResponse: {"todos": [{"description": "d"}]},
    ExecutorResponse: {"taskCompleted": False},
    VerifierResponse: {
        "allCompleted": False, "userNeedsSatisfied": False, "improvements": ["read b"]
    },
}  # fmt: skip


@pytest.mark.req("W-23")
@pytest.mark.parametrize("contract", SOUND)
def test_an_answer_that_says_it_is_something_else_is_not_taken(contract):
    role = contract.__name__.removesuffix("Response").lower()
    for own in (f"{role}-response", f"{role}_response", contract.__name__, role.upper(), "", None):
        for kind in ("component", "Component", f"{role}-response", None):
            said = {**SOUND[contract], "type": kind, "component": own}
            read = contract.model_validate(said)
            assert (read.type, read.component) == ("component", f"{role}-response")
    others = {"planner", "executor", "verifier"} - {role}
    for field, wrong in [("type", "tool_call"), *(("component", f"{o}-response") for o in others)]:
        with pytest.raises(ValidationError, match=f"{wrong}'?, but .* is asked for"):
            contract.model_validate({**SOUND[contract], field: wrong})
