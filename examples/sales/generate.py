"""Write sales.csv: two made-up years of a shop, the same for the same seed.

Lamps sell in winter, fans in summer, desks all year; one day is out of line (`ODD`).

    python examples/sales/generate.py FOLDER
"""

import csv
import math
import random
import sys
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Final, NamedTuple

COLUMNS: Final = ("date", "region", "product", "units", "price", "revenue")
FIRST: Final = date(2024, 1, 1)
DAYS: Final = 731
REGIONS: Final = {"North": 1.3, "South": 1.0, "East": 0.8, "West": 0.6}
"""Region to its share of what an average region sells."""


class Product(NamedTuple):
    """Price in cents, units of an average day and region, and how they vary over the year."""

    price: int
    units: float
    swing: float
    peak: int
    """Day of the year."""


PRODUCTS: Final = {
    "Desk Vela": Product(42_900, 4.0, 0.0, 1),
    "Fan Alba": Product(5_950, 9.0, 0.7, 197),
    "Lamp Juno": Product(14_900, 14.0, 0.6, 349),
}


class Odd(NamedTuple):
    """The sale that is out of line: on this day the units are so many times the usual ones."""

    day: date
    region: str
    product: str
    times: int


ODD: Final = Odd(date(2025, 5, 14), "South", "Desk Vela", 12)


def write_sales(path: Path, seed: int = 7) -> int:
    """Write the file and give its number of rows, one for each day, region and product sold."""
    rows = list(_rows(random.Random(seed)))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([COLUMNS, *rows])
    return len(rows)


def _rows(dice: random.Random) -> Iterator[tuple[str, str, str, int, str, str]]:
    for day in (FIRST + timedelta(days=n) for n in range(DAYS)):
        for region, share in REGIONS.items():
            for name, product in PRODUCTS.items():
                units = round(_usual(product, day) * share * (0.75 + 0.5 * dice.random()))
                if (day, region, name) == ODD[:3]:
                    units *= ODD.times
                if units:
                    money = (_money(product.price), _money(units * product.price))
                    yield (day.isoformat(), region, name, units, *money)


def _usual(product: Product, day: date) -> float:
    turn = (day.timetuple().tm_yday - product.peak) / 365.25
    return product.units * (1 + product.swing * math.cos(2 * math.pi * turn))


def _money(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}"


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    print(write_sales(folder / "sales.csv"), "rows")  # noqa: T201 - says what it wrote
