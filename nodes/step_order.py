"""Which steps of a plan a pass can begin, in which order, and what each waits for. Pure."""

from collections.abc import Collection, Sequence

from ..state.flow import FlowStep
from ..state.flow_plan import in_plan_order


def order_of_pass(
    steps: Sequence[FlowStep], *, writes: Collection[str], waiting: Collection[str]
) -> tuple[list[str], dict[str, list[str]]]:
    """The open steps that a pass can begin, dependencies first, and what each of them waits for.

    A step waits for its dependencies; one that may change the world also for the one before it in
    the plan that may, so that the world ends the same however long the steps take.

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
    for step in in_plan_order([step for step in steps if step["status"] == "pending"]):
        name = step["id"]
        needed = list(step.get("depends_on") or [])
        if name in writes:
            needed += [before] if before and before not in needed else []
            before = name
        if name in shut or not shut.isdisjoint(needed):
            shut.add(name)
        else:
            waits[name] = needed
    return list(waits), {name: [w for w in needed if w in waits] for name, needed in waits.items()}
