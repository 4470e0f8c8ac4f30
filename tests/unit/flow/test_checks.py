"""Plans against a catalog: what is sound, and every way not to be."""

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopwright.flow.checks import find_plan_flaws
from loopwright.flow.execution_plan import ExecutionPlan
from loopwright.tools.catalog import build_catalog
from loopwright.tools.mcp.config import ServerConfig
from loopwright.tools.mcp.server import Listing
from loopwright.tools.python_tools import read_tools

ROW = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "Total Sales": {"type": "number"}},
}
TABLE = {
    "type": "object",
    "properties": {
        "rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}},
        "row_count": {"type": "integer"},
        "meta": {"type": "object", "properties": {"took": {}}, "additionalProperties": True},
        "linked": {"$ref": 5},
        "open": True,
        "either": {"anyOf": [{"type": "object", "properties": {"a": {}}}, {"type": "null"}]},
    },
    "required": ["rows"],
    "$defs": {"Row": ROW},
}


def tool(name: str, *required: str, output: Any = None, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {
        "name": name,
        "inputSchema": schema | {"additionalProperties": False},
        "outputSchema": output,
    }


TEXT, NUMBER = {"type": "string"}, {"type": "integer", "minimum": 0}
TOOLS = (
    tool("query_sales", "sql", sql=TEXT, limit=NUMBER, output=TABLE),
    tool("search", "query", query=TEXT),
    tool("write_file", "path", "text", path=TEXT, text=TEXT),
    tool("draw", "kind", "points", kind={"type": "string", "enum": ["bar", "line"]},
         points={"type": "array", "items": {"type": "number"}}),
    tool("llm_call", "prompt", prompt=TEXT),
    tool("convert", "amount", amount={"type": "number"}, output={
        "type": "object", "properties": {"result": {"type": "number"}}}),
)  # fmt: skip
CATALOG = build_catalog([], [Listing(ServerConfig(name="sales"), TOOLS, "")])


def step(name: str, tool: str = "search", /, **more: Any) -> dict[str, Any]:
    arguments = {"query": "x"} if tool == "search" else {}
    return {"id": name, "tool": tool, "arguments": arguments, **more}


def asks(name: str, query: str, **more: Any) -> dict[str, Any]:
    return step(name, arguments={"query": query}, **more)


def finished(name: str, **more: Any) -> Any:
    return {"id": name, "status": "completed", "shape": "value", "value": None, **more}


def told(*steps: dict[str, Any], kept: Any = (), limit: int = 30, **plan: Any) -> list[str]:
    read = ExecutionPlan.model_validate({"goal": "g", "steps": list(steps), **plan})
    return find_plan_flaws(read, CATALOG, kept=kept, limit=limit)


SALES = step("s1", "query_sales", arguments={"sql": "select 1"})

BAD: list[Any] = [
    # Shape of the plan.
    ([], "no steps"),
    ([step(f"s{i}") for i in range(31)], "at most 30"),
    ([step("a"), step("a")], "'a' is used 2 times"),
    ([step("")], "no id"),
    ([step("a b")], "white space"),
    ([step("a.b")], "'.'"),
    ([step("a[0]")], "'['"),
    ([step("{a}")], "'{'"),
    ([step("global")], "'global' stands for the plan's variables"),
    ([step("x" * 61)], "at most 60"),
    ([step("a", "")], "names no tool"),
    ([step("a", dependencies=["b"])], "unknown ids ['b']"),
    ([step("a", dependencies=["a"])], "depends on itself"),
    ([step("a", dependencies=["b"]), step("b", dependencies=["a"])], "in a circle"),
    ([asks("a", "{{b}}"), asks("b", "{{a}}")], "in a circle"),
    ([asks("a", "{{c}}"), step("b", dependencies=["a"]), step("c", dependencies=["b"])],
     "in a circle"),
    ([asks("a", "{{nothing.x}}")], "no step 'nothing'"),
    ([step("first_step"), asks("b", "{{frist_step}}")], "did you mean 'first_step'?"),
    ([asks("a", "{{a.x}}")], "its own result"),
    ([asks("a", "{{s1")], "never closed"),
    ([asks("a", "{{}}")], "no reference"),
    ([step("s1"), asks("a", "{{s1..x}}")], "a name is missing"),
    ([step("s1"), asks("a", "{{s1[x]}}")], "no reference"),
    ([asks("a", "{{global.x}}")], "no 'x' in the plan's variables"),
    # Tools.
    ([step("a", "query_sale")], "there is no tool 'query_sale'; use one of: query_sales"),
    ([step("a", "Write File")], "there is no tool 'Write File'; use one of: write_file"),
    ([step("a", "teleport")], "there is no tool 'teleport'; use one of: query_sales, search"),
    # Arguments.
    ([step("a", arguments={})], "step 'a': the arguments do not fit 'search': 'query' is"),
    ([step("a", arguments={"query": [5]})], "query: [5] is not of type 'string'"),
    ([step("a", arguments={"query": "x", "page": 2})], "('page' was unexpected)"),
    ([step("a", "query_sales", arguments={"sql": "x", "limit": -1})], "less than the minimum of 0"),
    ([step("a", "query_sales", arguments={"sql": "x", "limit": "ten"})], "'ten' is not of type"),
    ([step("a", "draw", arguments={"kind": "pie", "points": []})], "'pie' is not one of"),
    ([step("a", "draw", arguments={"kind": "bar", "points": ["one"]})], "points.0: 'one' is not"),
    ([SALES, step("a", "draw", arguments={"kind": "bar", "points": "sum of {{s1.rows}}"})],
     "'sum of {{s1.rows}}' is not of type 'array'"),
    ([SALES, step("a", "draw", arguments={"kind": "bar", "points": [["{{s1.row_count}}"]]})],
     "points.0: ['{{s1.row_count}}'] is not of type 'number'"),
    ([step("a", arguments={"query": None})], "query: None is not of type 'string'"),
    # Fields of results.
    ([SALES, asks("a", "{{s1.rowcount}}")], "no field 'rowcount' there; did you mean 'row_count'"),
    ([SALES, asks("a", "{{s1.rows[0].total}}")], "{{s1.rows[0].total}}: the result of 's1' has no"),
    ([SALES, asks("a", "see {{s1.rows[0].names}}, {{s1.rows}}")], "did you mean 'name'?"),
    ([SALES, asks("a", "{{s1.columns[0]}}")], "it has 'rows', 'row_count', 'meta', 'linked'"),
    ([SALES, step("a", "llm_call", arguments={"prompt": "{{ s1.data }}"})], "no field 'data'"),
    ([SALES, step("a", arguments={"query": {"deep": ["{{s1.nope}}"]}})], "no field 'nope'"),
    # Checks of results.
    ([step("a", expect="count >")], "step 'a': in expect: the condition \"count >\" has no value"),
    ([step("a", expect="there are rows")], "is no comparison"),
    ([step("a", expect="a == 1 or b == 2")], "cannot have 'or'"),
    ([step("a", expect={"type": "rows"})], "type: "),
    ([step("a", expect={"rows": {}})], "no keyword 'rows'"),
    ([step("a", expect={"pattern": "x"})], "may not use 'pattern'"),
    ([step("a", expect="{{a.count}} > 1")], "without braces"),
]  # fmt: skip


@pytest.mark.req("S2-06", "S2-24", "P-30")
@pytest.mark.parametrize(("steps", "words"), BAD)
def test_a_bad_plan_is_found_before_anything_runs(steps, words):
    found = told(*steps)
    assert any(words in flaw for flaw in found), found
    assert all("\n" not in flaw for flaw in found)


@pytest.mark.req("W-03")
@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("needs", ["s1"], "no field 'needs', so nothing would come of it"),
        ("dependancies", ["s1"], "did you mean 'dependencies'?"),
        ("expected", "rows is not empty", "did you mean 'expect"),
        ("if", "{{s1.row_count}} > 0", "no field 'if'"),
        ("requiresApproval", True, "no field 'requiresApproval'"),
    ],
)
def test_a_field_that_a_step_does_not_have_is_a_finding(field, value, words):
    (finding,) = told(SALES, asks("a", "x", dependencies=[], **{field: value}))
    assert finding.startswith("step 'a':")
    assert words in finding
    assert told(SALES, asks("a", "x", **{field: None})) == []
    assert told(SALES, asks("a", "x", thought="hm", notes=["n"], status="pending")) == []


@pytest.mark.req("W-03")
def test_an_argument_that_a_tool_does_not_name_is_a_finding_at_any_depth():
    def send(to: str, cc: str = "") -> str:
        """Send a mail."""
        return to + cc

    def now() -> str:
        """Say what time it is."""
        return "noon"

    person = {"type": "object", "properties": {"mail": TEXT}}
    people = {"people": {"type": "array", "items": person}, "any": {"type": "object"}}
    listing = {"name": "invite", "inputSchema": {"type": "object", "properties": people}}
    free = {"name": "free", "inputSchema": {"type": "object"}}
    loose = {"type": "object", "properties": {"a": TEXT}, "additionalProperties": True}
    tools = (listing, free, {"name": "loose", "inputSchema": loose})
    catalog = build_catalog(read_tools([send, now]), [Listing(ServerConfig(name="m"), tools, "")])

    def of(tool: str, **arguments: Any) -> str:
        planned = {"steps": [{"id": "a", "tool": tool, "arguments": arguments}]}
        return "\n".join(find_plan_flaws(ExecutionPlan.model_validate(planned), catalog, limit=9))

    assert "no argument 'bcc', which would be dropped; did you mean 'cc'?" in of(
        "send", to="a", bcc="b"
    )
    assert "it takes no arguments, so 'zone' would be dropped" in of("now", zone="UTC")
    given = {"people": [{"mail": "m"}, {"mail": "m", "phone": "1"}]}
    assert "no argument 'people.1.phone'" in of("invite", **given)
    assert of("invite", people=[{"mail": "m"}], any={"x": 1}) == ""
    assert of("free", x=1) == of("loose", a="x", b="y") == of("send", to="a", cc="b") == ""


@pytest.mark.req("W-02")
@pytest.mark.parametrize(
    "text",
    [
        "$s1", "${s1}", "<s1.rows>", "s1.output.rows", "s1.rows[0].name",
        "$.steps.s1.output.rows", "${steps.s1.rows}", "[s1.rows]", "@{s1.rows}",
        "Sum up $s1.rows, please", "Given #s1, write", "$sales", "{sales.rows}", "sales.rows",
        "Given #E1", "\uff04\uff5bs1.rows\uff5d", "\uff5bs1\uff5d", "It was s1.v}}", "s1.rows}}",
        "Given s1}}",
    ],
)  # fmt: skip
def test_a_reference_in_another_spelling_is_a_finding(text):
    steps = [SALES, {**SALES, "id": "sales"}, {**SALES, "id": "E1"}]
    found = told(*steps, asks("a", text))
    assert len(found) == 1, found
    assert "is no reference and would be sent as it stands" in found[0]
    assert re.search(r"write \{\{(s1|sales|E1)[.}\[]", found[0])
    assert told(*steps, asks("a", "{{global.t}}"), globalVariables={"t": "x"}) == []
    kept = [finished(name, value={"rows": []}) for name in ("s1", "sales", "E1")]
    if text not in ("s1.rows", "sales.rows"):  # nobody says what these have
        assert told(asks("a", text), kept=kept), text


@pytest.mark.req("W-02")
@pytest.mark.parametrize(
    "text",
    [
        "${HOME}", "{name}", "#12", "s9.output.x", "report.md", "<report>text</report>",
        "@report", "[s1]", "page.html#s1", "the s1.output.rows field", "$1.50", "{0} of {1}",
        "${{s1.row_count}}", "US$s1x", "report.docx", "${s1x}", "report-2.md", "\uff04" "5.00",
        "见报告\uff3bs1\uff3d。", r"\{{s1.rows}}", '{"a": {"b": s1.rows}}', "{{s1.row_count}} }}",
        "data.x}", "s9.x}}",
    ],
)  # fmt: skip
def test_what_merely_looks_like_a_reference_is_text(text):
    others = [step("report"), step("1"), step("b"), step("data")]
    if text == "[s1]":
        others, text = [], "x [s1]"
    assert told(SALES, *others, asks("a", text)) == []


@pytest.mark.req("W-03")
@pytest.mark.parametrize(
    ("when", "words"),
    [
        ("s1.row_count", "in when: the condition"),
        ("{{s1.row_count}} > 0", "without braces"),
        ("s1.row_count > 0 or s1.rows is empty", "or"),
        ("row_count > 0", "no step 'row_count'"),
        ("$s1.row_count > 0", "did you mean 's1'?"),
        ("s1.rowcount > 0", "did you mean 'row_count'?"),
        ("a.x > 0", "its own result"),
        ("global.year > 2020", "no 'year' in the plan's variables"),
    ],
)
def test_a_condition_that_cannot_be_read_is_a_finding(when, words):
    found = told(SALES, asks("a", "x", when=when))
    assert len(found) == 1, found
    assert words in found[0]


@pytest.mark.req("W-03")
def test_conditions_count_as_references():
    circle = told(asks("a", "x", when="b.x > 0"), asks("b", "{{a}}"))
    assert "in a circle" in circle[0]
    for when in ("s1.row_count > 0", "length(s1.rows) > 1 and s1.rows[0].name is not empty",
                 "s1.meta.took exists", "s1.gone is missing", "s1.output.row_count == 3",
                 "s1 is not empty"):  # fmt: skip
        assert told(SALES, asks("a", "x", when=when)) == [], when
    kept = [finished("old", value={"n": 1})]
    assert told(asks("a", "x", when="old.n == 1"), kept=kept) == []


@pytest.mark.parametrize(
    ("variables", "query", "words"),
    [
        ({"n": [5]}, "{{global.n}}", "query: [5] is not of type 'string'"),
        ({"n": {"a": 1}}, "{{global.n.b}}", "no 'b'"),
        ({"n": "{{s1}}"}, "x", "not expanded there"),
    ],
)
def test_variables_are_known_and_checked(variables, query, words):
    found = told(step("s1"), asks("a", query), globalVariables=variables)
    assert any(words in flaw for flaw in found), found


@pytest.mark.req("S2-24")
def test_without_any_tool_the_plan_is_told_so():
    plan = ExecutionPlan.model_validate({"steps": [step("a")]})
    found = find_plan_flaws(plan, build_catalog([], []), limit=5)
    assert found == ["step 'a': there is no tool 'search'; there are none"]


# Results that are there already.


@pytest.mark.parametrize(
    ("done", "query", "words"),
    [
        (finished("k", value={"total": 3}), "{{k.totals}}", "no 'totals' in the result of"),
        (finished("k", value=[1, 2]), "{{k[2]}}", "a list of 2 items"),
        (finished("k", shape="text", result="hello"), "{{k.total}}", "text of 5 characters"),
        (finished("k", shape="json", result='{"a": {}}'), "{{k.a.b}}", "no 'b'"),
    ],
)  # fmt: skip
def test_finished_results_are_looked_into(done, query, words):
    (found,) = told(asks("a", query), kept=[done])
    assert words in found


# Sound plans.


@pytest.mark.req("S2-06", "S2-43")
@pytest.mark.parametrize(
    "steps",
    [
        [SALES, {**SALES, "id": "s2"}, {**SALES, "id": "s3", "dependencies": ["s1", "s2"]}],
        [SALES, asks("a", "{{s1.rows.0.name}}, {{s1['rows'][0][\"name\"]}}, {{s1.row_count}}")],
        [SALES, asks("a", "{{s1.meta.anything[0].deep}} {{s1.either.b}}")],
        [step("s1"), asks("a", "{{s1.author[0].id}} {{s1.Exchange Rate}} {{s1.text}}")],
        [step("s1"), step("a", "draw", arguments={"kind": "bar", "points": ["{{s1.a}}", 2]})],
        [step("s1", "convert", arguments={"amount": 3}), asks("a", "{{s1.value}} {{s1.result}}")],
        [asks("a", "$var1.field$ is text")],
        [step("a", expect={"type": "object", "required": ["rows"]})],
        [{"id": "s1", "toolName": "query_sales", "params": {"sql": "x"}, "dependsOn": []},
         {"id": "s2", "tool_name": "write_file", "args": '{"path": "a", "text": "{{s1}}"}'}],
    ],
)  # fmt: skip
def test_a_sound_plan_has_no_flaws(steps):
    assert told(*steps) == []


LITERALS: dict[str, Any] = {
    "sql": st.text("cde {}", max_size=5).filter(lambda text: "{{" not in text),
    "limit": st.integers(0, 9),
    "kind": st.sampled_from(["bar", "line"]),
    "points": st.lists(st.floats(0, 9) | st.just("{{a.rows[0].Total Sales}}"), max_size=3),
    "amount": st.integers(-9, 9) | st.floats(0, 1),
}
CALLS = st.sampled_from([("query_sales", ["sql", "limit"]), ("draw", ["kind", "points"]),
                         ("convert", ["amount"])]).flatmap(
    lambda call: st.tuples(
        st.just(call[0]), st.fixed_dictionaries({name: LITERALS[name] for name in call[1]})
    )
)  # fmt: skip
READS = st.sampled_from(["{{a}}", "{{ a.rows }}", "{{a.rows[0].Total Sales}}", "{{b.x.y[0]}}"])


@pytest.mark.req("S2-06", "P-30")
@given(st.lists(CALLS, min_size=1, max_size=4), READS, st.data())
def test_any_argument_of_a_sound_plan_may_be_an_earlier_result(calls, reference, data):
    steps = [{**SALES, "id": "a"}, step("b")]
    steps += [step(f"c{i}", name, arguments=args) for i, (name, args) in enumerate(calls)]
    assert told(*steps) == []
    changed = data.draw(st.integers(2, len(steps) - 1))
    name = data.draw(st.sampled_from(sorted(steps[changed]["arguments"])))
    steps[changed]["arguments"] = {**steps[changed]["arguments"], name: reference}
    assert told(*steps) == []
