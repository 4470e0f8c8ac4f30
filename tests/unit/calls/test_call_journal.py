from dataclasses import replace
from typing import Any

import pytest

from loopwright.calls.call_journal import Book, Doubt, Recorded
from loopwright.calls.last_check import Ready
from loopwright.calls.results import ToolResult
from loopwright.doors.journal import memory_journal
from loopwright.tools.catalog import CatalogTool

PAY = CatalogTool(name="pay", original="pay", description="", schema={})
AGAIN = replace(PAY, idempotent=True)
CALL: Any = {"id": "1.1.0", "name": "pay", "args": {"n": 1}, "action": "allow"}
DOUBTED: Any = {**CALL, "uncertain": "who knows", "doubts": 1}
DONE = ToolResult("paid", {"n": 1}, artifact={"links": []})


@pytest.fixture
def journal():
    made = memory_journal()
    yield made
    made.close()


@pytest.fixture
def book(journal):
    return Book(journal, "t", "", "turn 1")


def ready(tool=PAY, **args) -> Any:
    return Ready(tool, args or {"n": 1})


async def end(book, call=CALL, *, ambiguous=False, result=DONE) -> None:
    await book.end(book.key(call, ready()), result, "kept", ambiguous=ambiguous)


@pytest.mark.req("P-06")
async def test_a_call_is_claimed_once_and_its_result_is_used_again(book):
    assert await book.claim(CALL, ready()) is None
    await end(book)
    assert await book.claim(CALL, ready()) == Recorded(DONE, "kept")


async def test_an_error_the_tool_gave_itself_is_its_result(book):
    failed = ToolResult("no money", is_error=True)
    await book.claim(CALL, ready())
    await end(book, result=failed)
    assert await book.claim(CALL, ready()) == Recorded(failed, "kept")


@pytest.mark.req("P-06")
async def test_a_claimed_call_is_in_doubt_until_a_human_approves_it_once(book):
    await book.claim(CALL, ready())
    assert isinstance(await book.claim(CALL, ready()), Doubt)
    assert isinstance(await book.claim(CALL, ready()), Doubt), "asked again, and no more certain"
    assert await book.claim(DOUBTED, ready()) is None
    doubt = await book.claim(DOUBTED, ready())
    assert isinstance(doubt, Doubt), "the approval was used up by the claim before"
    assert "the run ended before its result was recorded" in doubt.why


async def test_what_may_be_repeated_is(book):
    await book.claim(CALL, ready(AGAIN))
    assert await book.claim(CALL, ready(AGAIN)) is None


async def test_a_call_whose_tool_asked_a_question_runs_again(book):
    await book.claim(CALL, ready())
    await book.doubt(book.key(CALL, ready()), paused=True)
    assert await book.claim(CALL, ready()) is None


@pytest.mark.req("P-06")
async def test_a_twin_of_a_call_without_an_answer_is_in_doubt(book, journal):
    lost = ToolResult("pay did not answer within 1 s.", is_error=True)
    await book.claim(CALL, ready())
    await end(book, ambiguous=True, result=lost)
    twin: Any = {**CALL, "id": "1.2.0"}
    assert isinstance(await book.claim(twin, ready()), Doubt)
    assert await book.claim({**CALL, "id": "1.2.1"}, ready(n=2)) is None, "other arguments"
    other = CatalogTool(name="pay", original="pay", description="", schema={}, server="bank")
    assert await book.claim({**CALL, "id": "1.2.2"}, ready(other)) is None, "another server"
    elsewhere = Book(journal, "another thread", "", "turn 1")
    assert await elsewhere.claim(twin, ready()) is None
    assert await book.claim({**twin, "uncertain": "who knows", "doubts": 1}, ready()) is None
    await end(book, {**twin})
    assert await book.claim({**CALL, "id": "1.3.0"}, ready()) is None, "the doubt is settled"


@pytest.mark.req("P-06")
async def test_a_human_who_knows_the_result_settles_call_and_twins(book):
    await book.claim(CALL, ready())
    await book.claim(CALL, ready())
    await book.settle(DOUBTED, ready().tool, ToolResult("it ran"))
    assert await book.claim(CALL, ready()) == Recorded(ToolResult("it ran"), "")
    assert await book.claim({**CALL, "id": "1.2.0"}, ready()) is None


async def test_nor_does_his_word_end_a_like_call_whose_tool_has_a_question_open(book):
    await book.claim(CALL, ready())
    await book.doubt(book.key(CALL, ready()), paused=True)
    await book.settle({**DOUBTED, "id": "1.2.0"}, ready().tool, ToolResult("it ran"))
    assert await book.claim(CALL, ready()) is None


@pytest.mark.req("P-06", "P-05")
@pytest.mark.parametrize(
    ("place", "turn", "doubtful"),
    [
        ("work|task", "turn 2", True),
        ("work|task", "turn 1", False),
        ("other|task", "turn 2", False),
    ],
)
async def test_a_claim_that_a_crash_left_in_an_earlier_turn(journal, place, turn, doubtful):
    """In the same turn a claim may be that of a task at work beside this one."""
    await Book(journal, "t", "work|task", "turn 1").claim(CALL, ready())
    later = Book(journal, "t", place, turn)
    found = await later.claim({**CALL, "id": "9.1.0"}, ready())
    assert isinstance(found, Doubt) is doubtful


async def test_a_call_of_another_run_that_is_under_way_is_no_crash(journal):
    """Several runs of a graph inside one of somebody else's make the same call side by side."""
    beside = Book(journal, "t", "work|task", "turn 2")
    with beside.under_way(beside.key(CALL, ready())):
        assert await beside.claim(CALL, ready()) is None
        assert await Book(journal, "t", "work|task", "turn 1").claim(CALL, ready()) is None


async def test_a_crash_of_an_earlier_turn_is_settled_by_one_answer(journal, book):
    await book.claim(CALL, ready())
    later = Book(journal, "t", "", "turn 2")
    assert isinstance(await later.claim(CALL, ready()), Doubt)
    assert await later.claim(DOUBTED, ready()) is None
    await later.end(later.key(CALL, ready()), DONE, "", ambiguous=False)
    assert await Book(journal, "t", "", "turn 3").claim(CALL, ready()) is None


async def test_a_call_that_has_ended_is_in_no_doubt_for_its_twin(book):
    await book.claim(CALL, ready())
    await end(book)
    twin: Any = {**CALL, "id": "1.2.0"}
    await book.claim(twin, ready())
    await end(book, twin, ambiguous=True)
    assert await book.claim(CALL, ready()) == Recorded(DONE, "kept")


async def test_the_key_is_that_of_this_call_alone(book, journal):
    key = book.key(CALL, ready())
    assert key == book.key(CALL, ready())
    others = [
        book.key({**CALL, "id": "1.1.1"}, ready()),
        book.key(CALL, ready(n=2)),
        Book(journal, "u", "", "turn 1").key(CALL, ready()),
        Book(journal, "t", "work", "turn 1").key(CALL, ready()),
        Book(journal, "t", "", "turn 2").key(CALL, ready()),
    ]
    assert len({key.idempotency_key, *(other.idempotency_key for other in others)}) == 6
