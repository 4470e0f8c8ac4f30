import pytest
from hypothesis import given

from support.flow_steps import acyclic, call, flaws, plan


def found(*steps, kept=(), limit=40, **variables):
    return flaws(plan(*steps, **variables), kept=kept, limit=limit)


A = call("a", q=1)


@pytest.mark.req("S2-06")
@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([], ["no steps", "at least one", "llm_call"]),
        ([A, A], ["'a'", "used 2 times"]),
        ([A, call(" a ")], ["'a'", "used 2 times"]),
        ([call("")], ["step number 1", "no id"]),
        ([A, call("  ")], ["step number 2", "no id"]),
        ([call("a b")], ["'a b'", "white space"]),
        ([call("a\nb")], ["'a\\nb'", "white space"]),
        ([call("a.b")], ["'a.b'", "'.'"]),
        ([call("a[0")], ["'a[0'", "'['"]),
        ([call("a]")], ["'a]'", "']'"]),
        ([call("{a")], ["'{a'", "'{'"]),
        ([call("a}")], ["'a}'", "'}'"]),
        ([call("global")], ["'global'", "variables"]),
        ([call("x" * 61)], ["61 characters", "at most 60"]),
        ([call("a", tool="  ")], ["step 'a'", "no tool"]),
        ([A, call("b", "c")], ["step 'b'", "unknown ids ['c']", "known are ['a', 'b']"]),
        ([A, call("b", "x", "y")], ["step 'b'", "unknown ids ['x', 'y']"]),
        ([call("a", "a")], ["step 'a'", "depends on itself"]),
        ([call("a", x="{{a.rows}}")], ["step 'a'", "{{a.rows}}", "its own result"]),
        ([call("a", x="{{other.x}}")], ["step 'a'", "{{other.x}}", "no step 'other'", "['a']"]),
        (
            [call("fetch_rows"), call("b", x=[{"deep": "see {{ fetch_row.x }}"}])],
            ["step 'b'", "{{fetch_row.x}}", "no step 'fetch_row'", "did you mean 'fetch_rows'"],
        ),
        ([A, call("b", x="{{a.n")], ["step 'b'", "never closed"]),
        ([A, call("b", x="{{}}")], ["step 'b'", "{{}}"]),
        ([A, call("b", x="{{a..n}} {{a.n}}")], ["step 'b'", "{{a..n}}"]),
        ([A, call("b", x="{{a[n]}}")], ["step 'b'", "{{a[n]}}"]),
        ([A, call("b", x=r"\{{a.n}} {{{{a.n}}")], ["step 'b'", "no reference"]),
        ([call("a", x="{{global.y}}")], ["step 'a'", "{{global.y}}", "no 'y'", "variables"]),
        ([call("a", "b"), call("b", "a")], ["circle", "a → b → a"]),
        (
            [call("a", "c"), call("b", "a"), call("c", "b"), call("d", "a")],
            ["circle", "a → c → b → a"],
        ),
        (
            [call("a", x="{{b.n}}"), call("b", "a")],
            ["circle", "a → b → a"],
        ),
        (
            [call("a", x="{{b.n}}"), call("b", x="{{a.m}}")],
            ["circle", "a → b → a"],
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
        [call("b", "a"), A],
        [call("b", x="{{a.rows[0].Exchange Rate}}"), A],
        [A, call("b", x="{{a}}{{a}}"), call("c", "b", x=[{"y": "{{b.x}} {{a.x}}"}])],
        [call("a", q=1), call("b", q=1), call("c", q=1)],
        [call("a", x="plain }} text { {a} \\{{a.n}}")],
        [call("x" * 60)],
        [call("größe-7_ß")],
        [call("ключ"), call("b", x="{{ключ.имя}}")],
        [call("a", **{"{{not.read": "keys are no place for references"})],
        [A, call("b", "a", "", " ")],
        [call("s1-2", "old"), call("b", x="{{old.n}} {{s1-2.n}}")],
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


def test_lists_in_findings_are_short():
    many = [call(f"s{n}") for n in range(50)]
    told = found(*many, call("b", "gone"), limit=99)
    assert "'s19' and 31 more]" in told[0]
    assert "'s20'" not in told[0]


def test_a_plan_of_nothing_but_errors_is_told_in_full_with_a_few_hints():
    names = [f"step-{n}" for n in range(1_000)]
    told = found(*(call(name, x=f"{{{{{name}x}}}}") for name in names), limit=5_000)
    assert len(told) == 1_000
    assert sum("did you mean" in sentence for sentence in told) == 4


def test_a_long_chain_is_no_circle_and_a_long_circle_is():
    chain = [call("s0"), *(call(f"s{n}", f"s{n - 1}") for n in range(1, 5_000))]
    assert found(*chain, limit=5_000) == []
    assert "circle" in found(*chain[1:], call("s0", "s4999"), limit=5_000)[0]
