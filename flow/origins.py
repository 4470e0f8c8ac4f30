"""Where the values of a plan's calls may come from, as known before anything runs. Pure.

An origin is `request` (a variable that came with it), `operator` (a constant of a plan that was
handed in), `model` (a constant of the planner), or a kind and a tool. `tool:lookup` is a whole
field of what lookup gives, or anything of a trusted tool; `prose:lookup` may be any words of it;
`enum`, `number`, `date` and `id` are what a model may make of such words by its answer's schema.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from ..policy.origins import Origin
from ..policy.values import list_leaves
from ..state.flow import FlowStep, select_unfinished
from ..text.sentences import say
from ..tools.catalog import Catalog, CatalogTool
from ..tools.python_tools import BUILT_IN, find_result_schema
from .conditions import WITHOUT_IT, list_comparisons
from .items import resolve_item_read, resolve_list_read
from .order import list_needs, sort_steps
from .references import GLOBAL, ITEM, Reference, find_references, is_whole, split_pieces
from .signatures import find_closed_kind

StepOrigins = dict[str, list[str]]
"""By argument of a step that acts, also `when` and `forEach`: the origins of what stands there."""
Sinks = dict[str, StepOrigins]
"""The same of all calls of a tool, by the tools of a plan."""

_PROSE: Final = "prose"
_ALWAYS: Final = "always"
"""Stands for the condition of a step that has none."""

FindStep = Callable[[str], FlowStep | None]


class Read(NamedTuple):
    """One result of a tool from which a value is made, perhaps by a model that was asked.

    Attributes:
        source, tool: The step that gave it, and its tool; None if there is none any more.
        reference: What is read of it; of a list's item, that of the first one.
        whole: The same, of an item the list.
        alone: The value is what is read, and neither a text with it nor what a model made of it.
        kind: What a model may make of it; "" if none was asked.
    """

    source: FlowStep | None
    tool: CatalogTool | None
    reference: Reference
    whole: Reference
    alone: bool
    kind: str


def trace_reads(step: FlowStep, planned: Any, find_step: FindStep, catalog: Catalog) -> list[Read]:
    """What of tools' results a value of a step is made from, also through steps of `llm_call`."""
    found: list[Read] = []
    waiting, seen = [(step, planned, "")], set[tuple[str, str]]()
    while waiting:
        reader, value, kind = waiting.pop()
        for reference, alone in _list_references(value):
            each = reader["for_each"] if reference.root == ITEM else None
            read = reference if each is None else resolve_item_read(reader, reference)
            source, inner, made = reader, each, kind
            if read is not None:
                if read.root == GLOBAL:
                    continue
                giver = find_step(read.root)
                tool = catalog.find(giver["tool"]) if giver else None
                if giver is None or tool is None or tool.tool is not BUILT_IN:
                    whole = read if each is None else find_references(each)[0]
                    found.append(Read(giver, tool, read, whole, alone and not kind, kind))
                    continue
                source, inner = giver, giver["arguments"]  # what a model was told is read there
                made = (
                    kind if kind not in ("", _PROSE) else _find_kind(source, tool, read) or _PROSE
                )
            if (key := (source["id"], made if read else ITEM)) not in seen:
                seen.add(key)
                waiting.append((source, inner, made))
    return found


def _list_references(value: Any) -> Iterator[tuple[Reference, bool]]:
    """The references in a value, and whether each is all of its text."""
    for _, leaf in list_leaves(value):
        for reference in find_references(leaf) if isinstance(leaf, str) else ():
            yield reference, is_whole(leaf)


def _find_kind(source: FlowStep, tool: CatalogTool, read: Reference) -> str:
    """What a reference can only read of a result; "" if it may be any text."""
    output = find_result_schema(tool, source["arguments"])
    one = resolve_list_read(read) if source["for_each"] is not None else read
    return find_closed_kind(output, one.path) if output and one else ""


class Condition(NamedTuple):
    """A part of a condition: whose it is, what it reads, whether words within a text may count."""

    step: FlowStep
    read: str
    inside: bool


def collect_conditions(steps: Sequence[FlowStep]) -> dict[str, list[Condition]]:
    """By step: what decides whether it runs, also by the conditions of the steps that it needs."""
    found: dict[str, list[Condition]] = {}
    for step in sort_steps(steps):
        own = [
            Condition(
                step,
                f"{{{{{one.reference.root if one.word in WITHOUT_IT else one.path}}}}}",
                one.measured or one.word == "contains",
            )
            for one in list_comparisons(step["when"])
        ]
        needed = (condition for name in list_needs(step) for condition in found.get(name, ()))
        some = {(c.step["id"], c.read, c.inside): c for c in [*own, *needed]}
        found[step["id"]] = [*some.values()]
    return found


@dataclass(frozen=True, kw_only=True)
class PlanOrigins:
    """Finds the origins of what the steps of a plan send.

    Attributes:
        steps: By id, those that are done among them.
        catalog: Of the tools.
        constants: Who wrote the plan: `model` or `operator`.
        given: Names of the variables that came with the request.
        find_origin: Says whose a tool's results are by the policy.
    """

    steps: Mapping[str, FlowStep]
    catalog: Catalog
    constants: str
    given: Collection[str]
    find_origin: Callable[[CatalogTool], Origin]

    @cached_property
    def of_steps(self) -> dict[str, StepOrigins]:
        """By step: the origins of what it sends and of what decides about it; none of a read."""
        known = collect_conditions([*self.steps.values()])
        return {n: self._list_origins(step, known.get(n, ())) for n, step in self.steps.items()}

    def _list_origins(self, step: FlowStep, conditions: Sequence[Condition]) -> StepOrigins:
        tool = self.catalog.find(step["tool"])
        if tool is None or not tool.acts:
            return {}
        sinks = tool.select_sinks(step["arguments"])
        found = {name: self._of_value(step, value) for name, value in sinks.items()}
        if step["for_each"] is not None:
            found["forEach"] = self._of_value(step, step["for_each"])
        decides = [self._of_value(one.step, one.read) for one in conditions]
        found["when"] = set[str]().union(*decides) or {_ALWAYS}
        return {name: sorted(origins) for name, origins in found.items() if origins}

    def list_sinks(self) -> Sinks:
        """The origins of what all calls of each tool send, and of what decides about them."""
        sinks: Sinks = {}
        for step in self.steps.values():
            for name, origins in self.of_steps[step["id"]].items():
                known = sinks.setdefault(step["tool"], {})
                known[name] = sorted({*known.get(name, ()), *origins})
        return sinks

    def find_widened(self, first: Sinks) -> list[str]:
        """What the open steps send or depend on that the first plan's calls did not."""
        told: list[str] = []
        for step in select_unfinished([*self.steps.values()]):
            about = {"step": step["id"], "tool": step["tool"]}
            origins, known = self.of_steps[step["id"]], first.get(step["tool"])
            if origins and known is None:
                told.append(say("plan_widens_tools", **about))
                continue
            for name, some in origins.items():
                if new := [one for one in some if not _is_within(one, (known or {}).get(name, ()))]:
                    more = describe_origins(new)
                    told.append(say("plan_widens_origins", **about, argument=name, origins=more))
        return told

    def _of_value(self, step: FlowStep, planned: Any) -> set[str]:
        found: set[str] = set()
        for _, leaf in list_leaves(planned):
            pieces = split_pieces(leaf) if isinstance(leaf, str) else ()
            reads = [piece.means for piece in pieces if isinstance(piece.means, Reference)]
            if len(reads) < len(pieces) or not reads:
                found.add(self.constants)
            found.update(self._of_own_words(read) for read in reads)
        traced = trace_reads(step, planned, self.steps.get, self.catalog)
        found.update(self._of_read(r, r.source, r.tool) for r in traced if r.source and r.tool)
        return found - {""}

    def _of_own_words(self, reference: Reference) -> str:
        """The origin of a variable, and of what a model is asked for; "" of what a tool gives."""
        if reference.root == GLOBAL:
            came = bool(reference.path) and str(reference.path[0]) in self.given
            return "request" if came else self.constants
        source = self.steps.get(reference.root)
        tool = self.catalog.find(source["tool"]) if source else None
        return self.constants if tool and tool.tool is BUILT_IN else ""

    def _of_read(self, read: Read, source: FlowStep, tool: CatalogTool) -> str:
        origin, is_field = self.find_origin(tool), read.alone and read.reference.path
        is_data = is_field or _find_kind(source, tool, read.reference)
        if origin == "trusted" or (is_data and not origin):
            return f"tool:{tool.name}"
        return f"{read.kind or _PROSE}:{tool.name}"


def _is_within(origin: str, known: Collection[str]) -> bool:
    """Whether a value of this origin is one of these; any words of a tool are more than a field."""
    kind, joint, tool = origin.partition(":")
    return origin in known or bool(joint and kind != _PROSE and f"{_PROSE}:{tool}" in known)


def describe_origins(origins: Sequence[str]) -> str:
    """Origins in a few words."""
    kinds = (origin.partition(":") for origin in origins)
    return ", ".join(say(f"origin_{kind}", tool=tool) for kind, _, tool in kinds)


def describe_step_origins(origins: StepOrigins) -> dict[str, str]:
    """The origins of each argument that holds what a tool gave, in words."""
    shown = {n: [o for o in some if ":" in o] for n, some in origins.items()}
    return {name: describe_origins(some) for name, some in shown.items() if some}
