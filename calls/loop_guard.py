"""The loop guard: a read that goes round in circles is answered, a write is warned of."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..text.canonical import canonical
from ..text.sentences import say
from ..turn.repetition import Repeat, find_repeat
from .call_records import Call
from .wrapper import PassScope, Then


async def guard_against_loops(work: PassScope, call: Call, then: Then) -> None:
    """Answer a read that repeats a circle of the calls before it; make every other call."""

    def content(name: str, arguments: Mapping[str, Any]) -> str:
        tool = work.gate.catalog.find(name)
        return tool.content(arguments) if tool else canonical(arguments)

    circle = find_repeat(
        work.history, call.pending["name"], call.args, again=call.again, content=content,
        stuck_at=work.scope.context.loop_repeats,
    )  # fmt: skip
    if circle is not None and call.known_tool.read_only:
        name, same_as = call.pending["name"], circle.same_as
        work.scope.notes.append(say("not_made", tool=name, call=call.id, evidence=same_as))
        call.answer(circle.text, "error", circle.reason)
        call.same_as = same_as
        return
    await then(call)
    if circle is not None and not work.plain and call.doubt is None and call.ran:
        _warn(call, circle)


def _warn(call: Call, circle: Repeat) -> None:
    """Warn of a write that was made once more; it counts only if it brought nothing new."""
    result = call.outcome
    again = result.text == circle.result
    call.result = replace(result, text=f"{result.text}\n\n{circle.build_warning(again=again)}")
    if again and not call.reason:
        call.reason, call.same_as = circle.reason, circle.same_as
