"""MCP server of the shop's customer care: orders, the refund policy, refunds and replies.

It checks nothing but the order and the amount: whoever calls `issue_refund` twice pays twice.

    python examples/refund/server.py --shop shop.db
"""

import argparse
from pathlib import Path
from typing import Annotated, Final, cast

from mcp.server.fastmcp import FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field
from shop import Shop
from typing_extensions import TypedDict

_READS: Final = ToolAnnotations(readOnlyHint=True, openWorldHint=False)
_ADDS: Final = ToolAnnotations(
    readOnlyHint=False, destructiveHint=False, idempotentHint=False, openWorldHint=False
)
_PAYS: Final = ToolAnnotations(
    readOnlyHint=False, destructiveHint=True, idempotentHint=False, openWorldHint=False
)
_Order = Annotated[str, Field(description="Such as A-1042")]


class Order(TypedDict):
    """An order."""

    order_id: str
    customer: str
    item: str
    paid: float
    status: str


class Rule(TypedDict):
    """What the policy says of one topic."""

    topic: str
    rule: str
    refundable: bool
    working_days: int


class Refund(TypedDict):
    """A refund that was made."""

    refund_id: str
    order_id: str
    amount: float


class Sent(TypedDict):
    """A reply that was sent."""

    reply_id: str
    order_id: str


class CustomerCare:
    """The tools; their docstrings and field descriptions are what a model chooses by."""

    def __init__(self, shop: Shop) -> None:
        """Serve this shop."""
        self._shop = shop

    def find_order(self, order_id: _Order) -> Order:
        """Look up an order: customer, item, the amount paid in EUR, and its status."""
        for row in self._shop.rows("SELECT * FROM orders WHERE order_id = ?", order_id):
            return cast("Order", row)
        message = f"There is no order {order_id!r}: ask the customer for its number."
        raise ToolError(message)

    def refund_policy(
        self, topic: Annotated[str, Field(description="damaged, changed mind or worn")]
    ) -> Rule:
        """Look up what the refund policy says of a topic."""
        for row in self._shop.rows("SELECT * FROM policies WHERE topic = ?", topic):
            return cast("Rule", {**row, "refundable": bool(row["refundable"])})
        known = ", ".join(row["topic"] for row in self._shop.rows("SELECT topic FROM policies"))
        message = f"The policy has no topic {topic!r}; it has {known}."
        raise ToolError(message)

    def issue_refund(
        self,
        order_id: _Order,
        amount: Annotated[float, Field(gt=0, description="In EUR")],
        reason: str,
    ) -> Refund:
        """Pay an amount back to the customer of an order, at most what was paid."""
        paid = self.find_order(order_id)["paid"]
        if amount > paid:
            message = f"{amount:.2f} EUR is more than the {paid:.2f} EUR paid for {order_id}."
            raise ToolError(message)
        number = self._shop.add("refunds", order_id=order_id, amount=amount, reason=reason)
        return Refund(refund_id=f"R-{number}", order_id=order_id, amount=amount)

    def send_reply(self, order_id: _Order, text: str) -> Sent:
        """Send a reply to the customer of an order."""
        self.find_order(order_id)
        number = self._shop.add("replies", order_id=order_id, text=text)
        return Sent(reply_id=f"M-{number}", order_id=order_id)


def main() -> None:
    """Serve over stdio until stdin closes."""
    parser = argparse.ArgumentParser(description="MCP server of a shop's customer care")
    parser.add_argument("--shop", type=Path, required=True)
    care = CustomerCare(Shop(parser.parse_args().shop))
    server = FastMCP("shop", log_level="ERROR")
    server.add_tool(care.find_order, annotations=_READS)
    server.add_tool(care.refund_policy, annotations=_READS)
    server.add_tool(care.issue_refund, annotations=_PAYS)
    server.add_tool(care.send_reply, annotations=_ADDS)
    server.run("stdio")


if __name__ == "__main__":
    main()
