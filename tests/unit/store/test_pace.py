"""Pieces of work in one event loop: others get in between, and nobody is forgotten."""

import asyncio
from itertools import pairwise

from loopwright.store.base import fair_scheduler
from loopwright.store.base.fair_scheduler import yield_to_others


async def test_few_pieces_begin_in_one_pass_and_all_begin_in_their_order():
    begun, passes = [], []

    async def piece(number):
        await yield_to_others()
        begun.append(number)

    async def others():
        while len(begun) < 100:
            passes.append(len(begun))
            await asyncio.sleep(0)

    await asyncio.gather(*(piece(number) for number in range(100)), others())
    steps = [after - before for before, after in pairwise(passes)]
    assert begun == [*range(100)]
    assert max(steps) <= 2 * fair_scheduler._MOST


async def test_one_that_is_cancelled_while_it_waits_keeps_nobody_waiting():
    done = []

    async def piece(number):
        await yield_to_others()
        done.append(number)

    tasks = [asyncio.create_task(piece(number)) for number in range(30)]
    await asyncio.sleep(0)
    for task in tasks[10:20]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert {*range(10), *range(20, 30)} <= {*done}
