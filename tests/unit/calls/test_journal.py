"""What the journal means for a call: it is made, it is known, or it is in doubt."""

from dataclasses import replace
from typing import Any

import pytest

from loopwright.calls.call_records import Call
from loopwright.calls.journal import CallJournal, answer_from_row, find_doubt
from loopwright.calls.results import ToolResult
from loopwright.store.journal.recorder import Recorder
from loopwright.tools.catalog import CatalogTool
from support.scope import call_of, scope_with

PAY = CatalogTool(name="pay", original="pay", description="", schema={})
CALL: Any = {"id": "1.1.0", "task": "1", "name": "pay", "server": None, "intent": "a"}
TWIN: Any = {**CALL, "id": "1.2.0", "intent": "b"}
DONE = ToolResult("paid", {"n": 1}, artifact={"links": []})
LOST = ToolResult("pay did not answer within 1 s.", is_error=True)


@pytest.fixture
def book():
    return CallJournal(scope_with(journal=Recorder(), thread="t", turn="turn 1"))


def planned(call=CALL, tool=PAY, n=1) -> Call:
    pending: Any = {**call, "args": {"n": n}}
    return Call.from_pending(pending, lambda _: None, tool)


async def begin(book, *given, **more) -> Any:
    call = planned(*given, **more)
    return await book.begin(call, book.build_intent(call))


async def end(book, row, result, stored="", *, reason="") -> Any:
    call = planned()
    call.result, call.stored, call.reason = result, stored, reason
    await book.record_result(row, call)


async def sent(book, *given, **more) -> Any:
    """The row of a call that is to be made now."""
    verdict = await begin(book, *given, **more)
    assert verdict.say == "send"
    return verdict.row


async def known(book, *given, **more) -> Any:
    """A call that is answered from the journal."""
    verdict = await begin(book, *given, **more)
    assert verdict.say == "known"
    call = call_of("1.1.0")
    answer_from_row(call, verdict.row, plain=True)
    return call


async def doubted(book, *given, **more) -> Any:
    """Why a call may have been made."""
    doubt = find_doubt(await begin(book, *given, **more))
    assert doubt
    return doubt


def asked_about(doubt, call=CALL) -> Any:
    return {**call, "doubt": doubt.to_in_doubt()}


@pytest.mark.req("P-06")
async def test_a_call_is_made_once_and_its_result_is_used_again(book):
    await end(book, await sent(book), DONE, "kept")
    call = await known(book)
    assert (call.result, call.stored, call.counts, call.args) == (DONE, "kept", True, {"n": 1})
    assert (call.final_status, call.reused_from) == ("success", "")


@pytest.mark.req("P-04", "P-06")
async def test_what_was_sent_goes_on_as_it_was_though_its_input_is_another_now(book):
    row = await sent(book)
    doubt = await doubted(book, n=2)
    assert dict(doubt.row.arguments) == {"n": 1}
    await end(book, row, DONE)
    assert (await known(book, n=2)).args == {"n": 1}


@pytest.mark.req("P-06")
async def test_a_call_in_doubt_is_sent_once_more_for_each_word_of_a_human(book):
    await sent(book)
    doubt = await doubted(book)
    assert "the run ended before its result was recorded" in doubt.why
    word = asked_about(doubt)
    assert (await sent(book, word)).sends == 2
    again = await doubted(book, word)
    assert again, "the approval was used up by the send before"
    await end(book, await sent(book, asked_about(again)), DONE)
    assert (await known(book, word)).result == DONE


@pytest.mark.req("P-06", "P-05")
async def test_while_a_call_is_in_doubt_no_other_of_its_tool_goes_out_unasked(book):
    await end(book, await sent(book), LOST, reason="uncertain")
    like = await doubted(book, TWIN)
    assert "did not answer" in like.why
    elsewhere = replace(PAY, server="bank")
    assert await sent(book, {**CALL, "intent": "c"}, elsewhere)


@pytest.mark.req("P-06", "P-05")
@pytest.mark.parametrize("says", ["again", "ran", "gave up"])
async def test_another_calls_doubt_is_settled_by_one_word(book, says):
    await end(book, await sent(book), LOST, reason="uncertain")
    doubt = await doubted(book, TWIN, n=2)
    assert doubt.other
    assert "pay was called with {'n': 1}" in doubt.why
    word = asked_about(doubt, TWIN)
    if says == "again":
        assert dict((await sent(book, word, n=2)).arguments) == {"n": 2}
    elif says == "ran":
        call = planned(word, n=2)
        call.answer("it ran", "success")
        await book.record_decision(call)
        assert (await known(book, word, n=2)).result == ToolResult("it ran")
    else:
        call = planned(word, n=2)
        call.answer("given up", "cancelled", "gave_up")
        await book.record_decision(call)
    assert await sent(book, {**CALL, "intent": "c"}, n=3), "no doubt is left"
