"""complete_task: the one way in which an agent ends its work, with what came of it."""

from collections.abc import Mapping
from functools import partial
from typing import Any, get_args

from ...calls.own import Own
from ...calls.results import ToolResult, failure
from ...models.typed_result import ResultSchema
from ...state.agent import COMPLETE_TASK, Report, Status
from ...state.told import say
from ...tools.catalog import CatalogTool

_TEXTS = {"type": "array", "items": {"type": "string"}}


def complete_task(output: ResultSchema | None, name: str) -> CatalogTool:
    """The tool of an agent whose output must be so; it runs behind all else of its message."""
    about = {
        "summary": {"type": "string", "minLength": 1, "description": say("complete_summary")},
        "status": {"type": "string", "enum": [*get_args(Status)], "default": "success"},
        "unmet": {**_TEXTS, "description": say("complete_unmet")},
    }
    if output is not None:
        about["output"] = {**output.schema, "description": name}
    return CatalogTool(
        name=COMPLETE_TASK,
        description=say("complete_task_tool"),
        schema={"type": "object", "properties": about, "required": ["summary"]},
        original=COMPLETE_TASK,
        idempotent=True,
        own=partial(_complete, output),
    )


async def _complete(output: ResultSchema | None, args: Mapping[str, Any], own: Own) -> ToolResult:
    """Take the report, unless something of the same message speaks against it."""
    failed = [(r["tool"], r["id"]) for r in own.beside if r["status"] != "success"]
    failed += [(call["name"], call["id"]) for call in getattr(own.state, "delegations", ())]
    if failed:
        calls = ", ".join(f"{tool} ({name})" for tool, name in failed)
        return failure(say("not_complete_yet", calls=calls))
    report, problem = report_of(args, output)
    if problem:
        return failure(say("output_does_not_fit", why=problem))
    update = {"report": report, "task_completed": report["status"] == "success"}
    return ToolResult(say("completed"), update=update)


def report_of(args: Mapping[str, Any], output: ResultSchema | None) -> tuple[Report, str]:
    """The report that arguments make, and what is wrong with its output.

    Only success must bring an output; what is there must fit.
    """
    report = Report(
        status=args.get("status", "success"), summary=str(args["summary"]),
        unmet=[*args.get("unmet", [])],
    )  # fmt: skip
    if output is None or (args.get("output") is None and report["status"] != "success"):
        return report, ""
    report["output"], problem = output.read(args.get("output"))
    return report, problem
