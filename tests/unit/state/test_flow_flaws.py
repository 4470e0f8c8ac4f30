import pytest
from hypothesis import given, settings

from loopwright.state.flow_flaws import flaws
from support.flow_plans import acyclic, plan, step


def found(*steps, kept=(), limit=40, **variables):
    return flaws(plan(*steps, **variables), kept=kept, limit=limit)


A = step("a", q=1)


@pytest.mark.req("S2-06")
@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([], ["no steps", "at least one", "llm_call"]),
        ([A, A], ["'a'", "used 2 times"]),
        ([A, step(" a ")], ["'a'", "used 2 times"]),
        ([step("")], ["step number 1", "no id"]),
        ([A, step("  ")], ["step number 2", "no id"]),
        ([step("a b")], ["'a b'", "white space"]),
        ([step("a\nb")], ["'a\\nb'", "white space"]),
        ([step("a.b")], ["'a.b'", "'.'"]),
        ([step("a[0")], ["'a[0'", "'['"]),
        ([step("a]")], ["'a]'", "']'"]),
        ([step("{a")], ["'{a'", "'{'"]),
        ([step("a}")], ["'a}'", "'}'"]),
        ([step("global")], ["'global'", "variables"]),
        ([step("x" * 61)], ["61 characters", "at most 60"]),
        ([step("a", tool="  ")], ["step 'a'", "no tool"]),
        ([A, step("b", "c")], ["step 'b'", "unknown ids ['c']", "known are ['a', 'b']"]),
        ([A, step("b", "x", "y")], ["step 'b'", "unknown ids ['x', 'y']"]),
        ([step("a", "a")], ["step 'a'", "depends on itself"]),
        ([step("a", x="{{a.rows}}")], ["step 'a'", "{{a.rows}}", "its own result"]),
        ([step("a", x="{{other.x}}")], ["step 'a'", "{{other.x}}", "no step 'other'", "['a']"]),
        (
            [step("fetch_rows"), step("b", x=[{"deep": "see {{ fetch_row.x }}"}])],
            ["step 'b'", "{{fetch_row.x}}", "no step 'fetch_row'", "did you mean 'fetch_rows'"],
        ),
        ([A, step("b", x="{{a.n")], ["step 'b'", "never closed"]),
        ([A, step("b", x="{{}}")], ["step 'b'", "{{}}"]),
        ([A, step("b", x="{{a..n}} {{a.n}}")], ["step 'b'", "{{a..n}}"]),
        ([A, step("b", x="{{a[n]}}")], ["step 'b'", "{{a[n]}}"]),
        ([A, step("b", x=r"\{{a.n}} {{{{a.n}}")], ["step 'b'", "no reference"]),
        ([step("a", x="{{global.y}}")], ["step 'a'", "{{global.y}}", "no 'y'", "variables"]),
        ([step("a", "b"), step("b", "a")], ["circle", "a → b → a"]),
        (
            [step("a", "c"), step("b", "a"), step("c", "b"), step("d", "a")],
            ["circle", "a → c → b → a"],
        ),
        (
            [step("a", x="{{b.n}}"), step("b", "a")],
            ["circle", "step 'a' refers to {{b.n}}, but 'b' runs after it"],
        ),
        (
            [step("a", x="{{b.n}}"), step("b", x="{{a.m}}")],
            ["circle", "step 'a' refers to {{b.n}}, but 'b' runs after it"],
        ),
    ],
)
def test_each_flaw_is_one_sentence_that_names_the_step(steps, words):
    told = found(*steps)
    assert len(told) == 1, told
    assert all(word in told[0] for word in words), told


@pytest.mark.req("S2-06")
def test_every_flaw_is_told_at_once():
    told = found(
        A, A, step("b", "gone", "b", x="{{c}} {{nowhere.x}} {{", tool=""), step("c", "b"),
        step("g.h", x="{{global.miss}}"), limit=3, v=["{{a.x}}"],
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
    told = found(step("a", x="{{global.v}}"), v=value)
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
    told = found(step("a", x=reference), user={"name": "Ada"}, list=[1, 2])
    assert (told == []) == fits, told


@pytest.mark.parametrize(
    "steps",
    [
        [A],
        [step("b", "a"), A],
        [step("b", x="{{a.rows[0].Exchange Rate}}"), A],
        [A, step("b", x="{{a}}{{a}}"), step("c", "b", x=[{"y": "{{b.x}} {{a.x}}"}])],
        [step("a", q=1), step("b", q=1), step("c", q=1)],
        [step("a", x="plain }} text { {a} \\{{a.n}}")],
        [step("x" * 60)],
        [step("größe-7_ß")],
        [step("ключ"), step("b", x="{{ключ.имя}}")],
        [step("a", **{"{{not.read": "keys are no place for references"})],
        [A, step("b", "a", "", " ")],
        [step("s1-2", "old"), step("b", x="{{old.n}} {{s1-2.n}}")],
        [step("old"), step("b", "old", x="{{old.n}}")],
    ],
)
def test_a_sound_plan_has_no_flaws(steps):
    assert found(*steps, kept=["old"]) == []


@settings(deadline=None)
@given(acyclic())
def test_any_acyclic_plan_is_sound_in_any_order(given):
    assert found(*given) == []


def test_finished_steps_may_be_named_and_are_listed_with_the_others():
    assert "known are ['b', 'old']" in found(step("b", "ol"), kept=["old"])[0]
    assert "did you mean 'old'" in found(step("b", x="{{ol}}"), kept=["old"])[0]


def test_lists_in_findings_are_short():
    many = [step(f"s{n}") for n in range(50)]
    told = found(*many, step("b", "gone"), limit=99)
    assert "'s19'] and 31 more" in told[0]
    assert "'s20'" not in told[0]


def test_a_plan_of_nothing_but_errors_is_told_in_full_with_a_few_hints():
    names = [f"step-{n}" for n in range(1_000)]
    told = found(*(step(name, x=f"{{{{{name}x}}}}") for name in names), limit=5_000)
    assert len(told) == 1_000
    assert sum("did you mean" in sentence for sentence in told) == 4


def test_a_long_chain_is_no_circle_and_a_long_circle_is():
    chain = [step("s0"), *(step(f"s{n}", f"s{n - 1}") for n in range(1, 5_000))]
    assert found(*chain, limit=5_000) == []
    assert "circle" in found(*chain[1:], step("s0", "s4999"), limit=5_000)[0]
