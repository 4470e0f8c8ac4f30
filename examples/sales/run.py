"""Analyse two years of sales: SQL over a CSV file, charts and a written report, by one plan.

    python examples/sales/run.py [--out FOLDER] [--model provider:name]

Needs the extra `examples`. Without --model a scripted one writes plan and words, and no key is
needed; the tools, the data and the numbers are real.
"""

import argparse
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from analyst import GOAL, analyst
from generate import write_sales

from loopwright import LoopwrightError, build_prompt_flow

HERE = Path(__file__).parent


def servers(out: Path) -> dict[str, Any]:
    """The MCP server on this folder; what it may write there is approved once and for all.

    It is trusted: nobody else writes into its table, so figures that a model makes of it may go
    into the report.
    """
    arguments = [str(HERE / "server.py"), "--sales", str(out / "sales.csv"), "--out", str(out)]
    approved = ["draw_chart", "write_report"]
    own = {"autoApprove": approved, "origin": "trusted"}
    return {"sales": {"command": sys.executable, "args": arguments, **own}}


class Timeline:
    """When each step ran."""

    def __init__(self) -> None:
        """Begin now."""
        self._zero = time.monotonic()
        self._began: dict[str, float] = {}
        self._lines: list[tuple[str, float, float, str]] = []

    def takes(self, event: Mapping[str, Any]) -> None:
        """Note the start or the end of a step; show a plan."""
        now = time.monotonic() - self._zero
        if event["type"] == "plan":
            say("Plan")
            for step in event["todos"]:
                after = ", ".join(step.get("depends_on") or [])
                say(f"  {step['id']:14} {step['tool']:15} {after and f'after {after}'}".rstrip())
        elif event["type"] == "prompt_flow_step_start":
            self._began.setdefault(event["step_id"], now)
        elif event["type"] == "prompt_flow_step_result":
            step = event["step_id"]
            self._lines.append((step, self._began.get(step, now), now, event["status"]))

    def show(self, width: int = 40) -> None:
        """Print a line for each step, from the start of the first to the end of the last."""
        if not self._lines:
            return
        first, last = min(line[1] for line in self._lines), max(line[2] for line in self._lines)
        scale = width / max(last - first, 0.001)
        say(f"\nTimeline, {last - first:.1f} s")
        for step, began, ended, status in self._lines:
            indent = min(int((began - first) * scale), width - 1)
            bar = " " * indent + "=" * max(1, round((ended - began) * scale))
            say(f"  {step:14} |{bar[:width]:{width}}| {ended - began:4.2f} s {status}")


def run(out: Path, model: Any) -> dict[str, Any]:
    """Run the goal in this folder and give its outcome."""
    graph = build_prompt_flow(model=model, mcp=servers(out))
    timeline = Timeline()
    outcome: dict[str, Any] = {}
    asked = {"messages": [("user", GOAL)]}
    for mode, data in graph.stream(asked, stream_mode=["custom", "values"]):
        if mode == "custom":
            timeline.takes(data)
        else:
            outcome = data.get("outcome") or outcome
    timeline.show()
    return outcome


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)  # noqa: T201 - a program for the terminal


def main() -> int:
    """Exit code 0 for a complete outcome, 3 for another one, 4 for none."""
    parser = argparse.ArgumentParser(description="Analyse two years of sales.")
    parser.add_argument("--out", type=Path, default=Path("build/sales"), help="where files go")
    parser.add_argument("--model", help="provider:name; without it a scripted model answers")
    chosen = parser.parse_args()
    if any(find_spec(name) is None for name in ("duckdb", "matplotlib")):
        parser.exit(2, "DuckDB or Matplotlib is missing: pip install -e '.[examples]'\n")
    out = chosen.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    say(f"{write_sales(out / 'sales.csv'):,} rows in {chosen.out / 'sales.csv'}")
    try:
        outcome = run(out, chosen.model or analyst())
    except LoopwrightError as error:
        parser.exit(4, f"{error}\n")
    say(f"\n{outcome['answer']}\n\n{outcome['headline']}")
    for path in sorted(out.iterdir()):
        say(f"  {chosen.out / path.name}")
    return 0 if outcome["status"] == "complete" else 3


if __name__ == "__main__":
    sys.exit(main())
