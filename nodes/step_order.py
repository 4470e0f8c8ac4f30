"""Which steps of a plan a pass can begin, in which order, and what each waits for. Pure."""

from collections.abc import Collection, Sequence

from ..state.flow import FlowStep
from ..state.flow_plan import in_plan_order


def order_of_pass(
    steps: Sequence[FlowStep], *, writes: Collection[str], waiting: Collection[str]
) -> tuple[list[str], dict[str, list[str]]]:
    """The open steps that a pass can begin, dependencies first, and what each of them waits for.

    A step waits for its dependencies; one that may change the world also for the one before it in
    the plan that may, so that the world ends the same however long the steps take. Where not all
    can run at once, those with the longest chain of steps behind them come first ("highest level
    first", Hu 1961), else the plan's order stands.

    Args:
        steps: The whole plan.
        writes: Ids of the steps that may change the world.
        waiting: Ids of steps with a question that a human must answer first; what is behind them
            cannot begin either.

    Returns:
        Step ids, and step id to the ids it waits for.
    """
    waits: dict[str, list[str]] = {}
    shut = set(waiting)
    before = ""
    # The whole plan, not what is left of it: else a pass later on would order the writes otherwise.
    for step in (step for step in in_plan_order(steps) if step["status"] == "pending"):
        name = step["id"]
        needed = list(step.get("depends_on") or [])
        if name in writes:
            needed += [before] if before and before not in needed else []
            before = name
        if name in shut or not shut.isdisjoint(needed):
            shut.add(name)
        else:
            waits[name] = needed
    waits = {name: [w for w in needed if w in waits] for name, needed in waits.items()}
    behind = _steps_behind(waits)
    return sorted(waits, key=lambda name: -behind[name]), waits


def _steps_behind(waits: dict[str, list[str]]) -> dict[str, int]:
    """How many steps the longest chain has that waits for each step."""
    longest = dict.fromkeys(waits, 0)
    for name in reversed(waits):
        for needed in waits[name]:
            longest[needed] = max(longest[needed], longest[name] + 1)
    return longest
