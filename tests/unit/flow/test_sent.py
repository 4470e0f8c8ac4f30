"""Which steps of a new plan would send what an old one has sent, however they are written."""

import pytest

from loopwright.flow.sent import same_when_sent
from support.flow_steps import call, called, plan, steps

OLD = [call("a"), call("w", tool="put", n="{{a.n}}")]
SENT = {"w": {"n": 3}}


def done(*planned, **results):
    """Finished steps with these results; a dict counts as JSON."""
    return [
        called(one, result=results.get(one["id"], "text"), shape="json")
        if one["id"] in results
        else called(one)
        for one in steps(*planned)
    ]


def found(new, old, *, pairs=None, made=None, variables=None, sent=lambda _, arguments: arguments):
    pairs = {name: one for one in old for name in (pairs or {}).get(one["id"], [])}
    same = same_when_sent(
        steps(*new), old, pairs, variables=variables or {}, made=SENT if made is None else made,
        sent=sent,
    )  # fmt: skip
    return {name: one["id"] for name, one in same.items()}


@pytest.mark.req("S2-30")
@pytest.mark.parametrize(
    ("arguments", "same"),
    [
        ({"n": 3}, True),
        ({"n": "{{a.n}}"}, True),
        ({"n": "{{global.n}}"}, True),
        ({"n": "3"}, False),
        ({"n": 4}, False),
        ({"n": 3, "more": 1}, False),
        ({"n": "{{a.m}}"}, False),
        ({"n": "{{x.n}}"}, False),
    ],
    ids=str,
)
def test_a_value_is_the_same_whether_it_is_written_out_or_referred_to(arguments, same):
    new = [call("x"), call("v", tool="put", **arguments)]
    assert found(new, done(*OLD, a='{"n": 3}'), variables={"n": 3}) == ({"v": "w"} if same else {})


def test_another_tool_is_another_call():
    assert found([call("v", tool="send", n=3)], done(*OLD)) == {}


def test_the_way_a_tool_is_sent_its_arguments_decides():
    def sent(tool, arguments):
        return {"currency": "EUR", **arguments, "n": int(arguments["n"])}

    old = done(*OLD, a='{"n": 3}')
    new = [call("v", tool="put", n="3", currency="EUR")]
    assert found(new, old, sent=sent) == {"v": "w"}
    assert found([call("v", tool="put", n="3", currency="USD")], old, sent=sent) == {}


def test_each_finished_call_answers_for_one_step():
    new = [call(name, tool="put", n=3) for name in "xyz"]
    old = done(call("v", tool="put", n=3), call("w", tool="put", n=3))
    made = {"v": {"n": 3}, "w": {"n": 3}}
    assert found(new, old, made=made) == {"x": "v", "y": "w"}
    assert found(new, old, made=made, pairs={"v": ["z"]}) == {"x": "w"}, "a pair stands"


def test_what_is_found_is_at_hand_for_what_is_built_on_it():
    old = done(*OLD, call("u", tool="put", n="{{w.id}}"), w='{"id": 7}')
    made = {**SENT, "u": {"n": 7}}
    new = [call("u2", tool="put", n="{{w2.id}}"), call("w2", tool="put", n=3)]
    assert found(new, old, made=made) == {"w2": "w", "u2": "u"}


def test_an_old_id_that_the_new_plan_uses_otherwise_reads_nothing_of_the_old_result():
    new = [call("a", q="other"), call("v", tool="put", n="{{a.n}}")]
    assert found(new, done(*OLD, a='{"n": 3}')) == {}


def test_a_result_that_is_not_at_hand_is_not_guessed():
    old = done(*OLD, a='{"n": 3}')
    old[0] |= {"shape": "stored", "stored": "r-1"}
    assert found([call("v", tool="put", n="{{a.n}}")], old) == {}
    assert found([call("v", tool="put", n=3)], old) == {"v": "w"}


def test_a_step_whose_call_nobody_recorded_is_never_the_same():
    assert found([call("v", tool="put", n=3)], done(*OLD), made={}) == {}


def test_a_plan_of_any_length_is_gone_through_once():
    count = 3_000
    names = [f"w{n}" for n in range(count)]
    old = done(*(call(name, tool="put", n=n) for n, name in enumerate(names)))
    made = {name: {"n": n} for n, name in enumerate(names)}
    new = [call(f"v{n}", tool="put", n=n) for n in range(count)]
    assert found(new, old, made=made) == {f"v{n}": f"w{n}" for n in range(count)}
    assert len(plan(*new).steps) == count
