"""How a turn of the desk begins and ends: with a receipt, where a change was asked for.

The receipt tells what was done, put, refused or handed on, by code, from the turn's records. No
model writes it, and no words of a model can make it another one. It stands last in the reply.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, Literal

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from ...calls.policy import NOT_INTERACTIVE
from ...hooks.contract import Verdict
from ...policy.desk.references import Value, is_currency, render_value
from ...policy.desk.reply import find_cited_ids
from ...policy.labels import describe_call, read_amount, render_plainly
from ...policy.rules import Figure
from ...policy.table import PolicyTable
from ...state.calls import UNCERTAIN, Evidence
from ...state.context import Context
from ...state.desk import DeskState, DeskUpdate
from ...state.messages import ENDS, PACKAGE, make_signature
from ...state.undone import describe_not_run
from ...stream.components import Receipt, ReceiptLine
from ...text.canonical import shorten_text
from ...text.display import show_value
from ...text.loose_json import extract
from ...text.sentences import say, say_to
from ...turn.begin import answer_open_calls
from ...turn.end import REFUSALS, Facts, build_answer_id, replace_rejected
from ...turn.scope import RunScope, make_scope
from ..turns import TurnEnd, finish
from .desk import Desk


async def adopt_state(scope: RunScope, state: DeskState) -> DeskUpdate:
    """Answer the calls that were cut off; what is known of the customer stays."""
    calls = [*state.calls, *state.delegations]
    messages, _ = await answer_open_calls(scope, state, calls)
    return DeskUpdate(messages=messages)


SOURCES: Final = "sources"
"""Key in an answer's `additional_kwargs`: id, title and url of each article it cites, in order."""


def add_answer(state: DeskState, _: Facts, update: dict[str, Any]) -> dict[str, Any]:
    """What the customer is told; a thread that a human gave back is the desk's again."""
    outcome, added = update.get("outcome"), dict[str, Any]()
    if outcome is not None and state.owner == "returning":
        added["owner"] = "bot"
    if outcome is not None and state.answer and outcome["answer"] == state.answer:
        added["messages"] = [*update["messages"], _build_answer(state)]
    elif outcome is not None:
        added["messages"] = [_reword_end(state, message) for message in update["messages"]]
    return added


def _reword_end(state: DeskState, message: Any) -> Any:
    """The last words of a turn that came to nothing: why is in the outcome, for the operator."""
    if message.type != "ai" or message.id != build_answer_id(state):
        return message
    return message.model_copy(update={"content": say_to(state.language, "desk_stops_here")})


def _build_answer(state: DeskState) -> AIMessage:
    cited = [one for one in find_cited_ids(state.answer, state.sources) if one in state.sources]
    shown = [{"id": one, **{k: state.sources[one][k] for k in ("title", "url")}} for one in cited]
    about = {**make_signature("support"), ENDS: True, **({SOURCES: shown} if shown else {})}
    return AIMessage(state.answer, id=build_answer_id(state), additional_kwargs=about)


def retry(state: DeskState, verdict: Verdict) -> dict[str, Any]:
    """Answer again: the rejected answer of this issue is forgotten."""
    answered = {k: v for k, v in state.answered.items() if k != state.issue}
    rejected = replace_rejected(state, verdict, _build_answer(state))
    return {"unmet": [], "answered": answered, **rejected}


def facts_of(state: DeskState) -> Facts:
    """The facts; a turn ends well with checked words. If nobody could be asked it is blocked."""
    unasked = [record for record in state.evidence if record.get("reason") == NOT_INTERACTIVE]
    return Facts(
        halt=state.halt, done=state.task_completed, refused="NOT_INTERACTIVE" if unasked else None,
        unmet=[*state.unmet, *map(describe_not_run, unasked)], answer=state.answer,
        evidence=state.evidence, message=build_answer_id(state), kept="the messages are kept",
    )  # fmt: skip


END: Final = TurnEnd("support", facts_of, retry, add_answer)


Kind = Literal["done", "proposed", "refused", "failed", "uncertain", "colleague", "nothing"]
_HELD: Final = ("desk_needs_yes", "desk_needs_colleague", "desk_put_twice", "desk_hands_over")
"""Sentences that answer a call which was put to somebody; the proposal tells of those."""
_LONGEST: Final = 120


def describe_change(table: PolicyTable | None, call: Mapping[str, Any], language: str) -> str:
    """A change in one line for people: `Refund · order A-1042 · €149.00`."""
    name = str(call["name"])
    governed = table.find_governed(name, call.get("server")) if table else None
    return describe_call(governed, name, call["args"], language, _render_figure)


def _render_figure(figure: Figure, value: Any, unit: str, language: str) -> str:
    """A value as people of a language write it."""
    if isinstance(value, str) and figure == "date":
        return render_value(Value(value), language)
    if figure == "money" and is_currency(unit) and (number := read_amount(value)) is not None:
        return render_value(Value(number, unit), language)
    return render_plainly(figure, value, unit, language)  # whole: a yes is given to what is seen


def list_lines(state: DeskState, desk: Desk) -> list[ReceiptLine]:
    """The lines of this turn's receipt; none where no change was asked for."""
    lines = [line for record in state.evidence if (line := _read_record(state, desk, record))]
    if put := state.proposal:
        waits: Kind = "proposed" if put["turn"] == state.turn else "refused"
        kind: Kind = "colleague" if put.get("why") else waits
        lines += [_make_line(state, kind, call["line"]) for call in put["calls"]]
    lines += [_make_line(state, "refused", line) for line in state.declined]
    places = enumerate(lines)  # each change that was made has a line, the rest one for each text
    once = {place if line.kind == "done" else line.text: line for place, line in places}
    lines = [*once.values()]
    if not lines and state.asks_change:
        lines = [ReceiptLine(kind="nothing", text=say_to(state.language, "receipt_nothing"))]
    return lines


def _read_record(state: DeskState, desk: Desk, record: Evidence) -> ReceiptLine | None:
    """What the record of a call says; None of one that changes nothing, or that was put."""
    whose = desk.company
    tool, hidden = record["tool"], (*whose.verified_by.split(), whose.handed_over_by)
    if tool is None or record.get("read_only") or record.get("unknown") or record.get("own"):
        return None
    if tool in hidden or record["result"] in map(say, _HELD):
        return None
    args = record.get("arguments", {})
    if record["status"] != "success" and record.get("reason") != UNCERTAIN:
        args = _keep_own(state, args)
    call = {"name": tool, "server": record.get("server"), "args": args}
    what = describe_change(desk.parts.toolbox.policy.table, call, state.language)
    if record["status"] == "success":
        return _make_line(state, "done", what, ids=_render_ids(record))
    if record.get("reason") == UNCERTAIN:
        return _make_line(state, "uncertain", what)
    refused = record.get("reason") in REFUSALS or record["status"] == "cancelled"
    return _make_line(state, "refused" if refused else "failed", what)


def _keep_own(state: DeskState, args: Mapping[str, Any]) -> dict[str, Any]:
    """Of a change that was not made, what the customer wrote: the rest may be somebody else's."""
    said = " ".join(m.text for m in state.messages if m.type == "human").casefold()
    return {name: v for name, v in args.items() if str(v).casefold() in said}


def _make_line(state: DeskState, kind: Kind, what: str, ids: str = "") -> ReceiptLine:
    return ReceiptLine(
        kind=kind, text=say_to(state.language, f"receipt_{kind}", what=what, ids=ids)
    )


def _render_ids(record: Evidence) -> str:
    """The ids that a change's result gives, beside those it was asked with."""
    given = {show_value(value) for value in record.get("arguments", {}).values()}
    found = [one for one in _iter_ids(extract(record["result"])[0]) if one not in given]
    return f" ({', '.join(dict.fromkeys(found))})" if found else ""


def _iter_ids(data: Any) -> Iterator[str]:
    if isinstance(data, Mapping):
        for name, value in data.items():
            is_id = str(name) == "id" or str(name).endswith(("_id", "Id"))
            if is_id and isinstance(value, str | int) and not isinstance(value, bool):
                yield shorten_text(show_value(value), _LONGEST)


async def finish_turn(state: DeskState, runtime: Runtime[Context], *, desk: Desk) -> Any:
    """End the turn; where a change was asked for, its receipt stands last in what is said."""
    receipt = emit_receipt(await make_scope(state, runtime, desk.parts), state, desk)
    if state.answer:
        state = replace(state, answer="\n\n".join(filter(None, [state.answer, receipt])))
    update = await finish(state, runtime, parts=desk.parts, end=END)
    if receipt and not state.answer and update.get("outcome"):
        about = {**make_signature(PACKAGE), ENDS: True}
        name = f"{build_answer_id(state)}.receipt"
        update["messages"] = [
            *update["messages"], AIMessage(receipt, id=name, additional_kwargs=about)
        ]  # fmt: skip
    return update


def emit_receipt(scope: RunScope, state: DeskState, desk: Desk, under: str = "") -> str:
    """Show the receipt beside a message, by default the turn's answer; a line for each change."""
    # A proposal's own words tell of it.
    lines = [line for line in list_lines(state, desk) if line.kind != "proposed"]
    if lines:
        props = Receipt(lines=lines).model_dump(mode="json")
        scope.emit({"type": "receipt", **props, "message_id": under or build_answer_id(state)})
    return "\n".join(line.text for line in lines)
