"""Another process that runs a thread, whatever this one is doing with it."""

import subprocess

from support.forked import server
from support.patience import PATIENCE

OTHER_RUN = """
import sys
from loopwright import ScriptedModel, build_react, open_durability
with open_durability(sys.argv[1]) as kept:
    def pay(amount: int) -> str:
        "Pay."
        return "paid"
    done = 'Done.<agent_meta>{"shouldContinue": false, "reason": "all is done"}</agent_meta>'
    graph = build_react(model=ScriptedModel({"thought": [done] * 3}), tools=[pay], durability=kept)
    talk = {"messages": [{"role": "user", "content": "What now?"}]}
    graph.invoke(talk, {"configurable": {"thread_id": sys.argv[2]}})
"""


def run_elsewhere(url: str, thread: str) -> None:
    """Run a turn of the thread that pays nothing, to its end."""
    command = [server().python, "-c", OTHER_RUN, url, thread]
    subprocess.run(command, check=True, timeout=PATIENCE)
