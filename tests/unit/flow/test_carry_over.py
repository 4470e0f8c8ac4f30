import pytest
from hypothesis import given, strategies as st

from loopwright.flow.carry_over import adopt_steps, describe_changes
from loopwright.flow.execution_plan import PlanStep
from loopwright.flow.order import build_steps, hash_steps, list_sources
from support.flow_steps import EVERY_FIELD, acyclic, call, called, plan


def planned(*steps, **variables):
    return build_steps(plan(*steps, **variables))


def taken_over(
    steps, old, *, variables=None, old_variables=None, rounds=None, reads=frozenset({"get"})
):
    return adopt_steps(
        steps, old, variables=variables or {}, old_variables=old_variables or {},
        rounds=rounds or {}, reads=reads,
    )  # fmt: skip


def finished(*steps, only=None, **variables):
    """The steps of a plan after its run: those in `only` done, the others failed."""
    return [
        called(s) if only is None or s["id"] in only else {**s, "status": "failed", "attempts": 2}
        for s in planned(*steps, **variables)
    ]


def by_id(steps):
    assert len({s["id"] for s in steps}) == len(steps)
    return {s["id"]: s for s in steps}


def statuses(steps):
    return {name: s["status"] for name, s in by_id(steps).items()}


A, B = call("a", q=1), call("b", q=2)
SUM = call("sum", x="{{a.n}} and {{b.n}}")


@pytest.mark.req("S2-30")
def test_finished_steps_stay_finished_with_all_they_left_behind():
    old = finished(A, B, SUM, only="ab")
    old[0] |= {"value": {"n": 1}, "shape": "value", "stored": "r-1", "seconds": 2.0}
    steps = by_id(taken_over(planned(A, B, call("sum", x="{{a.n}} + {{b.n}}")), old))
    assert {n: s["status"] for n, s in steps.items()} == {
        "a": "completed", "b": "completed", "sum": "pending",
    }  # fmt: skip
    for key in ("value", "shape", "stored", "seconds", "result", "evidence", "attempts", "rounds"):
        assert steps["a"][key] == old[0][key]
    assert steps["sum"]["attempts"] == 0


@pytest.mark.req("S2-30")
def test_a_finished_step_is_known_by_what_it_does_whatever_its_id():
    old = finished(A, B, SUM)
    new = planned(
        call("one", q=1, description="in other words", optional=True),
        call("two", q=2),
        call("all", x="{{one.n}} and {{two.n}}"),
    )
    steps = by_id(taken_over(new, old))
    assert {n: (s["status"], s["result"]) for n, s in steps.items()} == {
        "one": ("completed", "result of a"),
        "two": ("completed", "result of b"),
        "all": ("completed", "result of sum"),
    }
    assert (steps["one"]["description"], steps["one"]["optional"]) == ("in other words", True)
    assert steps["all"]["arguments"] == {"x": "{{one.n}} and {{two.n}}"}


@pytest.mark.req("S2-30")
def test_a_step_runs_again_when_anything_it_was_made_from_is_another():
    old = finished(A, B, SUM, call("end", "b"))
    new = planned(A, call("b", q="other"), SUM, call("end", "b"))
    steps = statuses(taken_over(new, old))
    assert steps["a"] == "completed"
    assert {steps[name] for name in ("b", "sum", "end")} == {"pending"}
    assert {n: s for n, s in steps.items() if n not in {"a", "b", "sum", "end"}} == {
        "b-2": "completed", "sum-2": "completed",
    }  # fmt: skip


@pytest.mark.req("S2-30")
def test_a_finished_write_is_never_made_again_because_it_is_listed_behind_another_step():
    old = finished(call("mail", tool="send"), call("look", q=1))
    new = planned(call("fix", tool="mend"), call("mail", "fix", tool="send"), call("x", "fix", q=1))
    steps = statuses(taken_over(new, old))
    assert (steps["mail"], steps["fix"]) == ("completed", "pending")
    assert steps["x"] == "pending", "what was read before the repair may be another now"


@pytest.mark.req("S2-30")
def test_another_check_of_a_finished_step_is_made_before_it_counts():
    old = finished(call("read", q=1), call("write", tool="send", q=1))
    new = planned(call("read", q=1, expect="n > 0"), call("write", tool="send", q=1, expect="ok"))
    steps = by_id(taken_over(new, old))
    assert (steps["read"]["status"], steps["read"]["result"]) == ("pending", ""), "made again"
    assert (steps["write"]["status"], steps["write"]["result"]) == ("pending", "result of write")


@pytest.mark.req("S2-30")
def test_what_a_new_plan_leaves_out_is_kept_in_front_and_may_be_referred_to():
    old = finished(A, B, SUM, only="ab")
    steps = taken_over(planned(call("mean", "b", x="{{a.n}}")), old)
    assert [(s["id"], s["status"]) for s in steps] == [
        ("a", "completed"), ("b", "completed"), ("mean", "pending"),
    ]  # fmt: skip
    assert steps[2]["arguments"] == {"x": "{{a.n}}"}
    assert statuses(taken_over([], old)) == {"a": "completed", "b": "completed"}


def finish_some(steps, names):
    """Those steps done that may be: all they read is done."""
    left, ended = list(steps), set()
    while some := [s for s in left if s["id"] in names and roots(s) <= ended]:
        left = [s for s in left if s not in some]
        ended |= {s["id"] for s in some}
    return [called(s) if s["id"] in ended else s for s in steps]


def roots(given):
    return set(list_sources(given))


def made_from(steps):
    """What each finished step gave, with what those gave that it read."""
    results = {s["id"]: s["result"] for s in steps}
    return {
        s["result"]: {results[root] for root in roots(s)}
        for s in steps
        if s["status"] == "completed"
    }


@pytest.mark.req("S2-30")
@given(acyclic(), acyclic(), st.sets(st.sampled_from("abcdefgh")))
def test_no_finished_step_is_lost_or_runs_twice_or_forgets_what_it_read(first, second, names):
    old = finish_some(planned(*first), names)
    steps = taken_over(planned(*second), old, reads=())
    assert made_from(steps) == made_from(old)
    assert len([s for s in steps if s["status"] == "completed"]) == len(made_from(old))
    assert {s["id"] for s in second} <= set(by_id(steps))
    assert all(roots(s) | set(s["depends_on"]) <= set(by_id(steps)) for s in steps)
    again = taken_over(planned(*second), steps, reads=())
    assert made_from(again) == made_from(old)
    assert statuses(again) == statuses(steps)


@pytest.mark.req("S2-30")
@given(acyclic(), acyclic(), st.sets(st.sampled_from("abcdefgh")))
def test_no_write_is_lost_where_reads_are_made_again(first, second, names):
    old = finish_some(planned(*first), names)
    steps = taken_over(planned(*second), old)

    def writes(some):
        done = (s for s in some if s["status"] == "completed" and s["tool"] == "put")
        return sorted(s["result"] for s in done)

    assert writes(steps) == writes(old)
    assert len(by_id(steps)) == len(steps)


@given(acyclic(), st.sets(st.sampled_from("abcdefgh")))
def test_the_same_plan_again_changes_nothing_that_is_done(given, names):
    old = finish_some(planned(*given), names)
    steps = taken_over(planned(*given), old, reads=())
    assert statuses(steps) == statuses(old)
    assert hash_steps(steps, {}) == hash_steps(old, {})
    assert describe_changes(old, steps) == []


BY_ALIAS = {field.alias or name: name for name, field in PlanStep.model_fields.items()}


@pytest.mark.parametrize("field", sorted({*BY_ALIAS} - {"id"}))
def test_a_change_of_any_field_of_a_step_is_told(field):
    """A field that PlanStep gets is in EVERY_FIELD, or this does not know what to change."""
    usual = PlanStep(id="s7", tool="put").model_dump(by_alias=True)
    others = {key: value for key, value in EVERY_FIELD.items() if key != field}
    (line,) = describe_changes(
        planned({**others, field: usual[field]}), planned({**others, field: EVERY_FIELD[field]})
    )
    assert line.startswith("~ s7: ")
