import copy
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopwright.flow.references import (
    MissingValue,
    Reference,
    find_malformed,
    find_references,
    is_whole,
    rename_steps,
    resolve_references,
)

RESULTS: dict[str, Any] = {
    "a": {"x": 1, "note": None, "ok": False, "zero": 0, "empty": "", "none": [], "void": {}},
    "b": {"y": 2.5, "text": "words", "output": "own"},
    "list": [10, 20, [30, {"k": "deep"}]],
    "text": "plain",
    "null": None,
    "false": False,
    "nought": 0,
    "number": 42,
    "blank": "",
    "sly": {"words": "use {{a.x}}, \\{{a.x}} and {{", "{{a.x}}": "braces as key"},
    "table": {
        "rows": [{"id": 7, "name": "Ann"}, {"id": 8, "name": "Bo"}],
        "Exchange Rate": 1.1,
        "7": "seven",
        "a.b": "dotted",
        "c[0]": "bracketed",
        "it's": "apostrophe",
        'say "hi"': "quotes",
        "": "no name",
        " padded ": "spaces",
    },
    "s1": {"author": [{"id": "A-1"}], "result": {"total": 5}},
    "größe": {"länge": 3, "名前": "値", "😀": "smile"},
    "find-rate_2": {"value": 9},
    "two words": {"x": "spaced id"},
}
VARIABLES: dict[str, Any] = {
    "x": "var",
    "limit": 3,
    "region": {"name": "EU"},
    "raw": "{{a.x}}",
    "tags": ["n", None],
}

# As planned, and what the call gets.
RESOLVED = [
        ("{{a.x}}", 1),
        ("{{a.note}}", None),
        ("{{a.zero}}", 0),
        ("{{a.none}}", []),
        ("{{a}}", RESULTS["a"]),
        ("{{text}}", "plain"),
        ("{{false}}", False),
        ("{{number}}", 42),
        ("{{ a.x }}", 1),
        ("{{ a . x }}", 1),
        ("{{table.Exchange Rate}}", 1.1),
        ("{{find-rate_2.value}}", 9),
        ("{{list[-1]}}", [30, {"k": "deep"}]),
        ("{{list.1}}", 20),
        ('{{list["1"]}}', 20),
        ("{{list.2.1.k}}", "deep"),
        ("{{table.rows[-1].id}}", 8),
        ("{{table.7}}", "seven"),
        ('{{table["a.b"]}}', "dotted"),
        ('{{table["c[0]"]}}', "bracketed"),
        ("{{table['say \"hi\"']}}", "quotes"),
        ('{{table[ " padded " ]}}', "spaces"),
        ('{{sly["{{a.x}}"]}}', "braces as key"),
        ("{{größe.名前}}", "値"),
        ("Größe: {{größe}}", 'Größe: {"länge": 3, "名前": "値", "😀": "smile"}'),
        ("{{text.result}}", "plain"),
        ("{{text.content}}", "plain"),
        ("{{null.output}}", None),
        ("{{a.output}}", RESULTS["a"]),
        ("{{b.output}}", "own"),
        ("{{s1.result}}", {"total": 5}),
        ("{{global.x}}", "var"),
        ("{{global.region.name}}", "EU"),
        ('{{global["limit"]}}', 3),
        ("at most {{global.limit}} in {{global.region.name}}", "at most 3 in EU"),
        ("{{a.x}}{{a.x}}", "11"),
        (" {{a.x}}", " 1"),
        ("SELECT * FROM t WHERE id = {{table.rows[0].id}};", "SELECT * FROM t WHERE id = 7;"),
        ('{"all":{"rows":{{list}}}}', '{"all":{"rows":[10, 20, [30, {"k": "deep"}]]}}'),
        ("it is {{null}}", "it is null"),
        ("it is {{nought}}", "it is 0"),
        ("it is '{{blank}}'", "it is ''"),
        (r"\{{a.x}}", "{{a.x}}"),
        (r"{{a.x}}\{{a.x}}", "1{{a.x}}"),
        (r"\{{ never closed", "{{ never closed"),
        (r"\\{{a.x}}", r"\{{a.x}}"),
        ("{a.x} and }}", "{a.x} and }}"),
        ("{ {a.x} }", "{ {a.x} }"),
        ("{{sly.words}}", RESULTS["sly"]["words"]),
        ("{{global.raw}}", "{{a.x}}"),
        ("{{sly}}", RESULTS["sly"]),
        ({"p": {"q": [{"r": "{{list[0]}}"}]}}, {"p": {"q": [{"r": 10}]}}),
        ({"{{a.x}}": "key"}, {"{{a.x}}": "key"}),
        ({"rows": "{{table.rows}}", "n": 2}, {"rows": RESULTS["table"]["rows"], "n": 2}),
        ({}, {}),
        (None, None),
    ]  # fmt: skip


@pytest.mark.req("S2-20", "S2-21", "S2-23", "S2-26", "S2-45", "P-30")
@pytest.mark.parametrize(("planned", "given_to_the_call"), RESOLVED, ids=lambda v: str(v)[:40])
def test_a_reference_becomes_what_the_step_gave(planned, given_to_the_call):
    before = copy.deepcopy(planned)
    resolved = resolve_references(planned, RESULTS, VARIABLES)
    # As JSON, so that 0, 0.0 and false are three values.
    assert json.dumps(resolved) == json.dumps(given_to_the_call)
    assert planned == before


# A reference to what is not there, and words of the sentence that says so.
MISSING = [
    ("{{nobody.x}}", ["{{nobody.x}}", "no result of a step 'nobody'", "'a', 'b', 'list'"]),
    ("so {{nobody}} said", ["{{nobody}}", "no result of a step 'nobody'"]),
    ("{{a.y}}", ["{{a.y}}", "no 'y' in the result of step 'a'", "the keys 'x', 'note'"]),
    ("{{a.text}}", ["no 'text' in the result of step 'a'"]),
    ("{{a.void.x}}", ["no 'x'", '["void"]', "an empty object"]),
    ("{{a.note.x}}", ["no 'x'", "the value null"]),
    ("{{null.x}}", ["no 'x' in the result of step 'null'", "the value null"]),
    ("{{list[-4]}}", ["no [-4]", "a list of 3 items"]),
    ("{{list.x}}", ["no 'x'", "a list of 3 items"]),
    ("{{list.²}}", ["no '²'"]),
    ("{{text.x}}", ["no 'x'", "text of 5 characters"]),
    ("{{text.output.x}}", ["no 'x'", "text of 5 characters"]),
    ("{{table[1]}}", ["no [1]", "an object with the keys 'rows'"]),
    ("{{global.output}}", ["no 'output' in the plan's variables"]),
    ({"deep": ["{{a.x}}", {"here": "{{a.gone}}"}]}, ["{{a.gone}}", "no 'gone'"]),
    ("{{a.x}} {{", ["never closed"]),
]


@pytest.mark.req("S2-22", "P-30")
@pytest.mark.parametrize(("planned", "words"), MISSING, ids=lambda v: str(v)[:40])
def test_a_missing_value_is_an_error_that_says_what_is_there_instead(planned, words):
    with pytest.raises(MissingValue) as missing:
        resolve_references(planned, RESULTS, VARIABLES)
    assert [word for word in words if word not in str(missing.value)] == []
    assert "\n" not in str(missing.value)


MALFORMED = [
        ("{{}}", "does not begin with the id of a step"),
        ("{{   }}", "does not begin with the id of a step"),
        ("{{", "never closed"),
        ("text {{a.x", "never closed"),
        ("{{a {{b}}", "another '{{' comes before"),
        ("{{a.{{b}}}}", "a name is missing after a '.'"),
        ("{{a.x {{b.y}} }}", "another '{{' comes before"),
        ("{{a.}}", "a name is missing after a '.'"),
        ("{{a[]}}", "a whole number or a key in quotes"),
        ("{{a[x]}}", "a whole number or a key in quotes"),
        ("{{a[0]x}}", "'x' cannot stand there"),
        ("{{a]}}", "']' cannot stand there"),
        ("{{a.x]}}", "']' cannot stand there"),
        ("{{a{x}}", "'{' cannot stand there"),
        ("{{a}x}}", "'}' cannot stand there"),
    ]  # fmt: skip


@pytest.mark.req("P-30")
@pytest.mark.parametrize(("text", "why"), MALFORMED, ids=[text for text, _ in MALFORMED])
def test_what_looks_like_a_reference_and_is_none_is_named(text, why):
    [told] = find_malformed({"p": ["fine", text]})
    assert why in told
    assert "\\{{" in told
    assert rename_steps(text, {"b": "z"}) == text
    assert not is_whole(text)
    with pytest.raises(MissingValue):
        resolve_references(text, RESULTS, VARIABLES)


@pytest.mark.req("P-30")
def test_references_are_found_in_order_with_their_paths():
    value = {
        "sql": "id = {{ s1.rows[0].id }} and n < {{global.limit}}",
        "{{key}}": ['{{s2["a.b"].0}}', {"in": "{{s1}}"}, 3, None],
        "last": r"\{{s9}} {{s1}}",
    }
    assert find_references(value) == [
        Reference("s1", ("rows", 0, "id"), "s1.rows[0].id"),
        Reference("global", ("limit",), "global.limit"),
        Reference("s2", ("a.b", "0"), 's2["a.b"].0'),
        Reference("s1", (), "s1"),
        Reference("s1", (), "s1"),
    ]


@pytest.mark.req("S2-26")
def test_a_call_that_changes_its_arguments_leaves_the_results_alone():
    results = {"s1": {"rows": [{"id": 1}]}}
    variables = {"tags": ["n"]}
    call = resolve_references({"rows": "{{s1.rows}}", "vars": "{{global}}"}, results, variables)
    call["rows"][0]["id"] = 2
    call["vars"]["tags"].append("m")
    assert results == {"s1": {"rows": [{"id": 1}]}}
    assert variables == {"tags": ["n"]}


@pytest.mark.parametrize(
    ("unit", "times", "end", "findings"),
    [
        ("{", 250_000, "", 1),
        ('{{a["', 50_000, "}}", 1),
        ('{{a["}}{{a["][', 17_000, "", 3),
        ("\\{{", 75_000, "", 0),
    ],
)
def test_a_quarter_megabyte_of_braces_is_read_in_one_pass(unit, times, end, findings):
    text = unit * times + end
    told = find_malformed(text)
    assert len(told) == findings
    assert all(len(sentence) < 400 for sentence in told)
    assert rename_steps(text, {"b": "c"}) == text


names = st.text(min_size=1, max_size=8).filter(lambda t: not set(".[]{}") & set(t) and t.strip())
ids = names.map(str.strip).filter(lambda t: t != "global")
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
# Text that begins or ends nothing: no braces, and no backslash that would reach a reference.
plain = st.text().filter(lambda t: "{" not in t and "}" not in t and "\\" not in t)
keys = st.text(max_size=8).filter(lambda t: '"' not in t)
parts = (
    names.map(lambda n: (f".{n}", n.strip()))
    | st.integers(-(10**8), 10**8).map(lambda n: (f"[{n}]", n))
    | keys.map(lambda k: (f'["{k}"]', k))
)


@st.composite
def references(draw):
    """A reference as written, and what it is."""
    root, path = draw(ids), draw(st.lists(parts, max_size=4))
    text = root + "".join(written for written, _ in path)
    space = draw(st.sampled_from(["", " ", "\n "]))
    return f"{{{{{space}{text}{space}}}}}", Reference(
        root, tuple(part for _, part in path), text.strip()
    )


@pytest.mark.req("S2-26")
@given(ids, values)
def test_a_whole_reference_gives_an_equal_value(step, value):
    resolved = resolve_references(f"{{{{{step}}}}}", {step: value}, {})
    assert json.dumps(resolved) == json.dumps(value)
    assert is_whole(f"{{{{{step}}}}}")


@pytest.mark.req("P-30")
@given(plain, st.text(alphabet="{}\\s1.x ", max_size=20), plain)
def test_inserted_text_is_never_read_again(before, inserted, after):
    results = {"s1": {"x": inserted}}
    text = f"{before}{{{{s1.x}}}}|{{{{global.v}}}}{after}"
    assert (
        resolve_references(text, results, {"v": inserted})
        == f"{before}{inserted}|{inserted}{after}"
    )
    assert resolve_references("{{s1.x}}", results, {}) == inserted


@pytest.mark.req("P-30")
@given(st.lists(st.tuples(plain, references(), plain), max_size=4))
def test_exactly_the_references_that_were_written_are_found(written):
    text = "".join(before + reference + after for before, (reference, _), after in written)
    assert find_references({"p": [text]}) == [meant for _, (_, meant), _ in written]
    assert find_malformed(text) == []


@given(st.lists(st.text(alphabet="{}[].\\\"' ab0", max_size=30) | references().map(lambda r: r[0])))
def test_renaming_there_and_back_changes_nothing(value):
    there = rename_steps(value, {"a": "b", "b": "ab", "ab": "a"})
    assert rename_steps(there, {"b": "a", "ab": "b", "a": "ab"}) == value
    assert [r.path for r in find_references(there)] == [r.path for r in find_references(value)]
    assert len(find_malformed(there)) == len(find_malformed(value))


@given(st.text(alphabet="{}[].\\\"' ab0", max_size=40))
def test_any_text_either_resolves_or_says_why_not(text):
    results = {"a": {"a": ["x"]}, "b": "y", "ab": None, "0": 0}
    try:
        resolve_references(text, results, {})
    except MissingValue:
        assert find_malformed(text) or find_references(text)
    else:
        assert find_malformed(text) == []
        assert {r.root for r in find_references(text)} <= set(results)
