"""The results of steps as data: what the state keeps of one says what the tool gave."""

from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from loopwright.calls.result_store import ResultStore
from loopwright.calls.results import ToolResult
from loopwright.flow.references import MissingValue
from loopwright.nodes.flow.flow_pass import StepResults
from loopwright.state.flow import FlowStep, read_value


def results(store=None, *, lasts=True):
    return StepResults(ResultStore(store or InMemoryStore(), "t"), lasts=lasts)


def as_step(kept: FlowStep) -> FlowStep:
    return FlowStep(id="a", status="completed") | kept


TABLE: list[tuple[str, Any, Any, str]] = [
    # what a model is shown, what else the tool gave, the data, how the state holds it
    ("plain words", None, "plain words", "text"),
    ("plain words", "plain words", "plain words", "text"),
    ('{"a": 1}', None, {"a": 1}, "json"),
    ('{"a": 1}', {"a": 1}, {"a": 1}, "json"),
    ("[1, 2]", [1, 2], [1, 2], "json"),
    ("see data", {"total": 41}, {"total": 41}, "value"),
    ("42", 42, 42, "json"),
    ("42", None, "42", "text"),
    ("42", "42", "42", "text"),
    ("true", True, True, "json"),
    ("null", None, None, "json"),
    ("", None, "", "text"),
    ("{broken", None, "{broken", "text"),
    ("{broken", {"a": 1}, {"a": 1}, "value"),
    ('{"a": 1}', '{"a": 1}', '{"a": 1}', "text"),
    ("0", False, False, "value"),
]


@pytest.mark.req("S2-26")
@pytest.mark.parametrize(("text", "data", "wanted", "shape"), TABLE)
async def test_a_result_is_read_back_as_it_came(text, data, wanted, shape):
    given, kept = await results().keep_result(text, data, "")
    assert kept["shape"] == shape
    for read in (given, read_value(as_step(kept))):
        assert (read, type(read)) == (wanted, type(wanted))


@pytest.mark.parametrize("lasts", [True, False])
async def test_a_long_result_is_whole_again(lasts):
    store = InMemoryStore()
    long = ToolResult('{"rows": [' + ", ".join(map(str, range(500))) + "]}")
    shown, stored = await ResultStore(store, "t").shorten(long, 500)
    made = results(store, lasts=lasts)
    given, kept = await made.keep_result(shown.text, None, stored)
    assert kept["shape"] == ("stored" if lasts else "value")
    assert (await made.data(as_step(kept))) == given
    assert given["rows"][499] == 499


async def test_a_long_result_that_the_store_has_lost_is_missed_and_not_half_read():
    step: FlowStep = {"id": "a", "status": "completed", "shape": "stored", "stored": "gone"}
    with pytest.raises(MissingValue, match="'a'"):
        await results().data(step)
