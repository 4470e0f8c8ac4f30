"""From a model's message to planned calls, and which of them may go on. Pure."""

import json
import re
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NotRequired, cast

from langchain_core.messages import AIMessage, AIMessageChunk
from typing_extensions import TypedDict

from ..state.calls import ToolStatus, call_id
from ..state.canonical import hash_of, storable_json
from ..state.context import Context
from ..state.told import say
from ..tools.arguments import check_arguments
from ..tools.catalog import Catalog, CatalogTool
from .dedupe import asked_again
from .policy import Policy

Action = Literal["allow", "ask", "deny", "error"]

_RUNS: Final = frozenset({"approve", "edit"})
_SHOWN_DESCRIPTION: Final = 300


class PendingCall(TypedDict):
    """One call between planning and running; JSON only, so it can wait in the state.

    `id` is the evidence id `<task>.<round>.<index>`, `call_id` the provider's. `about` is what the
    tool says of itself, for whoever has to approve the call. `reason` says why the call is asked
    about or denied; for an `error` it is the answer for the model. `again` is set where the model
    asks for a fresh result. Once it turns out that the call may have run before, `uncertain` says
    why and `doubts` how often that was. `form` is what its server asks before it goes on. A
    question is answered too late after `expires_at` (UTC).
    `intent` names the call in the journal, `before` are names under which earlier plans may have
    made it. A human is asked about the row `doubted`: its key, and how often it was sent; `other`
    where that is of another call, which stands in the way of this one. One that is `known`
    was made before.
    `tail_of` names the tool whose call a hook made this one follow. A plan may allow a call fewer
    seconds than its tool has: `deadline`. `tries` counts the calls before it that failed and that
    it repeats.
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
    status: NotRequired[ToolStatus]
    again: NotRequired[bool]
    expires_at: NotRequired[str | None]
    intent: NotRequired[str]
    before: NotRequired[list[str]]
    uncertain: NotRequired[str]
    doubted: NotRequired[list[Any]]
    other: NotRequired[bool]
    known: NotRequired[bool]
    doubts: NotRequired[int]
    form: NotRequired[dict[str, Any]]
    tail_of: NotRequired[str]
    deadline: NotRequired[float]
    tries: NotRequired[int]


@dataclass(frozen=True)
class Gate:
    """What stands between a call and its run; the same for every call of a message.

    Attributes:
        catalog: What can be called.
        policy: What may be called.
        context: The run's settings.
        can_ask: Whether a question can be put and the run resumed with its answer.
        agent: The graph or sub-agent that wants the calls.
        grants: What a human has allowed for the thread.
    """

    catalog: Catalog
    policy: Policy
    context: Context
    can_ask: bool
    agent: str = ""
    grants: Collection[Mapping[str, Any]] = ()

    def judge(self, tool: CatalogTool, args: object) -> tuple[dict[str, Any], Action, str]:
        """Check the arguments of a call and ask the policy about it.

        Returns:
            The arguments to run with, what happens to the call, and why.
        """
        fitted, problem = check_arguments(tool.schema, args)
        if problem:
            return fitted, "error", say("not_run", why=problem)
        fitted = {name: value for name, value in fitted.items() if name not in tool.hidden}
        decision = self.policy.decide(
            tool, fitted, context=self.context, can_ask=self.can_ask, agent=self.agent,
            grants=self.grants,
        )  # fmt: skip
        return fitted, decision.action, decision.reason


def plan_calls(
    message: AIMessage,
    *,
    task: str,
    round_: int,
    gate: Gate,
    complete: bool = True,
) -> list[PendingCall]:
    """Plan the calls of one message, invalid ones included: each of them needs an answer.

    Args:
        message: The model's message.
        task: The task it belongs to.
        round_: The model turn within the task.
        gate: What can be called, and what may be.
        complete: False where the message was cut, so that no call in it can be trusted.

    Returns:
        One planned call for each of the message's `tool_calls`, then of its `invalid_tool_calls`.
        Missing and repeated call ids are made unique; `settle_ids` does the same to the message.
    """
    planned: list[PendingCall] = []
    taken: set[str] = set()
    for index, (call, problem) in enumerate(calls_of(message)):
        name = call_id(task, round_, index)
        provider_id = unique_id(call.get("id"), name, taken)
        problem = problem or ("" if complete else say("call_cut_off"))
        planned.append(
            _planned(gate, call, problem)
            | {"id": name, "task": task, "call_id": provider_id}
            | {"intent": uuid.uuid4().hex}
        )
    return planned


def decision_key(call: Mapping[str, Any]) -> str:
    """Under which key a human's answer on a call is kept; another one each time it is in doubt."""
    return str(call["id"]) + "?" * int(call.get("doubts", 0))


def decision_on(
    call: Mapping[str, Any], decisions: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """The human's answer on a call, if there is one and it was given for these arguments."""
    decision = decisions.get(decision_key(call))
    given_for = decision.get("arguments") if decision else None
    return None if given_for and given_for != hash_of(call.get("args")) else decision


def undecided(
    calls: Sequence[Mapping[str, Any]], decisions: Mapping[str, Mapping[str, Any]]
) -> list[PendingCall]:
    """The calls a human must still decide on, in the order of the message."""
    return [cast("PendingCall", call) for call in calls if _waits(call, decisions)]


def runnable(
    calls: Sequence[Mapping[str, Any]], decisions: Mapping[str, Mapping[str, Any]]
) -> list[PendingCall]:
    """The calls that may run or be answered now, in the order of the message.

    One that waits for a human holds back every write behind it, not the reads.
    """
    now: list[PendingCall] = []
    held = False
    for call in calls:
        if _waits(call, decisions):
            held = True
        elif not (held and _would_write(call, decisions)):
            now.append(cast("PendingCall", call))
    return now


def next_step(
    calls: Sequence[Mapping[str, Any]], decisions: Mapping[str, Mapping[str, Any]]
) -> Literal["call_tools", "approve", "done"]:
    """Where a graph goes with these calls: what can go on comes before the next question."""
    if runnable(calls, decisions):
        return "call_tools"
    return "approve" if undecided(calls, decisions) else "done"


def _waits(call: Mapping[str, Any], decisions: Mapping[str, Mapping[str, Any]]) -> bool:
    return bool(call["action"] == "ask" and decision_on(call, decisions) is None)


def _would_write(call: Mapping[str, Any], decisions: Mapping[str, Mapping[str, Any]]) -> bool:
    if call.get("read_only") or call["action"] not in ("allow", "ask"):
        return False
    decision = decision_on(call, decisions)
    return decision is None or decision.get("type") in _RUNS


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


def _planned(gate: Gate, call: Mapping[str, Any], problem: str) -> Any:
    """A planned call without its ids."""
    name = str(call.get("name") or "")
    tool = gate.catalog.find(name)
    args, again = asked_again(tool.schema if tool else {}, call.get("args"))
    base = {
        "name": name,
        "server": tool.server if tool else None,
        "about": _shortened(tool.description) if tool else "",
        "args": storable_json(args) if isinstance(args, dict) else {},
        "action": "error",
        "reason": problem,
        "read_only": bool(tool and tool.read_only),
        "status": "validating",
        "again": again,
    }
    if tool is None:
        return base | {"reason": unknown_tool(name, gate.catalog)}
    if problem:
        return base | {"args": {}}
    fitted, action, reason = gate.judge(tool, args)
    return base | {"args": fitted, "action": action, "reason": reason}


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_DESCRIPTION else text[: _SHOWN_DESCRIPTION - 1] + "…"


def deadline_of(call: Mapping[str, Any], tool: CatalogTool, context: Context) -> float:
    """Seconds a call may take: those of its tool, or fewer where its plan says so."""
    allowed = tool.timeout or context.tool_deadline
    return min(allowed, call.get("deadline") or allowed)


def unknown_tool(name: str, catalog: Catalog) -> str:
    """The answer to a call of a tool that does not exist."""
    near = catalog.nearest(name)
    if not near:
        return say("unknown_tool_and_none", tool=repr(name))
    return say("unknown_tool", tool=repr(name), near=", ".join(near))


_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_-]+")


def calls_of(message: AIMessage) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Every call in the message, invalid ones last, with what is wrong with its form, or ""."""
    raw = _raw_arguments(message)
    for index, call in enumerate(message.tool_calls):
        problem = _no_object(raw[index]) if index < len(raw) else ""
        yield call, say("arguments_no_json", why=problem) if problem else ""
    for invalid in message.invalid_tool_calls:
        why = _no_object(invalid.get("args") or "") or invalid.get("error")
        yield invalid, say("arguments_no_json", why=str(why or say("not_readable"))[:200])


def unique_id(given: object, fallback: str, taken: set[str]) -> str:
    """The provider's call id where it is one; otherwise one made of the evidence id.

    Args:
        given: What the provider sent.
        fallback: The evidence id.
        taken: The ids of the calls before; the new one is added.
    """
    made = "call_" + _FOREIGN.sub("_", fallback)
    call_id = given if isinstance(given, str) and given and given not in taken else made
    while call_id in taken:
        call_id += "_"
    taken.add(call_id)
    return call_id


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
        return say("nested_too_deeply")
    return "" if isinstance(value, dict) else say("it_is_a", kind=type(value).__name__)
