"""The line before a database's connection: saved together, told apart."""

import asyncio
import threading
from contextlib import contextmanager

import pytest

from loopwright.store.checkpoints import line as module
from loopwright.store.checkpoints.line import Line
from support.patience import PATIENCE


class Book:
    """A list that is written in transactions."""

    def __init__(self):
        self.kept, self.open, self.blocks = [], None, 0

    @contextmanager
    def together(self):
        self.open = []
        try:
            yield
        except BaseException:
            self.open = None
            raise
        self.kept, self.open, self.blocks = [*self.kept, *self.open], None, self.blocks + 1

    def write(self, word):
        if word == "bad":
            raise ValueError(word)
        self.open.append(word)
        return word.upper()


async def all_written(line, book, words):
    first = threading.Event()
    held = asyncio.create_task(line.run(lambda: first.wait(PATIENCE) and book.write("first")))
    await asyncio.sleep(0)
    jobs = [asyncio.create_task(line.run(lambda word=word: book.write(word))) for word in words]
    await asyncio.sleep(0)
    first.set()
    await held
    return await asyncio.gather(*jobs, return_exceptions=True)


async def test_what_waits_is_saved_in_one_block_in_its_order():
    book = Book()
    line = Line(book.together)
    assert await all_written(line, book, ["a", "b", "c"]) == ["A", "B", "C"]
    assert book.kept == ["first", "a", "b", "c"]
    assert book.blocks == 2
    assert not line.is_here


async def test_one_that_cannot_be_done_takes_nothing_from_the_others():
    book = Book()
    told = await all_written(Line(book.together), book, ["a", "bad", "b"])
    assert [told[0], told[2]] == ["A", "B"]
    assert isinstance(told[1], ValueError)
    assert book.kept == ["first", "a", "b"]


async def test_a_caller_that_is_cancelled_does_not_take_its_job_along():
    book = Book()
    line, hold = Line(book.together), threading.Event()
    slow = asyncio.create_task(line.run(lambda: hold.wait(PATIENCE) and book.write("slow")))
    job = asyncio.create_task(line.run(lambda: book.write("mine")))
    await asyncio.sleep(0)
    job.cancel()
    slow.cancel()
    hold.set()
    assert await line.run(lambda: book.write("next")) == "NEXT"
    assert book.kept == ["slow", "mine", "next"]
    with pytest.raises(asyncio.CancelledError):
        await job


def test_every_loop_gets_its_own_answers_and_a_thread_without_work_ends(monkeypatch):
    monkeypatch.setattr(module, "_IDLE", 0.01)
    book = Book()
    line = Line(book.together)

    async def writes(name):
        return [await line.run(lambda number=number: book.write(f"{name}{number}"))
                for number in range(20)]  # fmt: skip

    def alone(name):
        assert asyncio.run(writes(name)) == [f"{name.upper()}{number}" for number in range(20)]

    threads = [threading.Thread(target=alone, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(book.kept) == 40
    assert [word for word in book.kept if word[0] == "a"] == [f"a{n}" for n in range(20)]
    while line._thread is not None:
        line._thread.join(0.1)
    alone("c")
