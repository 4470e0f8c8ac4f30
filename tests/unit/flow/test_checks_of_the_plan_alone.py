import pytest
from hypothesis import given

from support.flow_steps import acyclic, call, flaws, plan


def found(*steps, kept=(), limit=40, **variables):
    return flaws(plan(*steps, **variables), kept=kept, limit=limit)


A = call("a", q=1)


@pytest.mark.req("S2-06")
def test_every_flaw_is_told_at_once():
    told = found(
        A, A, call("b", "gone", "b", x="{{c}} {{nowhere.x}} {{", tool=""), call("c", "b"),
        call("g.h", x="{{global.miss}}"), limit=3, v=["{{a.x}}"],
    )  # fmt: skip
    for words in (
        "5 steps; at most 3", "used 2 times", "the id 'g.h'", "names no tool", "['gone']", "itself",
        "'nowhere'", "'miss'", "never closed", "variable 'v'", "circle",
    ):  # fmt: skip
        assert sum(words in sentence for sentence in told) == 1, (words, told)
    assert len(told) == 11


@pytest.mark.parametrize(
    ("value", "flawed"),
    [
        ("{{a.x}}", True),
        ({"deep": ["see {{a}}"]}, True),
        ("{{global.v}}", True),
        (r"\{{a}}", False),
        ("a}} {a}", False),
        (None, False),
        (7, False),
    ],
)
def test_variables_are_values_and_read_nothing(value, flawed):
    told = found(call("a", x="{{global.v}}"), v=value)
    assert [("variable 'v'" in t, "not expanded" in t) for t in told] == [(True, True)] * flawed


@pytest.mark.req("S2-06")
@pytest.mark.parametrize(
    ("reference", "fits"),
    [
        ("{{global.user}}", True),
        ("{{global}}", True),
        ('{{global["user"].name}}', True),
        ("{{global.list[-1]}}", True),
        ("{{global.list[2]}}", False),
        ("{{global.user.age}}", False),
        ("{{global.users}}", False),
        ("{{global.output}}", False),
    ],
)
def test_a_variable_must_be_there_with_all_that_is_read_of_it(reference, fits):
    told = found(call("a", x=reference), user={"name": "Ada"}, list=[1, 2])
    assert (told == []) == fits, told


@pytest.mark.parametrize(
    "steps",
    [
        [A],
        [call("b", x="{{a.rows[0].Exchange Rate}}"), A],
        [call("a", q=1), call("b", q=1), call("c", q=1)],
        [call("x" * 60)],
        [call("ключ"), call("b", x="{{ключ.имя}}")],
        [A, call("b", "a", "", " ")],
        [call("old"), call("b", "old", x="{{old.n}}")],
    ],
)
def test_a_sound_plan_has_no_flaws(steps):
    assert found(*steps, kept=["old"]) == []


@given(acyclic())
def test_any_acyclic_plan_is_sound_in_any_order(given):
    assert found(*given) == []


def test_finished_steps_may_be_named_and_are_listed_with_the_others():
    assert "known are ['b', 'old']" in found(call("b", "ol"), kept=["old"])[0]
    assert "did you mean 'old'" in found(call("b", x="{{ol}}"), kept=["old"])[0]


def test_a_long_chain_is_no_circle_and_a_long_circle_is():
    chain = [call("s0"), *(call(f"s{n}", f"s{n - 1}") for n in range(1, 5_000))]
    assert found(*chain, limit=5_000) == []
    assert "circle" in found(*chain[1:], call("s0", "s4999"), limit=5_000)[0]
