"""MCP server over one CSV file: SQL to read it, charts and reports to write into one folder.

python examples/sales/server.py --sales sales.csv --out FOLDER
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

import anyio.to_thread
import duckdb
from mcp.server.fastmcp import FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field
from typing_extensions import TypedDict

_ANSWER: Final = Path(__file__).with_name("answer.py")
MOST_SECONDS: Final = 20.0
_TYPES: Final = {
    "date": "DATE",
    "region": "VARCHAR",
    "product": "VARCHAR",
    "units": "INTEGER",
    "price": "DECIMAL(10,2)",
    "revenue": "DECIMAL(12,2)",
}
_READS: Final = ToolAnnotations(readOnlyHint=True, openWorldHint=False)
_WRITES: Final = ToolAnnotations(
    readOnlyHint=False, destructiveHint=False, idempotentHint=True, openWorldHint=False
)
_Path = Annotated[str, Field(description="Path inside the output folder")]


class Table(TypedDict):
    """Rows of a query."""

    columns: list[str]
    rows: list[dict[str, Any]]
    row_count: int


class Description(TypedDict):
    """What there is to be asked about."""

    table: str
    columns: dict[str, str]
    row_count: int
    first_day: str
    last_day: str
    regions: list[str]
    products: list[str]


class Written(TypedDict):
    """A file in the output folder."""

    path: str
    bytes: int


class Sales:
    """The tools; their docstrings and field descriptions are what a model chooses by."""

    def __init__(self, sales: Path, out: Path) -> None:
        """Load the file into a database, which is only read from then on."""
        self._out = out.resolve()
        self._folder = tempfile.TemporaryDirectory(prefix="sales")
        self._file = Path(self._folder.name) / "sales.duckdb"
        with duckdb.connect(str(self._file)) as database:
            self._load(database, sales)

    @staticmethod
    def _load(database: duckdb.DuckDBPyConnection, sales: Path) -> None:
        columns = ", ".join(f"{name} {kind}" for name, kind in _TYPES.items())
        database.execute(f"CREATE TABLE sales ({columns})")
        database.execute("INSERT INTO sales SELECT * FROM read_csv(?)", [str(sales)])

    def close(self) -> None:
        """Remove the database."""
        self._folder.cleanup()

    async def describe_sales(self) -> Description:
        """Describe the table of sales: columns, number of rows, days, regions and products."""
        table = await self.query_sales(
            "SELECT count(*) AS row_count, min(date) AS first_day, max(date) AS last_day,"
            " list_sort(list(DISTINCT region)) AS regions,"
            " list_sort(list(DISTINCT product)) AS products FROM sales"
        )
        return cast("Description", {"table": "sales", "columns": _TYPES, **table["rows"][0]})

    async def query_sales(
        self, sql: Annotated[str, Field(description="One SELECT over the table sales")]
    ) -> Table:
        """Ask the table of sales in DuckDB's SQL. Gives at most 1,000 rows: aggregate."""
        return await anyio.to_thread.run_sync(self._asked, sql)

    def _asked(self, sql: str) -> Table:
        command = [sys.executable, str(_ANSWER), str(self._file)]
        try:
            done = subprocess.run(
                command, input=sql.encode(), capture_output=True, timeout=MOST_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            message = f"The query was stopped after {MOST_SECONDS:.0f} seconds: ask for less."
            raise ToolError(message) from None
        if not done.stdout:  # the system ended it
            message = "The query needs more memory than it may take: ask for less."
            raise ToolError(message)
        said = json.loads(done.stdout)
        if "problem" in said:
            raise ToolError(said["problem"])
        return cast("Table", said["table"])

    async def draw_chart(
        self,
        title: str,
        rows: Annotated[list[dict[str, Any]], Field(description="Such as a query's rows")],
        x: Annotated[str, Field(description="The key of the labels")],
        y: Annotated[str, Field(description="The key of the numbers")],
        path: _Path,
        kind: Literal["bar", "line"] = "bar",
    ) -> Written:
        """Draw a chart of rows into a PNG file in the output folder, replacing it."""
        place = self._place(path, ".png")
        labels, values = [str(_of(row, x)) for row in rows], [_number(row, y) for row in rows]
        if not rows:
            message = "There are no rows to draw: ask for some first."
            raise ToolError(message)
        await anyio.to_thread.run_sync(_draw, place, title, y, labels, values, kind)
        return Written(path=path, bytes=place.stat().st_size)

    async def write_report(self, path: _Path, markdown: str) -> Written:
        """Write a Markdown file into the output folder, replacing it."""
        place = self._place(path, ".md")
        place.write_text(markdown, encoding="utf-8")
        return Written(path=path, bytes=place.stat().st_size)

    def _place(self, path: str, suffix: str) -> Path:
        place = (self._out / path).resolve()
        if not place.is_relative_to(self._out) or place.suffix != suffix:
            message = f"{path!r} is no place to write: name a {suffix} file in the output folder."
            raise ToolError(message)
        place.parent.mkdir(parents=True, exist_ok=True)
        return place


def _of(row: dict[str, Any], key: str) -> Any:
    if key not in row:
        message = f"A row has no {key!r}; it has {', '.join(map(repr, row))}."
        raise ToolError(message)
    return row[key]


def _number(row: dict[str, Any], key: str) -> float:
    value = _of(row, key)
    if not isinstance(value, int | float):
        message = f"{key!r} is {value!r} in one row: a chart needs numbers there."
        raise ToolError(message)
    return float(value)


def _draw(
    place: Path, title: str, unit: str, labels: list[str], values: list[float], kind: str
) -> None:
    # Slow to import: a run that draws nothing need not wait for it.
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(8, 4), dpi=100, layout="constrained")
    axes = figure.subplots()
    if kind == "line":
        axes.plot(labels, values, marker="o")
        axes.set_ylim(bottom=0)
    else:
        axes.bar(labels, values)
    axes.set_title(title)
    axes.set_ylabel(unit)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.tick_params(axis="x", rotation=60 if len(labels) > 6 else 0)
    figure.savefig(place)


def main() -> None:
    """Serve over stdio until stdin closes."""
    parser = argparse.ArgumentParser(description="MCP server over one CSV file of sales")
    parser.add_argument("--sales", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    sales = Sales(chosen.sales, chosen.out)
    server = FastMCP("sales", log_level="ERROR")
    for read in (sales.describe_sales, sales.query_sales):
        server.add_tool(read, annotations=_READS)
    for write in (sales.draw_chart, sales.write_report):
        server.add_tool(write, annotations=_WRITES)
    server.run("stdio")
    sales.close()
    os._exit(0)  # taking down all that was imported would take a second


if __name__ == "__main__":
    main()
