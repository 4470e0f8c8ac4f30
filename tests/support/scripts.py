"""Turns of a scripted model, in the shapes models send them."""

import json
from typing import Any

PROOFREAD: dict[str, Any] = {"proofreader": lambda *_: {"unsupported": []}}
"""A proofreader that finds nothing wrong, for scripts of a desk."""


def todo(
    id_: str, description: str, depends: list[str] | None = None, **more: Any
) -> dict[str, Any]:
    task = {"id": id_, "description": description, "priority": 1, "status": "pending", **more}
    return task if depends is None else {**task, "dependsOn": depends}


def plan(*todos: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"summary": "the plan", "needsMorePlanning": False, "todos": list(todos), **more}


def report(summary: str, **more: Any) -> dict[str, Any]:
    return {"summary": summary, "taskCompleted": True, "shouldContinue": False, **more}


def call(tool: str, id_: str = "call_0", /, **args: Any) -> dict[str, Any]:
    return {"name": tool, "args": args, "id": id_}


def passed(summary: str, **evidence: list[str]) -> dict[str, Any]:
    """A verdict that everything is done; keyword `t1=["1.1.0"]` cites evidence for task 1."""
    tasks = [
        {"id": key.removeprefix("t"), "completed": True, "feedback": "ok", "evidence": cited}
        for key, cited in evidence.items()
    ]
    return {
        "allCompleted": True,
        "userNeedsSatisfied": True,
        "overallFeedback": "fine",
        "tasks": tasks,
        "summary": summary,
    }


def failed(*improvements: str, **completed: bool) -> dict[str, Any]:
    tasks = [
        {"id": key.removeprefix("t"), "completed": value, "feedback": "missing", "evidence": []}
        for key, value in completed.items()
    ]
    return {
        "allCompleted": False,
        "userNeedsSatisfied": False,
        "overallFeedback": "not yet",
        "tasks": tasks,
        "improvements": list(improvements),
    }


def thought(text: str, *, more: bool = False, reason: str = "") -> str:
    """A thought that wants a step, or, without `more`, the answer."""
    meta = {"shouldContinue": more} | ({"reason": reason} if reason else {})
    return f"{text}\n\n<agent_meta>{json.dumps(meta)}</agent_meta>"
