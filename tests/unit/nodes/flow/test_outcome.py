"""How a turn of prompt_flow is summed up: status, what is missing, an answer without a model."""

import pytest

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
    "status", "reason", "headline", "answer", "tasks", "unmet", "uncertain_calls", "spend",
    "models", "warnings", "resume", "result",
}  # fmt: skip


def outcome_of_turn(state, resume=None):
    return build_outcome(facts_of(state), spend={}, allowance=1, resume=resume)


def results(*steps):
    return facts_of(FlowState(todos=list(steps))).results


@pytest.mark.parametrize(
    ("halt", "steps", "status", "reason"),
    [
        (None, [DONE], "complete", "GOAL"),
        (None, [DONE, OPTIONAL, SKIPPED], "partial", "GOAL"),
        (None, [DONE, FAILED], "partial", "GOAL"),
        ("ERROR", [DONE, FAILED, OPEN], "failed", "ERROR"),
        ("BUDGET", [DONE, OPEN], "partial", "BUDGET"),
        ("MAX_ROUNDS", [DONE, FAILED], "partial", "MAX_ROUNDS"),
        ("SAME_PLAN", [DONE, FAILED], "stuck", "SAME_PLAN"),
        ("DENIED", [DONE, FAILED], "blocked", "DENIED"),
        ("NOT_INTERACTIVE", [OPEN], "blocked", "NOT_INTERACTIVE"),
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


def test_without_a_model_the_answer_is_the_last_results_cited_and_what_is_missing():
    steps = [
        flow_step("s1"), flow_step("s2", depends_on=["s1"]), flow_step("s3"),
        broken("s4", depends_on=["s3"]),
    ]  # fmt: skip
    assert build_fallback_answer(results(*steps), ["s4 failed"]) == (
        "**do s2** [s2]\n\nresult of s2\n\n**do s3** [s3]\n\nresult of s3\n\nNot done:\n- s4 failed"
    )
    assert build_fallback_answer([], []) == ""
