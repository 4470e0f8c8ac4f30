"""How long does a turn wait, where workers are idle, and what does it cost that others wait?

    python benchmarks/waiting.py idle [turns] [direct|bouncer]
    python benchmarks/waiting.py backlog [turns]

`idle` prints the medians of the seconds until an idle worker begins a turn, and until its end is
known; `backlog` those of a fetch beside so many turns that wait, of the same graph and of another
that came first, with our indexes and without.
"""

import json
import random
import sys
import time
from statistics import median

import workers

from loopwright import open_durability
from loopwright.store.work.turns import find_records, open_queue

_FILL = """
INSERT INTO procrastinate_jobs (queue_name, task_name, lock, args)
SELECT %s, 'loopwright:turn', gen_random_uuid(), jsonb_build_object('body', repeat('a', 300))
FROM generate_series(1, %s) n"""
_INDEXES = (
    "SELECT indexname FROM pg_indexes WHERE indexname LIKE 'loopwright_jobs_%'"
    " AND indexname <> 'loopwright_jobs_of_thread'"
)


def idle(turns: int = 30, through: str = "direct") -> None:
    """Seconds until an idle worker begins a turn, and until its end is known."""
    begun, ended = [], []
    with workers._fleet(30.0, 0, through) as fleet, open_durability(fleet.admin) as durability:
        graph = workers.build(durability)
        fleet.start()
        for number in range(-2, turns):  # the first two warm it up
            time.sleep(random.uniform(1.2, 2.2))
            config, name = {"configurable": {"thread_id": f"t{number + 2}"}}, f"t{number + 2}/0"
            since = time.monotonic()
            graph.enqueue(config, name, id=name, context={"max_iterations": 20})
            while graph.enqueued(config, name).state == "waiting":
                time.sleep(0.002)
            begun.append(time.monotonic() - since)
            graph.enqueued(config, name, wait=60)
            ended.append(time.monotonic() - since)
    told = {"begun": round(median(begun[2:]), 3), "ended": round(median(ended[2:]), 3)}
    print(json.dumps({"through": through, "turns": turns, **told}))  # noqa: T201 - the benchmark's result


def backlog(turns: int = 100_000) -> None:
    """Seconds of a fetch, with our indexes and without."""
    for queue in ("loopwright:shop", "loopwright:other"):
        with workers._fleet(30.0, 0, "direct") as fleet, fleet.asked() as own:
            with open_durability(fleet.admin) as durability:
                open_queue(find_records(durability.journal)).speed_up(["loopwright:shop"])
            own.execute("SET session_replication_role = replica")  # nobody hears of them
            own.execute(_FILL, [queue, turns])
            own.execute(_FILL, ["loopwright:shop", 1])
            own.execute("VACUUM ANALYZE procrastinate_jobs")
            told = {"queue": queue, "turns": turns, "with": _fetched(fleet)}
            ours = own.execute(_INDEXES).fetchall()
            for row in ours:
                own.execute(f"DROP INDEX {row['indexname']}")
            own.execute("ALTER FUNCTION procrastinate_fetch_job_v2 RESET plan_cache_mode")
            print(json.dumps(told | {"without": _fetched(fleet)}), flush=True)  # noqa: T201 - the benchmark's result


def _fetched(fleet: workers.Fleet) -> float:
    seconds = []
    with fleet.asked() as own:
        for _ in range(12):
            own.execute("BEGIN")
            since = time.monotonic()
            own.execute("SELECT procrastinate_fetch_job_v2('{loopwright:shop}', NULL)")
            seconds.append(time.monotonic() - since)
            own.execute("ROLLBACK")
    return round(median(seconds), 4)


if __name__ == "__main__":
    workers.FORKS.set_forkserver_preload(["workers", "loopwright.cli.worker", "psycopg"])
    numbers = [int(one) if one.isdigit() else one for one in sys.argv[2:]]
    {"idle": idle, "backlog": backlog}[sys.argv[1]](*numbers)
