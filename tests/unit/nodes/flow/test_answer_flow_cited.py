"""Which steps an answer cites, which of them it may, and what in brackets means nothing."""

import pytest

from loopwright.nodes.flow.answer_flow import citation_problems
from support.flow_steps import broken, flow_step

MIXED = [flow_step("s1"), flow_step("s2"), broken("s3")]
NUMBERED = [flow_step("1"), flow_step("2"), broken("3")]
NAMED = [flow_step("load"), flow_step("read_sales"), broken("draw-chart")]


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("7 [s1].", MIXED),
        ("7 [s1, s2] and 8 [s2; s1].", MIXED),
        ("7 [step s1].", MIXED),
        ("7 [[s1]].", MIXED),
        ("7 [`s1`] and 8 [**s2**].", MIXED),
        ("7【s1】.", MIXED),
        ("7 [s1]. See [the shop](https://shop.example/[x]).", MIXED),
        ("7 [1]. In [2024] it was 6.", NUMBERED),
        ("7 [s1].[^1]\n\n[^1]: From the list.", MIXED),
        ("7 [s1] [sic] [Ada] [n/a] [EUR].", MIXED),
        ("7 [s1], see [s9](https://shop.example/s9).", MIXED),
        ("7 [load], 8 [read_sales] [optional].", NAMED),
        ("Nothing came.", [broken("s1")]),
    ],
)
def test_citations_that_hold(text, steps):
    assert citation_problems(text, steps) == []


@pytest.mark.parametrize(
    ("text", "steps", "problem"),
    [
        ("7.", MIXED, "cites no step"),
        ("7 [a](https://shop.example).", MIXED, "cites no step"),
        ("8 [S3] [s1].", MIXED, "'s3' is cited but did not complete"),
        ("7 [s1], 8 [s9].", MIXED, "no step 's9'"),
        ("7 [s1], 8 [step_9].", MIXED, "no step 'step_9'"),
        ("7 [1], 8 [3].", NUMBERED, "'3' is cited but did not complete"),
        ("7 [load], 8 [s1].", NAMED, "no step 's1'"),
        ("8 [s3]", [broken("s3")], "'s3' is cited but did not complete"),
    ],
)
def test_citations_that_do_not_hold(text, steps, problem):
    assert any(problem in told for told in citation_problems(text, steps))


def test_brackets_that_never_close_take_no_time():
    assert citation_problems("[" * 200_000 + "[s1]" + "`" * 100_001, MIXED) == []
