"""How a turn of prompt_flow is summed up: status, what is missing, an answer without a model."""

import pytest
from langchain_core.messages import AIMessage

from loopwright.nodes.flow.turn import facts_of
from loopwright.state.flow import FlowState
from loopwright.turn.end import build_fallback_answer, build_outcome
from support.flow_steps import broken, flow_step

DONE = flow_step("s1")
FAILED = broken("s2")
OPTIONAL = broken("s2", optional=True)
SKIPPED = flow_step("s3", "skipped", optional=True, feedback="it needs s2")
OPEN = flow_step("s3", "pending", depends_on=["s2"])

KEYS = {
    "status", "reason", "answer", "tasks", "unmet", "uncertain_calls", "spend", "models",
    "warnings", "resume", "result",
}  # fmt: skip


def outcome_of_turn(state, resume=None):
    return build_outcome(facts_of(state), spend={}, allowance=1, resume=resume)


def results(*steps):
    return facts_of(FlowState(todos=list(steps))).results


@pytest.mark.parametrize(
    ("halt", "steps", "status", "reason"),
    [
        (None, [DONE], "complete", "GOAL"),
        (None, [DONE, OPTIONAL], "partial", "GOAL"),
        (None, [DONE, OPTIONAL, SKIPPED], "partial", "GOAL"),
        (None, [OPTIONAL], "stuck", "SAME_BLOCKERS"),
        (None, [DONE, FAILED], "partial", "GOAL"),
        (None, [], "stuck", "SAME_BLOCKERS"),
        ("ERROR", [DONE, FAILED, OPEN], "failed", "ERROR"),
        ("ERROR", [], "failed", "ERROR"),
        ("BUDGET", [DONE, OPEN], "partial", "BUDGET"),
        ("TIMEOUT", [OPEN], "exhausted", "TIMEOUT"),
        ("MAX_ROUNDS", [DONE, FAILED], "partial", "MAX_ROUNDS"),
        ("MAX_ROUNDS", [FAILED], "exhausted", "MAX_ROUNDS"),
        ("SAME_PLAN", [DONE, FAILED], "stuck", "SAME_PLAN"),
        ("SAME_BLOCKERS", [FAILED], "stuck", "SAME_BLOCKERS"),
        ("DENIED", [DONE, FAILED], "blocked", "DENIED"),
        ("DENIED", [DONE], "blocked", "DENIED"),
        ("NOT_INTERACTIVE", [OPEN], "blocked", "NOT_INTERACTIVE"),
        ("MISSING_INFORMATION", [], "blocked", "MISSING_INFORMATION"),
    ],
)
def test_the_status_follows_from_what_halted_the_turn_and_what_was_done(
    halt, steps, status, reason
):
    resume = {"how": "so"}
    outcome = outcome_of_turn(FlowState(todos=steps, halt=halt), resume)
    assert set(outcome) == KEYS
    assert (outcome["status"], outcome["reason"]) == (status, reason)
    assert (outcome["resume"] is None) == (status == "complete")
    assert (outcome["resume"] or resume)["how"].startswith("so")
    assert bool(outcome["unmet"]) == any(s["status"] != "completed" for s in steps)
    assert outcome["answer"]


def test_steps_are_listed_in_plan_order_with_attempts_and_seconds():
    late = flow_step("a", depends_on=["b"], evidence=["a.1.0"], attempts=2, seconds=1.23456)
    listed = outcome_of_turn(FlowState(todos=[late, flow_step("b")]))["tasks"]
    assert [task["id"] for task in listed] == ["b", "a"]
    assert listed[1] == {
        "id": "a", "description": "do a", "status": "completed", "result": "result of a",
        "evidence": ["a.1.0"], "attempts": 2, "seconds": 1.235,
    }  # fmt: skip


def test_failed_and_skipped_optional_steps_are_named_as_unmet():
    answer = AIMessage("7 [s1].", id="answer-0-")
    outcome = outcome_of_turn(FlowState(messages=[answer], todos=[DONE, OPTIONAL, SKIPPED]))
    assert outcome["unmet"] == [
        "s2 (do s2) failed: no such part", "s3 (do s3) was skipped: it needs s2"
    ]  # fmt: skip
    assert outcome["answer"] == "7 [s1]."


def test_what_was_said_already_is_not_said_again_and_what_never_ran_takes_one_line():
    waiting = [flow_step(f"w{n}", "pending") for n in range(1_000)]
    state = FlowState(
        todos=[FAILED, *waiting], halt="ERROR",
        unmet=["After replanning from s1: s2 (do s2) failed: no such part", "no such shop"],
    )  # fmt: skip
    told = outcome_of_turn(state)["unmet"]
    assert told[:2] == state.unmet
    assert len(told) == 3
    assert told[2].startswith("Not run: w0 (do w0), w1 (do w1), ")
    assert told[2].endswith(", and 990 more.")


def test_a_step_that_was_to_be_tried_again_tells_its_last_error():
    again = {**FAILED, "status": "pending"}
    assert outcome_of_turn(FlowState(todos=[again], halt="TIMEOUT"))["unmet"] == [
        "s2 (do s2) is not done: no such part",
        "The time allowed was used up before the request was done.",
    ]


def test_without_a_model_the_answer_is_the_last_results_cited_and_what_is_missing():
    steps = [
        flow_step("s1"), flow_step("s2", depends_on=["s1"]), flow_step("s3"),
        broken("s4", depends_on=["s3"]),
    ]  # fmt: skip
    assert build_fallback_answer(results(*steps), ["s4 failed"]) == (
        "**do s2** [s2]\n\nresult of s2\n\n**do s3** [s3]\n\nresult of s3\n\nNot done:\n- s4 failed"
    )
    assert build_fallback_answer([], []) == ""


def test_results_in_such_an_answer_are_bounded_together():
    (one,) = results(flow_step("s1", result="x" * 40_000))
    assert "[… 8000 characters left out]" in one
    many = results(*(flow_step(f"s{n}", result="x" * 40_000) for n in range(40)))
    assert len(build_fallback_answer(many, [])) < 40 * 2_100
