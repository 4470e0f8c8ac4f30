"""A process that pays in a call of its own and may die between the payment and its record.

The model goes by rules: one task, whose first turn calls `quick` and `pay` and whose second one
reports. What the tools did is appended to files, which survive the process.
"""

import os
import sys
import traceback
from pathlib import Path
from typing import Any

from langgraph.types import Command

from loopwright import Context, ScriptedModel, build_plan_execute_verify, open_durability
from loopwright.prompts.prompt import read_json
from support import killed
from support.scripts import call, failed, passed, plan, report, todo

THREAD = killed.THREAD
PAY = {"messages": [{"role": "user", "content": "Pay 3."}]}


class Till:
    """The files of one run, and the tools that write them."""

    def __init__(self, folder: str | Path, *, dies: bool = False) -> None:
        self.folder = Path(folder)
        self.url = f"sqlite:///{self.folder / 'threads.db'}"
        self.dies = dies

    def did(self, name: str) -> int:
        """How often a tool had its effect."""
        path = self.folder / name
        return len(path.read_text().splitlines()) if path.exists() else 0

    def tools(self) -> list[Any]:
        def quick() -> str:
            """Do something quickly."""
            self._write("quick")
            return "quickly done"

        def pay(amount: int) -> str:
            """Pay."""
            self._write("pay")
            if self.dies:
                killed.die()
            return f"paid {amount}"

        return [quick, pay]

    def _write(self, name: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write("done\n")

    def graph(self, durability: Any) -> Any:
        return build_plan_execute_verify(model=payer(), tools=self.tools(), durability=durability)


def payer() -> ScriptedModel:
    def executor(messages: list[Any], offered: list[str]) -> Any:
        found = [m for m in messages if m.type == "tool"]
        if not found:
            return [call("quick"), call("pay", "y", amount=3)]
        paid = found[-1].status == "success"
        return report("; ".join(m.text for m in found), taskCompleted=paid)

    def verifier(messages: list[Any], offered: list[str]) -> Any:
        human = next(m.text for m in messages if m.type == "human")
        good = [e["id"] for e in read_json(human, "evidence") if e["status"] == "success"]
        paid = [e for e in read_json(human, "evidence") if e["tool"] == "pay"]
        if paid and paid[-1]["status"] == "success":
            return passed(paid[-1]["result"], t1=good)
        return failed("pay", t1=False)

    planner = [plan(todo("1", "pay", []))] * 5
    return ScriptedModel({"planner": planner, "executor": executor, "verifier": verifier})


def run(folder: str, answer: str) -> None:
    """Begin the thread, or answer its question, and die in `pay`."""
    till = Till(folder, dies=True)
    with (till.folder / "stderr").open("a") as file:
        os.dup2(file.fileno(), 2)
    try:
        with open_durability(till.url) as durability:
            given: Any = Command(resume=answer) if answer else PAY
            till.graph(durability).invoke(given, THREAD, context=Context(model_retries=0))
    except BaseException:  # noqa: BLE001 - told in a file: nobody is there to catch it
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(1)


def die_paying(folder: str | Path, answer: str = "") -> None:
    """Let a process pay and be killed before it could say so."""
    Path(folder).mkdir(exist_ok=True)
    process = killed.spawn(run, str(folder), answer)
    assert killed.finish(process, folder) is None, "it was to be killed"
