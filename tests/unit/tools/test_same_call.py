from typing import Any

import pytest

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
    return tool.content(one) == tool.content(other)


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
