"""Return annotations as schemas: what a plan may refer to, and never more than was promised."""

import typing
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import pytest
import typing_extensions
from pydantic import BaseModel, ConfigDict

from loopwright.flow.checks import find_plan_flaws
from loopwright.flow.execution_plan import ExecutionPlan
from loopwright.tools.catalog import build_catalog
from loopwright.tools.python_tools import read_tools
from support.flows import flow, step

INT, TEXT = {"type": "integer"}, {"type": "string"}


class Row(typing.TypedDict, total=False):  # noqa: TID251 - tools of others use it
    n: int
    rows: "list[Row]"


class Other(typing_extensions.TypedDict):
    row: typing_extensions.NotRequired[Row]


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    n: int


class Pair(NamedTuple):
    a: int


ROW = {"type": "object", "properties": {"n": INT, "rows": {"type": "array"}}}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (int, INT),
        (float, {"type": "number"}),
        (str, None),
        (Any, None),
        (bytes, None),
        (dict[str, Any], None),
        (Pair, None),
        (list, {"type": "array"}),
        (tuple[int, str], {"type": "array"}),
        (dict[str, int], {"type": "object", "additionalProperties": INT}),
        (Other, {"type": "object", "properties": {"row": ROW}}),
        (Iterator[Row], {"type": "array", "items": ROW}),
        (Mapping[str, Row], {"type": "object", "additionalProperties": ROW}),
        (Open, {"type": "object", "properties": {"n": INT},
                               "additionalProperties": True}),
        (int | None, {"anyOf": [INT, {"type": "null"}]}),
        (Literal["a", 1], {"enum": ["a", 1]}),
    ],
    ids=str,
)  # fmt: skip
def test_a_return_annotation_is_the_schema_of_the_result(annotation, schema):
    def look(n: int) -> Any:
        """Look."""

    async def later(n: int) -> Any:
        """Look."""

    for function in (look, later):
        function.__annotations__["return"] = annotation
        (described,) = read_tools([function])
        assert described.output == schema


@pytest.mark.parametrize(
    ("reference", "found"),
    [("n", False), ("rows[0].n", False), ("total", True), ("result.n", False), ("N", True)],
)
def test_a_reference_to_a_field_that_was_not_promised_is_a_finding(reference, found):
    def look(what: str) -> Row:
        """Look."""
        return {"n": len(what)}

    catalog = build_catalog(read_tools([look]), ())
    steps = [
        step("s1", arguments={"what": "a"}),
        step("s2", arguments={"what": f"{{{{s1.{reference}}}}}"}),
    ]
    plan = ExecutionPlan.model_validate(flow(*steps))
    flaws = find_plan_flaws(plan, catalog, limit=9)
    assert bool(flaws) == found
    assert not found or "look" in str(flaws) or "'n'" in str(flaws)
