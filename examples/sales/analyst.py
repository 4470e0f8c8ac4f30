"""Stands in for a language model: one plan as a model would write it, and words made by rule.

The words are made from the numbers that stand in the prompt, and from nothing else.
"""

import json
import re
from typing import Any, Final

from langchain_core.messages import BaseMessage

from loopwright import ScriptedModel

GOAL: Final = (
    "Analyse the sales: by month, by region and by product. Say what is seasonal and what is out "
    "of line. Draw the revenue by month and by product, and write a report into report.md."
)

_PROMPT: Final = """\
Write the analysis of a sales report as Markdown: the total in the first line, then the seasons, \
a table of the regions, a table of the products, and the days out of line. Use these numbers only.
By month: {{by_month.rows}}
By region: {{by_region.rows}}
By product: {{by_product.rows}}
Odd days: {{odd_days.rows}}"""

_REPORT: Final = """\
# Sales from {{describe.first_day}} to {{describe.last_day}}

{{analysis}}

![Revenue by month]({{month_chart.path}})

![Revenue by product]({{product_chart.path}})
"""

_ODD_DAYS: Final = """\
WITH days AS (SELECT date, sum(revenue) AS revenue FROM {{describe.table}} GROUP BY date),
around AS (
  SELECT *, median(revenue) OVER (
    ORDER BY date ROWS BETWEEN 15 PRECEDING AND 15 FOLLOWING
  ) AS usual FROM days
)
SELECT date, revenue, round(revenue / usual, 2) AS times FROM around
WHERE revenue > {{global.odd}} * usual ORDER BY times DESC LIMIT 5"""


def _totals(id_: str, of: str) -> dict[str, Any]:
    total = "sum(units) AS units, sum(revenue) AS revenue FROM {{describe.table}}"
    name = id_.removeprefix("by_")
    return {
        "id": id_,
        "description": f"Units and revenue by {name}",
        "tool": "query_sales",
        "params": {"sql": f"SELECT {of} AS {name}, {total} GROUP BY 1 ORDER BY 1"},
        "expect": "row_count > 0",
    }


def _chart(id_: str, of: str, kind: str) -> dict[str, Any]:
    rows = {"rows": f"{{{{by_{of}.rows}}}}", "x": of, "y": "revenue", "kind": kind}
    return {
        "id": id_,
        "description": f"Chart of the revenue by {of}",
        "tool": "draw_chart",
        "params": {"title": f"Revenue by {of}", "path": f"revenue_by_{of}.png", **rows},
        "expect": "bytes > 5000",
        "retryCount": 1,
    }


PLAN: Final[dict[str, Any]] = {
    "goal": "A report of the sales with charts, seasons and odd days",
    "globalVariables": {"report": "report.md", "odd": 1.5},
    "metadata": {"createdBy": "analyst", "estimatedSteps": 9, "complexity": "medium"},
    "steps": [
        {"id": "describe", "description": "What the table holds", "tool": "describe_sales"},
        _totals("by_month", "strftime(date, '%Y-%m')"),
        _totals("by_region", "region"),
        _totals("by_product", "product"),
        {
            "id": "odd_days",
            "description": "Days far above what is usual around them",
            "tool": "query_sales",
            "params": {"sql": _ODD_DAYS},
        },
        _chart("month_chart", "month", "line"),
        _chart("product_chart", "product", "bar"),
        {
            "id": "analysis",
            "description": "The analysis in words",
            "tool": "llm_call",
            "params": {"prompt": _PROMPT},
        },
        {
            "id": "report",
            "description": "The report",
            "tool": "write_report",
            "params": {"path": "{{global.report}}", "markdown": _REPORT},
        },
    ],
}


def analyst() -> ScriptedModel:
    """A chat model for this goal; each role it plays answers by rule."""
    return ScriptedModel(
        {
            "flow_planner": [PLAN],
            "llm_call": _analysed,
            "answerer": _answered,
            "recovery": [{"strategy": "give_up", "reason": "This plan is the only one I know."}],
        }
    )


def _analysed(messages: list[BaseMessage], _: list[str]) -> str:
    asked = messages[-1].text
    months, regions, products, odd = (
        json.loads(re.findall(rf"^{name}: (.*)$", asked, re.MULTILINE)[-1])
        for name in ("By month", "By region", "By product", "Odd days")
    )
    total = sum(month["revenue"] for month in months)
    lines = [
        f"Revenue from {months[0]['month']} to {months[-1]['month']} was {total:,.2f}.",
        _seasons(months),
        *(_shares(rows, total) for rows in (regions, products)),
        *(
            f"Out of line: {d['date']} with {d['revenue']:,.2f}, {d['times']} times usual."
            for d in odd
        ),
    ]
    return "\n\n".join(lines)


def _seasons(months: list[dict[str, Any]]) -> str:
    """The strongest and the weakest month of each year."""
    years = sorted({month["month"][:4] for month in months})
    lines = []
    for year in years:
        of_year = [month for month in months if month["month"].startswith(year)]
        best = max(of_year, key=lambda month: month["revenue"])
        worst = min(of_year, key=lambda month: month["revenue"])
        lines.append(
            f"- {year}: most in {best['month']} ({best['revenue']:,.2f}), "
            f"least in {worst['month']} ({worst['revenue']:,.2f})"
        )
    return "\n".join(lines)


def _shares(rows: list[dict[str, Any]], total: float) -> str:
    name = next(iter(rows[0]))
    body = (
        f"| {row[name]} | {row['units']} | {row['revenue']:,.2f} | {row['revenue'] / total:.1%} |"
        for row in rows
    )
    return "\n".join([f"| {name} | units | revenue | share |", "|---|---|---|---|", *body])


def _answered(messages: list[BaseMessage], _: list[str]) -> str:
    """The first line of the analysis, with the steps it is taken from."""
    found = re.search(r"Revenue from \S+ to \S+ was [\d,.]+\d\.", messages[-1].text)
    headline = f"{found[0]} [analysis]" if found else "The analysis is missing."
    return f"{headline} Seasons, shares and odd days are in the report. [report]"
