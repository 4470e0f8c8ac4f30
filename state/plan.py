"""Plans as data: their problems, their order, and what a new plan carries over from the old one."""

import re
from collections.abc import Collection, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import Any, Final

from typing_extensions import TypedDict

from ..text.display import show_words
from ..text.sentences import say
from .contracts import FINISHED, TaskStatus, Todo, may_change, read_status
from .questions import make_question


class Task(TypedDict, total=False):
    """One task in state: the planned part, then what its runs left behind."""

    id: str
    description: str
    priority: int
    status: TaskStatus
    acceptance_criteria: list[str]
    inputs: str
    depends_on: list[str] | None
    result: str
    feedback: str
    evidence: list[str]
    attempts: int
    rounds: int
    """Model turns in all attempts of this request: evidence ids count on."""
    before: int
    """Those before the last attempt."""
    rounds_this_turn: int
    """Those since the last user message: the guard counts them."""
    seconds: float
    denied: str
    replaces: list[str]
    """Tasks of earlier plans whose work this one was planned to do: their calls count with it."""
    spared: bool
    """It was left out, and the verifier agrees that the request needs it no more."""
    gone: bool
    """Of an update: another task stands for this one."""


def merge_tasks(left: list[Task], writes: Sequence[Sequence[Task]]) -> list[Task]:
    """Batch reducer: tasks by id, updated field by field; one that is `gone` is removed."""
    merged = {task["id"]: task for task in left}
    for task in chain.from_iterable(writes):
        if task.get("gone"):
            merged.pop(task["id"], None)
        else:
            merged[task["id"]] = {**merged.get(task["id"], Task()), **task}
    return list(merged.values())


def name_todos(todos: Sequence[Todo]) -> list[Todo]:
    """Give every todo an id without white space; a missing one becomes its place."""
    named: list[Todo] = []
    for place, todo in enumerate(todos, 1):
        needs = None if todo.depends_on is None else [*map(_clean_id, todo.depends_on)]
        ids = {"id": _clean_id(todo.id) or str(place), "depends_on": needs}
        named.append(todo.model_copy(update=ids))
    return named


def _clean_id(text: str) -> str:
    return re.sub(r"\s+", "-", text.strip())


def find_problems(todos: Sequence[Todo], limit: int) -> list[str]:
    """Everything that makes a plan unsound, one sentence each; empty where it is sound."""
    ids = [todo.id for todo in todos]
    problems = [say("id_twice", id=repr(i)) for i in sorted({i for i in ids if ids.count(i) > 1})]
    if len(todos) > limit:
        problems.append(say("too_many_tasks", count=len(todos), limit=limit))
    for todo in todos:
        unknown = [i for i in todo.depends_on or [] if i not in ids]
        if unknown:
            problems.append(
                say("task_depends_on_unknown", task=repr(todo.id), unknown=unknown, known=ids[:20])
            )
    if problems:
        return problems
    try:
        TopologicalSorter({t.id: t.depends_on or [] for t in todos}).prepare()
    except CycleError as error:
        return [say("tasks_in_a_circle", circle=" → ".join(error.args[1]))]
    return []


def count_progress(tasks: Collection[Mapping[str, Any]]) -> tuple[int, int]:
    """How many of the tasks or steps are completed or skipped, and how many there are."""
    return sum(task.get("status") in FINISHED for task in tasks), len(tasks)


def make_plan_question(tasks: Sequence[Task]) -> dict[str, Any]:
    """The question whether a plan may run."""
    shown = [{key: task[key] for key in _OF_TASKS if task.get(key) is not None} for task in tasks]
    text = f"Run this plan?\n{describe_plan(tasks)}"
    return make_question("review_plan", {"todos": shown}, text)


_OF_TASKS: Final = ("id", "description", "priority", "acceptance_criteria", "inputs", "depends_on")


def describe_plan(tasks: Sequence[Task]) -> str:
    """The tasks that are still to be done, a line each; of a plan that is done, all."""
    left = [task for task in tasks if task["status"] != "completed"] or tasks
    return "\n".join(f"{task['id']}. {show_words(task['description'])}" for task in left)


def describe_changes(old: Sequence[Task], new: Sequence[Task]) -> list[str]:
    """What a new plan keeps (=), adds (+) and leaves out (-) of an unfinished one, a line each."""
    open_ = [task for task in old if task["status"] != "completed"]
    known, now = ({fingerprint(t) for t in tasks} for tasks in (open_, new))
    lines = [
        ("=" if task["status"] == "completed" or fingerprint(task) in known else "+", task)
        for task in new
    ]
    lines += [("-", task) for task in open_ if fingerprint(task) not in now]
    return [f"{mark} {task['id']}. {task['description']}" for mark, task in lines]


def make_fallback_plan(request: str) -> list[Todo]:
    """The plan if no sound one could be made: the request itself as one task."""
    return [Todo(id="1", description=request.strip() or say("answer_the_user"))]


def is_sequential(tasks: Sequence[Task]) -> bool:
    """Whether the unfinished tasks run one after another: none of them names dependencies."""
    return all(t.get("depends_on") is None for t in tasks if t["status"] != "completed")


def sort_by_dependencies(tasks: Sequence[Task]) -> list[Task]:
    """Tasks in the order they may start: dependencies first, then priority, then place."""
    left = sorted(tasks, key=lambda t: t.get("priority", 1))
    if is_sequential(tasks):
        return left
    known = {task["id"] for task in left}
    ordered: list[Task] = []
    done: set[str] = set()
    while left:
        ready = next((t for t in left if done >= set(t.get("depends_on") or []) & known), left[0])
        left.remove(ready)
        ordered.append(ready)
        done.add(ready["id"])
    return ordered


def map_dependencies(tasks: Sequence[Task]) -> dict[str, list[str]]:
    """For each task the ids it waits for: its dependencies, or all tasks before it."""
    ordered = [task["id"] for task in sort_by_dependencies(tasks)]
    if is_sequential(tasks):
        return {name: ordered[:place] for place, name in enumerate(ordered)}
    needs = {task["id"]: task.get("depends_on") or [] for task in tasks}
    return {name: [other for other in needs[name] if other in needs] for name in ordered}


def adopt_plan(
    todos: Sequence[Todo], old: Sequence[Task], rounds: Mapping[str, int] | None = None
) -> list[Task]:
    """Turn a sound plan into tasks, carrying over what is already done.

    A completed task stays completed if the new plan has the same words and none of its
    dependencies runs again. A completed task that the new plan leaves out is kept in front: its
    result and evidence still hold. Other old tasks go. No other task gets the id of a kept one, so
    evidence ids stay unambiguous. `rounds` are those that evidence already names, by task id.
    """
    done = [t for t in old if t["status"] == "completed"]
    failed = {t["id"]: t for t in old if t["status"] != "completed"}
    named: dict[str, str] = {}
    fresh: dict[str, Task] = {}
    taken = {t["id"] for t in done}
    by_id = {todo.id: todo for todo in todos}
    order = TopologicalSorter({t.id: t.depends_on or [] for t in todos})
    for todo in map(by_id.__getitem__, order.static_order()):
        task: Task = {
            **new_task(todo.id, todo.description, todo.depends_on),
            "priority": todo.priority,
            "acceptance_criteria": list(todo.acceptance_criteria),
            "inputs": todo.inputs,
        }
        match = _find_same_words(task, done)
        if match:
            done.remove(match)
        if match and all(fresh[named[i]]["status"] == "completed" for i in todo.depends_on or []):
            task = {**match, "priority": todo.priority}
        else:
            task["id"] = find_free_id(todo.id, taken)
            _continue_counts(task, failed.get(task["id"]), (rounds or {}).get(task["id"], 0))
        taken.add(task["id"])
        named[todo.id] = task["id"]
        needs = todo.depends_on
        task["depends_on"] = None if needs is None else [named[i] for i in needs]
        fresh[task["id"]] = task
    _link_successors(list(fresh.values()), old, rounds or {})
    return [*done, *(fresh[named[todo.id]] for todo in todos)]


def _link_successors(fresh: Sequence[Task], old: Sequence[Task], rounds: Mapping[str, int]) -> None:
    """Set on new tasks which unfinished old ones with calls they replace.

    The task with the same words replaces it, else the one with the same id, else all new tasks.
    """
    open_tasks = [task for task in fresh if task["status"] != "completed"]
    known = {task["id"] for task in old}, {fingerprint(task) for task in old}
    new = [t for t in open_tasks if t["id"] not in known[0] and fingerprint(t) not in known[1]]
    for before in old:
        gone = [i for i in [before["id"], *before.get("replaces", [])] if i in rounds]
        if before["status"] == "completed" or not gone:
            continue
        same = [t for t in open_tasks if fingerprint(t) == fingerprint(before)]
        for task in same or [t for t in open_tasks if t["id"] == before["id"]] or new:
            others = [*task.get("replaces", []), *gone]
            if others := [i for i in dict.fromkeys(others) if i != task["id"]]:
                task["replaces"] = others


def _find_same_words(task: Task, done: Sequence[Task]) -> Task | None:
    """The finished task with the same words; of several the one with the same id."""
    same = [t for t in done if fingerprint(t) == fingerprint(task)]
    return next((t for t in same if t["id"] == task["id"]), same[0] if same else None)


def new_task(name: str, description: str, depends_on: list[str] | None) -> Task:
    """A task that has not begun, with every field."""
    return Task(
        id=name,
        description=description,
        priority=1,
        status="pending",
        acceptance_criteria=[],
        inputs="",
        depends_on=depends_on,
        result="",
        feedback="",
        evidence=[],
        attempts=0,
        rounds=0,
        rounds_this_turn=0,
        seconds=0.0,
        denied="",
    )


def _continue_counts(task: Task, before: Task | None, rounds: int) -> None:
    """Continue the counts of an earlier attempt, so that evidence ids never repeat."""
    task["rounds"] = rounds
    if before:
        task["attempts"] = before.get("attempts", 0)
        task["rounds"] = max(rounds, before.get("rounds", 0))
        if fingerprint(task) == fingerprint(before):
            task["rounds_this_turn"] = before.get("rounds_this_turn", 0)
        task["seconds"] = before.get("seconds", 0.0)


def find_free_id(wanted: str, taken: Collection[str]) -> str:
    """This id, or the first of `<id>-2`, `<id>-3`, … that is not taken."""
    if wanted not in taken:
        return wanted
    return next(f"{wanted}-{n}" for n in range(2, len(taken) + 3) if f"{wanted}-{n}" not in taken)


def fingerprint(task: Task) -> str:
    """What makes two tasks the same: their words, without case, space and end punctuation."""
    words = [task["description"], task.get("inputs", ""), *task.get("acceptance_criteria", [])]
    return "\0".join(re.sub(r"\s+", " ", w).strip(" .!").casefold() for w in words)


def apply_wishes(tasks: Sequence[Task], wishes: Mapping[str, object]) -> list[Task]:
    """Apply the statuses that a model wishes, by id; others and forbidden changes are ignored."""
    changed: list[Task] = []
    for task in tasks:
        wish = read_status(wishes.get(task["id"]))
        if isinstance(wish, str) and wish in _WISHABLE and may_change(task["status"], wish):  # type: ignore[arg-type]
            changed.append({**task, "status": wish})  # type: ignore[typeddict-item]
    return changed


# Only its own run may start or complete a task; another one may ask to leave it out.
_WISHABLE = frozenset({"skipped", "cancelled"})


def list_required(tasks: Sequence[Task]) -> list[Task]:
    """The tasks that must be proven: all but those that the verifier agreed to leave out."""
    return [task for task in tasks if not (is_left_out(task) and task.get("spared"))]


def is_left_out(task: Task) -> bool:
    """Whether an executor left the task out, its own or another one's."""
    return task["status"] in {"skipped", "cancelled"}


def task_view(task: Task, *keys: str) -> dict[str, Any]:
    """These fields of a task, in this order, as a role sees it; empty ones are left out."""
    return {key: value for key in keys if (value := task.get(key))}
