"""A plan of tool calls as steps: what they wait for, their order, what makes two the same. Pure."""

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

from ..state.flow import FlowStep
from ..state.plan import new_task
from ..text.canonical import hash_of
from .conditions import list_reads
from .execution_plan import ExecutionPlan, PlanStep
from .references import GLOBAL, ITEM, MissingValue, find_references, resolve_references

# No text that is kept holds NUL: a plan cannot spell what stands for a reference.
_MARK: Final = "\0"


def build_steps(plan: ExecutionPlan) -> list[FlowStep]:
    """The steps of a plan as the state keeps them, none started; the plan may be wrong.

    A step depends on the steps in its `after` and on the steps of this plan that it refers to.
    """
    steps = [_build_step(step) for step in plan.steps]
    ids = {step["id"] for step in steps}
    for step in steps:
        refers_to = [name for name in list_needs(step) if name in ids]
        step["depends_on"] = list(dict.fromkeys([*(step["depends_on"] or []), *refers_to]))
    return steps


def _build_step(step: PlanStep) -> FlowStep:
    return {
        **new_task(step.id, step.description, step.dependencies),
        "tool": step.tool,
        "arguments": step.arguments,
        "changes": True,
        "optional": step.optional,
        "retries": step.retry_count,
        "expect": step.expect,
        "timeout": step.timeout,
        "when": step.when,
        "for_each": step.for_each,
        "max_items": step.max_items,
        "items": [],
        "unwanted": False,
        "expected_output": step.expected_output,
        "spare": False,
        "claims": [],
        "failure": "",
        "shape": "",
        "value": None,
        "stored": "",
        "origins": {},
        "made_of": "",
    }


def collect_values(step: FlowStep) -> Any:
    """The fields of a step in which references stand for values: its list and its arguments."""
    each = step.get("for_each")
    return step["arguments"] if each is None else [each, step["arguments"]]


def list_sources(step: FlowStep) -> list[str]:
    """Ids of the steps whose results its call is made from, each once; an item is no step."""
    no_steps = (GLOBAL,) if step.get("for_each") is None else (GLOBAL, ITEM)
    roots = dict.fromkeys(reference.root for reference in find_references(collect_values(step)))
    return [root for root in roots if root not in no_steps]


def list_needs(step: FlowStep) -> list[str]:
    """Ids of the steps whose results it is made from or depends upon, each once."""
    asked = (read.root for read in list_reads(step.get("when")) if read.root != GLOBAL)
    return list(dict.fromkeys([*list_sources(step), *asked]))


def sort_steps(steps: Iterable[FlowStep]) -> list[FlowStep]:
    """The steps sorted so that each follows its dependencies, else in the given order; O(n log n).

    Steps in a circle come last: a finished step may depend on one that the new plan puts after it.
    """
    given = list(steps)
    place = {step["id"]: n for n, step in enumerate(given)}
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for n, step in enumerate(given):
        sorter.add(n, *({place[i] for i in step["depends_on"] or [] if i in place} - {n}))
    with suppress(CycleError):
        sorter.prepare()
    ready: list[int] = []
    order: list[int] = []
    while sorter.is_active():
        for n in sorter.get_ready():
            heapq.heappush(ready, n)
        order.append(heapq.heappop(ready))
        sorter.done(order[-1])
    left = set(range(len(given))).difference(order)
    return [given[n] for n in [*order, *sorted(left)]]


def order_pass(
    steps: Sequence[FlowStep], *, waiting: Collection[str]
) -> tuple[list[str], dict[str, list[str]]]:
    """The open steps that a pass can begin, in order, and what each of them waits for.

    A step waits for its dependencies; a write also for the write before it in the plan. The longest
    chains come first ("highest level first", Hu 1961). `waiting` are steps with an open question:
    what follows them cannot begin either.
    """
    waits: dict[str, list[str]] = {}
    shut = set(waiting)
    before = ""
    # The whole plan, not what is left of it: else a pass later on would order the writes otherwise.
    for step in (step for step in sort_steps(steps) if step["status"] == "pending"):
        name = step["id"]
        needed = list(step.get("depends_on") or [])
        if step["changes"]:
            needed += [before] if before and before not in needed else []
            before = name
        if name in shut or not shut.isdisjoint(needed):
            shut.add(name)
        else:
            waits[name] = [other for other in needed if other in waits]
    behind = dict.fromkeys(waits, 0)  # steps in the longest chain that waits for each
    for name in reversed(waits):
        for other in waits[name]:
            behind[other] = max(behind[other], behind[name] + 1)
    return sorted(waits, key=lambda name: -behind[name]), waits


class _Symbol(dict[str, Any]):
    """Stands for what a reference reads: every part of it is there, and spells where it is from."""

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> "_Symbol":
        return _Symbol({_MARK: [*self[_MARK], key]})


def hash_steps(
    steps: Iterable[FlowStep],
    variables: Mapping[str, Any] | None,
    known: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """One hash a step of the call and what it is made from: equal if the same call would be made.

    Ids, words and mere order do not count. A step that was taken over keeps its hash (`made_of`).
    With variables None each variable counts as itself; `known` are hashes of further steps.
    """
    found = dict(known or {})
    for step in sort_steps(steps):
        found[step["id"]] = step.get("made_of") or _hash_step(step, found, variables)
    return found


def _hash_step(
    step: FlowStep, known: Mapping[str, str], variables: Mapping[str, Any] | None
) -> str:
    each = step.get("for_each")
    made = step["arguments"] if each is None else [step["arguments"], each]
    references = find_references(made)
    roots = {reference.root for reference in references}
    symbols = {root: _Symbol({_MARK: [known.get(root, root)]}) for root in roots}
    if each is not None:
        symbols[ITEM] = _Symbol({_MARK: [ITEM]})
    if variables is None:
        names = (str(r.path[0]) for r in references if r.root == GLOBAL and r.path)
        variables = {name: _Symbol({_MARK: [GLOBAL, name]}) for name in names}
    try:
        filled = resolve_references(made, symbols, variables)
    except MissingValue:  # no sound plan
        filled = made
    return hash_of([step["tool"], filled])


def hash_plan(steps: Sequence[FlowStep], variables: Mapping[str, Any]) -> str:
    """What a whole plan does, as a hash: the same for any ids, words and order of its steps."""
    found = hash_steps(steps, variables)
    return hash_of(sorted(hash_of([found[s["id"]], _list_followed(s, found)]) for s in steps))


def _list_followed(step: FlowStep, known: Mapping[str, str]) -> list[str]:
    """The prints of what a step comes after without referring to it."""
    roots = list_sources(step)
    return sorted(known.get(i, i) for i in step.get("depends_on") or [] if i not in roots)
