"""A plan with variables whose values come with the input: a template. Pure.

A value is put in as it is: braces in it are text, as in every result.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from ..text.told import say
from .execution_plan import ExecutionPlan, PlanStep
from .references import GLOBAL, Reference, listed, references_in
from .when import reads_of


def filled(plan: ExecutionPlan, values: Mapping[str, Any]) -> ExecutionPlan:
    """The plan with these values for its variables, in place of its own."""
    if not values:
        return plan
    return plan.model_copy(update={"global_variables": {**plan.global_variables, **values}})


def lacking(plan: ExecutionPlan) -> list[str]:
    """Names of the variables that the plan reads and has no value for."""
    names = (str(read.path[0]) for read in _reads(plan) if read.path)
    return [name for name in dict.fromkeys(names) if name not in plan.global_variables]


def unread(plan: ExecutionPlan, values: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with values that the plan has no use for, a sentence each."""
    reads = [*_reads(plan)]
    if not all(read.path for read in reads):  # {{global}} is all of them
        return
    known = {*plan.global_variables, *(str(read.path[0]) for read in reads)}
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            kind = "variable_unread_near" if near else "variable_unread"
            yield say(kind, name=repr(name), near=repr([*near, ""][0]), known=listed(known))


def _reads(plan: ExecutionPlan) -> Iterator[Reference]:
    for step in plan.steps:
        yield from (read for read in _of_step(step) if read.root == GLOBAL)


def _of_step(step: PlanStep) -> list[Reference]:
    # All but its words for readers: what is none of them may hold references.
    fields = step.model_dump(exclude={"description", "expected_output", "expect", "when"})
    return [*references_in(fields), *reads_of(step.when)]
