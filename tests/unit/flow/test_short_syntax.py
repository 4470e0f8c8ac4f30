"""The short spelling of a plan: read leniently, never guessed, and the same when read again."""

import string

import pytest
from hypothesis import given, strategies as st
from langchain_core.messages import AIMessage

from loopwright.flow.execution_plan import ExecutionPlan, PlanStep
from loopwright.flow.short_syntax import read_short_plan
from loopwright.models.reading import read_answer, read_text
from loopwright.tools.arguments import find_unsafe_part
from support.short_plans import short_of


def steps(text):
    plan, problems = read_short_plan(text)
    assert problems == []
    return plan["steps"]


def step(text):
    (one,) = steps(text)
    return one


def args(text):
    return step(f"s1 = t({text})")["arguments"]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        ("x: 'it is \"so\"'", {"x": 'it is "so"'}),
        ("x: -1.5e3, y: 0", {"x": -1500.0, "y": 0}),
        ("x: {{s1.rows[0].id}}", {"x": "{{s1.rows[0].id}}"}),
        ('x: "no {{s1}} but", y: [ {{s1.a}}, 2, ]', {"x": "no {{s1}} but", "y": ["{{s1.a}}", 2]}),
        ('{"x": 1, "y": {"z": []}}', {"x": 1, "y": {"z": []}}),
        ('x: "line\\nbreak \\u00e4 \\ud83d\\ude00 \\\\ \\{{"', {"x": "line\nbreak ä 😀 \\ \\{{"}),
        ('\n  x: "over\nlines",\n  y: 2\n', {"x": "over\nlines", "y": 2}),
    ],
)
def test_arguments_are_values_with_names(text, arguments):
    found = args(text)
    assert found == arguments
    assert [type(v) for v in found.values()] == [type(v) for v in arguments.values()]


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("after s0", {"dependencies": ["s0"]}),
        ("after [s0, s2]", {"dependencies": ["s0", "s2"]}),
        ("; when s0.x == 'a; b # when' ; optional", {"when": "s0.x == 'a; b # when'",
                                                      "optional": True}),
        ('when "s0.x" == 1', {"when": '"s0.x" == 1'}),
        ("retry: 2; timeout=3", {"retryCount": 2, "timeout": 3}),
        ("; optional ; output \"three\" # what, for?",
         {"optional": True, "expectedOutput": "three", "description": "what, for?"}),
        ("; forEach {{s0.rows}} ; maxItems 5", {"forEach": "{{s0.rows}}", "maxItems": 5}),
        ("; after s0 when s0.n > 1 ; retries 1", {"dependencies": ["s0"], "when": "s0.n > 1",
                                                  "retryCount": 1}),
    ],
)  # fmt: skip
def test_what_stands_behind_a_step_are_its_fields(text, fields):
    found = step(f"s1 = t(x: 1) {text}")
    assert {k: v for k, v in found.items() if k not in ("id", "tool", "arguments")} == fields


def test_a_whole_plan_with_its_variables():
    text = """
    ```
    goal: Find out: "why"
    # a remark
    global.year = 2025
    global["odd name"] = {"a": ["{{x}}"]}
    left out: send it
    leftOut: ["sing", "dance"]
    1. s1 = query(sql: "select 1")
    - s2 = llm_call(prompt: "Sum up {{s1.rows}}")   # what for
    "s 3" = "odd tool"()
    ```
    """
    plan, problems = read_short_plan(text)
    assert problems == []
    assert [s["id"] for s in plan.pop("steps")] == ["s1", "s2", "s 3"]
    assert plan == {
        "goal": 'Find out: "why"', "globalVariables": {"year": 2025, "odd name": {"a": ["{{x}}"]}},
        "leftOut": ["send it", "sing", "dance"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("s1 = t(5)", "NAME: VALUE"),
        ("s1 = t(x: hello)", "stands in quotes"),
        ("s1 = t(x: 1 y: 2)", "a comma or )"),
        ('s1 = t(x: "a', 'closing "'),
        ("s1 = t(x: 1, x: 2)", "twice"),
        ("s1 = t() needs s0", "'needs'"),
        ("s1 = t() when s0.x == 1 expect n > 0", "'expect'"),
        ("s1 = t() retry twice", "stands in quotes"),
        ("s1 = t() -> x", "behind a step"),
        ("s1: t(x: 1)", "ID = TOOL"),
        ("global.x = foo", "stands in quotes"),
        ("s1 = t(x: " + "[" * 99 + "]" * 99 + ")", "too deeply"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line_and_nothing_is_guessed(line, why):
    plan, problems = read_short_plan(f"s0 = t()\n{line}\nz = t(x: 1)")
    assert len(problems) == 1
    assert problems[0].startswith("line 2, ")
    assert why in problems[0]
    assert plan["steps"][0]["id"] == "s0"


SHORT = 's1 = look(what: "a") # first\ns2 = look(what: {{s1.of}}) ; after s1'
WIRE = [
    SHORT,
    f"Here is the plan:\n```\n{SHORT}\n```\nIt has two steps.",
    f"<think>s9 = look(what: 1)</think>{SHORT}",
    f'goal: x\n{SHORT}',
]  # fmt: skip


@pytest.mark.parametrize("text", WIRE)
def test_it_is_taken_beside_json_wherever_a_plan_is_read(text):
    reading = read_answer(AIMessage(text), ExecutionPlan)
    assert reading.problems == []
    assert [s.id for s in reading.parsed.steps] == ["s1", "s2"]
    assert reading.parsed.steps[1].arguments == {"what": "{{s1.of}}"}


NAMES = st.one_of(
    st.text(string.ascii_letters + "_-1ä.#;(=,{ \"'\\/", min_size=1, max_size=8),
    st.sampled_from(["s1", "after", "goal", "global", "1.", "//x", "- a", "when", "{{x}}"]),
).filter(lambda name: name == name.strip() and name)
TEXTS = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30),
    st.sampled_from(["{{s1.rows}}", "{{s1}} {{", "\\{{x}}", '{{a["}}"]}}', "a\nb = t()", "```\nx",
                     "' \" ; # \\", "true", "5", "\u2028\x0b\r"]),
)  # fmt: skip
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**60), 2**60), TEXTS,
              st.floats(allow_nan=False, allow_infinity=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)  # fmt: skip
CONDITIONS = st.one_of(
    st.sampled_from(["s1.n > 0", "s1.x == 'a; b'", 's1.x == "optional"', "s1.x == when", "a # b",
                     "s1.x == #3", '"a" == 1', '"a"', "{x", "s1.x contains ' # '", ""]),
    TEXTS,
)  # fmt: skip
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=4).filter(lambda one: not find_unsafe_part(one))
FIELDS = {
    "id": NAMES, "description": TEXTS, "tool": NAMES,
    "arguments": OBJECTS,
    "dependencies": st.lists(NAMES, max_size=3, unique=True),
    "when": st.one_of(st.none(), CONDITIONS),
    "forEach": st.one_of(st.none(), TEXTS, st.lists(JSON, max_size=3)),
    "maxItems": st.integers(1, 1_000), "expectedOutput": TEXTS,
    "expect": st.one_of(st.none(), CONDITIONS, st.dictionaries(TEXTS, JSON, max_size=3)),
    "retryCount": st.integers(0, 10), "optional": st.booleans(),
    "timeout": st.one_of(st.none(), st.floats(0.001, 3_600)),
}  # fmt: skip
ALIASES = {field.alias or name for name, field in PlanStep.model_fields.items()}
STEPS = st.fixed_dictionaries({n: s for n, s in FIELDS.items() if n in ALIASES})
PLANS = st.fixed_dictionaries(
    {"goal": TEXTS, "planId": TEXTS, "steps": st.lists(STEPS, min_size=1, max_size=4),
     "globalVariables": OBJECTS,
     "leftOut": st.lists(TEXTS.filter(bool), max_size=2),
     "metadata": st.fixed_dictionaries({"complexity": TEXTS})}
)  # fmt: skip


@given(PLANS)
def test_a_plan_written_short_is_the_same_plan_again(given_plan):
    plan = ExecutionPlan.model_validate(given_plan)
    short = short_of(plan)
    again, problems = read_short_plan(short)
    assert problems == [], short
    assert ExecutionPlan.model_validate(again) == plan, short


@given(st.text(max_size=200) | st.lists(st.sampled_from(
    ["s1", " = ", "t(", "x", ": ", '"', "'", "{{", "}}", "[", "]", "{", "}", ")", ";", "#", "\n",
     ",",     " when ", " after ", "1", "\\"]), max_size=60).map("".join))  # fmt: skip
def test_no_text_makes_reading_raise(text):
    read_short_plan(text)
    read_text(text, ExecutionPlan)
