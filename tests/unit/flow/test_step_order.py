"""The order of a pass: what can begin, what waits for what, and who goes first."""

import pytest

from loopwright.flow.order import order_pass


def steps(**needs):
    return [{"id": name, "depends_on": others.split(), "status": "pending"}
            for name, others in needs.items()]  # fmt: skip


def order_of(plan, writes=(), waiting=()):
    steps = [{**one, "changes": one["id"] in writes} for one in plan]
    return order_pass(steps, waiting=waiting)


@pytest.mark.req("S2-11")
def test_the_longest_chain_goes_first_else_the_plan_s_order_stands():
    plan = steps(a="", b="", x="", y="x", z="y", c="")
    order, waits = order_of(plan)
    assert order == ["x", "y", "a", "b", "z", "c"]
    assert waits["z"] == ["y"]


@pytest.mark.req("S2-11")
def test_nothing_comes_before_what_it_waits_for():
    plan = steps(late="early", early="", w1="", r="w1", w2="", end="late w2")
    order, waits = order_of(plan, writes={"w1", "w2"})
    place = {name: n for n, name in enumerate(order)}
    assert set(order) == set(waits) == {step["id"] for step in plan}
    assert all(place[other] < place[name] for name in order for other in waits[name])


@pytest.mark.req("S2-11")
def test_writes_wait_for_the_write_before_them_in_the_plan():
    order, waits = order_of(steps(w1="", w2="", x="w2", y="x"), writes={"w1", "w2"})
    assert order == ["w1", "w2", "x", "y"], "the chain behind w2 is behind w1, too"
    assert waits["w2"] == ["w1"]


def test_what_is_done_is_waited_for_no_longer_and_a_question_shuts_what_is_behind_it():
    plan = steps(a="", b="a", c="", d="c", e="d")
    plan[0]["status"] = "completed"
    order, waits = order_of(plan, waiting={"c"})
    assert (order, waits) == (["b"], {"b": []})
