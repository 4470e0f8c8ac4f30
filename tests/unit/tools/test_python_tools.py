import asyncio
import os
import threading
import time

from loopwright.tools.python_tools import ThreadPool
from support.forked import Command, server
from support.patience import PATIENCE


async def test_threads_are_reused_and_never_more_than_allowed():
    pool, names = ThreadPool(3), set()

    def note() -> int:
        names.add(threading.current_thread().name)
        time.sleep(0.02)
        return 1

    assert await asyncio.gather(*(pool.run(note) for _ in range(12))) == [1] * 12
    assert 1 <= len(names) <= 3


async def test_work_that_is_cancelled_before_it_starts_never_runs():
    pool, ran, hold = ThreadPool(1), [], threading.Event()
    first = asyncio.ensure_future(pool.run(lambda: hold.wait(PATIENCE)))
    await asyncio.sleep(0.05)
    second = asyncio.ensure_future(pool.run(lambda: ran.append(1)))
    await asyncio.sleep(0.05)
    second.cancel()
    await asyncio.sleep(0.05)
    hold.set()
    assert await first
    assert await pool.run(lambda: 2) == 2
    assert ran == []


def test_a_forked_child_runs_sync_tools(tmp_path):
    (program := tmp_path / "forks.py").write_text("""
import asyncio, os, warnings
warnings.simplefilter("ignore")  # of threads beside a fork
from loopwright.tools.python_tools import POOL
asyncio.run(POOL.run(lambda: 1))
child = os.fork()
if child == 0:
    os._exit(asyncio.run(asyncio.wait_for(POOL.run(lambda: 7), 300)))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")
    with Command(server(), (), env={**os.environ}, script=program) as process:
        process.wait(PATIENCE)
        assert process.said()[0].strip() == "7", process.said()
