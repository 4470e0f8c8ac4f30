"""The shop of the refund case: a SQLite file with orders, the refund policy, and what was done."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

_TABLES: Final = """
CREATE TABLE orders (order_id TEXT PRIMARY KEY, customer TEXT, item TEXT, paid REAL, status TEXT);
CREATE TABLE policies (topic TEXT PRIMARY KEY, rule TEXT, refundable INTEGER, working_days INTEGER);
CREATE TABLE refunds (number INTEGER PRIMARY KEY, order_id TEXT, amount REAL, reason TEXT);
CREATE TABLE replies (number INTEGER PRIMARY KEY, order_id TEXT, text TEXT);
"""
_ORDERS: Final = [
    ("A-1041", "Grace Hopper", "Desk Vela", 429.0, "in transit"),
    ("A-1042", "Ada Byron", "Lamp Juno", 149.0, "delivered"),
]
_POLICIES: Final = [
    ("damaged", "an item that arrives damaged is refunded in full", 1, 5),
    ("changed mind", "an unused item can be sent back within 14 days", 1, 10),
    ("worn", "an item worn by use is repaired, not refunded", 0, 0),
]


class Shop:
    """Reads and writes of the file; each is one transaction."""

    def __init__(self, path: Path) -> None:
        """Open the shop, with its two orders where there is no file yet."""
        self._path = path
        if not path.exists():
            with closing(sqlite3.connect(path)) as database, database:
                database.executescript(_TABLES)
                database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", _ORDERS)
                database.executemany("INSERT INTO policies VALUES (?, ?, ?, ?)", _POLICIES)

    def rows(self, sql: str, *values: object) -> list[dict[str, Any]]:
        """The rows of one statement, by column."""
        with closing(sqlite3.connect(self._path, timeout=10)) as database, database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(sql, values)]

    def add(self, table: str, **values: object) -> int:
        """Add a row and give its number."""
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        sql = f"INSERT INTO {table} ({names}) VALUES ({marks}) RETURNING number"
        return int(self.rows(sql, *values.values())[0]["number"])
