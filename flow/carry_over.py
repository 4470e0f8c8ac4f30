"""One plan in place of another: what it takes over, and what it changes. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from ..state.flow import FlowStep, items_of, make_call_name, reopen_items, was_made
from ..state.plan import find_free_id
from ..text.canonical import canonical, shorten_text
from .conditions import rename_in_condition
from .order import hash_steps, list_needs, list_sources, sort_steps
from .references import rename_steps

_SHOWN: Final = 200
_BEFORE: Final = 40
_CAME_OF: Final = ("result", "shape", "value", "stored", "evidence", "attempts", "seconds")
_COMPARED: Final = {
    **{key: key for key in ("tool", "description", "arguments")},
    "depends_on": "dependencies",
    **{key: key for key in ("optional", "expect", "when", "retries", "timeout")},
    "for_each": "for each",
    "max_items": "max items",
    "expected_output": "expected output",
}


def adopt_steps(
    steps: Sequence[FlowStep],
    old: Sequence[FlowStep],
    *,
    variables: Mapping[str, Any],
    old_variables: Mapping[str, Any],
    rounds: Mapping[str, int],
    reads: Collection[str] = (),
    revision: str = "",
) -> list[FlowStep]:
    """The steps of a sound new plan, which keep what is done already.

    If the new plan makes the same call from the same inputs, under any id, the step takes over the
    result. Finished steps that the new plan leaves out stay in front; if a new step wants their id,
    they get another one. Other old steps go. New steps may refer to finished ones by old ids.

    A finished read that now comes behind an unfinished step is made again, because the world may
    have changed. A write is not: `claims` lists the names under which it may stand in the journal.

    `rounds` is the highest round in the evidence by step id; counting goes on from there. `reads`
    are the tools that change nothing, `revision` begins the journal names of the plan before.
    """
    ids, earlier = {step["id"] for step in steps}, {step["id"]: step for step in old}
    called = {s["id"]: s for s in old if s["status"] == "completed" or was_made(s)}
    before = hash_steps(old, old_variables)
    gone = {name: before[name] for name in called if name not in ids}
    now = hash_steps(steps, variables, gone)
    pairs = _match_calls(steps, called.values(), now, before)
    elders = _match_calls(steps, old, now, before, found=pairs)
    carried = _select_reusable(pairs, steps, reads)
    homes = {step["id"]: name for name, step in carried.items()}
    needed = {root for step in steps for root in list_needs(step)} - ids - homes.keys()
    again = {step["id"] for step in pairs.values()} - needed
    left_out = [step for name, step in called.items() if name not in again]
    homes |= _assign_ids(left_out, ids, taken={*ids, *rounds, *called})
    names = {name: home for name, home in homes.items() if name not in {home, *ids}}
    adopted = [_keep_step(step, homes, before[step["id"]], revision) for step in left_out]
    for step in steps:
        name, fresh = step["id"], _rename_step(step, names)
        fresh["claims"] = _list_claims(elders.get(name), revision)
        fresh["rounds"] = max(rounds.get(name, 0), earlier.get(name, fresh)["rounds"])
        if name in carried:
            fresh = _carry_step(fresh, carried[name], now[name])
        elif now[name] == before.get(name) and earlier[name]["status"] != "completed":
            fresh |= _select_keys(earlier[name], ("attempts", "seconds"))
        adopted.append(fresh)
    found = _carry_items(steps, elders, carried, old, revision)
    return [s | FlowStep(items=found.get(s["id"], s.get("items") or [])) for s in adopted]


def _assign_ids(
    steps: Sequence[FlowStep], wanted: Collection[str], *, taken: set[str]
) -> dict[str, str]:
    """The new id of each kept step by its old one: the same where the new plan does not want it."""
    found: dict[str, str] = {}
    for name in (step["id"] for step in steps):
        found[name] = find_free_id(name, taken) if name in wanted else name
        taken.add(found[name])
    return found


def _select_keys(step: FlowStep, keys: Sequence[str]) -> FlowStep:
    return cast("FlowStep", {key: step.get(key) for key in keys})


def _list_claims(elder: FlowStep | None, revision: str) -> list[str]:
    """The names under which a step may have been made for the plans before."""
    if elder is None or not (elder["changes"] and revision):
        return []
    return [*elder["claims"], *(make_call_name(revision, elder, more) for more in (0, 1))]


def _claim_items(step: FlowStep, revision: str) -> list[FlowStep]:
    """The items of a step, with the names under which their calls may have been made."""
    items = zip(step.get("items") or [], items_of(step), strict=True)
    return [item | FlowStep(claims=_list_claims(whole, revision)) for item, whole in items]


def _carry_items(
    steps: Sequence[FlowStep],
    elders: Mapping[str, FlowStep],
    carried: Mapping[str, FlowStep],
    old: Sequence[FlowStep],
    revision: str,
) -> dict[str, list[FlowStep]]:
    """By id of a new step with items: the old items that need not be called again.

    Reads also take over from another list, call by call. They are made again if a step before them
    is, or if the results together were not as expected.
    """
    ids = {step["id"] for step in steps}
    elder_ids = {elder["id"] for elder in elders.values()}
    free = [step for step in old if step.get("items") and step["id"] not in elder_ids]
    found: dict[str, FlowStep] = {}
    for step in (step for step in steps if step.get("for_each") is not None):
        name = step["id"]
        if name in elders:
            found[name] = elders[name]
        elif alike := [o for o in free if not step["changes"] and o["tool"] == step["tool"]]:
            found[name] = next((one for one in alike if one["id"] == name), alike[0])
            free.remove(found[name])
        to_do = any(i in ids and i not in carried for i in step["depends_on"] or [])
        again = to_do or found.get(name, step).get("failure") == "unexpected_result"
        if again and not step["changes"] and name not in carried:
            found.pop(name, None)
    return {name: reopen_items(_claim_items(elder, revision)) for name, elder in found.items()}


def _select_reusable(
    found: Mapping[str, FlowStep], steps: Sequence[FlowStep], reads: Collection[str]
) -> dict[str, FlowStep]:
    """The finished steps, without reads that now follow an open step or have another check."""
    ids = {step["id"] for step in steps}
    good = dict(found)
    for step in sort_steps(steps):
        name = step["id"]
        to_do = any(i in ids and i not in good for i in step["depends_on"] or [])
        if step["tool"] in reads and name in good and (to_do or _has_other_check(step, good[name])):
            del good[name]
    return good


def _has_other_check(step: FlowStep, done: FlowStep) -> bool:
    return step["expect"] not in (None, done["expect"])


def _keep_step(step: FlowStep, homes: Mapping[str, str], made_of: str, revision: str) -> FlowStep:
    """A step that the new plan leaves out, with references by new ids.

    If its result failed a check it did change the world: it is told, and found if planned again.
    """
    return {
        **step,
        "status": "skipped" if was_made(step) else step["status"],
        "spare": step["changes"],
        "claims": _list_claims(step, revision),
        "id": homes[step["id"]],
        "arguments": rename_steps(step["arguments"], homes),
        "for_each": rename_steps(step.get("for_each"), homes),
        "items": _claim_items(step, revision),
        "depends_on": [homes[name] for name in step["depends_on"] or [] if name in homes],
        "made_of": made_of,
    }


def _rename_step(step: FlowStep, names: Mapping[str, str]) -> FlowStep:
    """A copy of a step that may speak of others by ids they no longer have."""
    before = dict.fromkeys(names.get(name, name) for name in step["depends_on"] or [])
    arguments = rename_steps(step["arguments"], names) if names else step["arguments"]
    when = rename_in_condition(step.get("when"), names)
    each = rename_steps(step.get("for_each"), names)
    changed = {"arguments": arguments, "when": when, "for_each": each, "depends_on": list(before)}
    return cast("FlowStep", {**step, **changed})


def _carry_step(step: FlowStep, done: FlowStep, made_of: str) -> FlowStep:
    """A new step with what a finished one left behind; another check is still to be made."""
    open_ = was_made(done) or _has_other_check(step, done)
    return {
        **step,
        **_select_keys(done, _CAME_OF),
        "status": "pending" if open_ else done["status"],
        "rounds": max(step["rounds"], done["rounds"]),
        "made_of": made_of,
    }


def _match_calls(
    new: Sequence[FlowStep],
    old: Collection[FlowStep],
    new_prints: Mapping[str, str],
    old_prints: Mapping[str, str],
    *,
    found: Mapping[str, FlowStep] | None = None,
) -> dict[str, FlowStep]:
    """By new id, the old step that makes the same call from the same results; like ids first."""
    roots = {step["id"]: list_sources(step) for step in new}
    known = {step["id"] for step in old}
    pairs = dict(found or {})
    taken = {step["id"] for step in pairs.values()}
    left: dict[tuple[str, frozenset[str]], dict[str, FlowStep]] = defaultdict(dict)
    for step in (step for step in old if step["id"] not in taken):
        # A root that is gone, because a crash came before it was saved, is "" as well.
        came_from = frozenset(r if r in known else "" for r in list_sources(step))
        left[old_prints[step["id"]], came_from][step["id"]] = step
    for alike in (True, False):
        for name in (step["id"] for step in sort_steps(new)):
            # A step of the new plan that has no pair came from nowhere: from "".
            came_from = frozenset(
                pairs[r]["id"] if r in pairs else r * (r not in roots) for r in roots[name]
            )
            fitting = left.get((new_prints[name], came_from))
            if fitting and name not in pairs and (name in fitting or not alike):
                pairs[name] = fitting.pop(name if alike else next(iter(fitting)))
    return pairs


# For a human.


def describe_changes(old: Sequence[FlowStep], new: Sequence[FlowStep]) -> list[str]:
    """What a new plan adds, changes and leaves out, one line each, for a human.

    Steps match by their call, else by their id. The order of the list does not matter.
    """
    # Where results come from makes no difference here.
    old, new = ([s | FlowStep(made_of="") for s in steps] for steps in (old, new))
    # By names, not values: this plan's variables need not be those of the other.
    pairs = _match_calls(new, old, hash_steps(new, None), hash_steps(old, None))
    paired = {step["id"] for step in pairs.values()}
    left = {step["id"]: step for step in old if step["id"] not in paired}
    for step in new:
        if step["id"] not in pairs and step["id"] in left:
            pairs[step["id"]] = left.pop(step["id"])
    names = {step["id"]: name for name, step in pairs.items()}
    lines: list[str] = []
    for step in new:
        before = pairs.get(step["id"])
        lines += _list_changes(before, step, names) if before else [f"+ {_describe_step(step)}"]
    return [*lines, *(f"- {_describe_step(step)}" for step in left.values())]


def _describe_step(step: FlowStep) -> str:
    return f"{step['id']}: {step['tool']}" + (step["description"] and f" — {step['description']}")


def _list_changes(old: FlowStep, new: FlowStep, names: Mapping[str, str]) -> Iterator[str]:
    """One line for each field of a step that says something else now."""
    if old["id"] != new["id"]:
        yield f"~ {new['id']}: was {old['id']}"
    was: Any = _rename_step(old, names)
    both = [{**step, "depends_on": sorted(step["depends_on"] or [])} for step in (was, new)]
    for key, name in _COMPARED.items():
        before, now = (canonical(step.get(key)) for step in both)
        if before != now:  # as JSON: to Python, true and 1 are the same
            pairs = enumerate(zip(before, now, strict=False))
            same = next((n for n, (a, b) in pairs if a != b), 0)
            start = max(0, same - _BEFORE) if max(len(before), len(now)) > _SHOWN else 0
            texts = ("…" * (start > 0) + text[start:] for text in (before, now))
            yield f"~ {new['id']}: {name} {' → '.join(shorten_text(t, _SHOWN) for t in texts)}"
