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
from loopwright.text.canonical import DEEPEST

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
    # Whole references keep the type.
    ("{{a.x}}", 1),
    ("{{b.y}}", 2.5),
    ("{{a.note}}", None),
    ("{{a.ok}}", False),
    ("{{a.zero}}", 0),
    ("{{a.empty}}", ""),
    ("{{a.none}}", []),
    ("{{a.void}}", {}),
    ("{{a}}", RESULTS["a"]),
    ("{{list}}", RESULTS["list"]),
    ("{{text}}", "plain"),
    ("{{null}}", None),
    ("{{false}}", False),
    ("{{nought}}", 0),
    ("{{number}}", 42),
    ("{{blank}}", ""),
    # White space around names is nothing, inside it counts.
    ("{{ a.x }}", 1),
    ("{{\ta.x\n}}", 1),
    ("{{ a . x }}", 1),
    ("{{table.rows [ 0 ] .id }}", 7),
    ("{{table.Exchange Rate}}", 1.1),
    ("{{two words.x}}", "spaced id"),
    ("{{find-rate_2.value}}", 9),
    # Deep paths, indexes, keys in quotes.
    ("{{list[0]}}", 10),
    ("{{list[-1]}}", [30, {"k": "deep"}]),
    ("{{list[-3]}}", 10),
    ("{{list.1}}", 20),
    ("{{list.-2}}", 20),
    ('{{list["1"]}}', 20),
    ("{{list[2][1].k}}", "deep"),
    ("{{list.2.1.k}}", "deep"),
    ("{{table.rows[1].name}}", "Bo"),
    ("{{table.rows[-1].id}}", 8),
    ("{{s1.author[0].id}}", "A-1"),
    ("{{table.7}}", "seven"),
    ("{{table[7]}}", "seven"),
    ('{{table["a.b"]}}', "dotted"),
    ("{{table['a.b']}}", "dotted"),
    ('{{table["c[0]"]}}', "bracketed"),
    ('{{table["it\'s"]}}', "apostrophe"),
    ("{{table['say \"hi\"']}}", "quotes"),
    ('{{table[""]}}', "no name"),
    ('{{table[ " padded " ]}}', "spaces"),
    ('{{table["rows"][0]["name"]}}', "Ann"),
    ('{{sly["{{a.x}}"]}}', "braces as key"),
    # Any language.
    ("{{größe.länge}}", 3),
    ("{{größe.名前}}", "値"),
    ("{{größe.😀}}", "smile"),
    ("Größe: {{größe}}", 'Größe: {"länge": 3, "名前": "値", "😀": "smile"}'),
    # Names that mean the whole result.
    ("{{text.output}}", "plain"),
    ("{{text.result}}", "plain"),
    ("{{text.text}}", "plain"),
    ("{{text.content}}", "plain"),
    ("{{list.result}}", RESULTS["list"]),
    ("{{null.output}}", None),
    ("{{number.result}}", 42),
    ("{{a.output}}", RESULTS["a"]),
    ("{{a.result}}", RESULTS["a"]),
    ("{{b.output}}", "own"),
    ("{{b.text}}", "words"),
    ("{{s1.result}}", {"total": 5}),
    ("{{s1.result.total}}", 5),
    # Variables of the plan.
    ("{{global.x}}", "var"),
    ("{{global.limit}}", 3),
    ("{{global.region.name}}", "EU"),
    ("{{global.tags[-1]}}", None),
    ('{{global["limit"]}}', 3),
    ("{{global}}", VARIABLES),
    ("at most {{global.limit}} in {{global.region.name}}", "at most 3 in EU"),
    # Several in one text, and inside longer ones.
    ("{{a.x}}+{{b.y}}", "1+2.5"),
    ("{{a.x}}{{a.x}}", "11"),
    ("{{text}}{{blank}}", "plain"),
    (" {{a.x}}", " 1"),
    ("{{a.x}}\n", "1\n"),
    ("SELECT * FROM t WHERE id = {{table.rows[0].id}};", "SELECT * FROM t WHERE id = 7;"),
    ('{"id": {{table.rows[0].id}}}', '{"id": 7}'),
    ('{"all":{"rows":{{list}}}}', '{"all":{"rows":[10, 20, [30, {"k": "deep"}]]}}'),
    ("say: {{text}}!", "say: plain!"),
    ("it is {{null}}", "it is null"),
    ("it is {{false}}", "it is false"),
    ("it is {{nought}}", "it is 0"),
    ("it is {{a.none}} {{a.void}}", "it is [] {}"),
    ("it is '{{blank}}'", "it is ''"),
    ("tags: {{global.tags}}", 'tags: ["n", null]'),
    # Braces that are text.
    (r"\{{a.x}}", "{{a.x}}"),
    (r"\{{a.x}} is {{a.x}}", "{{a.x}} is 1"),
    (r"{{a.x}}\{{a.x}}", "1{{a.x}}"),
    (r"\{{{{a.x}}", "{{1"),
    (r"\{{ never closed", "{{ never closed"),
    (r"C:\{dir}\n \} \\", r"C:\{dir}\n \} \\"),
    (r"\\{{a.x}}", r"\{{a.x}}"),
    ("}} { } }", "}} { } }"),
    ("{a.x} and }}", "{a.x} and }}"),
    ("{{a.x}}}}", "1}}"),
    ("{ {a.x} }", "{ {a.x} }"),
    ("$var1.field$ ${a.x} $a.x", "$var1.field$ ${a.x} $a.x"),
    # What was inserted is not read again.
    ("{{sly.words}}", RESULTS["sly"]["words"]),
    ("{{sly.words}} then {{a.x}}", RESULTS["sly"]["words"] + " then 1"),
    ("{{global.raw}}", "{{a.x}}"),
    ("[{{global.raw}}]", "[{{a.x}}]"),
    ("{{sly}}", RESULTS["sly"]),
    # In objects and lists, at any depth; keys and all other types stay.
    ({"p": "{{a.x}}", "q": "x={{a.x}}"}, {"p": 1, "q": "x=1"}),
    ({"p": {"q": [{"r": "{{list[0]}}"}]}}, {"p": {"q": [{"r": 10}]}}),
    (["{{a.x}}", ["{{b.y}}", "plain"]], [1, [2.5, "plain"]]),
    ({"{{a.x}}": "key"}, {"{{a.x}}": "key"}),
    ([1, 0.5, True, None, {}, []], [1, 0.5, True, None, {}, []]),
    ({"rows": "{{table.rows}}", "n": 2}, {"rows": RESULTS["table"]["rows"], "n": 2}),
    ("", ""),
    ({}, {}),
    (7, 7),
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
    ("{{nobody}}", ["no result of a step 'nobody'"]),
    ("so {{nobody}} said", ["{{nobody}}", "no result of a step 'nobody'"]),
    ("{{A.x}}", ["no result of a step 'A'"]),
    ("{{a.y}}", ["{{a.y}}", "no 'y' in the result of step 'a'", "the keys 'x', 'note'"]),
    ("{{a.X}}", ["no 'X'"]),
    ("{{a.text}}", ["no 'text' in the result of step 'a'"]),
    ("{{a.output.z}}", ["no 'z'"]),
    ("{{a.void.x}}", ["no 'x'", '["void"]', "an empty object"]),
    ("{{a.none[0]}}", ["no [0]", "an empty list"]),
    ("{{a.note.x}}", ["no 'x'", "the value null"]),
    ("{{a.ok.x}}", ["the value false"]),
    ("{{null.x}}", ["no 'x' in the result of step 'null'", "the value null"]),
    ("{{list[3]}}", ["no [3]", "a list of 3 items"]),
    ("{{list[-4]}}", ["no [-4]", "a list of 3 items"]),
    ("{{list.3}}", ["no '3'", "a list of 3 items"]),
    ("{{list.x}}", ["no 'x'", "a list of 3 items"]),
    ("{{list.99999999999}}", ["no '99999999999'", "a list of 3 items"]),
    ("{{list.²}}", ["no '²'"]),
    ("{{list[2][1].z}}", ["no 'z' in [2][1] in the result of step 'list'", "the keys 'k'"]),
    ("{{text.x}}", ["no 'x'", "text of 5 characters"]),
    ("{{text[0]}}", ["no [0]", "text of 5 characters"]),
    ("{{text.output.x}}", ["no 'x'", "text of 5 characters"]),
    ("{{number[0]}}", ["no [0]", "the value 42"]),
    ("{{table[1]}}", ["no [1]", "an object with the keys 'rows'"]),
    ("{{global.y}}", ["no 'y' in the plan's variables", "'x', 'limit'"]),
    ("{{global.output}}", ["no 'output' in the plan's variables"]),
    ("{{global.region.code}}", ["no 'code' in", "the keys 'name'"]),
    ({"deep": ["{{a.x}}", {"here": "{{a.gone}}"}]}, ["{{a.gone}}", "no 'gone'"]),
    # A check of the plan finds these before anything runs; a call never gets them all the same.
    ("{{a.}}", ["'{{a.}}' is no reference"]),
    ("{{a.x}} {{", ["never closed"]),
]


@pytest.mark.req("S2-22", "P-30")
@pytest.mark.parametrize(("planned", "words"), MISSING, ids=lambda v: str(v)[:40])
def test_a_missing_value_is_an_error_that_says_what_is_there_instead(planned, words):
    with pytest.raises(MissingValue) as missing:
        resolve_references(planned, RESULTS, VARIABLES)
    assert [word for word in words if word not in str(missing.value)] == []
    assert "\n" not in str(missing.value)


@pytest.mark.req("S2-22")
def test_without_any_result_or_variable_the_error_says_so():
    with pytest.raises(MissingValue, match="no result of a step 's1'; no step has one yet"):
        resolve_references("{{s1.x}}", {}, {})
    with pytest.raises(MissingValue, match="the plan's variables, which is an empty object"):
        resolve_references("{{global.x}}", {"global": {"x": 1}}, {})


MALFORMED = [
    ("{{}}", "does not begin with the id of a step"),
    ("{{   }}", "does not begin with the id of a step"),
    ("{{.x}}", "does not begin with the id of a step"),
    ("{{[0]}}", "does not begin with the id of a step"),
    ("{{{a}}}", "does not begin with the id of a step"),
    ("{{]}}", "does not begin with the id of a step"),
    ("{{", "never closed"),
    ("text {{a.x", "never closed"),
    ("{{a.x}", "never closed"),
    ("{{a.x} }", "never closed"),
    ("{{a.x}} and {{b", "never closed"),
    ("{{{{{{", "never closed"),
    ('{{a["x', "never closed"),
    ("{{a {{b}}", "another '{{' comes before"),
    ("{{a.{{b}}}}", "a name is missing after a '.'"),
    ("{{a.x {{b.y}} }}", "another '{{' comes before"),
    ("{{a.}}", "a name is missing after a '.'"),
    ("{{a. }}", "a name is missing after a '.'"),
    ("{{a..x}}", "a name is missing after a '.'"),
    ("{{a.[0]}}", "a name is missing after a '.'"),
    ("{{a[]}}", "a whole number or a key in quotes"),
    ("{{a[x]}}", "a whole number or a key in quotes"),
    ("{{a[*].id}}", "a whole number or a key in quotes"),
    ("{{a[1.5]}}", "a whole number or a key in quotes"),
    ("{{a[+1]}}", "a whole number or a key in quotes"),
    ("{{a[٣]}}", "a whole number or a key in quotes"),
    ("{{a[9999999999]}}", "a whole number or a key in quotes"),
    ("{{a[0}}", "a whole number or a key in quotes"),
    ("{{a[\"x]}}", "a whole number or a key in quotes"),
    ("{{a[\"x']}}", "a whole number or a key in quotes"),
    ("{{a[1:2]}}", "a whole number or a key in quotes"),
    ("{{a[[0]]}}", "a whole number or a key in quotes"),
    ("{{a[0]x}}", "'x' cannot stand there"),
    ("{{a]}}", "']' cannot stand there"),
    ("{{a.x]}}", "']' cannot stand there"),
    ("{{a.{x}}}", "a name is missing after a '.'"),
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


def test_every_malformed_one_is_named_once_and_the_others_are_still_found():
    value = ["{{a.}} {{b.y}}", {"p": "{{}} {{a.x}} {{a.}}", "{{": "a key"}]
    first, second = find_malformed(value)
    assert "'{{a.}}'" in first
    assert "'{{}}'" in second
    assert [r.text for r in find_references(value)] == ["b.y", "a.x"]


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


def nested(depth, inner):
    for _ in range(depth):
        inner = {"k": [inner]}
    return inner


def test_values_deeper_than_any_that_is_kept_are_no_problem():
    deep = nested(DEEPEST, 1)
    arguments = nested(DEEPEST, "{{s1}}")
    assert resolve_references(arguments, {"s1": deep}, {}) == nested(2 * DEEPEST, 1)
    assert resolve_references("= {{s1}}", {"s1": deep}, {}) == "= " + json.dumps(deep)
    assert find_references(nested(5_000, "{{s1}}")) == [Reference("s1", (), "s1")]


@pytest.mark.parametrize(
    ("unit", "times", "end", "findings"),
    [
        ("{", 250_000, "", 1),
        ("{", 250_000, "}}", 1),
        ("{{a ", 62_000, "}}", 1),
        ('{{a["', 50_000, "}}", 1),
        ('{{a["}}', 37_000, "", 1),
        ("{{a['}}{{a[\"}}", 17_000, "", 2),
        ('{{a["}}{{a["][', 17_000, "", 3),
        ('{{a["k"    ', 22_000, "}}", 1),
        ("{{a[0", 50_000, "}}", 1),
        ("\\{{", 75_000, "", 0),
        ("}}", 125_000, "", 0),
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


@given(values)
def test_what_holds_no_reference_stays_as_it_is(value):
    if "{{" not in json.dumps(value):
        assert resolve_references(value, {}, {}) == value
        assert find_references(value) == find_malformed(value) == []


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
