"""Return annotations as schemas: what a plan may refer to, and never more than was promised."""

import enum
import typing
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal, NamedTuple, NewType

import pytest
import typing_extensions
from langchain_core.tools import StructuredTool, tool
from langgraph.types import Command
from pydantic import BaseModel, ConfigDict, Field, RootModel, computed_field, field_serializer

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


class Order(BaseModel):
    number: int = Field(alias="orderNumber")
    day: date
    secret: str = Field(exclude=True)
    note: str = ""

    @computed_field  # type: ignore[prop-decorator]  # as pydantic's manual says
    @property
    def total(self) -> float:
        """The total."""
        return 1.0

    @field_serializer("note")
    def _list(self, note: str) -> Any:
        return [note]


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    n: int


class Numbers(RootModel[list[int]]):
    pass


@dataclass
class Box:
    orders: list[Order]
    other: "Box | None"


class Colour(enum.Enum):
    RED = "red"


class Pair(NamedTuple):
    a: int


UserId = NewType("UserId", int)
ROW = {"type": "object", "properties": {"n": INT, "rows": {"type": "array"}}}
ORDER = {
    "type": "object",
    "properties": {"orderNumber": INT, "day": TEXT, "note": {}, "total": {"type": "number"}},
}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (int, INT), (bool, {"type": "boolean"}), (float, {"type": "number"}), (UserId, INT),
        (str, None), (None, None), (Any, None), (object, None), (bytes, None), (dict, None),
        (dict[str, Any], None), (Command[Any], None), (Pair, None), (Numbers, None),
        (list, {"type": "array"}), (list[str], {"type": "array", "items": TEXT}),
        (tuple[int, str], {"type": "array"}), (set[int], {"type": "array", "items": INT}),
        (dict[str, int], {"type": "object", "additionalProperties": INT}),
        (Row, ROW), (Other, {"type": "object", "properties": {"row": ROW}}),
        (Annotated[Row, "x"], ROW), (Iterator[Row], {"type": "array", "items": ROW}),
        (AsyncIterator[Row], {"type": "array", "items": ROW}),
        (Mapping[str, Row], {"type": "object", "additionalProperties": ROW}),
        (Order, ORDER), (Open, {"type": "object", "properties": {"n": INT},
                               "additionalProperties": True}),
        (Box, {"type": "object", "properties": {"orders": {"type": "array", "items": ORDER},
                                                "other": {}}}),
        (int | None, {"anyOf": [INT, {"type": "null"}]}), (int | Any, None),
        (Literal["a", 1], {"enum": ["a", 1]}), (Colour, {"enum": ["red"]}),
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


def test_what_a_tool_declares_wins_and_content_promises_nothing():
    def look(n: int) -> Row:
        """Look."""
        return {"n": n}

    declared = StructuredTool.from_function(look, metadata={"outputSchema": {"type": "array"}})
    shown = StructuredTool.from_function(look, metadata={"content": True})

    @tool(response_format="content_and_artifact")
    def both(n: int) -> tuple[str, Row]:
        """Look."""
        return "", {"n": n}

    for one, schema in ((declared, {"type": "array"}), (shown, None), (both, None)):
        assert read_tools([one])[0].output == schema


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
