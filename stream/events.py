"""What a run tells while it runs: one table of events, how they are numbered, which are kept.

Every event has a number, `seq`, one higher than that of the event before it on the thread. The
state says up to which number it has taken events in, and keeps of each subject (a phase, a task, a
call …) the newest event of the turn. The rule for whoever listens:

- Of two events about one subject the one with the higher number counts.
- What the state says up to its number is final. A node that is killed tells its events again when
  the run goes on, perhaps others under the same numbers. So whoever has lost the stream takes the
  state first, and forgets what was heard beyond its number.
- At the end of a stream, and where a number is missing, the state has what was missed.

`replay` is this rule as a function.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from ..state.ui_channels import KeptEvents
from ..text.canonical import beginning_of

Event = Mapping[str, Any]
"""One event: a JSON object with a `type` of `EVENTS`, its `seq` and its `turn`."""


def make_question_event(kind: str, text: str) -> dict[str, Any]:
    """The event of a question that is about no call."""
    return {"type": "question", "kind": kind, "text": text, "answered": ""}


_OF_CALL: Final = (
    "id", "task", "tool", "arguments", "status", "reason", "result", "seconds", "reused_from",
    "same_as",
)  # fmt: skip


def make_call_events(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The events of a call that has ended, from its record; they may have been told before."""
    told = {"type": "tool_call"} | {key: record[key] for key in _OF_CALL if key in record}
    return [told, *make_component_events(record["id"], record.get("components", ()))]


def make_component_events(
    call: str, components: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The events of the components that a call's result shows."""
    return [
        {"type": "component", "call": call, "place": place, **one}
        for place, one in enumerate(components)
    ]


def find_outer_call(event: Mapping[str, Any]) -> str:
    """The subject of the call whose result shows a component, or whose sub-agent makes a call."""
    path, _, inner = str(event.get("task", "")).partition("/")
    given = [path, *inner.partition("/")[0].rsplit(".", 2)[1:]]
    return f"tool_call:{event.get('call') or '.'.join(given)}"


@dataclass(frozen=True)
class EventKind:
    """One type of event.

    Attributes:
        says: What it says.
        fields: Its fields and their types; one with `?` is there if it applies.
        subject: What it is about, so that a newer event takes its place: the name of the kind of
            subject, then the fields that tell one from another. None: it is not kept.
    """

    says: str
    fields: Mapping[str, Any]
    subject: tuple[str, ...] | None = None


_STEP: Final = ("step", "step_id")
_ITEMS: Final = {"items?": int, "done?": int}

EVENTS: Final[Mapping[str, EventKind]] = {
    "phase": EventKind(
        "a role starts to think",
        {
            "role": str, "action": str, "round?": int, "task?": str, "iteration?": int,
            "model_turn?": str,
        },
        ("phase", "task"),
    ),
    "draft": EventKind(
        "as much of a structured answer as is written, of lists the finished items",
        {"role": str, "task?": str, "round?": int, "fields": dict},
    ),
    "steered": EventKind(
        "a message that came while the turn ran is taken up, with the tasks or steps that are done",
        {"messages": list, "kept": list},
        ("steered",),
    ),
    "plan": EventKind(
        "the plan that will be worked on; `changes`: a line for each task or step that it keeps "
        "(`=`), adds (`+`), changes (`~`) or leaves out (`-`) of an unfinished one",
        {"round": int, "todos": list, "changes?": list},
        ("plan",),
    ),
    "todos": EventKind(
        "an agent has written its to-do list, with how much of it is done",
        {"round": int, "todos": list, "done": int, "total": int},
        ("todos",),
    ),
    "flaws": EventKind(
        "what keeps a plan of `prompt_flow` from running; it is sent back",
        {"round": int, "findings": list},
        ("flaws",),
    ),
    "strategy": EventKind(
        "how `customer_service` deals with the message",
        {"strategy": str, "intent": str, "why": str},
        ("strategy",),
    ),
    "check": EventKind(
        "what keeps an answer of `customer_service` from being given; none: it is given",
        {"problems": list},
        ("check",),
    ),
    "hand_off": EventKind("a human takes the thread over", {"why": str}, ("hand_off",)),
    "route": EventKind(
        "which graph of `router` takes the request", {"graph": str, "why": str}, ("route",)
    ),
    "question": EventKind(
        "the user is asked something that is about no call, `ask_user`, `review_plan` or "
        "`review_flow`, and later how it was answered",
        {"kind": str, "text": str, "answered": str},
        ("question",),
    ),
    "task": EventKind(
        "a task begins or ends; at its end with its result, or why there is none",
        {"id": str, "description": str, "status": str, "attempt": int, "result?": str},
        ("task", "id"),
    ),
    "prompt_flow_step_start": EventKind(
        "a call of a step is about to be made; with `forEach` also how many items are done",
        {"step_id": str, "description": str, "tool": str, "attempt": int, **_ITEMS},
        _STEP,
    ),
    "prompt_flow_step_item": EventKind(
        "one item (from 1) of a step with `forEach` ended",
        {"step_id": str, "item": int, "items": int, "done": int, "success": bool},
        ("item", "step_id"),
    ),
    "prompt_flow_step_result": EventKind(
        "a step ended",
        {
            "step_id": str, "success": bool, "status": str, "output": str, "seconds": float,
            "attempts": int, **_ITEMS,
        },
        _STEP,
    ),
    "recovery": EventKind(
        "what is done about steps that failed",
        {"strategy": str, "reason": str, "steps": list},
        ("recovery",),
    ),
    "not_enough": EventKind(
        "what the results lack, so that more steps are planned", {"missing": str}, ("not_enough",)
    ),
    "tool_call": EventKind(
        "a call goes from one state to the next",
        {
            "id": str, "task": str, "tool": str, "arguments": dict, "status": str, "reason?": str,
            "result?": str, "seconds?": float, "reused_from?": str, "same_as?": str,
            "asked?": bool, "model_turn?": str,
        },
        ("tool_call", "id"),
    ),
    "component": EventKind(
        "a component that a call's result shows, and at which place among them",
        {"call": str, "place": int, "name": str, "props": dict, "text": str},
        ("component", "call", "place"),
    ),
    "tool_output": EventKind(
        "what a Python tool writes with its `ToolRuntime.stream_writer`",
        {"id": str, "task": str, "tool": str, "value": object},
    ),
    "tool_progress": EventKind(
        "how far an MCP server says its call is",
        {"id": str, "tool": str, "progress": float, "total": float | None, "message": str | None},
    ),
    "server_log": EventKind(
        "a log message of an MCP server during a call",
        {"id": str, "tool": str, "server": str, "level": str, "text": str},
    ),
    "loop": EventKind(
        "it goes round in circles: `strike` 1 is a warning, 2 the end",
        {"task": str, "strike": int, "what": str, "model_turn?": str},
    ),
    "protocol_violation": EventKind(
        "an agent called nothing, not even `complete_task`; it is told so once",
        {"task": str, "round": int},
    ),
    "compressed": EventKind(
        "older messages are left out of an agent's requests from now on; `how` is summary, own, "
        "masked (long results are shortened) or cut (without a summary); `dropped` facts of the "
        "summary were in none of their sources",
        {
            "task": str, "how": str, "before": int, "after": int, "messages": int, "facts": int,
            "dropped": int,
        },
    ),
    "hook": EventKind(
        "a hook ran; `status` is ok, ask, blocked, stopped or failed; those of a session are only "
        "logged",
        {
            "event": str, "name": str, "status": str, "seconds": float, "message?": str,
            "reason?": str, "error?": str,
        },
    ),
    "model": EventKind(
        "a model has answered",
        {
            "role": str, "model": str, "asks": int, "input_tokens": int, "output_tokens": int,
            "usd?": float, "model_turn?": str,
        },
    ),
    "retry": EventKind(
        "a model call failed and is repeated",
        {"role": str, "model": str, "attempt": int, "delay": float, "error": str},
    ),
    "fallback": EventKind(
        "the next model is asked", {"role": str, "model": str, "to": str, "error": str}
    ),
    "budget": EventKind("80 % of a limit is spent", {"limit": str, "used": float, "of": float}),
    "warning": EventKind("something went wrong without ending the run", {"text": str}),
    "verdict": EventKind(
        "what the verifier found",
        {"passed": bool, "improvements": list, "round": int, "feedback?": str, "tasks?": list},
        ("verdict",),
    ),
    "outcome": EventKind("the turn has ended",
        {"status": str, "reason": str, "unmet?": list, "warnings?": list},
        ("outcome",),
    ),
}  # fmt: skip
"""The one table of events."""


OF_PHASES: Final = frozenset({"phase", "draft", "plan", "todos", "question", "recovery", "verdict"})
"""What a phase says: it is shown under the message whose calls the phase runs, else the one in
which it will sum up, `message_id`, unless the event names another."""


def subject_of(event: Event) -> str:
    """What a kept event is about; "" for one that is not kept."""
    kind = EVENTS.get(str(event.get("type")))
    if kind is None or kind.subject is None:
        return ""
    group, *names = kind.subject
    return ":".join([group, *(str(event[name]) for name in names if name in event)])


# What is shown of a value: results and arguments stand whole in the state, in `evidence`.
_LONGEST: Final = 1_000
_MOST: Final = 200
_ROOM: Final = 60_000


def shorten_event(event: Event) -> dict[str, Any]:
    """The event with the beginnings of what is long: it is sent and kept more than once."""
    room = [_ROOM]
    return {key: _shorten(value, room) for key, value in event.items()}


def _shorten(value: Any, room: list[int]) -> Any:
    match value:
        case str():
            most = min(_LONGEST, max(0, room[0]))
            room[0] -= min(len(value), most)
            return value if len(value) <= most else beginning_of(value, most)
        case dict():
            return {
                str(key)[:_LONGEST]: _shorten(one, room)
                for key, one in islice(value.items(), _MOST)
                if room[0] > 0
            }
        case list():
            return [_shorten(one, room) for one in value[:_MOST] if room[0] > 0]
    room[0] -= 8
    return value


def close_questions(events: KeptEvents) -> Iterator[dict[str, Any]]:
    """The events after which no question of a turn is open any more: another one begins."""
    for event in events.get("kept", {}).values():
        if event["type"] == "question" and not event["answered"]:
            yield {"type": "question", "answered": "superseded"}
        elif event["type"] == "tool_call" and event["status"] == "awaiting_approval":
            yield make_call_events(event)[0] | {
                "asked": True, "status": "cancelled", "reason": "superseded",
            }  # fmt: skip
