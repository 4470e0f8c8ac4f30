import asyncio
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.common import RetryPolicy

NEVER = ["AnswerRejected", "SettingsError", "ThreadIncompatible"]  # these do not go away
OPTIONS = {
    "heartbeat_timeout": timedelta(seconds=10),
    "start_to_close_timeout": timedelta(hours=1),
    "retry_policy": RetryPolicy(non_retryable_error_types=NEVER),
}


@activity.defn
async def take(thread, name, message):
    from langgraph.types import Command  # both outside the workflow's sandbox
    from my_graph import graph

    given = message if isinstance(message, str) else Command(resume=message)
    run = asyncio.create_task(graph.atake({"configurable": {"thread_id": thread}}, given, id=name))
    while not (await asyncio.wait([run], timeout=2))[0]:
        activity.heartbeat()
    if run.result().state == "busy":
        raise RuntimeError(run.result().why)  # Temporal comes back
    return run.result().state


@workflow.defn
class Thread:  # start it with its first signal; it ends when nothing waits
    def __init__(self):
        self.messages, self.answers = [], []

    @workflow.signal
    def put(self, name, message):  # words, or the answer to a question: {its id: reply}
        (self.messages if isinstance(message, str) else self.answers).append([name, message])

    @workflow.run
    async def run(self, thread):
        while waiting := self.answers or self.messages:
            taken = workflow.execute_activity(take, args=[thread, *waiting[0]], **OPTIONS)
            if await asyncio.gather(taken, return_exceptions=True) == ["asks"]:
                await workflow.wait_condition(lambda: self.answers)
            else:  # it has ended, or can never run
                waiting.pop(0)
