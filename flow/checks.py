"""A plan against itself and against the tools there are: all that could not work. Pure."""

import difflib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ..state.flow import FlowStep, read_value
from ..text.canonical import list_names, shorten_text
from ..text.sentences import say
from ..tools.catalog import Catalog, CatalogTool
from ..tools.python_tools import BUILT_IN, find_result_schema
from .conditions import find_condition_flaw, list_reads
from .execution_plan import ExecutionPlan, PlanStep
from .expectations import find_check_flaw
from .items import find_list_flaws, resolve_item_read, resolve_list_read
from .order import build_steps, collect_values
from .references import (
    GLOBAL,
    ITEM,
    MissingValue,
    Reference,
    find_foreign,
    find_malformed,
    find_references,
    is_whole,
    map_texts,
    resolve_reference,
)
from .signatures import explain_missing_field, explain_unknown_name, find_open_problems

LONGEST_ID: Final = 60
_ODD: Final = re.compile(r"[\s.\[\]{}]")
# Looking for the nearest of n ids takes n comparisons of some 50 µs, and the nearest tool takes
# milliseconds: without bounds, a broken plan of 1,000 steps would hold the event loop for a minute.
_COMPARED: Final = 4_000
_NAMED: Final = 20


def find_plan_flaws(
    plan: ExecutionPlan,
    catalog: Catalog,
    *,
    kept: Sequence[FlowStep] = (),
    limit: int,
    given: Mapping[str, Any] = MappingProxyType({}),
    hides: bool = False,
) -> list[str]:
    """Every flaw of a plan, one sentence each; empty where it is sound.

    `kept` are finished steps that it may refer to without containing them. `given` are values of
    variables from the request: what looks like a reference there is text. With `hides` nothing is
    said of what is in the results of `kept`.
    """
    pairs = enumerate(zip(plan.steps, build_steps(plan), strict=True))
    steps = [_Step(n, one, step, find_references(collect_values(step))) for n, (one, step) in pairs]
    ids = [*(step.id for step in steps if step.id), *(step["id"] for step in kept)]
    known = dict.fromkeys(ids)
    unknown = _find_unknown_roots(steps, known)
    found = [] if steps else [say("no_steps")]
    if len(steps) > limit:
        found.append(say("too_many_steps", count=len(steps), limit=limit))
    found += _find_odd_ids(steps)
    for step in steps:
        if not step.planned.tool:
            found.append(say("step_names_no_tool", step=step.name))
        found += _find_odd_fields(step)
        found += _find_odd_dependencies(step, known)
        found += _find_odd_references(step, unknown, plan.global_variables)
        found += [
            say("step_has", step=step.name, problem=what) for what in _find_malformed(step, known)
        ]
    found += [
        say("variable_holds_reference", name=repr(name), reference=references[0])
        for name, value in plan.global_variables.items()
        # Values of variables are not expanded.
        if (references := find_references(value)) and given.get(name) != value
    ]
    found += _find_foreign(steps, catalog, kept)
    unreadable = _make_field_checker(plan, catalog, kept, hides=hides)
    return [*found, *_find_cycle(steps), *_check_against_tools(plan, steps, catalog, unreadable)]


class _Step(NamedTuple):
    """Index in the plan, the step as planned and as state has it, the references to values."""

    place: int
    planned: PlanStep
    step: FlowStep
    references: list[Reference]

    @property
    def id(self) -> str:
        return self.planned.id

    @property
    def reads(self) -> list[Reference]:
        """What its arguments, its list and its condition read; of items see `of_items`."""
        own = (r for r in self.references if not self._is_item(r))
        return [*own, *list_reads(self.planned.when)]

    @property
    def item_reads(self) -> list[Reference]:
        """What its arguments read of an item of its list."""
        return [r for r in self.references if self._is_item(r)]

    def _is_item(self, reference: Reference) -> bool:
        return reference.root == ITEM and self.planned.for_each is not None

    @property
    def name(self) -> str:
        """As it is called in a finding."""
        if self.id:
            return say("step_named", step=repr(self.id))
        return say("step_numbered", number=self.place + 1)


_RESERVED: Final = {GLOBAL: "id_of_variables", ITEM: "id_of_items"}


def _find_odd_ids(steps: Sequence[_Step]) -> Iterator[str]:
    for name, times in Counter(step.id for step in steps if step.id).items():
        if times > 1:
            yield say("id_used_often", id=repr(name), times=times)
        if name in _RESERVED:
            yield say(_RESERVED[name], id=repr(name))
        if len(name) > LONGEST_ID:
            shown = repr(name[:20] + "…")
            yield say("id_too_long", id=shown, length=len(name), limit=LONGEST_ID)
        elif odd := _ODD.search(name):
            kind = "id_holds_space" if odd[0].isspace() else "id_holds"
            yield say(kind, id=repr(name), sign=repr(odd[0]))
    yield from (say("step_without_id", step=step.name) for step in steps if not step.id)


def _find_odd_fields(step: _Step) -> Iterator[str]:
    """Fields that a step does not have: what was said in them would not happen."""
    fields = [field.alias or name for name, field in PlanStep.model_fields.items()]
    for name, value in (step.planned.model_extra or {}).items():
        if value in (None, "", [], {}):
            continue
        problem = explain_unknown_name("field", name, name, fields)
        yield say("step_has", step=step.name, problem=problem)


def _find_odd_dependencies(step: _Step, known: Collection[str]) -> Iterator[str]:
    """Dependencies on the step itself, and on steps that nobody knows."""
    if step.id and step.id in step.planned.dependencies:
        yield say("depends_on_itself", step=step.name)
    if unknown := [
        name for name in step.planned.dependencies if name not in known and name != step.id
    ]:
        some, told = f"[{list_names(unknown)}]", f"[{list_names(known)}]"
        yield say("depends_on_unknown", step=step.name, unknown=some, known=told)


def _find_unknown_roots(
    steps: Sequence[_Step], known: Collection[str]
) -> dict[str, tuple[str, str]]:
    """What to say of each root that is no step: the sentence, and the ids that may be meant."""
    read = dict.fromkeys(reference.root for step in steps for reference in step.reads)
    roots = [root for root in read if root not in known and root != GLOBAL]
    hinted = max(1, _COMPARED // max(1, len(known)))
    found = dict.fromkeys(roots, ("refers_to_nothing", ""))
    for root in roots[:hinted]:
        near = difflib.get_close_matches(root, known, n=1, cutoff=0.5)
        kind = "refers_to_nothing_near" if near else "refers_to_nothing_known"
        found[root] = (kind, repr(near[0]) if near else f"[{list_names(known)}]")
    return found


def _find_odd_references(
    step: _Step, unknown: Mapping[str, tuple[str, str]], variables: Mapping[str, Any]
) -> Iterator[str]:
    """References to nothing: an unknown step, the step itself, no variable of the plan."""
    for reference in dict.fromkeys(step.reads):
        if reference.root == GLOBAL:
            if missing := _explain_missing(reference, {}, variables):
                yield say("step_has", step=step.name, problem=missing)
        elif reference.root == ITEM:
            yield say("item_outside", step=step.name, reference=reference)
        elif reference.root == step.id:
            yield say("refers_to_itself", step=step.name, reference=reference)
        elif reference.root in unknown:
            kind, ids = unknown[reference.root]
            named = repr(reference.root)
            yield say(kind, step=step.name, reference=reference, named=named, near=ids, known=ids)


def _explain_missing(
    reference: Reference, results: Mapping[str, Any], variables: Mapping[str, Any]
) -> str:
    """Why a reference has no value; '' where it has one."""
    try:
        resolve_reference(reference, results, variables)
    except MissingValue as error:
        return str(error)
    return ""


def _find_malformed(step: _Step, known: Collection[str]) -> list[str]:
    """What looks like a reference and is none, and references in names of fields."""
    odd = [
        say("name_holds_reference", name=repr(shorten_text(name)))
        for name in _list_field_names(step.planned.arguments)
        if any(r.root in known or r.root in _RESERVED for r in find_references(name))
    ]
    return [*find_malformed(collect_values(step.step)), *odd]


def _find_foreign(
    steps: Sequence[_Step], catalog: Catalog, kept: Sequence[FlowStep]
) -> Iterator[str]:
    """References to steps of the plan in the spelling of another plan language."""
    fields: dict[str, Collection[str]] = {step["id"]: () for step in kept}
    for step in steps:
        tool = catalog.tools.get(step.planned.tool)
        output = find_result_schema(tool, step.planned.arguments) if tool else None
        named = (output or {}).get("properties")
        fields[step.id] = named if isinstance(named, dict) else ()
    for step in steps:
        known = fields if step.planned.for_each is None else {**fields, ITEM: ()}
        for problem in find_foreign(collect_values(step.step), known):
            yield say("step_has", step=step.name, problem=problem)


def _list_field_names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        yield from _list_field_names(item)


def _find_cycle(steps: Sequence[_Step]) -> list[str]:
    """One circle of steps that wait for each other, if there is any."""
    by_id = {step.id: step for step in reversed(steps) if step.id}
    waits = {
        name: [i for i in step.step["depends_on"] or [] if i in by_id and i != name]
        for name, step in reversed(by_id.items())
    }
    try:
        TopologicalSorter(waits).prepare()
    except CycleError as error:
        return [say("steps_in_a_circle", circle=" → ".join(error.args[1][::-1]))]
    return []


# Against the tools.


def _check_against_tools(
    plan: ExecutionPlan, steps: Sequence[_Step], catalog: Catalog, explain: Callable[..., str]
) -> Iterator[str]:
    """What is wrong with each step, besides the shape of the plan."""
    find, unreadable = cache(catalog.find), cache(explain)
    unknown: dict[str, str] = {}
    for step in steps:
        found: list[str] = []
        name = step.planned.tool
        if tool := find(name):
            found += _find_odd_arguments(step, tool, plan.global_variables)
        elif name:
            if name not in unknown:
                near = ", ".join(catalog.find_nearest(name)) if len(unknown) < _NAMED else ""
                kind = "no_tool_named_near" if near else "no_tool_named"
                kind = kind if catalog.tools else "no_tool_of_any_name"
                unknown[name] = say(kind, tool=repr(name), near=near)
            found.append(unknown[name])
        reads = [*step.reads, *(resolve_item_read(step.step, r) for r in step.item_reads)]
        found += [unreadable(r) for r in dict.fromkeys(filter(None, reads))]
        found += _find_odd_conditions(step.step, plan.global_variables)
        yield from (say("step_has", step=step.name, problem=what) for what in found if what)


def _find_odd_arguments(
    step: _Step, tool: CatalogTool, variables: Mapping[str, Any]
) -> Iterator[str]:
    args = _fill_variables(step, variables)
    problems = find_open_problems(tool.schema, args, named=tool.tool is not None)
    if tool.tool is BUILT_IN and isinstance(args.get("schema"), dict):
        problems.append(find_check_flaw(args["schema"]))
    for problem in filter(None, problems):
        yield say("arguments_of_step", tool=repr(tool.name), problem=problem)


def _find_odd_conditions(step: FlowStep, variables: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the list of a step, its check and its condition."""
    if step["for_each"] is not None:
        yield from find_list_flaws(step, variables)
    if step["expect"]:
        yield find_check_flaw(step["expect"])
    if step["when"]:
        yield find_condition_flaw(step["when"])


def _fill_variables(step: _Step, variables: Mapping[str, Any]) -> Any:
    """Arguments in which each text that is one variable is its value: that is known already."""

    def fill_text(text: str) -> Any:
        if is_whole(text) and (reference := find_references(text)[0]).root == GLOBAL:
            with suppress(MissingValue):
                return resolve_reference(reference, {}, variables)
        return text

    args = step.planned.arguments
    return map_texts(args, fill_text) if any(r.root == GLOBAL for r in step.references) else args


def _make_field_checker(
    plan: ExecutionPlan, catalog: Catalog, kept: Sequence[FlowStep], *, hides: bool
) -> Callable[[Reference], str]:
    """Says why a reference to a field can have no value; '' where it may have one."""
    find, planned = cache(catalog.find), {step.id: step for step in plan.steps}
    # What is stored is not at hand: its references are read when the step runs.
    results = {step["id"]: read_value(step) for step in kept if step.get("shape") != "stored"}

    def explain_unreadable(reference: Reference) -> str:
        if not reference.path:
            return ""
        if (step := planned.get(reference.root)) is not None:
            tool, read = find(step.tool), reference
            if step.for_each is not None:
                one = resolve_list_read(reference)
                if one is None:
                    return say("list_of_results", reference=reference, step=repr(step.id))
                read = one
            output = find_result_schema(tool, step.arguments) if tool else None
            return explain_missing_field(read, output) if output else ""
        why = _explain_missing(reference, results, {}) if reference.root in results else ""
        return say("no_value_there", reference=reference) if why and hides else why

    return explain_unreadable


# A plan with variables whose values come with the input: a template.


def find_missing_values(plan: ExecutionPlan) -> list[str]:
    """Names of the variables that the plan reads and has no value for."""
    names = (str(read.path[0]) for read in _list_variable_reads(plan) if read.path)
    return [name for name in dict.fromkeys(names) if name not in plan.global_variables]


def find_unused_values(plan: ExecutionPlan, values: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with values that the plan has no use for, a sentence each."""
    reads = [*_list_variable_reads(plan)]
    if not all(read.path for read in reads):  # {{global}} is all of them
        return
    known = {*plan.global_variables, *(str(read.path[0]) for read in reads)}
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            kind = "variable_unread_near" if near else "variable_unread"
            yield say(kind, name=repr(name), near=repr([*near, ""][0]), known=list_names(known))


def _list_variable_reads(plan: ExecutionPlan) -> Iterator[Reference]:
    for step in build_steps(plan):
        reads = [*find_references(collect_values(step)), *list_reads(step["when"])]
        yield from (read for read in reads if read.root == GLOBAL)
