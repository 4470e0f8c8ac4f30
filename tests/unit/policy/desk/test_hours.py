"""Opening hours of a desk."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from loopwright.policy.desk.company import Company, find_hours_problem, find_next_opening, is_open

HOURS = ("mon-fri 09:00-17:30", "sat 10:00-14:00")


def at(day: int, time: str) -> datetime:
    """The 23rd is a Monday."""
    return datetime.fromisoformat(f"2026-11-{day}T{time}").replace(tzinfo=UTC)


@pytest.mark.parametrize(("day", "time", "is_so"), [
    (23, "09:00", True), (23, "08:59", False), (27, "17:29", True), (27, "17:30", False),
    (28, "10:00", True), (28, "14:00", False), (29, "12:00", False),
])  # fmt: skip
def test_each_border_belongs_to_one_side(day, time, is_so):
    assert is_open(HOURS, at(day, time)) == is_so
    assert is_open((), at(day, time))


@pytest.mark.parametrize(("day", "time", "opens"), [
    (23, "12:00", at(23, "12:00")), (23, "07:00", at(23, "09:00")), (23, "18:00", at(24, "09:00")),
    (27, "18:00", at(28, "10:00")), (28, "14:00", at(30, "09:00")),
])  # fmt: skip
def test_the_next_opening_is_found(day, time, opens):
    assert find_next_opening(HOURS, at(day, time)) == opens


@pytest.mark.parametrize(
    "wrong", ["", "daily", "mon 9-17", "mon-xyz 09:00-17:00", "mon 25:00-26:00"]
)
def test_what_cannot_be_read_is_told(wrong):
    assert "is no opening time" in find_hours_problem(wrong)
    with pytest.raises(ValidationError, match="is no opening time"):
        Company(hours=(wrong,))
