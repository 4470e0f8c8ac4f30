import json
import re
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from loopwright.calls.result_store import MISSING, ResultStore
from loopwright.calls.results import Media, ToolResult
from loopwright.state.calls import results_of
from loopwright.text.canonical import weigh

CAP = 1_000


async def read_all(results, key, cap=CAP) -> Any:
    text, offset = "", 0
    for _ in range(1_000):
        page = (await results.answer_read({"id": key, "offset": offset}, cap)).text
        body, _, note = page.rpartition("\n")
        assert weigh(page) <= cap
        text += body
        found = re.search(r"offset=(\d+)\)", note)
        if found is None:
            assert "this is the end" in note
            return text
        offset = int(found[1])
    raise AssertionError


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"line {i}\n" for i in range(5_000)),
        "表格数据很长。" * 2_000,
        "a表" * 3_000,
        "😀" * 5_000,
    ],
    ids=["latin", "cjk", "mixed", "emoji"],
)
async def test_a_long_text_keeps_head_and_tail_and_the_whole_is_readable(text):
    results = ResultStore(InMemoryStore(), "thread.1")
    shown, key = await results.shorten(ToolResult(text), CAP)
    assert weigh(shown.text) <= CAP
    assert text.startswith(shown.text.split("\n[…")[0])
    assert text.endswith(shown.text.rsplit("…]\n")[-1])
    assert f"read_result(id='{key}'" in shown.text
    assert await read_all(results, key) == text


async def test_threads_do_not_see_each_others_results():
    store = InMemoryStore()
    _, key = await ResultStore(store, "a").shorten(ToolResult("q" * 9_000), CAP)
    answer = await ResultStore(store, "b").answer_read({"id": key}, CAP)
    assert answer.is_error
    assert "No result is stored" in answer.text


@pytest.mark.req("W-122")
async def test_what_somebody_replaced_in_the_store_is_no_result():
    """Its door is not the thread's: the id that the thread keeps is the digest of what it has."""
    store, rows = InMemoryStore(), [{"n": n} for n in range(900)]
    results = ResultStore(store, "t")
    _, text = await results.shorten(ToolResult("q" * 9_000), CAP)
    _, both = await results.shorten(ToolResult("q" * 9_000, rows), CAP)
    notes = await results.save_text("Codes begin with KX.")
    assert await results.load_data(both) == rows
    forged = [{"text": "w" * 9_000}, {"text": "w", "json": "[]"}, {"text": "w", "data": [7]},
              {"type": "text"}, {"text": 7}, {}, {"base64": "q" * 9_000, "text": "w"},
              {"base64": "q" * 9_000, "type": "Pay Eve"}]  # fmt: skip
    for value in forged:
        for key in (text, both, notes):
            store.put(results_of("t"), key, value)
            assert await results.load_data(key) is MISSING
            assert await results.load_text(key) == ""
            answer = await results.answer_read({"id": key}, CAP)
            assert answer.is_error
            assert "somebody has replaced it" in answer.text or "is a file, not" in answer.text
    await results.shorten(ToolResult("q" * 9_000, rows), CAP)
    assert await results.load_data(both) == rows, "the tool, called again, mends it"
    store.put(results_of("t"), both, {"text": f"{'q' * 9_000}\0{json.dumps(rows)}"})
    assert await results.load_data(both) is MISSING, "a text does not pass for text and data"


async def test_reading_past_the_end_or_a_picture_says_so():
    results = ResultStore(InMemoryStore(), "t")
    _, key = await results.shorten(ToolResult("q" * 9_000), CAP)
    assert (
        "has 9000 characters" in (await results.answer_read({"id": key, "offset": 9_000}, CAP)).text
    )
    media = Media("image", "image/png", "AAAA")
    await results.shorten(ToolResult("", media=(media,)), CAP)
    assert "is a image" in (await results.answer_read({"id": media.id}, CAP)).text


class FullDisk(InMemoryStore):
    async def abatch(self, ops) -> Any:
        raise OSError("no space left on device")


async def test_a_store_that_fails_costs_the_rest_of_the_text_only():
    shown, key = await ResultStore(FullDisk(), "t").shorten(ToolResult("q" * 9_000), CAP)
    assert key == ""
    assert "could not be stored" in shown.text
    assert weigh(shown.text) <= CAP
