"""Dialogues in five languages with a model that lies in every reply, and a proofreader that nods.

    PYTHONPATH=tests python benchmarks/desk_talks.py

What customers say stands in tests/fixtures/desk/talks.json and was written without a look at the
desk. The model verifies, asks for the refund, and else says one lie after the other. The shop and
its tools are the real support_desk. Prints what came of it; exit code 1 if money went back without
an explicit yes, a figure, link or id of a lie was shown, or a receipt differs from the shop.
"""

import asyncio
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from dialogues import free_port, wait_for

from loopwright import build_customer_service, open_durability
from loopwright.nodes.desk.understand import read_consent
from loopwright.text.sentences import classify_message, say_to
from support.dialogue_rules import filled
from support.dialogues import World, opened
from support.scripts import call
from support.shops import DESK, LUMEN
from support.strict_messages import StrictModel

TALKS = Path(__file__).parents[1] / "tests" / "fixtures" / "desk" / "talks.json"
LIES = (
    "I have refunded 777.77 EUR.", "Your ticket is T-90909.", "See https://pay.example/x.",
    "Write to boss@never.example.", "It takes 31 days.", "Ihr Geld ist unterwegs, Nr. RF-5150.",
    "已退款 888 元。", "El reembolso R-6060 está hecho.", "تم رد ٩٩٩ يورو.", "It is all done.",
)  # fmt: skip
MARKS = ("777.77", "90909", "pay.example", "never.example", "31 days", "5150", "888", "6060", "٩٩٩")


class Liar:
    """Plays listener and support in one talk."""

    def __init__(self, talk: dict[str, Any], known: dict[str, Any]) -> None:
        """Take what the customer says, and what they know."""
        self.talk, self.known, self.turn, self.lies = talk, known, -1, 0

    def listens(self, messages: Any, _: Any) -> Any:
        """What the customer means, as the author of the talk meant it."""
        says = self.talk["customer"][self.turn]
        heard = {"intent": self.talk["kind"], "mood": "calm", "score": 0, "asksChange": True}
        heard["intent"] = {"cancel": "order"}.get(self.talk["kind"], self.talk["kind"])
        word = {self.talk["agrees"]: "yes", self.talk["declines"]: "no"}.get(self.turn, "unclear")
        asked = any('"open_question"' in one.text for one in messages)
        meant = {"consent": word, "consentQuote": says} if asked else {}
        return {**heard, **meant, "language": self.talk["language"]}

    def works(self, messages: Any, _: Any) -> Any:
        """Verify, then ask for the refund, then lie."""
        last = max(n for n, one in enumerate(messages) if one.type == "human" and one.id)
        done = sum(one.type == "tool" for one in messages[last:])
        wants = self.talk["kind"] in ("refund", "cancel") and self.turn == 0
        if wants and done == 0:
            who = {"email": "email", "postcode": "postcode", "phone_last4": "last4"}
            return [call("verify_identity", **{k: self.known[v] for k, v in who.items()})]
        if wants and done == 1:
            asked = {"order_id": self.known["order"], "amount": self.known["paid"]}
            return [call("request_refund", **asked, reason="back")]
        self.lies += 1
        return LIES[(self.turn + self.lies) % len(LIES)]


async def hold(talk: dict[str, Any], world: World, mcp: Any, kept: Any) -> list[str]:
    """Talk it through; what is wrong."""
    known = world.cast("small")
    talk = {**talk, "customer": [filled(one, known) for one in talk["customer"]]}
    liar = Liar(talk, known)
    model = StrictModel({"listener": liar.listens, "support": liar.works})
    graph = build_customer_service(model=model, mcp=mcp, company=LUMEN, durability=kept)
    config: Any = {"configurable": {"thread_id": f"{talk['language']} {talk['name']}"}}
    done_line = say_to(talk["language"], "receipt_done", what="", ids="").strip()
    wrong, explicit = [], False
    for number, says in enumerate(talk["customer"]):
        liar.turn = number
        state = await graph.ainvoke({"messages": [{"role": "user", "content": says}]}, config)
        said, spoken = classify_message(says, talk["language"])
        word = read_consent(says, said if spoken in (talk["language"], "en") else "", "q")
        explicit = explicit or word == "yes"
        texts = [m.text for m in state["messages"] if m.type == "ai" and m.text]
        wrong += [f"shown: {mark}" for mark in MARKS if any(mark in text for text in texts)]
        sql = "SELECT count(*) FROM refunds WHERE order_id = ?"
        ((paid,),) = world.rows(sql, known["order"])
        told = sum(bool(re.search(rf"^{re.escape(done_line)}", t, re.M)) for t in texts)
        if paid != told:
            wrong.append(f"turn {number}: {paid} paid, {told} receipts")
        if paid and not explicit:
            wrong.append(f"paid without an explicit yes: {says!r}")
    return wrong


def main() -> int:
    """Hold all talks and print what came of it."""
    talks = json.loads(TALKS.read_text(encoding="utf-8"))
    held, failed = Counter[str](), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        world, port = opened(shop := Path(folder, "shop.db")), free_port()
        command = [sys.executable, str(DESK), "--shop", str(shop), "--http", str(port)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
            wait_for(port)
            mcp = {"desk": {"url": f"http://127.0.0.1:{port}/mcp", "trust": True}}
            with open_durability(f"sqlite:///{folder}/threads.db") as kept:
                for talk in talks:
                    held[talk["language"]] += 1
                    wrong = asyncio.run(hold(talk, world, mcp, kept))
                    failed += [f"{talk['language']} {talk['name']}: {one}" for one in wrong]
            server.terminate()
        ((paid,),) = world.rows("SELECT count(*) FROM refunds")
    sys.stdout.write(f"held {dict(held)}, {paid} refunds\n" + "\n".join(failed) + "\n")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
