"""What keeps a call from being made: no allowance is left, or it goes round in circles."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..state.calls import GAVE_UP, UNCERTAIN
from ..text.canonical import canonical
from ..text.sentences import say
from ..turn.repetition import Repeat, find_repeat
from .call_records import Call

if TYPE_CHECKING:
    from .path import PassScope, Then


async def pay_for_call(work: "PassScope", call: Call, then: "Then") -> None:
    """Take one call of the budget; without any left, refuse it, or say what is known of it."""
    # One whose server asked has paid already.
    if call.pending.get("form") or await work.scope.budget.pay_tool_call():
        await then(call)
        return
    told = say("calls_spent", advice=say("answer_with_it"))
    call.answer(say("call_over_allowance"), "error", to_model=told)
    if not call.known_tool.read_only:
        await work.book.answer_blocked(call, call.outcome.text)


def _find_circle(work: "PassScope", call: Call) -> Repeat | None:
    """The circle of the calls before it that a call repeats."""

    def content(name: str, arguments: Mapping[str, Any]) -> str:
        tool = work.gate.catalog.find(name)
        return tool.content(arguments) if tool else canonical(arguments)

    return find_repeat(
        work.history, call.pending["name"], call.args, again=call.again, content=content,
        stuck_at=work.scope.context.loop_repeats,
    )  # fmt: skip


async def guard_against_loops(work: "PassScope", call: Call, then: "Then") -> None:
    """Answer a read that repeats a circle of the calls before it; make every other call."""
    circle = _find_circle(work, call)
    if circle is not None and call.known_tool.read_only:
        name, same_as = call.pending["name"], circle.same_as
        work.scope.notes.append(say("not_made", tool=name, call=call.id, evidence=same_as))
        call.answer(
            say("call_repeated", times=circle.times), "error", circle.reason, to_model=circle.text
        )
        call.same_as = same_as
        return
    await then(call)
    if circle is not None and not work.plain and call.doubt is None and call.ran:
        warn_of_circle(call, circle)


def count_unmade(work: "PassScope", call: Call) -> None:
    """Warn of a call that was answered without being made, and was before."""
    if work.history and not work.plain and (circle := _find_circle(work, call)):
        warn_of_circle(call, circle)


def warn_of_circle(call: Call, circle: Repeat) -> None:
    """Warn of a call that was sent once more; it counts only if it brought nothing new."""
    result = call.outcome
    again = circle.is_same(result.text)
    told = f"{result.to_model or result.text}\n\n{circle.build_warning(again=again)}"
    call.result = replace(result, to_model=told)
    if not again or call.reason in (UNCERTAIN, GAVE_UP):
        return
    call.same_as = circle.same_as
    if circle.stuck or not call.reason:
        call.reason = circle.reason
