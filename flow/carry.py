"""One plan in place of another: what it takes over, and what it changes. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from ..state.calls import call_id
from ..state.canonical import canonical
from ..state.flow import FlowStep, was_made
from ..state.plan import free_id
from .order import in_plan_order, prints
from .references import GLOBAL, references_in, renamed

_SHOWN: Final = 200
_BEFORE: Final = 40
_TOLD: Final[dict[str, str]] = {
    "tool": "tool",
    "description": "description",
    "arguments": "arguments",
    "depends_on": "dependencies",
    "optional": "optional",
    "expect": "expect",
    "retries": "retries",
    "timeout": "timeout",
    "expected_output": "expected output",
}


def adopt(
    steps: Sequence[FlowStep],
    old: Sequence[FlowStep],
    *,
    variables: Mapping[str, Any],
    old_variables: Mapping[str, Any],
    rounds: Mapping[str, int],
    reads: Collection[str] = (),
    revision: str = "",
) -> list[FlowStep]:
    """A sound plan's steps in place of the old ones, with what is done carried over.

    A finished step stays finished where the new plan makes the same call of the same things, under
    whatever id: its result moves there. One that the new plan leaves out is kept in front; it gives
    its id to a new step that wants it, and takes another. Other old steps go. A new step may refer
    to a finished one by its old id. Calls are counted on where an id was used before, so evidence
    ids stay unambiguous.

    A finished read that the new plan places behind an unfinished step is made again, and its first
    result goes, unless it is referred to: the world may be another by then. A write is not: each
    step of a write says under which names it may have been made for this plan's elders, so that
    the journal finds it (`claims`). There it is also found however else it is spelled.

    Args:
        steps: The new plan's, as `steps_of` makes them.
        old: The steps before, in any status.
        variables: The new plan's variables.
        old_variables: Those of the plan before.
        rounds: Step id to the highest round that evidence names, also of steps that went.
        reads: Names of the tools that change nothing.
        revision: Begins the journal's names of the calls of the plan before.
    """
    if not old:
        return [_begun(step, None, rounds.get(step["id"], 0)) for step in steps]
    ids = {step["id"] for step in steps}
    done = [step for step in old if step["status"] == "completed"]
    before = prints(old, old_variables)
    now = prints(steps, variables, {s["id"]: before[s["id"]] for s in done if s["id"] not in ids})
    called = [step for step in old if step["status"] == "completed" or was_made(step)]
    pairs = _same_calls(steps, called, now, before)
    elders = _same_calls(steps, old, now, before, found=pairs)
    carried = _still_good(pairs, steps, reads)
    homes = {step["id"]: name for name, step in carried.items()}
    again = {step["id"] for step in pairs.values()}
    again -= {root for step in steps for root in _roots(step)} - ids - homes.keys()
    left_out = [step for step in called if step["id"] not in again]
    homes |= _names_for(left_out, ids, taken={*ids, *rounds, *(step["id"] for step in called)})
    names = {name: home for name, home in homes.items() if name not in {home, *ids}}
    earlier = {step["id"]: step for step in old}
    adopted = [_kept(step, homes, before[step["id"]], _claims(step, revision)) for step in left_out]
    for step in steps:
        name, fresh = step["id"], _renamed(step, names)
        if name in carried:
            fresh = _finished(fresh, carried[name], now[name], rounds.get(name, 0))
        else:
            same = now[name] == before.get(name)
            fresh = _begun(fresh, earlier.get(name), rounds.get(name, 0), same=same)
        adopted.append({**fresh, "claims": _claims(elders.get(name), revision)})
    return adopted


def _claims(elder: FlowStep | None, revision: str) -> list[str]:
    """The names under which a step may have been made for the plans before."""
    if elder is None or not (elder["changes"] and revision):
        return []
    return [*elder["claims"], *(call_name(revision, elder, more) for more in (0, 1))]


def call_name(revision: str, step: FlowStep, more: int = 1) -> str:
    """The name in the journal of a step's next call in a plan, or of its last one."""
    return f"{revision}.{call_id(step['id'], step['rounds'] + more)}"


def _still_good(
    carried: dict[str, FlowStep], steps: Sequence[FlowStep], reads: Collection[str]
) -> dict[str, FlowStep]:
    """The finished steps without those reads that had better be made again.

    Those are the ones that now come behind something still to be done, or have another check.
    """
    ids = {step["id"] for step in steps}
    good = dict(carried)
    for step in in_plan_order(steps):
        to_do = {name for name in step.get("depends_on") or [] if name in ids and name not in good}
        other = step["id"] in good and step["expect"] not in (None, good[step["id"]].get("expect"))
        if (to_do or other) and step["tool"] in reads:
            good.pop(step["id"], None)
    return good


def _names_for(
    steps: Sequence[FlowStep], wanted: Collection[str], *, taken: set[str]
) -> dict[str, str]:
    """The id of each kept step, by the one it had: its own where the new plan does not want it."""
    names: dict[str, str] = {}
    for step in steps:
        name = step["id"]
        names[name] = free_id(name, taken) if name in wanted else name
        taken.add(names[name])
    return names


def _kept(step: FlowStep, homes: Mapping[str, str], made_of: str, claims: list[str]) -> FlowStep:
    """A step that the new plan leaves out; what it was made from goes by its new ids.

    One whose result failed its check did change the world: it is told, and found if planned again.
    """
    before = [homes[name] for name in step.get("depends_on") or [] if name in homes]
    return {
        **step,
        "status": "skipped" if was_made(step) else step["status"],
        "spare": step["changes"],
        "claims": claims,
        "id": homes[step["id"]],
        "arguments": renamed(step["arguments"], homes),
        "depends_on": before,
        "made_of": made_of,
    }


def _renamed(step: FlowStep, names: Mapping[str, str]) -> FlowStep:
    """A new step that may speak of finished ones by ids they no longer have."""
    if not names:
        return step
    before = [names.get(name, name) for name in step.get("depends_on") or []]
    return {
        **step,
        "arguments": renamed(step["arguments"], names),
        "depends_on": list(dict.fromkeys(before)),
    }


def _finished(step: FlowStep, done: FlowStep, made_of: str, rounds: int) -> FlowStep:
    """A new step with what a finished one left behind; another check is still to be made."""
    other = step["expect"] not in (None, done.get("expect"))
    return {
        **step,
        "status": "pending" if was_made(done) or other else done["status"],
        "result": done.get("result", ""),
        "shape": done.get("shape", ""),
        "value": done.get("value"),
        "stored": done.get("stored", ""),
        "evidence": done.get("evidence", []),
        "attempts": done.get("attempts", 0),
        "rounds": max(rounds, done.get("rounds", 0)),
        "seconds": done.get("seconds", 0.0),
        "made_of": made_of,
    }


def _begun(step: FlowStep, before: FlowStep | None, rounds: int, *, same: bool = False) -> FlowStep:
    """A new step that counts on from the one that had its id."""
    if not before:
        return {**step, "rounds": rounds}
    counted: FlowStep = {**step, "rounds": max(rounds, before.get("rounds", 0))}
    if same and before["status"] != "completed":
        counted["attempts"] = before.get("attempts", 0)
        counted["seconds"] = before.get("seconds", 0.0)
    return counted


def _same_calls(
    new: Sequence[FlowStep],
    old: Sequence[FlowStep],
    new_prints: Mapping[str, str],
    old_prints: Mapping[str, str],
    *,
    found: Mapping[str, FlowStep] | None = None,
) -> dict[str, FlowStep]:
    """The old step that makes the same call, by the new one's id: one to one, by like ids first.

    Of two steps that make the same call, each must be made from the very results that the new
    step refers to. Pairs that were found already stand.
    """
    roots = {step["id"]: _roots(step) for step in new}
    left: dict[tuple[str, frozenset[str]], dict[str, FlowStep]] = defaultdict(dict)
    known = {step["id"] for step in old}
    pairs = dict(found or {})
    taken = {step["id"] for step in pairs.values()}
    for step in (step for step in old if step["id"] not in taken):
        # A root that is gone, because a crash came before it was saved, is "" as well.
        came_from = frozenset(root if root in known else "" for root in _roots(step))
        left[old_prints[step["id"]], came_from][step["id"]] = step
    for alike in (True, False):
        for step in in_plan_order(new):
            name = step["id"]
            # A step of the new plan that has no pair came from nowhere: from "".
            came_from = frozenset(
                pairs[r]["id"] if r in pairs else r * (r not in roots) for r in roots[name]
            )
            fitting = left.get((new_prints[name], came_from))
            if fitting and name not in pairs and (name in fitting or not alike):
                pairs[name] = fitting.pop(name if alike else next(iter(fitting)))
    return pairs


def _roots(step: FlowStep) -> frozenset[str]:
    return frozenset(r.root for r in references_in(step["arguments"]) if r.root != GLOBAL)


def difference(old: Sequence[FlowStep], new: Sequence[FlowStep]) -> list[str]:
    """What a new plan adds, changes and leaves out, one line each, for a human.

    Steps are the same that make the same call, else that bear the same id. The order in which
    steps are listed is no difference.
    """
    # By names, not values: this plan's variables need not be those of the other.
    pairs = _same_calls(new, old, *(prints(_unmade(steps), None) for steps in (new, old)))
    paired = {step["id"] for step in pairs.values()}
    left = {step["id"]: step for step in old if step["id"] not in paired}
    for step in new:
        if step["id"] not in pairs and step["id"] in left:
            pairs[step["id"]] = left.pop(step["id"])
    names = {step["id"]: name for name, step in pairs.items()}
    lines: list[str] = []
    for step in new:
        before = pairs.get(step["id"])
        lines += _changes(before, step, names) if before else [f"+ {_told(step)}"]
    return [*lines, *(f"- {_told(step)}" for step in left.values())]


def _unmade(steps: Sequence[FlowStep]) -> Iterator[FlowStep]:
    """The steps as they are planned, wherever their results come from."""
    return ({**step, "made_of": ""} for step in steps)


def _told(step: FlowStep) -> str:
    return f"{step['id']}: {step['tool']}" + (step["description"] and f" — {step['description']}")


def _changes(old: FlowStep, new: FlowStep, names: Mapping[str, str]) -> Iterator[str]:
    """One line for each field of a step that says something else now."""
    if old["id"] != new["id"]:
        yield f"~ {new['id']}: was {old['id']}"
    before, now = _compared(_renamed(old, names)), _compared(new)
    for key, told in _TOLD.items():
        if _differ(before.get(key), now.get(key)):
            yield f"~ {new['id']}: {told} {_both(*_parted(before.get(key), now.get(key)))}"


def _compared(step: FlowStep) -> dict[str, Any]:
    return {**step, "depends_on": sorted(step.get("depends_on") or [])}


def _differ(old: Any, new: Any) -> bool:
    # As JSON: to Python, true and 1 are the same.
    return canonical(old) != canonical(new)


def _parted(old: Any, new: Any) -> tuple[Any, Any]:
    """Of two objects only the entries that differ; anything else whole."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return old, new
    same = {key for key in old.keys() & new.keys() if not _differ(old[key], new[key])}
    return (
        {key: value for key, value in old.items() if key not in same},
        {key: value for key, value in new.items() if key not in same},
    )


def _both(old: Any, new: Any) -> str:
    """Two values as short JSON, cut so that what differs is seen."""
    texts = [canonical(old), canonical(new)]
    alike = next((n for n, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), 0)
    return " → ".join(_short(text, max(0, alike - _BEFORE)) for text in texts)


def _short(text: str, start: int) -> str:
    if len(text) <= _SHOWN:
        return text
    head = "…" * (start > 0)
    tail = text[start:]
    room = _SHOWN - len(head)
    return head + (tail if len(tail) <= room else tail[: room - 1] + "…")
