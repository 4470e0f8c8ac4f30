"""The run's allowance of tool calls: one is taken before a call is made."""

from ..text.sentences import say
from .call_records import Call
from .wrapper import PassScope, Then


async def pay_for_call(work: PassScope, call: Call, then: Then) -> None:
    """Take one call of the budget; without any left, refuse it, or say what is known of it."""
    # One whose server asked has paid already.
    if call.pending.get("form") or await work.scope.budget.pay_tool_call():
        await then(call)
        return
    call.answer(say("calls_spent", advice=say("answer_with_it")), "error")
    if not call.known_tool.read_only:
        await work.book.answer_blocked(call, call.outcome.text)
