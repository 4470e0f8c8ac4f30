from typing import Any

import pytest

from loopwright.calls.spelling import as_sent
from loopwright.state.canonical import canonical
from loopwright.tools.catalog import CatalogTool

FIELDS: dict[str, Any] = {
    "amount": {"type": "number"},
    "currency": {"type": "string", "default": "EUR"},
    "lines": {"type": "array"},
    "urgent": {"type": "boolean"},
    "copies": {"type": "number", "default": 1.0},
}
PAY = CatalogTool(
    name="pay",
    description="",
    schema={"type": "object", "properties": FIELDS, "required": ["amount"]},
)


def same(one, other, tool=PAY):
    return canonical(as_sent(one, tool)) == canonical(as_sent(other, tool))


@pytest.mark.parametrize(
    "other",
    [
        {"amount": 3.0},
        {"amount": "3"},
        {"amount": "3.0"},
        {"amount": 3, "copies": 1},
        {"amount": 3, "currency": "EUR"},
        {"currency": "EUR", "amount": 3},
        {"amount": 3, "urgent": None},
    ],
    ids=repr,
)
def test_these_are_one_call(other):
    assert same({"amount": 3}, other)


def test_numbers_are_the_same_however_deep_they_stand():
    assert same({"amount": 3, "lines": [{"n": 1}]}, {"amount": 3, "lines": [{"n": 1.0}]})


@pytest.mark.parametrize(
    "other",
    [
        {"amount": 3.5},
        {"amount": 3, "currency": "USD"},
        {"amount": 3, "currency": ""},
        {"amount": 3, "urgent": False},
        {"amount": True},
    ],
    ids=repr,
)
def test_these_are_two_calls(other):
    assert not same({"amount": 3}, other)


def test_of_a_tool_that_is_gone_only_the_very_same_arguments_are_the_same():
    assert same({"amount": 3}, {"amount": 3}, tool=None)
    assert not same({"amount": 3}, {"amount": "3"}, tool=None)
