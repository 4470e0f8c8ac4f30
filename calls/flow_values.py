"""Values in the calls of a plan's steps that a stranger may have written: a plan tells where from.

A plan that was written before anything foreign was read commands by its constants, and what its
references stand for is judged by what they read. What a later plan wrote is judged as in any chain.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ..flow.origins import Condition, FindStep, Read, collect_conditions, trace_reads
from ..flow.references import MissingValue, find_references, resolve_reference
from ..policy.origins import ForeignValue, Origins, Reading
from ..policy.values import is_plain, is_short, list_leaves
from ..state.calls import step_of
from ..state.flow import FlowState, FlowStep
from ..text.canonical import shorten_text
from ..turn.chain import is_answer
from ..turn.scope import RunScope
from .foreign import build_origins, make_tool_reading, may_leak
from .gate import Gate
from .results import to_json_text
from .toolbox import Toolbox

_SHOWN: Final = 80


async def is_tainted(scope: RunScope, toolbox: Toolbox, state: FlowState) -> bool:
    """Whether a planner may have been told words of a stranger: here, or in an earlier turn.

    What is read early, while the first plan is being written, its planner has not seen.
    """
    gate = await Gate.for_run(toolbox, scope)
    if gate.policy.foreign == "allow":
        return False
    read = state if state.todos else replace(state, evidence=[])
    return build_origins(gate, replace(scope.around.chain, state=read)).is_tainted


def list_constants(steps: Sequence[FlowStep], variables: Mapping[str, Any]) -> list[str]:
    """What a plan says itself."""
    parts = [[step["arguments"], step["for_each"]] for step in steps]
    return [str(value) for _, value in list_leaves([*parts, variables])]


@dataclass(frozen=True, kw_only=True)
class FlowValues:
    """Tells what the calls of steps are made from.

    Attributes:
        gate: Of the run.
        origins: What the planner had read, and the words of those who command.
        find_step: Gives a step as it stands now; None if there is none.
        load: Gives the result of a finished step as data.
        variables: Of the plan.
        conditions: By step, what decides whether it runs.
    """

    gate: Gate
    origins: Origins
    find_step: FindStep
    load: Callable[[FlowStep], Awaitable[Any]]
    variables: Mapping[str, Any]
    conditions: Mapping[str, Sequence[Condition]]
    _known: dict[tuple[str, str], tuple[list[Reading], list[Reading]]] = field(default_factory=dict)
    """By step and argument: what its calls are made from, of items all the same."""

    @classmethod
    async def open(
        cls, scope: RunScope, toolbox: Toolbox, state: FlowState, **access: Any
    ) -> "FlowValues":
        """What judges the steps of the plan, which says whether its planner was `tainted`."""
        gate, plan, steps = await Gate.for_run(toolbox, scope), state.plan, state.todos
        variables = plan.get("global_variables", {})
        words = [*plan.get("words", ()), *list_constants((), state.given.get("variables", {}))]
        answers = [record for record in state.evidence if is_answer(record)]
        chain = replace(scope.around.chain, state=replace(state, evidence=answers), more=words)
        origins = build_origins(gate, chain)
        if plan.get("tainted", False):
            # No planner is told what stands in results: a constant that does is no data.
            found = build_origins(gate).readings[len(origins.readings) :]
            unseen = [replace(one, origin=one.origin or "foreign") for one in found]
            origins = replace(origins, readings=[*origins.readings, *unseen], was_tainted=True)
        else:
            own = [*origins.drafts, *list_constants(steps, variables)]
            suspects = [one for one in origins.readings if one.origin == "suspect"]
            origins = replace(origins, readings=suspects, drafts=own, was_tainted=False)
        about = {"variables": variables, "conditions": collect_conditions(steps)}
        return cls(gate=gate, origins=origins, **about, **access)

    async def trace(self, step: FlowStep, arguments: Mapping[str, Any]) -> Origins | None:
        """What the call of a step is made from; None where nothing would ask."""
        tool, policy = self.gate.catalog.find(step["tool"]), self.gate.policy
        keeps = tool and tool.is_work and not tool.read_only
        judged = keeps or (tool and policy.foreign != "allow" and may_leak(tool, arguments))
        if tool is None or not (judged or policy.names_origins(tool)):
            return None
        whole = self.find_step(step_of(step["id"])) or step  # an item does not know its list
        readings, drafts = [*self.origins.readings], [*self.origins.drafts]
        own: dict[str, list[Reading]] = {}
        for name, value in arguments.items():
            reads, own[name] = await self._read_all(whole, name)
            readings += reads
            if not (self.origins.is_tainted or Origins(reads).is_tainted):
                said = [str(leaf) for _, leaf in list_leaves(value)]
                drafts += [one for one in said if not Origins(reads).find_foreign({"": one})]
        control = await self._find_control(whole) if tool.acts else []
        return replace(self.origins, readings=readings, drafts=drafts, own=own, control=control)

    async def _read_all(
        self, step: FlowStep, name: str = ""
    ) -> tuple[list[Reading], list[Reading]]:
        """What an argument, or all, is made from, and what is data in it: also fields of words."""
        if found := self._known.get((step["id"], name)):
            return found
        planned = step["arguments"].get(name) if name else step["arguments"]
        readings: list[Reading] = []
        own: list[Reading] = []
        for read in trace_reads(step, planned, self.find_step, self.gate.catalog):
            sent, fed = await self._list_sent(read.source)
            reading = replace(await self._read(read), arguments=sent)
            readings += [*fed, reading]  # in this order what was sent is no model's own word
            if reading.data is not None and not (read.kind or reading.origin):
                own_words = [one for one in reading.parts if is_plain(one) or is_short(one)]
                words = [one for one in own_words if not sent or reading.knowledge.hold(one)]
                own.append(replace(reading, text="\n".join(words), data=None, origin="trusted"))
        self._known[step["id"], name] = readings, own
        return readings, own

    async def _list_sent(self, source: FlowStep | None) -> tuple[list[Any], list[Reading]]:
        """What a step was called with by references to what a stranger wrote, and that."""
        reads = (await self._read_all(source))[0] if source else ()
        if source is None or not (fed := [one for one in reads if one.is_foreign]):
            return [], []
        sent: list[Any] = []
        for read in find_references([source["arguments"], source["for_each"]]):
            if step := self.find_step(read.root):
                with suppress(MissingValue):
                    result = {read.root: await self.load(step)}
                    sent.append(resolve_reference(read, result, self.variables))
        return sent, fed

    async def _read(self, read: Read) -> Reading:
        """What is read of a result: of a record its data, of a text prose."""
        whole = make_tool_reading(read.tool, "", gate=self.gate)
        lost = replace(whole, data=None, origin=whole.origin or "foreign")  # nobody can tell
        if read.source is None:
            return lost
        try:
            result = await self.load(read.source)
            value = resolve_reference(read.whole, {read.whole.root: result}, self.variables)
        except MissingValue:
            return lost
        text = value if isinstance(value, str) else to_json_text(value)
        results = result if read.source["for_each"] is not None else [result]
        is_text = any(isinstance(one, str) and not is_plain(one) for one in results)
        data = value if isinstance(value, dict | list) else [value]
        return replace(whole, text=text, data=None if is_text else data)

    async def _find_control(self, step: FlowStep) -> list[ForeignValue]:
        """What a stranger may have written of what decides whether, and how often, a step runs."""
        parts = [("when", one) for one in self.conditions.get(step["id"], ())]
        if isinstance(step["for_each"], str):
            parts.append(("forEach", Condition(step, step["for_each"], inside=False)))
        found = [await self._judge_control(path, one) for path, one in parts]
        return [one for one in found if one]

    async def _judge_control(self, path: str, part: Condition) -> ForeignValue | None:
        """The first foreign thing that is read; a whole field of a record is data."""
        for read in trace_reads(part.step, part.read, self.find_step, self.gate.catalog):
            reading = await self._read(read)
            inside_text = part.inside and reading.data == [reading.text]
            is_field = reading.data is not None and not (read.kind or inside_text)
            if reading.origin == "foreign" or (reading.is_foreign and not is_field):
                first = find_references(part.read)[0]
                source = self.find_step(first.root)
                decides = await self._read(Read(source, None, first, first, alone=True, kind=""))
                value, lines = shorten_text(decides.text, _SHOWN), reading.text.strip().splitlines()
                quote = shorten_text([*lines, ""][0], _SHOWN)
                return ForeignValue(path=path, value=value, tool=reading.tool, line=0, quote=quote)
        return None
