"""What a Python tool returns is the value that references and checks read, in every graph."""

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import pathlib
import uuid
from typing import Any, NamedTuple

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.messages.content import create_text_block
from langchain_core.tools import BaseTool, StructuredTool, tool
from pydantic import BaseModel, Field, SecretStr

from loopwright import Context, ScriptedModel, build_prompt_flow, build_react
from support.flows import citing, decide, flow, said, step
from support.reacting import one_step
from support.scripts import call


class Line(BaseModel):
    name: str
    price: decimal.Decimal
    at: dt.date | None = None


class Order(BaseModel):
    lines: list[Line]
    by: str = Field(default="me", serialization_alias="madeBy")


class Finer(Line):
    colour: str = "red"


@dataclasses.dataclass
class Point:
    x: int
    to: "Point | None" = None


class Pair(NamedTuple):
    a: int
    b: str


class Colour(enum.Enum):
    RED = "red"


class Frame:
    """A table as polars has it."""

    columns = ("a",)

    def to_dicts(self) -> Any:
        return [{"a": 1, "at": dt.date(2026, 1, 2)}]


class Odd:
    def __str__(self) -> str:
        return "odd"


UTC = dt.UTC
GIVE_UP = decide("give_up")
U = uuid.UUID(int=5)
ROW = {"id": 7, "type": "document", "text": "a", "size": 3}
NUMBER = np.float64(1.5)
VALUES: list[tuple[str, Any, Any]] = [
    ("none", None, None),
    ("false", False, False),
    ("zero", 0, 0),
    ("float", 2.5, 2.5),
    ("nan", float("nan"), "NaN"),
    ("huge", 2**70, str(2**70)),
    ("empty text", "", ""),
    ("digits", "5", "5"),
    ("the word null", "null", "null"),
    ("json object", '{"a": 1}', {"a": 1}),
    ("empty list", [], []),
    ("empty dict", {}, {}),
    ("falsy", [0, "", False, None, [], {}], [0, "", False, None, [], {}]),
    ("tuple", (1, "a"), [1, "a"]),
    ("set", {3, 1, 2}, [1, 2, 3]),
    ("range", range(3), [0, 1, 2]),
    ("deque", collections.deque([1, 2]), [1, 2]),
    ("keys", {"a": 1}.keys(), ["a"]),
    ("named tuple", Pair(1, "b"), [1, "b"]),
    ("generator", lambda: (n for n in range(3)), [0, 1, 2]),
    ("generator inside", lambda: {"rows": (n for n in range(2))}, {"rows": [0, 1]}),
    ("dict", {"a": {"b": [1]}}, {"a": {"b": [1]}}),
    ("keys of numbers", {1: "a", False: "b", 2.5: "c"}, {"1": "a", "false": "b", "2.5": "c"}),
    ("content as field", {"content": [ROW], "meta": 1}, {"content": [ROW], "meta": 1}),
    ("datetime", dt.datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02T03:00:00+00:00"),
    ("date", dt.date(2026, 1, 2), "2026-01-02"),
    ("timedelta", dt.timedelta(days=1), "P1D"),
    ("decimal inside", {"price": decimal.Decimal("0.10")}, {"price": "0.10"}),
    ("uuid", [U], [str(U)]),
    ("path", pathlib.PurePosixPath("/a/b"), "/a/b"),
    ("enum", Colour.RED, "red"),
    ("secret", {"key": SecretStr("k")}, {"key": "**********"}),
    ("model", Line(name="a", price=decimal.Decimal(2)), {"name": "a", "price": "2", "at": None}),
    (
        "nested models",
        Order(lines=[Finer(name="a", price=decimal.Decimal(2), at=dt.date(2026, 1, 2))]),
        {
            "lines": [{"name": "a", "price": "2", "at": "2026-01-02", "colour": "red"}],
            "madeBy": "me",
        },
    ),
    ("dataclass", Point(1, Point(2)), {"x": 1, "to": {"x": 2, "to": None}}),
    ("numpy float", NUMBER, 1.5),
    ("numpy array", np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    ("numpy date", np.array(["2026-01-02"], dtype="datetime64[ns]"),
     ["2026-01-02T00:00:00.000000000"]),
    ("table", Frame(), [{"a": 1, "at": "2026-01-02"}]),
    ("document", Document("words", metadata={"n": 1}),
     {"id": None, "metadata": {"n": 1}, "page_content": "words", "type": "Document"}),
    ("message of a model", AIMessage("hi"), "hi"),
    ("object", Odd(), "odd"),
    ("row", ROW, ROW),
    ("rows", [ROW, ROW | {"type": "image"}], [ROW, ROW | {"type": "image"}]),
    ("marked text block", [create_text_block("hello")], "hello"),
    ("message of json", ToolMessage('{"a": 1}', tool_call_id="x"), {"a": 1}),
    ("long rows", [{"n": n, "t": "x" * 50} for n in range(300)],
     [{"n": n, "t": "x" * 50} for n in range(300)]),
]  # fmt: skip


def fetching(value: Any) -> Any:
    def fetch() -> Any:
        """Fetch it."""
        return value() if type(value).__name__ == "function" else value

    return StructuredTool.from_function(fetch, metadata={"readOnlyHint": True})


def taking(taken: list[Any]) -> Any:
    def take(what: Any) -> str:
        """Take it."""
        taken.append(what)
        return "taken"

    return take


def run_flow(tools: Any, *steps: Any) -> Any:
    script: Any = {"flow_planner": [flow(*steps)], "answerer": citing, "recovery": [GIVE_UP]}
    model = ScriptedModel(script)
    graph = build_prompt_flow(model=model, tools=tools)
    return graph.invoke(said(), context=Context(interactive=False))


def passed_on(source: Any, **more: Any) -> Any:
    """What a second step gets by a reference to a first one's whole result."""
    taken: list[Any] = []
    run_flow(
        [source, taking(taken)],
        step("s1", source.name, **more),
        step("s2", "take", ["s1"], arguments={"what": "{{s1}}"}),
    )
    return taken


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


@pytest.mark.req("W-01", "W-71")
def test_a_reference_reads_the_value_that_the_tool_returned():
    wrong = {}
    for name, value, wanted in VALUES:
        taken = passed_on(fetching(value))
        if not taken or not same(taken[0], wanted):
            wrong[name] = taken
    assert wrong == {}


@pytest.mark.req("W-01")
@pytest.mark.parametrize("value", ["", {}, None, np.array([])])
def test_nothing_is_empty_and_keeps_the_write_behind_it_from_running(value: Any):
    assert passed_on(fetching(value), expect="output is not empty") == []
    assert len(passed_on(fetching(value), expect="output is empty")) == 1


@pytest.mark.req("W-01")
def test_zero_and_false_are_not_empty():
    for value in (0, False):
        assert len(passed_on(fetching(value), expect="output is not empty")) == 1


@pytest.mark.req("W-01")
@pytest.mark.parametrize("value", [b"abc", {"a": [1, b"x"]}, np.array([b"x"])])
def test_bytes_are_refused_with_a_sentence(value: Any):
    taken: list[Any] = []
    state = run_flow(
        [fetching(value), taking(taken)],
        step("s1", "fetch"),
        step("s2", "take", ["s1"], arguments={"what": "{{s1}}"}),
    )
    assert taken == []
    assert "bytes" in str(state["outcome"])


class Own(BaseTool):
    """A class of tool with a state of its own."""

    name: str = "fetch"
    description: str = "Fetch it."
    count: int = 0

    def _run(self) -> Any:
        self.count += 1
        return []


@tool(response_format="content_and_artifact")
def both() -> Any:
    """Give both."""
    return {"a": 1}, {"deep": dt.date(2026, 1, 2)}


async def numbers() -> Any:
    """Give numbers."""
    for n in range(3):
        yield n


async def later() -> Any:
    """Give nothing, later."""
    return []


@pytest.mark.req("W-01")
def test_every_make_of_a_tool_hands_over_its_value():
    own = Own()
    assert passed_on(own) == [[]]
    assert own.count == 1
    assert passed_on(both) == [{"a": 1}]
    gives = StructuredTool.from_function(numbers, name="numbers", description="Give.")
    assert passed_on(gives) == [[0, 1, 2]]
    assert passed_on(tool(later)) == [[]]


@pytest.mark.req("W-01")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], "(no output)"), ("", "(no output)"), (["a", "b"], "a\nb"), (5, "5"), (False, "false"),
        (None, "null"), ({"a": 1}, '{"a": 1}'), ("hello", "hello"),
    ],
)  # fmt: skip
def test_a_model_sees_text_as_before(value: Any, text: str):
    model = one_step(action=[[call("fetch")]])
    graph = build_react(model=model, tools=[fetching(value)], observe="direct")
    state = graph.invoke(said(), context=Context(interactive=False))
    (message,) = [m for m in state["messages"] if m.type == "tool"]
    assert message.content == text
    if value not in (None, "hello"):
        assert same(message.artifact["data"], value)


class Breaks(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("the line is down")


@pytest.mark.req("W-01")
def test_a_write_whose_value_cannot_be_read_was_made_and_is_not_made_again():
    paid = []

    def pay() -> Any:
        """Pay."""
        paid.append(1)
        return Breaks(a=1)

    model = ScriptedModel({"flow_planner": [flow(step("w", "pay"))], "answerer": citing})
    outcome = build_prompt_flow(model=model, tools=[pay]).invoke(said())["outcome"]
    assert (outcome["status"], paid) == ("complete", [1]), outcome
    told = outcome["tasks"][0]["result"]
    assert told.startswith("The call was made and has ended, but")
    assert "cannot be read: RuntimeError: the line is down" in told
