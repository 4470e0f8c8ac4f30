"""A plan against the tools there are: all that could not work, before anything runs. Pure."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from ..state.flow import FlowStep, value_of
from ..state.flow_contracts import ExecutionPlan, PlanStep
from ..tools.catalog import Catalog, CatalogTool
from ..tools.schemas import Schema, pointed
from .expectations import flawed
from .flaws import flaws
from .open_arguments import open_problems
from .order import links_of
from .references import GLOBAL, MissingValue, Reference, resolve

_LISTED: Final = 20
_FOLLOWED: Final = 8
# Looking for the nearest names takes milliseconds: a broken plan of a thousand steps would hold
# the event loop for seconds.
_COMPARED: Final = 20
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
        name = f"step {links.id!r}" if links.id else f"step number {links.place + 1}"
        found += [f"{name}: {problem}" for problem in check.problems(step, links.references)]
    return found


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
                yield f"the arguments do not fit {tool.name!r}: {problem}"
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
        if name not in self._near and len(self._near) < _COMPARED:
            self._near[name] = ", ".join(self.catalog.nearest(name))
        near = self._near.get(name, "")
        if not self.catalog.tools:
            return f"there is no tool {name!r}; there are none"
        return f"there is no tool {name!r}" + (f"; use one of: {near}" if near else "")

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
    if isinstance(value, dict):
        return {key: _filled(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, variables) for item in value]
    if isinstance(value, str) and value.startswith("{{") and value.endswith("}}"):
        return variables.get(value[2:-2].strip(), value)
    return value


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
            return (
                f"{{{{{reference.text}}}}}: the result of {reference.root!r} has no field "
                f"{str(part)!r} there{_near(str(part), names)}"
            )
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


def _near(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=3)
    if near:
        return f"; did you mean {' or '.join(map(repr, near))}?"
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"; it has {', '.join(map(repr, names[:_LISTED]))}{more}"
