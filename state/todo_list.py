"""An agent's to-do list: what each writing of the whole list makes of the one before it. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from ..text.sentences import say
from .calls import Evidence
from .contracts import FINISHED, STATUSES, TaskStatus, read_status
from .plan import Task, find_free_id, fingerprint

WRITE_TODOS: Final = "write_todos"
LARGE: Final = 3
"""Items from which on a list is larger work: below that none is needed, and nobody reviews it."""

_CLOSED: Final[frozenset[str]] = FINISHED | {"cancelled"}
_NEED_A_NOTE: Final = frozenset({"failed", "blocked"})


def open_todos(todos: Sequence[Task]) -> list[Task]:
    """Those that are neither done nor left out."""
    return [todo for todo in todos if todo["status"] not in _CLOSED]


def describe_open(todos: Sequence[Task]) -> list[str]:
    """The same, each with why it is not done, where that was said."""
    return [
        ": ".join(filter(None, [todo["description"].rstrip("."), todo.get("feedback", "")]))
        for todo in open_todos(todos)
    ]


def problems_of(items: Sequence[Mapping[str, Any]], most: int) -> list[str]:
    """Everything that makes a list unsound, a sentence each."""
    problems = [say("too_many_tasks", count=len(items), limit=most)] if len(items) > most else []
    for place, item in enumerate(items, 1):
        problems += [say("todo_named", place=place, problem=p) for p in _find_problems(item)]
    running = sum(_read_status(item) == "in_progress" for item in items)
    return [*problems, say("todos_in_progress", count=running)] if running > 1 else problems


def _find_problems(item: Mapping[str, Any]) -> Iterator[str]:
    status = _read_status(item)
    if not str(item.get("description", "")).strip():
        yield say("todo_without_words")
    if status not in STATUSES:
        yield say("todo_status_unknown", status=repr(item.get("status")))
    if status in _NEED_A_NOTE and not str(item.get("note", "")).strip():
        yield say("todo_without_note", status=status)


def _read_status(item: Mapping[str, Any]) -> object:
    return read_status(str(item.get("status", "pending")))  # a person may write anything


def apply_items(
    old: Sequence[Task],
    items: Sequence[Mapping[str, Any]],
    evidence: Sequence[Evidence] = (),
    round_: int = 0,
) -> list[Task]:
    """The new list from sound items; old items that they leave out stay, open ones as cancelled.

    Items match by id, then by text, then, if the length is unchanged, by position. The calls in
    `evidence` that were made while an item was in progress become its evidence. `round_` is the
    model turn that writes.
    """
    known = _match_items(old, items)
    taken = {todo["id"] for todo in old}
    fresh: list[Task] = []
    for place, item in enumerate(items):
        before = known.get(place, Task())
        name = before.get("id") or find_free_id(str(len(taken) + 1), taken)
        taken.add(name)
        task = Task(
            id=name,
            description=str(item["description"]).strip(),
            status=cast("TaskStatus", _read_status(item)),
            feedback=str(item.get("note", "")).strip(),
        )
        fresh.append({**before, **task, **_track_work(before, task, evidence, round_)})
    kept = {todo["id"] for todo in known.values()}
    cancelled = Task(status="cancelled", feedback=say("todo_left_out"))
    left = [todo for todo in old if todo["id"] not in kept]
    return [*(t if t["status"] in _CLOSED else t | cancelled for t in left), *fresh]


def _track_work(before: Task, task: Task, evidence: Sequence[Evidence], round_: int) -> Task:
    """The round in which an item was begun; at its end the calls made since."""
    was, now = before.get("status") == "in_progress", task["status"] == "in_progress"
    if now and not was:
        return Task(rounds=round_, attempts=before.get("attempts", 0) + 1)
    if not was or now:
        return Task()
    made = []
    for record in reversed(evidence):
        if int(record["id"].rsplit(".", 2)[1]) < before.get("rounds", 0):
            break
        if record["status"] == "success":
            made.append(record["id"])
    return Task(evidence=list(dict.fromkeys([*before.get("evidence", []), *reversed(made)])))


def _match_items(old: Sequence[Task], items: Sequence[Mapping[str, Any]]) -> dict[int, Task]:
    """Place in the new list to the matching item of the old one."""
    left = {todo["id"]: todo for todo in old}
    matches: dict[int, Task] = {}

    def take(place: int, name: str | None) -> None:
        if place not in matches and name in left:
            matches[place] = left.pop(name)

    for place, item in enumerate(items):
        take(place, str(item.get("id", "")).strip() or None)
    for place, item in enumerate(items):
        words = fingerprint(Task(description=str(item["description"])))
        take(place, next((t["id"] for t in left.values() if fingerprint(t) == words), None))
    if len(items) == len(old):
        for place, todo in enumerate(old):
            take(place, todo["id"])
    return matches
