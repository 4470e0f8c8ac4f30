"""complete_task: the one way in which an agent ends its work, with what came of it."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast, get_args

from ....calls.results import ToolResult, make_failure
from ....calls.sending import HandlerScope
from ....models.ask_value import ResultSchema
from ....state.agent import (
    COMPLETE_TASK,
    DELEGATE,
    AgentState,
    Report,
    Status,
    find_objective,
    has_succeeded,
    make_agent_path,
)
from ....state.calls import Evidence
from ....state.plan import Task
from ....state.todo_list import WRITE_TODOS, apply_items, describe_open
from ....state.undone import describe_undone_calls, find_undone, format_call
from ....text.sentences import say, says_nothing
from ....tools.arguments import check_arguments
from ....tools.catalog import CatalogTool, make_own_tool
from ....tools.schemas import sanitize_value
from .background_tools import list_orders

_TEXTS = {"type": "array", "items": {"type": "string"}}


def complete_task(output: ResultSchema | None, name: str) -> CatalogTool:
    """The tool of an agent whose output must be so; it runs behind all else of its message."""
    about = {
        "summary": {"type": "string", "minLength": 1, "description": say("complete_summary")},
        "status": {"type": "string", "enum": [*get_args(Status)], "default": "success"},
        "unmet": {**_TEXTS, "description": say("complete_unmet")},
    }
    if output is not None:
        about["output"] = {**sanitize_value(output.schema), "description": name}
    answer = partial(_complete, output)
    return make_own_tool(
        COMPLETE_TASK, say("complete_task_tool"), about, answer, required=["summary"]
    )


def salvage_report(
    args: Mapping[str, Any], tool: CatalogTool, output: ResultSchema | None
) -> Report | None:
    """The partial report that arguments make of which some may not fit; None without words."""
    properties = tool.schema["properties"]
    fits: dict[str, Any] = {}
    for name in properties.keys() & args.keys() - {"status", "output"}:
        one = {"type": "object", "properties": {name: properties[name]}}
        fitted, problem = check_arguments(one, {name: args[name]})
        fits |= {} if problem else fitted
    if says_nothing(fits.get("summary", "")):
        return None
    given = {"output": args["output"]} if "output" in args else {}
    report, problem = report_of({**fits, **given, "status": "partial"}, output)
    if problem:  # the words are worth more than nothing
        del report["output"]
        report["unmet"] = [*report["unmet"], say("output_does_not_fit", why=problem)]
    return report


async def _complete(
    output: ResultSchema | None, args: Mapping[str, Any], own: HandlerScope
) -> ToolResult:
    """Take the report, unless something of the same message speaks against it."""
    state = cast("AgentState", own.state)
    failed = [(r["tool"], r["id"]) for r in own.beside if r["status"] != "success"]
    failed += [(call["name"], call["id"]) for call in state.delegations]
    if failed:
        calls = ", ".join(f"{tool} ({name})" for tool, name in failed)
        return make_failure(say("not_complete_yet", calls=calls))
    if busy := _find_open_work(own, state):
        return busy
    left = [] if state.reminded else describe_open(_preview_todos(state, own))
    if left and args.get("status", "success") == "success":
        told = say("todos_open", left="\n".join(f"- {one}" for one in left))
        return replace(make_failure(told), update={"reminded": True})
    unworked = args.get("status", "success") == "success" and _are_checked_off_alone(state, own)
    if unworked and not state.reminded:
        return replace(make_failure(say("todos_without_call")), update={"reminded": True})
    report, problem = report_of(args, output)
    if problem:
        return make_failure(say("output_does_not_fit", why=problem))
    if says_nothing(report["summary"], find_objective(state)):
        return make_failure(say("says_nothing"))
    if unworked:
        own.scope.notes.append(say("todos_checked_off_alone"))
    update = {"report": report, "task_completed": report["status"] == "success"}
    return ToolResult(say("completed"), update=update)


def _find_open_work(own: HandlerScope, state: AgentState) -> ToolResult | None:
    """What speaks against an end now: a message that was not read, or work in the background."""
    if list_orders(own.scope, state):
        return make_failure(say("order_came_before_end"))
    if running := state.background:
        handles = ", ".join(make_agent_path(own.scope.path, call) for call in running)
        told = say("background_runs", handles=handles)
        return replace(make_failure(told), update={"awaited": True})
    return None


def _preview_todos(state: AgentState, own: HandlerScope) -> list[Task]:
    """The list as the calls before this one of the same message leave it."""
    todos = state.todos
    for record in own.beside:
        if record["tool"] == WRITE_TODOS and record["status"] == "success":
            todos = apply_items(todos, record["arguments"]["todos"])
    return todos


def _are_checked_off_alone(state: AgentState, own: HandlerScope) -> bool:
    """Whether a list is done without any call, though there are tools to do it with."""
    made = [r for r in [*own.beside, *state.evidence] if r["tool"] != WRITE_TODOS]
    todos = _preview_todos(state, own)
    return bool(todos and own.catalog.tools) and not has_succeeded(made)


def report_of(args: Mapping[str, Any], output: ResultSchema | None) -> tuple[Report, str]:
    """The report that arguments make, and what is wrong with its output."""
    report = Report(
        status=args.get("status", "success"), summary=args["summary"],
        unmet=[why for why in args.get("unmet", []) if why.strip()],
    )  # fmt: skip
    if output is None or (args.get("output") is None and report["status"] != "success"):
        return report, ""
    report["output"], problem = output.read(args.get("output"))
    return report, problem


# What was not done.


def list_undone(state: AgentState) -> list[str]:
    """What an agent did not do, by its own word and by what its calls brought."""
    return [*list_unmet(state), *describe_undone_calls(state.evidence)]


def list_unmet(state: AgentState) -> list[str]:
    """What an agent did not do, without what single calls left undone."""
    report = state.report or {}
    status, unmet = report.get("status"), [*state.unmet, *report.get("unmet", [])]
    if status in ("partial", "blocked") and not unmet and state.halt is None:
        unmet = [report.get("summary", "")]
    if status not in ("partial", "blocked"):
        unmet += [say("thing_not_done", what=one) for one in describe_open(state.todos)]
    in_vain = status not in ("blocked", None) and list_vain_calls(state)
    if in_vain and not find_undone(state.evidence):
        unmet += [say("no_call_succeeded", call=format_call(in_vain[-1]))]
    return unmet


def list_vain_calls(state: AgentState) -> list[Evidence]:
    """The calls of the turn, where none of them brought anything; an agent's end is something."""
    made = [r for r in state.evidence if not (r.get("own") or "turn" in r)]
    return [] if has_succeeded(made) or any(r["tool"] == DELEGATE for r in made) else made
