"""The events of a run: their types, which of them are kept, and how they are shortened.

Every event has a number, `seq`, one higher than the event before it on the thread. The state keeps
the newest event of each subject (a phase, a task, a call …) and the highest number it has taken in.
docs/events.md says what a listener does with them; `Replay` does it.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from ..state.channels import KeptEvents
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
        {"type": "component", "call": call, "place": place, **part}
        for place, part in enumerate(components)
    ]


def find_outer_call(event: Mapping[str, Any]) -> str:
    """The subject of the call whose result shows a component, or whose sub-agent makes a call."""
    path, _, inner = str(event.get("task", "")).partition("/")
    given = [path, *inner.partition("/")[0].rsplit(".", 2)[1:]]
    return f"tool_call:{event.get('call') or '.'.join(given)}"


EVENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "phase": ("phase", "task"),
    "draft": (),
    "steered": ("steered",),
    "plan": ("plan",),
    "todos": ("todos",),
    "flaws": ("flaws",),
    "strategy": ("strategy",),
    "check": ("check",),
    "hand_off": ("hand_off",),
    "proposal": ("proposal", "id"),
    "receipt": ("receipt", "message_id"),
    "route": ("route",),
    "question": ("question",),
    "task": ("task", "id"),
    "prompt_flow_step_start": ("step", "step_id"),
    "prompt_flow_step_item": ("item", "step_id"),
    "prompt_flow_step_result": ("step", "step_id"),
    "recovery": ("recovery",),
    "not_enough": ("not_enough",),
    "tool_call": ("tool_call", "id"),
    "component": ("component", "call", "place"),
    "tool_output": (),
    "tool_progress": (),
    "server_log": (),
    "loop": (),
    "protocol_violation": (),
    "compressed": (),
    "hook": (),
    "model": (),
    "retry": (),
    "fallback": (),
    "budget": (),
    "warning": (),
    "verdict": ("verdict",),
    "outcome": ("outcome",),
}
"""Every type of event, and its subject: the kind of thing it is about, then the fields that tell
one such thing from another. A newer event replaces an older one with the same subject; an event
without a subject is not kept. docs/events.md has the meaning and the fields of each."""

OF_PHASES: Final = frozenset({"phase", "draft", "plan", "todos", "question", "recovery", "verdict"})
"""What a phase says: it is shown under the message whose calls the phase runs, else the one in
which it will sum up, `message_id`, unless the event names another."""


def subject_of(event: Event) -> str:
    """What a kept event is about; "" for one that is not kept."""
    group, *names = EVENTS.get(str(event.get("type"))) or ("",)
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
                str(key)[:_LONGEST]: _shorten(item, room)
                for key, item in islice(value.items(), _MOST)
                if room[0] > 0
            }
        case list():
            return [_shorten(item, room) for item in value[:_MOST] if room[0] > 0]
    room[0] -= 8
    return value


def close_questions(events: KeptEvents) -> Iterator[dict[str, Any]]:
    """The events after which no question of a turn is open any more: another one begins."""
    for event in events.get("kept", {}).values():
        if event["type"] == "question" and not event["answered"]:
            yield {"type": "question", "answered": "superseded"}
        elif event["type"] == "tool_call" and event["status"] == "awaiting_approval":
            yield make_call_events(event)[0] | {
                "asked": True,
                "status": "cancelled",
                "reason": "superseded",
            }
