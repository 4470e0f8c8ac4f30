import os
import threading

from dbos import DBOS
from langgraph.types import Command
from my_graph import graph  # yours, built with durability=open_durability("postgresql://…")


@DBOS.step(retries_allowed=True, max_attempts=50, backoff_rate=1.2)
def take(thread, message, name):
    taken = graph.take({"configurable": {"thread_id": thread}}, message, id=name)
    return taken.state, taken.after


@DBOS.workflow(max_recovery_attempts=None)
def turn(thread, message, name, answers=0):
    while (told := take(thread, message, name))[0] != "ended":
        if told[0] == "busy":
            DBOS.sleep(told[1])
        elif answer := DBOS.recv("answer", timeout_seconds=60):
            take(thread, Command(resume=answer), f"{name}/answer-{answers}")
            answers += 1


if __name__ == "__main__":  # restarted under its name, DBOS__VMID, a worker recovers its turns
    url = os.environ["DBOS_URL"]
    DBOS(config={"name": "turns", "system_database_url": url, "application_version": "1"})
    DBOS.launch()
    DBOS.register_queue("turns", partition_concurrency=1, worker_concurrency=8)
    threading.Event().wait()
