import json
import os

from celery import Celery
from langgraph.types import Command
from redis import Redis

app = Celery("turns", broker=os.environ["REDIS_URL"])
app.conf.task_acks_late = app.conf.task_reject_on_worker_lost = True
app.conf.worker_prefetch_multiplier = 1
app.conf.broker_transport_options = {"visibility_timeout": int(os.environ.get("VISIBLE", "60"))}
inbox = Redis.from_url(os.environ["REDIS_URL"])  # a list a thread: its messages in their order


@app.task(bind=True, autoretry_for=(Exception,), max_retries=None)
def work(self, thread, answer=None, name=None):
    from my_graph import graph  # in the child: connections do not outlive a fork

    config, key = {"configurable": {"thread_id": thread}}, f"thread:{thread}"
    while answer or (head := inbox.lindex(key, 0)):
        turn = (name, Command(resume=answer)) if answer else json.loads(head)
        taken = graph.take(config, turn[1], id=turn[0])
        if taken.state == "asks":
            return  # the answer's task works on
        if taken.state == "busy":
            raise self.retry(countdown=taken.after)
        if not answer:
            inbox.lrem(key, 1, head)
        answer = None
