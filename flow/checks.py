"""A plan against itself and against the tools there are: all that could not work. Pure."""

import difflib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any, Final

from ..state.canonical import shortened
from ..state.flow import FlowStep, value_of
from ..state.flow_contracts import ExecutionPlan, PlanStep
from ..state.told import say
from ..tools.catalog import Catalog, CatalogTool
from ..tools.schemas import Schema, pointed
from .expectations import flawed
from .open_arguments import open_problems
from .order import Links, links_of
from .references import (
    GLOBAL,
    MissingValue,
    Reference,
    malformed_in,
    mapped,
    references_in,
    resolve,
)

LONGEST_ID: Final = 60
_LISTED: Final = 20
# Looking for the nearest of n ids takes n comparisons of some 50 µs: without a bound, a broken plan
# of a thousand steps would hold the event loop for a minute.
_COMPARED: Final = 4_000
_ODD: Final = re.compile(r"[\s.\[\]{}]")
_FOLLOWED: Final = 8
# Looking for the nearest names takes milliseconds: a broken plan of a thousand steps would hold
# the event loop for seconds.
_NAMED: Final = 20
# A field may come from any of these, and no finding is better than a wrong one.
_OPEN_ENDED: Final = frozenset(
    {"anyOf", "oneOf", "allOf", "if", "patternProperties", "dependentSchemas", "$dynamicRef"}
)
_WHOLE: Final = (("output",), ("result",))


def plan_flaws(
    plan: ExecutionPlan, catalog: Catalog, *, kept: Sequence[FlowStep] = (), limit: int
) -> list[str]:
    """Every flaw of a plan, one sentence each; empty where it is sound.

    Args:
        plan: As the model gave it.
        catalog: The tools there are.
        kept: Finished steps that it may refer to although it does not hold them.
        limit: How many steps it may have.
    """
    found = flaws(plan, kept=[step["id"] for step in kept], limit=limit)
    check = _Check(plan, catalog, kept)
    for step, links in zip(plan.steps, links_of(plan), strict=True):
        found += [f"{_name(links)}: {wrong}" for wrong in check.problems(step, links.references)]
    return found


def flaws(plan: ExecutionPlan, *, kept: Collection[str], limit: int) -> list[str]:
    """Every structural flaw of a plan, one sentence each; empty where it is sound.

    Args:
        plan: As the model gave it.
        kept: Ids of finished steps that it may name although it does not hold them.
        limit: How many steps it may have.
    """
    steps = links_of(plan)
    known = list(dict.fromkeys([*(step.id for step in steps if step.id), *kept]))
    found = _size(len(steps), limit)
    found += _odd_ids(steps)
    found += [
        say("step_names_no_tool", step=_name(s))
        for s in steps
        if not plan.steps[s.place].tool.strip()
    ]
    found += _odd_dependencies(steps, known)
    found += _odd_references(steps, known, plan.global_variables)
    found += [
        say("step_has", step=_name(s), problem=what)
        for s in steps
        for what in _malformed(s, plan.steps[s.place], known)
    ]
    return [*found, *_odd_variables(plan.global_variables), *_circle(steps)]


def _size(steps: int, limit: int) -> list[str]:
    if not steps:
        return [say("no_steps")]
    if steps > limit:
        return [say("too_many_steps", count=steps, limit=limit)]
    return []


def _name(step: Links) -> str:
    if step.id:
        return say("step_named", step=repr(step.id))
    return say("step_numbered", number=step.place + 1)


def _odd_ids(steps: Sequence[Links]) -> list[str]:
    times = Counter(step.id for step in steps)
    found = [say("step_without_id", step=_name(step)) for step in steps if not step.id]
    often = [(i, n) for i, n in times.items() if i and n > 1]
    found += [say("id_used_often", id=repr(i), times=n) for i, n in often]
    return found + [what for i in times if i and (what := _odd_id(i))]


def _odd_id(text: str) -> str:
    """What keeps an id from being referred to; '' where nothing does."""
    if text == GLOBAL:
        return say("id_of_variables", id=repr(GLOBAL))
    if len(text) > LONGEST_ID:
        shown = repr(text[:20] + "…")
        return say("id_too_long", id=shown, length=len(text), limit=LONGEST_ID)
    if odd := _ODD.search(text):
        kind = "id_holds_space" if odd[0].isspace() else "id_holds"
        return say(kind, id=repr(text), sign=repr(odd[0]))
    return ""


def _odd_dependencies(steps: Sequence[Links], known: Sequence[str]) -> Iterator[str]:
    """Dependencies on the step itself, and on steps that nobody knows."""
    ids, told = frozenset(known), _some(known)
    for step in steps:
        if step.id and step.id in step.named:
            yield say("depends_on_itself", step=_name(step))
        if unknown := [name for name in step.named if name not in ids and name != step.id]:
            some = _some(unknown)
            yield say("depends_on_unknown", step=_name(step), unknown=some, known=told)


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - _LISTED
    return say("listed_and_more", listed=listed[:_LISTED], count=more) if more > 0 else str(listed)


def _odd_references(
    steps: Sequence[Links], known: Sequence[str], variables: Mapping[str, Any]
) -> Iterator[str]:
    """References to nothing: an unknown step, the step itself, no variable of the plan."""
    ids = frozenset(known) | {GLOBAL}
    roots = dict.fromkeys(r.root for step in steps for r in step.references if r.root not in ids)
    hinted = list(roots)[: max(1, _COMPARED // max(1, len(known)))]
    hints = {root: _nearest(root, known) for root in hinted}
    for step in steps:
        for reference in dict.fromkeys(step.references):
            told = {"step": _name(step), "reference": _braced(reference)}
            if reference.root == GLOBAL:
                yield from _no_variable(step, reference, variables)
            elif reference.root == step.id:
                yield say("refers_to_itself", **told)
            elif reference.root not in ids:
                kind, hint = hints.get(reference.root, ("refers_to_nothing", {}))
                yield say(kind, named=repr(reference.root), **told, **hint)


def _no_variable(step: Links, reference: Reference, variables: Mapping[str, Any]) -> Iterator[str]:
    try:
        resolve(f"{{{{{reference.text}}}}}", {}, variables)
    except MissingValue as error:
        yield say("step_has", step=_name(step), problem=error)


def _malformed(step: Links, planned: PlanStep, known: Iterable[str]) -> list[str]:
    # Whatever is malformed takes a '{{' of its own: where references account for all of them, a
    # second reading, the dearest part of a check, would find nothing.
    if json.dumps(planned.arguments).count("{{") == len(step.references):
        return []
    return [*malformed_in(planned.arguments), *_odd_names(planned.arguments, {*known, GLOBAL})]


def _odd_names(value: Any, ids: Collection[str]) -> Iterator[str]:
    """References in the names of fields, where nothing is put in for them."""
    names = value if isinstance(value, dict) else ()
    for name in names:
        if any(reference.root in ids for reference in references_in(name)):
            yield say("name_holds_reference", name=repr(shortened(name)))
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, dict | list):
            yield from _odd_names(item, ids)


def _braced(reference: Reference) -> str:
    return f"{{{{{reference.text}}}}}"


def _nearest(name: str, known: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The sentence on a reference to a step that there is not, and its slots."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return "refers_to_nothing_near", {"near": repr(near[0])}
    return "refers_to_nothing_known", {"known": _some(known)}


def _odd_variables(variables: Mapping[str, Any]) -> list[str]:
    """Variables that read something: values of variables are not expanded."""
    return [
        say("variable_holds_reference", name=repr(name), reference=_braced(references[0]))
        for name, value in variables.items()
        if (references := references_in(value))
    ]


def _circle(steps: Sequence[Links]) -> list[str]:
    """One circle of steps that wait for each other, if there is any."""
    by_id = {step.id: step for step in reversed(steps) if step.id}
    waits = {
        step.id: [name for name in step.waits_for() if name in by_id and name != step.id]
        for step in steps
        if by_id.get(step.id) is step
    }
    try:
        TopologicalSorter(waits).prepare()
    except CycleError as error:
        circle = error.args[1][::-1]
        return [
            say("steps_in_a_circle", circle=" → ".join(circle))
            + "".join(_looks_ahead(by_id[a], by_id[b]) for a, b in pairwise(circle))
        ]
    return []


def _looks_ahead(step: Links, other: Links) -> str:
    """Says so where a step waits only because it refers to one that stands behind it."""
    if other.id in step.named or other.place < step.place:
        return ""
    reference = next(r for r in step.references if r.root == other.id)
    braced = _braced(reference)
    return say("looks_ahead", step=repr(step.id), reference=braced, other=repr(other.id))


# Against the tools.


@dataclass
class _Check:
    """One plan's check: what its references may read, and what was found out already."""

    plan: ExecutionPlan
    catalog: Catalog
    kept: Sequence[FlowStep]
    _tools: dict[str, CatalogTool | None] = field(default_factory=dict)
    _values: dict[str, Any] = field(default_factory=dict)
    _near: dict[str, str] = field(default_factory=dict)
    _unread: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._tool_of = {step.id.strip(): step.tool.strip() for step in self.plan.steps}
        # What is stored is not at hand: its references are read when the step runs.
        self._results = {s["id"]: value_of(s) for s in self.kept if s.get("shape") != "stored"}

    def problems(self, step: PlanStep, references: Sequence[Reference]) -> Iterator[str]:
        """What is wrong with one step, besides the shape of the plan."""
        tool = self._tool(step.tool.strip())
        if tool is not None:
            variables = self._variables(references)
            args = _filled(step.arguments, variables) if variables else step.arguments
            for problem in open_problems(tool.schema, args):
                yield say("arguments_of_step", tool=repr(tool.name), problem=problem)
        elif step.tool.strip():
            yield self._unknown(step.tool.strip())
        yield from filter(None, map(self._unreadable, dict.fromkeys(references)))
        if wrong := flawed(step.expect):
            yield wrong

    def _tool(self, name: str) -> CatalogTool | None:
        if name not in self._tools:
            self._tools[name] = self.catalog.find(name)
        return self._tools[name]

    def _variables(self, references: Sequence[Reference]) -> dict[str, Any]:
        """What references to variables of the plan stand for, by their text."""
        for text in {r.text for r in references if r.root == GLOBAL} - self._values.keys():
            with suppress(MissingValue):
                self._values[text] = resolve(f"{{{{{text}}}}}", {}, self.plan.global_variables)
        return {r.text: self._values[r.text] for r in references if r.text in self._values}

    def _unknown(self, name: str) -> str:
        """What to say of a tool that does not exist; the first ones with their nearest names."""
        if name not in self._near and len(self._near) < _NAMED:
            self._near[name] = ", ".join(self.catalog.nearest(name))
        near = self._near.get(name, "")
        if not self.catalog.tools:
            return say("no_tool_of_any_name", tool=repr(name))
        return say("no_tool_named_near" if near else "no_tool_named", tool=repr(name), near=near)

    def _unreadable(self, reference: Reference) -> str:
        """Why a reference can have no value; '' where it may have one."""
        if not reference.path:
            return ""
        if reference.text not in self._unread:
            self._unread[reference.text] = self._missing(reference)
        return self._unread[reference.text]

    def _missing(self, reference: Reference) -> str:
        if reference.root in self._tool_of:
            tool = self._tool(self._tool_of[reference.root])
            return missing_field(reference, tool.output) if tool and tool.output else ""
        return _unresolved(reference, self._results) if reference.root in self._results else ""


def _unresolved(reference: Reference, results: Mapping[str, Any]) -> str:
    try:
        resolve(f"{{{{{reference.text}}}}}", results, {})
    except MissingValue as error:
        return str(error)
    return ""


def _filled(value: Any, variables: Mapping[str, Any]) -> Any:
    """A copy of arguments in which each text that is one of these references is its value."""

    def of_text(text: str) -> Any:
        whole = text.startswith("{{") and text.endswith("}}")
        return variables.get(text[2:-2].strip(), text) if whole else text

    return mapped(value, of_text)


def missing_field(reference: Reference, output: Schema) -> str:
    """Why a result of this schema cannot have the field a reference reads; '' where it may.

    Only a schema that lists its fields and does not say that there may be others counts.
    """
    if reference.path in _WHOLE:
        return ""
    node: Any = output
    for part in reference.path:
        node = _plain(node, output)
        names = _names(node)
        if names is not None and str(part) not in names:
            return _no_field(reference, str(part), names)
        node = _inside(node, part)
    return ""


def _plain(node: Any, root: Schema, followed: int = 0) -> dict[str, Any]:
    """The schema a node stands for; nothing where it leaves open what that is."""
    if not isinstance(node, dict) or not _OPEN_ENDED.isdisjoint(node):
        return {}
    if "$ref" not in node:
        return node
    if followed == _FOLLOWED or not isinstance(node["$ref"], str) or "properties" in node:
        return {}
    return _plain(pointed(root, node["$ref"]), root, followed + 1)


def _names(node: Mapping[str, Any]) -> list[str] | None:
    """The fields an object has; None where it may have any."""
    properties = node.get("properties")
    if not isinstance(properties, dict) or not properties:
        return None
    return None if node.get("additionalProperties", False) is not False else list(properties)


def _inside(node: Mapping[str, Any], part: str | int) -> Any:
    """The schema of one field or item; None where it is not known."""
    properties = node.get("properties")
    if isinstance(properties, dict) and str(part) in properties:
        return properties[str(part)]
    if isinstance(properties, dict) or "prefixItems" in node:
        return None
    return node.get("items") if str(part).lstrip("-").isdigit() else None


def _no_field(reference: Reference, name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=3)
    joint = say("or")
    known, more = ", ".join(map(repr, names[:_LISTED])), len(names) - _LISTED
    if more > 0:
        known = say("listed_and_more", listed=known, count=more)
    return say(
        "field_missing_near" if near else "field_missing_known",
        reference=_braced(reference), step=repr(reference.root), field=repr(name),
        near=f" {joint} ".join(map(repr, near)), known=known,
    )  # fmt: skip
