"""Settle a customer's complaint: sentiment, order and policy side by side, a refund, a reply.

    python examples/refund/run.py [--out FOLDER] [--ask] [--model provider:name]

The refund asks for approval: the run stops at the question and goes on with the answer. The
program approves; with --ask you do. Whatever ends the program, start it again with the same folder
and it goes on where it was: the refund is made once. Without --model a scripted one answers, and
no key is needed. Needs examples/shop/requirements.txt.
"""

import argparse
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from clerk import GOAL, clerk
from langgraph.types import Command, Interrupt

from loopwright import LoopwrightError, build_prompt_flow, open_durability

SHOP = Path(__file__).parent.parent / "shop"
DESK = str(SHOP / "support_desk.py")
CASE: Any = {"configurable": {"thread_id": "A-1042"}}
WAITING = 5


def servers(out: Path) -> dict[str, Any]:
    """The support desk of the shop; tickets may be written, refunds ask, as all writes do."""
    arguments = [DESK, "--shop", str(out / "shop.db")]
    free = ["create_ticket", "update_ticket"]
    return {"shop": {"command": sys.executable, "args": arguments, "autoApprove": free}}


def work(out: Path, model: Any, *, ask: bool) -> dict[str, Any] | None:
    """Work on the case in this folder, where threads and shop are kept."""
    with open_durability(f"sqlite:///{out / 'threads.db'}") as durability:
        graph = build_prompt_flow(model=model, mcp=servers(out), durability=durability)
        return settle(graph, ask=ask)


def settle(graph: Any, *, ask: bool) -> dict[str, Any] | None:
    """Run the case from where it is to its outcome; None where a question waits unanswered."""
    given: Any = {"messages": [("user", GOAL)]}
    while (state := graph.get_state(CASE)).next or not state.created_at:
        if state.created_at:
            given = None
        if state.interrupts:
            answer = _answer(state.interrupts[0], ask=ask)
            if answer is None:
                return None
            given = Command(resume={state.interrupts[0].id: answer})
        for event in graph.stream(given, CASE, stream_mode="custom"):
            _tell(event)
    outcome: dict[str, Any] = state.values["outcome"]
    return outcome


def _answer(question: Interrupt, *, ask: bool) -> dict[str, str] | None:
    say(f"\n? {question.value['description']}")
    if not ask:
        say("  The program approves.\n")
        return {"type": "approve"}
    try:
        said = input("  [y/n] ").strip().lower()
    except EOFError:
        return None
    say("")
    return {"type": "approve"} if said.startswith("y") else {"type": "reject", "message": "No."}


def _tell(event: Mapping[str, Any]) -> None:
    if event["type"] == "prompt_flow_step_start":
        say(f"> {event['step_id']}: {event['tool']}")
    elif event["type"] == "prompt_flow_step_result":
        shown = " ".join(event["output"].split())
        say(f"  {event['step_id']} {event['status']}: {shown[:80]}")


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)  # noqa: T201 - a program for the terminal


def main() -> int:
    """Exit code 0 for a complete outcome, 3 for another one, 5 for an open question, 4 for none."""
    parser = argparse.ArgumentParser(description="Settle a customer's complaint.")
    parser.add_argument("--out", type=Path, default=Path("build/refund"), help="where files go")
    parser.add_argument("--ask", action="store_true", help="you answer the question")
    parser.add_argument("--model", help="provider:name; without it a scripted model answers")
    chosen = parser.parse_args()
    if find_spec("opencc") is None:
        parser.exit(2, "OpenCC is missing: pip install -r examples/shop/requirements.txt\n")
    out = chosen.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    made = [sys.executable, DESK, "--shop", str(out / "shop.db"), "--seed", str(SHOP / "lumen")]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL)  # one that is there stays as it is
    try:
        outcome = work(out, chosen.model or clerk(), ask=chosen.ask)
    except LoopwrightError as error:
        parser.exit(4, f"{error}\n")
    if outcome is None:
        say("\nThe question waits: start the program again with the same folder to answer it.")
        return WAITING
    say(f"\n{outcome['answer']}\n\n{outcome['headline']}")
    with closing(sqlite3.connect(out / "shop.db")) as shop:
        for number, order, cents in shop.execute("SELECT number, order_id, cents FROM refunds"):
            say(f"  R-{number}: {cents / 100:.2f} EUR for {order}")
    return 0 if outcome["status"] == "complete" else 3


if __name__ == "__main__":
    sys.exit(main())
