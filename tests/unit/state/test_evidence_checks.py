import pytest

from loopwright.state.contracts import VerifierResponse
from loopwright.state.evidence_checks import (
    check_verdict,
    find_only_proofs,
    make_report,
)

TASKS = [
    {"id": "1", "description": "a", "status": "completed"},
    {"id": "2", "description": "b", "status": "completed"},
    {"id": "3", "description": "c", "status": "skipped", "result": "words"},
]
EVIDENCE = [
    {"id": "1.1.0", "task": "1", "call_id": "call_0", "tool": "read", "status": "success"},
    {"id": "1.2.0", "task": "1", "call_id": "call_0", "tool": "read", "status": "error"},
    {"id": "2.1.0", "task": "2", "call_id": "abc", "tool": "read", "status": "success"},
    make_report("3", "words", completed=True),
]


def verdict(first, second):
    return VerifierResponse.model_validate(
        {
            "allCompleted": True,
            "userNeedsSatisfied": True,
            "summary": "The owner is Ada.",
            "tasks": [
                {"id": "1", "completed": True, "evidence": first},
                {"id": "2", "completed": True, "evidence": second},
                {"id": "3", "completed": True},
            ],
        }
    )


@pytest.mark.req("P-03", "W-24")
@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        (["1.1.0"], ["2.1.0"], ""),
        ([], ["2.1.0"], ""),
        (["7.1.0"], ["2.1.0"], "does not exist in this run"),
        (["1.2.0"], ["2.1.0"], "failed and proves nothing"),
        (["2.1.0"], ["2.1.0"], "another task's, so"),
    ],
)
def test_a_citation_must_hold(first, second, problem):
    problems = check_verdict(verdict(first, second), TASKS, EVIDENCE)
    assert problem in " ".join(problems)
    assert bool(problems) == bool(problem)


def test_a_report_that_is_no_longer_the_tasks_result_proves_nothing():
    evidence = [make_report("1", "A is 42", completed=True)]
    claim = VerifierResponse.model_validate(
        {
            "allCompleted": True,
            "userNeedsSatisfied": True,
            "summary": "A is 42.",
            "tasks": [{"id": "1", "completed": True, "evidence": ["1.report"]}],
        }
    )
    now = {"id": "1", "description": "B", "status": "completed", "result": "B failed"}
    assert "does not exist" in check_verdict(claim, [now], evidence)[0]
    assert check_verdict(claim, [{**now, "result": "A is 42"}], evidence) == []


def called(id_, status, reason="", tool="pay", **more):
    return {
        "id": id_, "task": "1", "tool": tool, "arguments": {"n": 1}, "status": status,
        "reason": reason, "result": f"the result of {id_}", **more,
    }  # fmt: skip


def judged(task="1", *, evidence=(), findings=()):
    return VerifierResponse.model_validate(
        {
            "allCompleted": True,
            "userNeedsSatisfied": True,
            "summary": "There is no order 17.",
            "tasks": [{"id": task, "completed": True, "evidence": evidence, "findings": findings}],
        }
    )


ONE = [{"id": "1", "description": "a", "status": "completed", "result": "words"}]


@pytest.mark.req("W-24")
@pytest.mark.parametrize(
    ("records", "only"),
    [
        ([called("1.1.0", "success")], {"1": "1.1.0"}),
        ([called("1.1.0", "error"), called("1.2.0", "success")], {"1": "1.2.0"}),
        ([make_report("1", "words", completed=True)], {"1": "1.report"}),
        ([called("1.1.0", "success"), called("1.2.0", "success")], {}),
        ([called("1.1.0", "error")], {}),
        ([called("1.1.0", "success", "uncertain")], {}),
        ([called("2.1.0", "success") | {"task": "2"}], {}),
        ([], {}),
    ],
)
def test_the_only_proof_of_a_task_is_attached_where_a_verdict_cites_none(records, only):
    assert find_only_proofs(judged(), ONE, records) == only
    assert bool(check_verdict(judged(), ONE, records)) == (not only)
    cited = judged(evidence=["7.1.0"])
    assert find_only_proofs(cited, ONE, records) == {}, "what is cited wrongly is not mended"


@pytest.mark.req("W-24")
@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (called("1.1.0", "error"), ""),
        (called("1.1.0", "success"), ""),
        (called("1.1.0", "error", "uncertain"), "no finding"),
        (called("1.1.0", "cancelled", "denied"), "no finding"),
        (called("1.1.0", "cancelled", "gave_up"), "no finding"),
        (called("1.1.0", "error") | {"task": "2"}, "another task's"),
        (make_report("1", "words", completed=False), "no finding"),
    ],
)
def test_an_error_that_is_the_answer_can_be_cited_as_a_finding(record, problem):
    problems = check_verdict(judged(findings=[record["id"]]), ONE, [record])
    assert problem in " ".join(problems)
    assert bool(problems) == bool(problem)


@pytest.mark.req("W-72")
@pytest.mark.parametrize(
    "record",
    [called("1.1.0", "error"), called("1.1.0", "cancelled", "uncertain"),
     called("1.1.0", "error", "uncertain"), called("1.1.0", "cancelled", "gave_up")],
)  # fmt: skip
def test_after_a_failed_or_doubtful_call_of_its_task_a_report_proves_nothing(record):
    report = make_report("1", "words", completed=True)
    for evidence in ([record, report], [report, record]):
        for claim in (judged(), judged(evidence=["1.report"])):
            assert check_verdict(claim, ONE, evidence)
    elsewhere = record | {"id": "2.1.0", "task": "2"}
    assert check_verdict(judged(evidence=["1.report"]), ONE, [elsewhere, report]) == []


@pytest.mark.req("W-72")
def test_the_id_a_provider_gave_a_call_proves_its_own_task_alone():
    trick = called("1.1.0", "success", call_id="2.report")
    two = [*ONE, {"id": "2", "description": "b", "status": "completed", "result": "b"}]
    assert check_verdict(judged("2", evidence=["2.report"]), two, [trick])
