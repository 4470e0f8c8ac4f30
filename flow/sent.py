"""Calls that a new plan spells otherwise than the plan that made them. Pure."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..state.canonical import canonical
from ..state.flow import FlowStep, value_of
from .order import in_plan_order
from .references import MissingValue, resolve

Sent = Callable[[str, Any], Any]
"""Takes a tool's name and arguments without references; gives the arguments as they are sent."""


def same_when_sent(
    new: Sequence[FlowStep],
    old: Sequence[FlowStep],
    pairs: Mapping[str, FlowStep],
    *,
    variables: Mapping[str, Any],
    made: Mapping[str, Any],
    sent: Sent,
) -> dict[str, FlowStep]:
    """Find the steps that would send what a finished one has sent, by the new step's id.

    A planner that is shown results likes to put a value where a reference to it stood: that is no
    wish for a second call.

    Args:
        new: The new plan's steps.
        old: Steps whose call was made, each with its result.
        pairs: New id to the old step that makes the same call as planned; these stand.
        variables: The new plan's.
        made: Old id to the arguments that were sent.
        sent: Spells arguments as they are sent.
    """
    taken, ids = {step["id"] for step in pairs.values()}, {step["id"] for step in new}
    left: dict[str, list[FlowStep]] = defaultdict(list)
    for step in old:
        if step["id"] in made and step["id"] not in taken:
            left[canonical([step["tool"], sent(step["tool"], made[step["id"]])])].append(step)
    if not left:
        return {}
    values = {
        step["id"]: value_of(step) for step in old if step["id"] not in ids and _is_at_hand(step)
    }
    found: dict[str, FlowStep] = {}
    for step in in_plan_order(new):
        name = step["id"]
        before = pairs.get(name) or _sent_before(step, left, values, variables, sent)
        if before and name not in pairs:
            found[name] = before
        if before and _is_at_hand(before):
            values[name] = value_of(before)
    return found


def _is_at_hand(step: FlowStep) -> bool:
    return step.get("shape") != "stored"


def _sent_before(
    step: FlowStep,
    left: Mapping[str, list[FlowStep]],
    values: Mapping[str, Any],
    variables: Mapping[str, Any],
    sent: Sent,
) -> FlowStep | None:
    """The old step that sent what this one would; it is then no longer left."""
    try:
        arguments = sent(step["tool"], resolve(step["arguments"], values, variables))
    except MissingValue:  # it is made of what is still to come
        return None
    fitting = left.get(canonical([step["tool"], arguments]))
    return fitting.pop(0) if fitting else None
