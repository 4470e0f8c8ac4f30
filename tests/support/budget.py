"""How much of a table is tried: what the suite can pay, or all of it."""

from collections.abc import Sequence
from itertools import cycle, product
from typing import Any, Final

from hypothesis import settings

THOROUGH: Final = settings().max_examples >= 1_000
"""Whether the suite searches: `--hypothesis-profile thorough`."""
MANY: Final = 400 if THOROUGH else 150
"""Calls in a row; either is more than any setting allows by default."""
STEP: Final = 1 if THOROUGH else 2
"""From one moment of a run to the next at which something happens to it."""


def alongside(rows: Sequence[tuple[Any, ...]], ways: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Every row in one of the ways, turn and turn about; in a thorough run in each of them."""
    if THOROUGH:
        return [(*row, *way) for row, way in product(rows, ways)]
    return [(*row, *way) for row, way in zip(rows, cycle(ways), strict=False)]
