"""`loopwright policy check`: what the manual shows, and lines that are no calls."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from loopwright.cli.app import app
from support.docs_text import blocks

DOCS = (Path(__file__).parents[3] / "docs" / "policies.md").read_text(encoding="utf-8")
CALL = json.loads(blocks("json", DOCS)[0])


@pytest.fixture
def check(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("policy.yaml").write_text(blocks("yaml", DOCS)[0], encoding="utf-8")

    def checked(*lines, options=()):
        Path("calls.jsonl").write_text("\n".join(lines), encoding="utf-8")
        told = ["--on", "calls.jsonl"] if lines else []
        done = CliRunner().invoke(app, ["policy", "check", "policy.yaml", *told, *options])
        return done.exit_code, done.output

    return checked


def test_the_manual_shows_what_a_trial_says(check):
    code, shown = check(json.dumps(CALL))
    assert code == 0
    assert (
        shown
        == "policy.yaml: 4 tools, 5 rows; each case has exactly one row.\n"
        + (blocks("text", DOCS)[0])
    )


def test_each_call_of_a_file_is_ruled_as_it_would_be(check):
    order = CALL["facts"]["order"]
    others = [
        {"args": {**CALL["args"], "amount": 149.01}},
        {"now": "2026-12-05T12:00:00+01:00"},
        {"customer": None},
        {"facts": {"order": {**order, "customer_id": "C-2"}}},
        {"facts": {"order": {**order, "order_id": "A-2"}}},
        {"facts": {}},
        {"facts": {"order": {**order, "refunded": None}}},
        {"tool": "delete_order", "args": {"order_id": "A-1"}},
        {"tool": "pay_out"},
        {"tool": "create_ticket", "args": {"subject": "x"}, "customer": None},
    ]
    lines = [json.dumps({**CALL, **other}) for other in others]
    code, shown = check(*lines, "", options=["--json"])
    report = json.loads(shown)
    assert (code, report["tools"], report["rows"]) == (0, 4, 5)
    told = [(one["line"], one["verdict"], one["row"]) for one in report["calls"]]
    assert told[:3] == [
        (1, "forbidden", "too-much"),
        (2, "forbidden", "late"),
        (3, "forbidden", ""),
    ]
    assert [one["verdict"] for one in report["calls"][2:]] == ["forbidden"] * 7 + ["allowed"]
    why = [one["why"] for one in report["calls"][2:]]
    for words, part in zip(why, (
        "has not been verified", "order does not belong", "get_order answered about 'A-2'",
        "order cannot be read: it was not read", "amount cannot be read: it is missing",
        "Orders are kept", "does not name pay_out", "allows it",
    ), strict=True):  # fmt: skip
        assert part in words
    assert report["calls"][6]["values"] == {
        "status": "delivered", "days": "8", "amount": "it is missing", "rest": "it is missing"
    }  # fmt: skip


@pytest.mark.parametrize(("line", "told"), [
    ("nothing", "Line 2 of calls.jsonl is no call (Invalid JSON"),
    ("[1]", "Line 2 of calls.jsonl is no call (Input should be an object)"),
    ('{"args": {}}', "(tool: Field required)"),
    ('{"tool": "a", "arg": {}}', "(arg: Extra inputs are not permitted)"),
    ('{"tool": "a", "now": "2026-11-28T12:00:00"}', "(now: Input should have timezone info)"),
    ('{"tool": "a", "customer": true}', "(customer"),
    ('{"tool": "a", "facts": {"odrer": {}}}',
     "Line 2 of calls.jsonl has a fact 'odrer' that the policy does not read; it reads: order."),
])  # fmt: skip
def test_a_line_that_is_no_call_is_named_and_nothing_is_said_of_the_others(check, line, told):
    code, shown = check(json.dumps(CALL), line)
    assert code == 2
    assert told in shown
    assert "line 1:" not in shown
    assert shown.count("\n") == 1
