import pytest
from hypothesis import given, strategies as st

from loopwright.flow.conditions import rename_in_condition
from loopwright.flow.order import build_steps, hash_plan, sort_steps
from loopwright.flow.references import rename_steps
from loopwright.state.flow import FlowStep
from support.flow_steps import acyclic, call, plan


def ids(steps):
    return [s["id"] for s in steps]


def print_of(*steps, **variables):
    return hash_plan(build_steps(plan(*steps, **variables)), variables)


@pytest.mark.req("S2-08", "S2-10", "S2-11")
def test_a_step_waits_for_what_it_names_and_for_what_it_refers_to():
    given = plan(
        call(" s1 ", description="Read", expectedOutput="rows", retryCount=2, optional=True),
        call("s2", "s1", " s1", "", "old", timeout=5, expect="n > 0"),
        call("s3", "s2", rows="{{ s1.rows[0] }}{{s2}}", also=["{{kept.x}} {{global.y}}"]),
    )
    first, second, third = build_steps(given)
    assert (first["id"], first["description"], first["depends_on"]) == ("s1", "Read", [])
    assert (first["retries"], first["optional"], first["expected_output"]) == (2, True, "rows")
    assert (second["depends_on"], second["timeout"], second["expect"]) == (
        ["s1", "old"],
        5,
        "n > 0",
    )
    assert third["depends_on"] == ["s2", "s1"]
    assert third["arguments"] == {
        "rows": "{{ s1.rows[0] }}{{s2}}",
        "also": given.steps[2].arguments["also"],
    }
    assert {s["status"] for s in (first, second, third)} == {"pending"}
    assert {(s["attempts"], s["rounds"], s["result"]) for s in (first, second)} == {(0, 0, "")}
    assert set(first) == {*FlowStep.__annotations__} - {"before", "gone", "replaces", "spared"}


@pytest.mark.req("S2-11")
@given(acyclic())
def test_every_step_stands_behind_what_it_waits_for(given):
    steps = build_steps(plan(*given))
    ordered = sort_steps(steps)
    assert sorted(ids(ordered)) == sorted(ids(steps))
    place = {name: n for n, name in enumerate(ids(ordered))}
    assert all(place[i] < place[s["id"]] for s in steps for i in s["depends_on"])
    assert sort_steps(ordered) == ordered


@given(acyclic(), st.randoms(use_true_random=False))
def test_a_plan_is_the_same_under_other_ids_and_words_in_any_order(given, random):
    names = dict(zip("abcdefgh", random.sample("abcdefgh", 8), strict=True))
    new = {a: f"new-{b}" for a, b in names.items()}
    other = [
        {
            **s,
            "id": f"new-{names[s['id']]}",
            "description": "in other words",
            "dependencies": [f"new-{names[i]}" for i in s["dependencies"]],
            "arguments": rename_steps(s["arguments"], new),
            "forEach": rename_steps(s.get("forEach"), new),
            "when": rename_in_condition(s.get("when"), new),
        }
        for s in random.sample(given, len(given))
    ]
    assert print_of(*given) == print_of(*other)


A, B = call("a", q=1), call("b", q=2)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([A, B, call("c", x="{{a.n}}")], [A, B, call("c", x="{{b.n}}")]),
        ([A, call("c", x="{{a}}")], [A, call("c", x="a")]),
        ([A, call("c", x="{{a}}")], [A, call("c", x=" {{a}}")]),
        ([A, call("c", "a")], [A, call("c")]),
        ([A], [A, A | {"id": "b"}]),
        ([A], [call("a", q="1")]),
    ],
)
def test_two_plans_that_do_something_else(one, other):
    assert print_of(*one, year=2024, when=2025) != print_of(*other, year=2024, when=2025)


def test_plans_of_any_length_have_an_order_and_a_fingerprint():
    chain = [call("s0"), *(call(f"s{n}", x=f"{{{{s{n - 1}.x}}}}") for n in range(1, 5_000))]
    steps = build_steps(plan(*reversed(chain)))
    assert ids(sort_steps(steps)) == [s["id"] for s in chain]
    assert hash_plan(steps, {}) == print_of(*chain)
    assert hash_plan(steps[1:], {}) != hash_plan(steps, {})
