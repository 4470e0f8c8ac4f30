"""From a model's message to planned calls: looked up, checked, decided on. Pure."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from langchain_core.messages import AIMessage, AIMessageChunk
from typing_extensions import TypedDict

from ..state import questions
from ..state.context import Context
from ..state.storable import storable_json
from .arguments import check_arguments
from .catalog import Catalog, CatalogTool
from .policy import Policy

Action = Literal["allow", "ask", "deny", "error"]

_INCOMPLETE: Final = (
    "Not run: the message was cut off before its end, so the arguments may be incomplete. "
    "Send the call again, with shorter arguments if they were long."
)
_NO_JSON: Final = (
    "Not run: the arguments are no complete JSON object ({why}). "
    "Send the call again with valid JSON."
)
_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_-]+")
_SHOWN_ARGUMENTS: Final = 2_000
_SHOWN_DESCRIPTION: Final = 300


class PlannedCall(TypedDict):
    """One call between planning and running; JSON only, so it can wait in the state.

    `id` is the evidence id `<task>.<round>.<index>`, `call_id` the provider's. `about` is what the
    tool says of itself, for whoever has to approve the call. `reason` says why the call is asked
    about or denied; for an `error` it is the answer for the model.
    """

    id: str
    task: str
    call_id: str
    name: str
    server: str | None
    about: str
    args: dict[str, Any]
    action: Action
    reason: str
    read_only: bool


@dataclass(frozen=True)
class Gate:
    """What stands between a call and its run; the same for every call of a message."""

    catalog: Catalog
    policy: Policy
    context: Context
    can_ask: bool

    def judge(self, tool: CatalogTool, args: object) -> tuple[dict[str, Any], Action, str]:
        """Check the arguments of a call and ask the policy about it.

        Returns:
            The arguments to run with, what happens to the call, and why.
        """
        fitted, problem = check_arguments(tool.schema, args)
        if problem:
            return fitted, "error", f"Not run: {problem}"
        fitted = {name: value for name, value in fitted.items() if name not in tool.hidden}
        decision = self.policy.decide(tool, fitted, context=self.context, can_ask=self.can_ask)
        return fitted, decision.action, decision.reason


def plan_calls(
    message: AIMessage,
    *,
    task: str,
    round_: int,
    catalog: Catalog,
    policy: Policy,
    context: Context,
    can_ask: bool,
    complete: bool = True,
) -> list[PlannedCall]:
    """Plan the calls of one message, invalid ones included: each of them needs an answer.

    Args:
        message: The model's message.
        task: The task it belongs to.
        round_: The model turn within the task.
        catalog: What can be called.
        policy: What may be called.
        context: The run's settings.
        can_ask: Whether a question can be put and the run resumed with its answer.
        complete: False where the message was cut, so that no call in it can be trusted.

    Returns:
        One planned call for each of the message's `tool_calls`, then of its `invalid_tool_calls`.
        Missing and repeated call ids are made unique; `settle_ids` does the same to the message.
    """
    gate = Gate(catalog, policy, context, can_ask)
    planned: list[PlannedCall] = []
    taken: set[str] = set()
    for index, (call, problem) in enumerate(_calls(message)):
        call_id = _unique(call.get("id"), f"{task}.{round_}.{index}", taken)
        problem = problem or ("" if complete else _INCOMPLETE)
        planned.append(
            _planned(gate, call, problem)
            | {"id": f"{task}.{round_}.{index}", "task": task, "call_id": call_id}
        )
    return planned


def undecided(
    calls: Sequence[Mapping[str, Any]], decisions: Mapping[str, Mapping[str, Any]]
) -> list[PlannedCall]:
    """The calls a human must still decide on, in the order of the message."""
    waiting = (call for call in calls if call["action"] == "ask" and call["id"] not in decisions)
    return [cast("PlannedCall", call) for call in waiting]


def settle_ids(message: AIMessage, calls: Sequence[Mapping[str, Any]]) -> AIMessage:
    """The message with the call ids of its planned calls, so that each answer finds its call."""
    ids = iter(calls)
    update = {
        "tool_calls": [
            {**call, "args": storable_json(call["args"]), "id": next(ids)["call_id"]}
            for call in message.tool_calls
        ],
        "invalid_tool_calls": [
            {**call, "id": next(ids)["call_id"]} for call in message.invalid_tool_calls
        ],
    }
    return message.model_copy(update=update)


def objection_to(call: Mapping[str, Any], name: str, args: object, gate: Gate) -> str:
    """Why a human's edit of a call is no answer; "" where it is one, be it one policy denies."""
    if name not in ("", call["name"]):
        return f"An edit may change the arguments of {call['name']}, not the tool."
    tool = gate.catalog.find(call["name"], call["server"])
    if tool is None:
        return unknown_tool(call["name"], gate.catalog)
    _, action, reason = gate.judge(tool, args)
    return f"The edit cannot run. {reason}" if action == "error" else ""


def question(call: Mapping[str, Any], objection: str = "") -> dict[str, Any]:
    """What to interrupt with for a call that is asked about, in the shape of all questions.

    Args:
        call: The planned call.
        objection: Why the last answer could not be taken.
    """
    call_id = call["call_id"]
    description = "\n\n".join(filter(None, [objection, _described(call)]))
    return {
        "type": "tool_approval",
        "id": call["id"],
        "tool_call_id": call_id,
        "task": call["task"],
        "reason": call["reason"],
        **questions.question(call["name"], call["args"], description, tool_call_id=call_id),
    }


def _described(call: Mapping[str, Any]) -> str:
    where = f" of the MCP server {call['server']!r}" if call["server"] else ""
    shown = json.dumps(call["args"], ensure_ascii=False, indent=2)
    if len(shown) > _SHOWN_ARGUMENTS:
        shown = shown[:_SHOWN_ARGUMENTS] + "…"
    about = call.get("about", "")  # a call planned by an earlier version has none
    lines = [f"Run {call['name']}{where}? ({call['reason']})", about, f"Arguments:\n{shown}"]
    return "\n\n".join(filter(None, lines))


def _planned(gate: Gate, call: Mapping[str, Any], problem: str) -> Any:
    """A planned call without its ids."""
    name = str(call.get("name") or "")
    tool = gate.catalog.find(name)
    args = call.get("args")
    base = {
        "name": name,
        "server": tool.server if tool else None,
        "about": _shortened(tool.description) if tool else "",
        "args": storable_json(args) if isinstance(args, dict) else {},
        "action": "error",
        "reason": problem,
        "read_only": bool(tool and tool.read_only),
    }
    if tool is None:
        return base | {"reason": unknown_tool(name, gate.catalog)}
    if problem:
        return base | {"args": {}}
    fitted, action, reason = gate.judge(tool, args)
    return base | {"args": fitted, "action": action, "reason": reason}


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_DESCRIPTION else text[: _SHOWN_DESCRIPTION - 1] + "…"


def unknown_tool(name: str, catalog: Catalog) -> str:
    """The answer to a call of a tool that does not exist."""
    near = catalog.nearest(name)
    if not near:
        return f"Not run: there is no tool {name!r}, and no other either. Answer without tools."
    return f"Not run: there is no tool {name!r}. Use one of: {', '.join(near)}."


def _calls(message: AIMessage) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Every call in the message with what is wrong with its form, or ""."""
    raw = _raw_arguments(message)
    for index, call in enumerate(message.tool_calls):
        problem = _no_object(raw[index]) if index < len(raw) else ""
        yield call, _NO_JSON.format(why=problem) if problem else ""
    for invalid in message.invalid_tool_calls:
        why = _no_object(invalid.get("args") or "") or invalid.get("error") or "not readable"
        yield invalid, _NO_JSON.format(why=str(why)[:200])


def _raw_arguments(message: AIMessage) -> list[str]:
    """The arguments as the provider sent them, where the message still has them.

    A streaming parser closes what was cut, so a broken call looks whole once it is parsed.
    """
    if isinstance(message, AIMessageChunk):
        texts = [chunk.get("args") or "" for chunk in message.tool_call_chunks]
    else:
        calls = message.additional_kwargs.get("tool_calls")
        functions = [c.get("function") or {} for c in calls or () if isinstance(c, Mapping)]
        texts = [str(function.get("arguments") or "") for function in functions]
    # More raw texts than calls means that some were unreadable, so the order tells nothing.
    return texts if len(texts) == len(message.tool_calls) else []


def _no_object(text: str) -> str:
    """Why a text is no JSON object; no text at all stands for no arguments."""
    if not text.strip():
        return ""
    try:
        value = json.loads(text)
    except ValueError as error:
        return str(error)
    except RecursionError:
        return "nested too deeply"
    return "" if isinstance(value, dict) else f"it is a {type(value).__name__}"


def _unique(given: object, fallback: str, taken: set[str]) -> str:
    """The provider's call id where it is one; otherwise one made of the evidence id."""
    made = "call_" + _FOREIGN.sub("_", fallback)
    call_id = given if isinstance(given, str) and given and given not in taken else made
    while call_id in taken:
        call_id += "_"
    taken.add(call_id)
    return call_id
