"""What a plan expects of a result: conditions and schemas, sound ones and others."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopwright.flow.expectations import find_check_flaw, find_unmet

RESULT = {
    "count": 3,
    "rows": [{"name": "Ann", "total": 12.5}, {"name": "Bob", "total": 0}],
    "Exchange Rate": "1.08",
    "empty": [],
    "blank": "  ",
    "none": None,
    "open": True,
    "note": "salt and pepper",
    "day": "2024-03-01",
    "a.b": 1,
    "value": {"deep": [1, 2]},
    "Price (EUR)": 4,
    "code": 17,
}


@pytest.mark.parametrize(
    "condition",
    [
        "count == 3", "count == 3.0", "count > 2", "count < 4",
        "count > 0 and rows is not empty", "rows[0].total == 12.5", 'rows[0].name == "Ann"',
        "Exchange Rate > 1", "length(rows) == 2", "len(note) < 100", "empty is empty",
        "none is empty", "none == None", "open == True", "missing is missing",
        "rows is  not  empty", "note contains 'salt and'",
        "rows contains {\"name\": \"Bob\", \"total\": 0}", "day > 2023-12-31", '["a.b"] == 1',
        "result.count == 3", "value.deep[1] == 2", "Price (EUR) == 4", "value.deep == [1, 2]",
    ],
)  # fmt: skip
def test_conditions_that_hold(condition):
    """All but the one that says itself what is wrong with it."""
    told = find_unmet(RESULT, condition)
    if condition.startswith("code"):
        assert "code is 17" in told
        assert "no x" in told
    else:
        assert (find_check_flaw(condition), told) == ("", "")


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("count == 4", "count is 3"),
        ("count == true", "count is 3"),
        ("open > 0", "open is true"),
        ("count > many", "count is 3"),
        ("rows is empty", "rows is [{"),
        ("blank is not empty", "blank is"),
        ("missing == 3", "there is no missing"),
        ("missing exists", "there is no missing"),
        ("count.deep == 1", "there is no count.deep"),
        ("length(rows) > 2", "the length of rows is 2"),
        ("note contains sugar", "note is"),
        ("rows != 2", "rows is [{"),
        ("empty contains 3", "empty is []"),
    ],
)
def test_conditions_that_do_not_hold_say_what_is_there(condition, words):
    assert find_check_flaw(condition) == ""
    assert words in find_unmet(RESULT, condition)


@pytest.mark.parametrize(
    ("expect", "words"),
    [
        ("count", "is no comparison"),
        ("count ==", "no value after '=='"),
        ("== 5", "names no part"),
        ("count => 5", "cannot be read"),
        ("a == 1 or b == 2", "cannot have 'or'"),
        ("rows[0 > 1", "lacks a closing ]"),
        ("rows[x] > 1", "is no path"),
        ("a == 'b", "lacks a closing '"),
        ('a == "b', 'lacks a closing "'),
        ("len(rows > 1", "lacks a closing )"),
        ("count > [1]", "order numbers and texts only"),
        ("{{s1.count}} > 1", "without braces"),
        ("a == 1" + " and a == 1" * 300, "at most 2000"),
        ('{"type": "object"', "is no JSON"),
        ({"type": "objekt"}, "type: 'objekt' is not valid"),
        ({"type": []}, "type: [] is not valid"),
        ({"rows": {"type": "array"}}, "no keyword 'rows'; fields stand in 'properties'"),
        ('{"rows": {}}', "no keyword 'rows'"),
        ({"properties": {"rows": {"count": 1}}}, "no keyword 'properties.rows.count'"),
        ({"properties": ["rows"]}, "properties: ['rows'] is not of type 'object'"),
        ({"required": "rows"}, "required: 'rows' is not of type 'array'"),
        ({"minItems": -1}, "minItems: -1 is less than the minimum of 0"),
        ({"minimum": "1"}, "minimum: '1' is not of type 'number'"),
        ({"multipleOf": 0}, "multipleOf: 0 is less than or equal to the minimum"),
        ({"items": [{"type": "string"}]}, "is not of type 'object', 'boolean'"),
        ({"anyOf": []}, "anyOf: [] should be non-empty"),
        ({"enum": "x"}, "enum: 'x' is not of type 'array'"),
        ({"pattern": "^(a+)+$"}, "use a condition with 'contains'"),
        ({"properties": {"a": {"patternProperties": {}}}}, "may not use 'properties.a.pattern"),
        ({"not": {"anyOf": [{"pattern": "a"}]}}, "may not use 'not.anyOf.pattern'"),
        ({"$ref": "https://example.org/schema"}, "write out the schema"),
        ({"$defs": {}, "items": {"$ref": "#/$defs/a"}}, "$defs"),
        ({"const": "{{s1.total}}"}, "holds {{s1.total}}, which is not expanded"),
    ],
)
def test_what_is_no_check_is_named(expect, words):
    told = find_check_flaw(expect)
    assert words in told
    assert "\n" not in told
    assert find_unmet(RESULT, expect), "a check that cannot be made is never met"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "required": ["count"]},
        {"properties": {"pattern": {"type": "string"}, "$ref": True, "$defs": False}},
        {"properties": {"rows": {"uniqueItems": True, "contains": {"required": ["name"]}}}},
        {"not": {"required": ["error"]}},
        '{"type": "object"}',
        None,
        "  ",
    ],
)
def test_results_that_fit(schema):
    assert (find_check_flaw(schema), find_unmet(RESULT, schema)) == ("", "")


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "array"}, "is not of type 'array'"),
        ({"required": ["error"]}, "'error' is a required property"),
        ({"properties": {"rows": {"maxItems": 1}}}, "rows: "),
        ({"properties": {"rows": {"items": {"properties": {"total": {"minimum": 1}}}}}}, "1.total"),
        ({"additionalProperties": False}, "Additional properties"),
        ({"properties": {"value": {"properties": {"deep": {"prefixItems": [False]}}}}}, "deep"),
    ],
)
def test_results_that_do_not_fit_say_where(schema, words):
    assert words in find_unmet(RESULT, schema)


def test_equal_items_are_found_among_very_many():
    rows = [{"n": n} for n in range(5_000)]
    assert find_unmet(rows, {"uniqueItems": True}) == ""
    assert "equal items" in find_unmet([*rows, {"n": 7}], {"uniqueItems": True})


def test_a_hostile_check_ends():
    deep: Any = {}
    for _ in range(5_000):
        deep = {"not": deep}
    assert "nested too deeply" in find_check_flaw(deep)
    assert find_unmet(1, deep)
    assert find_check_flaw("[" * 1_000 + " > 1")
    assert find_unmet("a" * 40 + "!", {"pattern": "^(a+)+$"})
    assert find_unmet(10**400, {"multipleOf": 0.1})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYWORDS = st.sampled_from(
    ["type", "properties", "items", "enum", "const", "required", "minimum", "multipleOf", "anyOf",
     "not", "if", "then", "contains", "uniqueItems", "maxItems", "$ref", "pattern", "format"]
)  # fmt: skip
SCHEMAS = st.recursive(
    st.dictionaries(KEYWORDS, JSON | st.sampled_from(["object", "array", "string"]), max_size=3),
    lambda inner: (
        st.dictionaries(KEYWORDS, inner | st.lists(inner, max_size=2), max_size=3)
        | st.fixed_dictionaries({"properties": st.dictionaries(st.text(max_size=3), inner)})
    ),
    max_leaves=5,
)
WORDS = st.lists(
    st.sampled_from(
        ["count", "rows[0]", "result", ".a", "==", ">", "contains", "is empty", "exists", "and",
         "or", "3", "'x'", '"', "'", "[", "]", "(", ")", "len(rows)", "{{", "}}", "\\", " "]
    ),
    max_size=8,
).map(" ".join)  # fmt: skip


@given(JSON, SCHEMAS | WORDS | st.text(max_size=20))
def test_no_check_ever_raises(value, expect):
    told = find_unmet(value, expect)
    assert isinstance(told, str)
    if find_check_flaw(expect):
        assert told
