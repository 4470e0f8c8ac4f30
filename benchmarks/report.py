"""What a benchmark found: on the terminal, and as tables and a plot in docs/."""

import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, PLOT = DOCS / "costs.md", DOCS / "costs.svg"
BEGIN, END = "<!-- measured -->", "<!-- /measured -->"
PACKAGES = ("langgraph", "langchain", "langchain-openai", "openai")


@dataclass(frozen=True)
class Goal:
    """A number and the most it may be."""

    name: str
    value: float
    most: float
    unit: str = "x"

    @property
    def met(self) -> bool:
        """Whether it is as it should be."""
        return self.value <= self.most

    def row(self) -> list[str]:
        """As a table has it."""
        unit = "x" if self.unit == "x" else f" {self.unit}" if self.unit else ""
        most = f"{self.most:g}{unit}"
        return [self.name, f"{self.value:.2f}{unit}", most, "yes" if self.met else "**no**"]


@dataclass(frozen=True)
class Part:
    """What was measured of one thing; the first row of the table is its head."""

    title: str
    goals: list[Goal]
    table: list[list[str]]
    paged: dict[str, str] = field(default_factory=dict)
    """The columns that the page shows, by their head in the table: what the page calls them."""
    curves: dict[str, dict[str, list[tuple[int, float]]]] = field(default_factory=dict)


def shown(part: Part) -> str:
    """As the terminal has it."""
    goals = [["goal", "measured", "at most", "met"], *(goal.row() for goal in part.goals)]
    return f"\n{part.title}\n{columns(goals)}\n{columns(part.table)}\n"


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Cells under each other."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(f"  {line}" for line in lines)


def table(rows: Sequence[Sequence[str]]) -> str:
    """In Markdown."""
    head, *body = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body])


def machine(took: float, size: str) -> str:
    """Where, when and with what it was measured."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        cwd=DOCS,
        check=True,
    ).stdout.strip()
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    load = os.getloadavg()[0]
    return (
        f"Measured on {datetime.now(UTC):%Y-%m-%d} at commit {commit} in {took / 60:.0f} minutes"
        f" ({size} size): {os.cpu_count()} cores, load {load:.1f} at "
        f"the end, Python {platform.python_version()}, {versions}."
    )


def written(parts: Sequence[Part], took: float, size: str) -> None:
    """Put one table of results, and the plot, into the docs."""
    lines = [machine(took, size), table(join_tables(parts))]
    for part in parts:
        if part.curves:
            draw(part)
            lines.append(f"![{part.title}, by turns of a run]({PLOT.name})")
    page = PAGE.read_text()
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n\n".join(lines) + f"\n{END}{after}")


def join_tables(parts: Sequence[Part]) -> list[list[str]]:
    """A row for each of the first part, a column for each result that the page shows."""
    columns = [(part, head) for part in parts for head in part.paged]
    rows = {row[0]: [row[0]] for part, _ in columns[:1] for row in part.table[1:]}
    for part, head in columns:
        place = part.table[0].index(head)
        cells = {row[0]: row[place] for row in part.table[1:]}
        for name, row in rows.items():
            row.append(cells.get(name, ""))
    return [["", *(part.paged[head] for part, head in columns)], *rows.values()]


def draw(part: Part) -> None:
    """Draw the curves, a panel each."""
    import matplotlib  # noqa: PLC0415

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "costs", "svg.fonttype": "none"}
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, panels = plt.subplots(1, len(part.curves), figsize=(13, 4), sharey=True)
    for panel, (title, lines) in zip(panels, part.curves.items(), strict=True):
        for name, points in lines.items():
            panel.plot(*zip(*points, strict=True), marker="o", label=name)
        panel.set(title=title, xscale="log", yscale="log", xlabel="turns of a run")
        panel.grid(visible=True, alpha=0.3)
    panels[0].set(ylabel="CPU of a model call, ms")
    panels[-1].legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(PLOT, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
