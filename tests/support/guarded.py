"""A shop of Python tools under the policy of examples/shop/lumen, in an SQLite file of its own."""

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

from langchain_core.tools import tool

from loopwright import PolicyTable, ScriptedModel, build_react, open_durability
from support.scripts import call, thought

POLICY = Path(__file__).parents[2] / "examples" / "shop" / "lumen" / "policy.yaml"
THREAD = {"configurable": {"thread_id": "t"}}
ADA = call("verify_identity", customer_id="C-1", code="1842")
EVE = call("verify_identity", customer_id="C-2", code="wrong")
READ = {"readOnlyHint": True}


def refund(order="A-1", amount=50.0, **more):
    return call("request_refund", order_id=order, amount=amount, reason="late", **more)


class Shop:
    """Orders A-1 and A-2 of customer C-1, B-1 of C-2; `die` has the process killed in a refund."""

    def __init__(self, folder, die=False):
        self.file, self.dies = Path(folder) / "shop.sqlite", die
        new = not self.file.exists()
        with closing(self.open()) as db:
            if new:
                db.executescript("""
                    CREATE TABLE orders (order_id, customer_id, status, kind, days, paid);
                    CREATE TABLE refunds (order_id, amount);
                    INSERT INTO orders VALUES ('A-1', 'C-1', 'delivered', 'lamp', 10, 149.0);
                    INSERT INTO orders VALUES ('A-2', 'C-1', 'delivered', 'desk', 10, 429.0);
                    INSERT INTO orders VALUES ('A-3', 'C-1', 'delivered', 'lamp', 40, 59.5);
                    INSERT INTO orders VALUES ('B-1', 'C-2', 'delivered', 'lamp', 10, 149.0);
                """)

    def open(self):
        return sqlite3.connect(self.file, timeout=30, isolation_level=None)

    def sql(self, text, *values):
        with closing(self.open()) as db:
            return db.execute(text, values).fetchall()

    @property
    def refunds(self):
        return self.sql("SELECT * FROM refunds")

    def tools(self):
        @tool
        def verify_identity(customer_id: str, code: str) -> dict:
            """Verify a customer."""
            right = {"C-1": "1842", "C-2": "1906"}.get(customer_id) == code
            return {"verified": right, "customer_id": customer_id}

        @tool
        def get_customer(customer_id: str) -> dict:
            """A customer."""
            return {"customer_id": customer_id, "tier": "standard"}

        @tool
        def get_order(order_id: str) -> dict:
            """An order."""
            ((name, owner, status, kind, days, paid),) = self.sql(
                "SELECT * FROM orders WHERE order_id = ?", order_id
            )
            (back,) = self.sql("SELECT sum(amount) FROM refunds WHERE order_id = ?", order_id)[0]
            return {
                "order_id": name, "customer_id": owner, "status": status, "kind": kind,
                "days_since_delivery": days, "refunded": back or 0.0,
                "refundable": round(paid - (back or 0), 2),
            }  # fmt: skip

        @tool
        def request_refund(order_id: str, amount: float, reason: str, note: str = "") -> dict:
            """Pay back, whatever is asked for."""
            self.sql("INSERT INTO refunds VALUES (?, ?)", order_id, amount)
            if self.dies:
                os.kill(os.getpid(), signal.SIGKILL)
            return {"refund_id": "R-1"}

        @tool
        def delete_customer(customer_id: str) -> str:
            """Delete a customer."""
            self.sql("DELETE FROM orders WHERE customer_id = ?", customer_id)
            return "gone"

        @tool
        def shop_hours() -> str:
            """When the shop is open."""
            return "always"

        verify_identity.metadata = get_customer.metadata = shop_hours.metadata = READ
        return [
            verify_identity, get_customer, get_order, request_refund, delete_customer, shop_hours,
        ]  # fmt: skip


def reacting(shop, kept, *actions, **options):
    """A ReAct graph whose model makes these messages of calls, one after the other."""
    steps = [thought(f"Step {i}.", more=True, reason="x") for i in range(len(actions))]
    ends = {
        "thought": [*steps, thought("The shop has an answer for order A-1.")],
        "action": list(actions),
        "observation": [f"Seen {i}." for i in range(len(actions) + 1)],
    }
    options = {"policy": PolicyTable.read(POLICY), **options}
    return build_react(
        model=ScriptedModel(ends), tools=shop.tools(), durability=kept, **options
    )  # fmt: skip


def dies_in_a_refund(folder, *wanted):
    """Run in a process of its own, which is killed once the refund is in the shop's database."""
    from langgraph.types import Command  # noqa: PLC0415 - in the process only

    with open_durability(f"sqlite:///{folder}/t.db") as kept:
        graph = reacting(Shop(folder, die=True), kept, [ADA], [refund(*wanted)])
        graph.invoke({"messages": [{"role": "user", "content": "Refund A-1"}]}, THREAD)
        graph.invoke(Command(resume="approve"), THREAD)
