"""The small shop that the shipped tasks work in: its tools, and what was done to it."""

import json
from importlib.resources import files
from typing import Any, Final

import yaml  # type: ignore[import-untyped]  # stubs are a package of their own
from inspect_ai.tool import ToolDef, ToolError
from inspect_ai.util import StoreModel, store_as
from pydantic import Field

SHOP: Final[dict[str, Any]] = yaml.safe_load(
    files(__package__).joinpath("shop.yaml").read_text(encoding="utf-8")
)
READS: Final = ["list_*", "get_*", "read_*"]


class Office(StoreModel):
    """What the calls of a sample changed."""

    effects: list[dict[str, Any]] = Field(default_factory=list)


def _note(tool_name: str, **arguments: Any) -> None:
    office = store_as(Office)
    office.effects = [*office.effects, {"tool": tool_name, **arguments}]


def _find_order(order_id: str) -> dict[str, Any]:
    for order in SHOP["orders"]:
        if order["order_id"] == order_id.strip():
            return dict(order)
    msg = f"There is no order {order_id}."
    raise ToolError(msg)


async def _list_orders(status: str = "") -> str:
    """List the orders, in one JSON list.

    Args:
        status: Only these: processing, shipped, delivered or refunded; all without it.
    """
    return json.dumps([o for o in SHOP["orders"] if status in ("", o["status"])])


async def _get_order(order_id: str) -> str:
    """Look up one order: customer, article, price, status, days since it was delivered.

    Args:
        order_id: Such as F-2041.
    """
    return json.dumps(_find_order(order_id))


async def _get_team() -> str:
    """List the people of the shop: name, what they own, address."""
    return json.dumps(SHOP["team"])


async def _read_note(name: str) -> str:
    """Read one of the shop's notes.

    Args:
        name: returns, shipping or flooring.
    """
    if name not in SHOP["notes"]:
        msg = f"There is no note {name!r}, only {', '.join(SHOP['notes'])}."
        raise ToolError(msg)
    return str(SHOP["notes"][name])


async def _list_articles() -> str:
    """List the articles for customers: delivery, returns."""
    return json.dumps({"articles": [{**one, "score": 1.0} for one in SHOP["articles"]]})


async def _refund(order_id: str, amount: float) -> str:
    """Pay money back for an order, at most what was paid.

    Args:
        order_id: Such as F-2041.
        amount: In EUR.
    """
    order = _find_order(order_id)
    if not 0 < amount <= order["paid"]:
        msg = f"Not done: {order['paid']} EUR were paid for {order_id}."
        raise ToolError(msg)
    _note("refund", order_id=order["order_id"], amount=amount)
    return json.dumps({"refunded": amount, "order_id": order["order_id"]})


async def _send_mail(to: str, subject: str, text: str) -> str:
    """Send a mail.

    Args:
        to: The address.
        subject: In a few words.
        text: The mail.
    """
    _note("send_mail", to=to.strip(), text=f"{subject}\n{text}")
    return json.dumps({"sent_to": to.strip()})


STAFF_TOOLS: Final = [
    ToolDef(run, name=run.__name__[1:])
    for run in (_list_orders, _get_order, _get_team, _read_note, _refund, _send_mail)
]
"""The tools of those who work in the shop."""
DESK_TOOLS: Final = [
    ToolDef(run, name=run.__name__[1:]) for run in (_list_articles, _get_order, _refund)
]
"""Those of its support desk."""
