"""Values of a call that a stranger may have written: found at the gate, and put to a human."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from ..policy.origin_words import REQUEST, ValueOrigins, stands_under
from ..policy.origins import ForeignValue, Origin, Origins, Reading
from ..policy.values import is_link, is_plain, list_arguments, list_atoms, list_leaves
from ..state.agent import DELEGATE, LOOK_AFTER, make_agent_path
from ..state.calls import Evidence
from ..text.canonical import canonical, shorten_text
from ..text.sentences import say
from ..tools.catalog import READ_RESULT, CatalogTool
from ..tools.python_tools import BUILT_IN
from ..turn.chain import Chain, iter_readings
from .call_records import PendingCall, name_foreign, update_call
from .memories import RECALL_MEMORIES, REMEMBER, read_memories
from .policy import NOT_INTERACTIVE, Policy
from .results import parse_json

if TYPE_CHECKING:
    from .gate import Gate

_TELLS_WORDS: Final = (DELEGATE, LOOK_AFTER, READ_RESULT)
"""Tools of the package that tell what others have written."""
_SHOWN: Final = 5
"""Foreign values of one call that a question tells in words."""
_CHOICE: Final = re.compile(r"(?:^|\.)(?:enum\[\d+\]|const|default)(?:\[\d+\])*$")
_NAME: Final = re.compile(r"(?:^|\.)properties\.([^.:]+)")
"""Where a schema names an argument, or a field of one."""


def build_origins(gate: "Gate", chain: Chain | None = None) -> Origins:
    """Where the values of a call may come from that a model of this node, or chain, writes now."""
    contexts = gate.scope.build_contexts().values()
    operator = [text for text in contexts if isinstance(text, str)]
    chain = chain or gate.scope.around.chain
    alone = Origins(was_tainted=not (chain.state is None or chain.is_of_user))
    outer = build_origins(gate, chain.outer) if chain.outer else alone
    was_tainted = outer.is_tainted or bool(getattr(chain.state, "read_foreign", False))
    brief = [] if was_tainted else chain.list_brief()
    drafts = [*chain.more, *outer.untainted_words, *brief]
    readings = [*gate.catalog.descriptions]
    for record in iter_readings(chain.list_records()):
        reading = _make_reading(record, gate)
        if reading and record["tool"] == DELEGATE:
            tainted = was_tainted or any(one.is_foreign for one in readings)
            reading = _read_report(reading, record, chain, gate, was_tainted=tainted)
        elif reading and record["tool"] == READ_RESULT:
            reading = _read_on(reading, readings)
        readings += [reading] if reading else []
    strict = gate.policy.foreign == "strict"
    return Origins(readings, chain.list_words(), operator, drafts, was_tainted, strict)


def _read_on(reading: Reading, before: Sequence[Reading]) -> Reading:
    """More of a result that was cut: it is whose that is, which names its id."""
    named = str(reading.arguments.get("id") or "?")
    cut = next((one for one in before if one.origin != "suspect" and named in one.text), reading)
    secret = any(one.confidential for one in before)
    return replace(reading, origin=cut.origin, confidential=secret)


def _make_reading(record: Evidence, gate: "Gate") -> Reading | None:
    """What a call told the model; None of the package's own, which tells what it was told."""
    name, box = str(record["tool"]), gate.toolbox
    tool = gate.catalog.find(name) or (box.known_tools.get(name) if box else None)
    if name == RECALL_MEMORIES and (tool is None or tool.own):
        return read_memories(record, is_own=bool(tool or record.get("own")))
    if tool and (tool.tool is BUILT_IN or (tool.own and tool.name not in _TELLS_WORDS)):
        return None
    made = make_tool_reading(
        tool, record["result"], arguments=record["arguments"], gate=gate,
        message=record["id"].rpartition(".")[0],
    )  # fmt: skip
    if tool and tool.name == LOOK_AFTER and made.data is not None:  # nobody's words are in it
        return None
    unknown = tool is None and box and box.has_inner_servers  # another agent's, not known yet
    return replace(made, origin="foreign") if unknown else made


def make_tool_reading(
    tool: CatalogTool | None, text: str, *, gate: "Gate", arguments: Any = None, message: str = ""
) -> Reading:
    """A result as one that is read; JSON is a record, all else is prose."""
    name, origin = (tool.name, find_origin(tool, gate.policy)) if tool else ("", "")
    return _read_result(
        name, text, origin, canonical(arguments), message, is_empty=text == say("no_output"),
        full_name=f"{tool.server}/{tool.original}" if tool and tool.server else "",
        confidential=bool(tool and tool.confidential),
    )  # fmt: skip


@lru_cache(maxsize=512)
def _read_result(
    name: str, text: str, origin: Origin, arguments: str, message: str, *, is_empty: bool,
    full_name: str, confidential: bool,
) -> Reading:  # fmt: skip
    """The reading, with what is found in it: each call of a turn is judged by all results before.

    Equal ones are one. `arguments` are JSON.
    """
    data = {} if is_empty else parse_json(text)
    if not isinstance(data, dict | list):
        data = [text] if is_plain(text) else None
    return Reading(
        name, text, data, origin, json.loads(arguments), full_name, confidential, message
    )  # fmt: skip


def find_origin(tool: CatalogTool, policy: Policy) -> Origin:
    """Whose a tool's results are; "": records are data, prose is a stranger's."""
    unnamed = policy.records_of and tool.server and tool.server not in policy.records_of
    doubted = tool.open_world or policy.foreign == "strict" or unnamed
    return tool.origin or ("foreign" if doubted else "")


def _read_report(
    reading: Reading, record: Evidence, chain: Chain, gate: "Gate", *, was_tainted: bool
) -> Reading:
    """A sub-agent's report: one that is typed tells values of its own, and taints nothing."""
    is_typed = not reading.is_foreign
    reading = replace(reading, tool=DELEGATE)  # who may not delegate has no such tool
    is_earlier = not record["task"] or bool(record.get("turn"))  # its own words have tainted those
    if not is_earlier:
        made_by = make_agent_path(record["task"], {"id": record["id"], "args": record["arguments"]})
        inner = [_make_reading(r, gate) for r in iter_readings(chain.list_inner_records(made_by))]
        reading = replace(reading, confidential=any(one.confidential for one in inner if one))
        was_tainted |= any(one.is_foreign for one in inner if one)
    if is_typed and (was_tainted or is_earlier):
        return replace(reading, data=None, origin="suspect")
    return replace(reading, origin="foreign" if was_tainted else "trusted")


def mark_foreign(call: PendingCall, gate: "Gate") -> PendingCall:
    """The call with the foreign values in its sinks, which a human is asked about."""
    found = [] if gate.policy.foreign == "allow" else _find_reasons(call, gate)
    if not found:
        return call
    call = update_call(call, foreign=found)
    if not (gate.scope.can_ask and gate.scope.context.interactive):
        return update_call(call, action="deny", reason=NOT_INTERACTIVE)
    asked = [call["reason"]] if call["action"] == "ask" else []
    reason = "; ".join([name_foreign(found), *asked])
    return update_call(call, action="ask", reason=reason)


def mark_kept(call: PendingCall, gate: "Gate") -> PendingCall:
    """The call, with whose words it is that it keeps for other threads."""
    tool = gate.find_tool(call)
    if tool is None or not (tool.own and tool.name == REMEMBER):
        return call
    origins = know_schema(gate.origins, tool)
    foreign = origins.is_tainted or bool(origins.find_foreign(call["args"]))
    secret = any(one.confidential for one in origins.readings)
    return update_call(call, kept={"foreign": foreign, "confidential": secret})


def _find_reasons(call: PendingCall, gate: "Gate") -> list[ForeignValue]:
    """Why to ask about a call that may reach somebody, if nobody has decided about it."""
    tool = gate.find_tool(call)
    unasked = call["action"] == "deny" and call["reason"] == NOT_INTERACTIVE  # but of a customer
    decided = not unasked and call["action"] not in ("allow", "ask")
    if tool is None or decided or call.get("known"):
        return []
    if (doubt := call.get("doubt")) and not doubt["other"]:  # the same call is sent again
        return []
    if tool.name in gate.policy.to_operator or not may_leak(tool, call["args"]):
        return []
    # A step was decided on when it was planned, by a planner that may have read nothing.
    strict = gate.policy.foreign == "strict" and (gate.traced is None or gate.origins.was_tainted)
    found = [*gate.origins.control, *_list_unlifted(call, tool, gate)]
    if found or not strict or tool.read_only or not gate.origins.is_tainted:
        return found
    read = [one for one in gate.origins.readings if one.is_foreign]  # none: in an earlier turn
    tool_name, text = (read[-1].tool, read[-1].text) if read else ("", "…")
    quote = " ".join(text.split())[:80]
    return [ForeignValue(path="", value="", tool=tool_name, line=0, quote=quote)]


def _list_unlifted(call: PendingCall, tool: CatalogTool, gate: "Gate") -> list[ForeignValue]:
    """The foreign values of a call but those whose origin the policy allows by name."""
    if not (found := find_foreign(gate.origins, tool, call["args"])):
        return []
    lifts = [*gate.decide(tool, call["args"], call.get("origins")).lifts]
    lifts += call.get("ruling", {}).get("lifts", ())
    return [one for one in found if not any(stands_under(one["path"], path) for path in lifts)]


def may_leak(tool: CatalogTool, args: Any) -> bool:
    """Whether values of such a call may reach somebody."""
    closed = tool.read_only and tool.open_world is False
    if closed or tool.own or tool.tool is BUILT_IN:
        return False
    values = (value for _, value in list_leaves(args))
    return tool.acts or any(is_link(atom) for value in values for atom in list_atoms(value))


def find_foreign(origins: Origins, tool: CatalogTool, args: Any) -> list[ForeignValue]:
    """The foreign values in the sinks of a call, and what is confidential in those that leave.

    Sinks are all arguments of a write and of a read of the open world, or those that the operator
    names; of any other read the links alone.
    """
    sinks = tool.select_sinks(args)
    known = know_schema(origins, tool)
    found = [one for one in known.find_foreign(sinks) if tool.acts or is_link(one["value"])]
    found += known.find_confidential(sinks) if tool.open_world else []
    return [*{(one["path"], one["value"]): one for one in found}.values()]


def know_schema(origins: Origins, tool: CatalogTool) -> Origins:
    """The origins with the words of a tool's own schema, which are the operator's.

    Of a stranger's schema only choices and defaults that are plain words or numbers are.
    """
    own = tool.server is None or tool.origin == "trusted"
    leaves = [(path, str(value)) for path, value in list_leaves(tool.schema)]
    said = [name for path, _ in leaves for name in _NAME.findall(path)]
    said += [
        text for path, text in leaves
        if (own and not text.isdecimal()) or (
            _CHOICE.search(path) and (own or text.isalpha() or text.isdecimal())
        )
    ]  # fmt: skip
    return replace(origins, operator=[*origins.operator, *said])


def trace_call(call: PendingCall, gate: "Gate") -> PendingCall:
    """The call with where its values come from by now, if the policy asks for that.

    What is read while it waits changes nothing about it.
    """
    tool = gate.find_tool(call)
    open_ = tool is not None and call["action"] in ("allow", "ask")
    found = gate.find_origins(tool, call["args"]) if tool and open_ else None
    return call if found is None else update_call(call, origins=found)


def follow_edit(call: PendingCall, args: object) -> ValueOrigins | None:
    """Where the values of a planned call come from: those that a human changed are their words."""
    if (planned := call.get("origins")) is None:
        return None
    before = dict(list_arguments(call["args"]))
    return {
        path: planned.get(path, [[""]]) if before.get(path) == value else [[REQUEST]]
        for path, value in list_arguments(args if isinstance(args, dict) else {})
    }


def describe_foreign(found: Sequence[ForeignValue]) -> list[str]:
    """The foreign values of a call in words, for whoever has to decide about it."""
    shown = [{**one, "value": shorten_text(one["value"], 120)} for one in found[:_SHOWN]]
    lines = [say(_name_sentence(one), **one) for one in shown]
    more = len(found) - _SHOWN
    return [*lines, *([say("foreign_more", count=more)] if more > 0 else [])]


def _name_sentence(one: Mapping[str, Any]) -> str:
    if one.get("confidential"):
        return "confidential_value"
    if not one["path"]:
        return "foreign_read"
    if not one["tool"]:
        return "foreign_value_of_nobody"
    return "foreign_value" if one["line"] else "foreign_control"
