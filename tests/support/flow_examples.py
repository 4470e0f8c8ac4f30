"""The programs of examples/sales and examples/refund: run as processes, or taken apart."""

import csv
import importlib.util
import sqlite3
import subprocess
import sys
from collections import defaultdict
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

from support import forked
from support.shops import LUMEN, desk_server, make_shop

EXAMPLES = Path(__file__).parents[2] / "examples"


def module(example: str, name: str) -> Any:
    """One module of an example, under a name of its own."""
    path = EXAMPLES / example / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"example_{example}_{name}", path)
    assert spec
    assert spec.loader
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def command(example: str, *args: str) -> list[str]:
    """Runs an example; a warning ends it."""
    return [sys.executable, "-W", "error", str(EXAMPLES / example / "run.py"), *args]


def server(**options: Path) -> dict[str, Any]:
    """The MCP configuration of the sales example; every write asks."""
    script = str(EXAMPLES / "sales" / "server.py")
    args = [part for name, path in options.items() for part in (f"--{name}", str(path))]
    return {
        "sales": {"command": forked.server().python, "args": [script, *args], "origin": "trusted"}
    }


def shop(folder: Path) -> dict[str, Any]:
    """The MCP configuration of a support desk on a new shop; every write asks."""
    make_shop(LUMEN, folder / "shop.db")
    return {"shop": desk_server(forked.server().python, folder / "shop.db")}


def left_running(folder: Path) -> list[str]:
    """The command lines that still name this folder."""
    table = subprocess.run(["ps", "-Aww", "-o", "args="], capture_output=True, text=True)
    return [line for line in table.stdout.splitlines() if str(folder) in line]


def revenue(sales: Path, key: str, length: int | None = None) -> dict[str, Decimal]:
    """Sums of the CSV file by the first characters of a column."""
    sums: defaultdict[str, Decimal] = defaultdict(Decimal)
    with sales.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            sums[row[key][:length]] += Decimal(row["revenue"])
    return dict(sums)


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    """What stands in a table of the shop."""
    with closing(sqlite3.connect(folder / "shop.db")) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute(f"SELECT * FROM {table}")]
