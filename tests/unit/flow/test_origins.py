"""Origins of a plan's values by its references, and what a planner is told of results."""

import pytest

from loopwright.flow.order import build_steps
from loopwright.flow.origins import PlanOrigins, describe_step_origins
from loopwright.flow.outlines import outline_value
from loopwright.tools.catalog import Catalog, CatalogTool
from loopwright.tools.python_tools import BUILT_IN
from support.flow_steps import plan
from support.flows import look, step

RECORD = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "format": "uuid"},
        "total": {"type": "number"},
        "text": {"type": "string"},
        "rows": {
            "type": "array",
            "items": {"type": "object", "properties": {"n": {"type": "integer"}}},
        },
    },
}


def tool(name, **about):
    return CatalogTool(name=name, description="", schema={}, **about)


CATALOG = Catalog({
    one.name: one
    for one in (
        tool("look", read_only=True),
        tool("find", read_only=True, output=RECORD),
        tool("own", read_only=True, origin="trusted"),
        tool("web", read_only=True, open_world=True),
        tool("llm_call", read_only=True, tool=BUILT_IN),
        tool("send"),
    )
})  # fmt: skip
BEFORE = [
    look("a", "x"),
    step("f", "find"),
    step("o", "own"),
    step("w", "web"),
    step("e", "llm_call", arguments={"prompt": "{{a}}", "schema": {"enum": ["yes", "no"]}}),
    step("l", "llm_call", arguments={"prompt": "{{e}} {{f.text}}"}),
]


def origins(constants="model", /, **sent):
    of_send = step("s", "send", arguments=sent.pop("arguments", {"x": sent.pop("x", "y")}), **sent)
    steps = build_steps(plan(*BEFORE, of_send, year=2025, mine=1))
    return PlanOrigins(
        steps={one["id"]: one for one in steps}, catalog=CATALOG, constants=constants,
        given={"mine"},
        find_origin=lambda tool: tool.origin or ("foreign" if tool.open_world else ""),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("plain", ["model"]),
        ([1, {"k": None}], ["model"]),
        ("{{global.year}}", ["model"]),
        ("{{global.mine}}", ["request"]),
        ("{{a.name}}", ["tool:look"]),
        ("{{a}}", ["prose:look"]),
        ("Dear {{a.name}}", ["model", "prose:look"]),
        ("{{f.id}}, {{f.total}}, {{f.rows[0].n}}", ["model", "tool:find"]),
        ("about {{f.text}}", ["model", "prose:find"]),
        ("about {{o}}", ["model", "tool:own"]),
        ("{{w.name}}", ["prose:web"]),
        ("{{e}}", ["enum:look", "model"]),
        ("{{l}}", ["enum:look", "model", "prose:find"]),
        (["{{a.name}}", "{{o.name}}"], ["tool:look", "tool:own"]),
    ],
)
def test_the_origins_of_a_value_are_those_of_what_it_refers_to(value, found):
    assert origins(x=value).of_steps["s"]["x"] == found


def test_a_plan_that_was_handed_in_has_constants_of_the_operator():
    assert origins("operator", x="plain").of_steps["s"]["x"] == ["operator"]


def test_what_decides_about_a_step_counts_and_reads_send_nothing_unless_they_go_out():
    found = origins(x="{{item.n}}", forEach="{{f.rows}}", when="e == yes").of_steps
    assert found["s"] == {
        "x": ["tool:find"],
        "forEach": ["tool:find"],
        "when": ["enum:look", "model"],
    }
    assert describe_step_origins(found["s"])["when"] == "a choice made from prose of look"
    assert not any(found[name] for name in "afoel")


@pytest.mark.parametrize(
    ("first", "later", "more"),
    [
        ({"x": "{{a}}"}, {"x": "{{a.name}}"}, []),
        ({"x": "{{a.name}}"}, {"x": "{{a}}"}, ["x"]),
        ({"x": "{{a.name}}"}, {"x": "{{f.id}}"}, ["x"]),
        ({"x": "y"}, {"arguments": {"x": "z", "cc": "q"}}, ["cc"]),
        ({"x": "y", "when": "a.ok == true"}, {"x": "y"}, ["when"]),
        ({"x": "y", "when": "a.ok == true"}, {"x": "y", "when": "a.no == true"}, []),
        ({"x": "y"}, {"x": "y", "forEach": "{{f.rows}}"}, ["forEach"]),
    ],
)
def test_a_later_plan_is_wider_by_every_origin_that_the_first_did_not_have(first, later, more):
    widened = origins(**later).find_widened(origins(**first).list_sinks())
    assert [text.partition("`")[2].partition("`")[0] for text in widened] == more


def test_of_a_result_kinds_and_sizes_are_told_and_the_names_that_its_tool_declares():
    value = {"id": "abc", "total": 1.5, "evil: obey": "x", "rows": [{"n": 1, "do": "it"}, {}]}
    assert outline_value(value, RECORD, RECORD) == {
        "id": "text of 3 characters",
        "total": "number",
        "rows": ["list of 2, the first of them:", {"n": "integer", "…": "1 more fields"}],
        "…": "1 more fields",
    }
    assert outline_value([], {}, {}) == []
