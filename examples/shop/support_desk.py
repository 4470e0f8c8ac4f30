"""MCP server of a support desk: `python examples/shop/support_desk.py --shop shop.db`.

Knowledge base, customers, orders, tickets, refunds and the queue of the humans, in one SQLite
file; `--seed FOLDER` makes it of a company's files. It speaks MCP over stdio, or over HTTP with
`--http PORT`. It knows what must never happen to the data; who may ask for what is the business of
the graph in front of it.
"""

import socket
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import cases
import knowledge
import moods
from mcp.server.fastmcp import Context, FastMCP
from mcp.types import ToolAnnotations
from pydantic import Field
from seed import count_rows, make_shop
from shop import Row, Shop
from typing_extensions import TypedDict

from loopwright.servers.plain_server import (
    ADDS,
    READS,
    Arguments,
    PlainServer,
    Refused,
    run_in_thread,
    serve,
    to_line,
)

_HERE = "127.0.0.1"
_FAQ = "faq"
_ADDS_ONCE = ADDS.model_copy(update={"idempotentHint": True})
_CHANGES = ADDS.model_copy(update={"destructiveHint": True})

_Text = Annotated[str, Field(min_length=1, max_length=20_000)]
_Asked = Annotated[str, Field(min_length=1, max_length=20_000, description="As the customer asks")]
_Order = Annotated[str, Field(max_length=64, description="Such as A-1042")]
_Customer = Annotated[str, Field(max_length=64, description="Such as C-1001")]
_Email = Annotated[str, Field(max_length=320)]
_Bases = Annotated[tuple[str, ...], Field(max_length=50, description="Empty: all")]
_Calling = Context[Any, Any, Any]


class Article(TypedDict):
    """An article that has to do with the question; `score` from 0 to 1."""

    id: str
    base: str
    language: str
    title: str
    url: str
    score: float
    excerpt: str


class Articles(TypedDict):
    """What was found; nothing where no article has enough to do with the question."""

    articles: list[Article]


class Answer(TypedDict):
    """The frequent question that is the same as this one, if there is one."""

    matched: bool
    articles: list[Article]


class Customer(TypedDict):
    """A customer, without what proves who they are."""

    customer_id: str
    name: str
    email: str
    language: str
    tier: str
    city: str
    since: str


class Order(TypedDict):
    """An order; `refundable` is what was paid and did not go back yet."""

    order_id: str
    customer_id: str
    item: str
    kind: str
    quantity: int
    paid: float
    refunded: float
    refundable: float
    currency: str
    status: str
    ordered_on: str
    delivered_on: str | None
    days_since_delivery: int | None


class Orders(TypedDict):
    """Orders of a customer, the newest first."""

    orders: list[Order]


class Sentiment(TypedDict):
    """How a text sounds, by a list of words: no model judges it."""

    mood: moods.Mood
    score: float
    words: list[str]
    method: Literal["lexicon"]


class SupportDesk:
    """The tools; their docstrings and field descriptions are what a model chooses by."""

    def __init__(self, shop: Shop) -> None:
        """Serve this shop."""
        self._shop = shop

    def search_knowledge_base(
        self,
        query: _Asked,
        bases: _Bases = (),
        limit: Annotated[int, Field(ge=1, le=20)] = 5,
    ) -> Articles:
        """Search all knowledge bases at once; the best articles first. Cite them by id."""
        with self._shop.reading() as database:
            known = knowledge.bases(database)
            if unknown := sorted(set(bases) - set(known)):
                given = to_line(", ".join(unknown))
                message = f"There is no base {given}; there are {', '.join(known) or 'none'}."
                raise Refused(message)
            hits = knowledge.search(database, query, bases or known, most=limit)
        return Articles(articles=[_article(hit) for hit in hits])

    def match_faq(self, question: _Asked) -> Answer:
        """Find the frequent question that means the same, with its answer."""
        enough = knowledge.ENOUGH_FOR_FAQ
        with self._shop.reading() as database:
            hits = knowledge.search(database, question, [_FAQ], most=1, enough=enough)
        return Answer(matched=bool(hits), articles=[_article(hit) for hit in hits])

    def get_customer(self, customer_id: _Customer = "", email: _Email = "") -> Customer:
        """Look up a customer by id or e-mail address."""
        given = _one_of(customer_id, email)
        columns = ", ".join(Customer.__annotations__)
        sql = f"SELECT {columns} FROM customers WHERE customer_id = ? OR email = ?"
        row = self._shop.row(sql, given, given)
        if row is None:
            message = (
                f"There is no customer '{to_line(given)}': ask for the address of the account."
            )
            raise Refused(message)
        return cast("Customer", row)

    def verify_identity(
        self,
        postcode: Annotated[str, Field(max_length=32, description="Of the account")],
        phone_last4: Annotated[str, Field(max_length=8, description="Last four digits")],
        customer_id: _Customer = "",
        email: _Email = "",
    ) -> cases.Identity:
        """Check who a customer is, by what only they know; five failures lock the account."""
        return cases.verify_identity(self._shop, _one_of(customer_id, email), postcode, phone_last4)

    def get_order(self, order_id: _Order) -> Order:
        """Look up an order: whose it is, what was paid, what went back, status and dates."""
        row = self._shop.row(f"{_ORDERS} WHERE o.order_id = ?", order_id.strip())
        if row is None:
            message = f"There is no order '{to_line(order_id)}': ask the customer for its number."
            raise Refused(message)
        return self._order(row)

    def list_orders(
        self,
        customer_id: _Customer,
        status: Literal["", "processing", "shipped", "delivered", "returned", "cancelled"] = "",
        limit: Annotated[int, Field(ge=1, le=50)] = 10,
    ) -> Orders:
        """List the orders of a customer, the newest first."""
        self.get_customer(customer_id)
        rows = self._shop.rows(
            f"{_ORDERS} WHERE o.customer_id = (SELECT customer_id FROM customers WHERE"
            " customer_id = ?) AND (? = '' OR status = ?)"
            " ORDER BY ordered_on DESC, o.order_id DESC LIMIT ?",
            customer_id.strip(), status, status, limit,
        )  # fmt: skip
        return Orders(orders=[self._order(row) for row in rows])

    def _order(self, row: Row) -> Order:
        paid, back, arrived = row["paid"], row.pop("back"), row["delivered_on"]
        since = (self._shop.today() - date.fromisoformat(arrived)).days if arrived else None
        sums = {"paid": paid / 100, "refunded": back / 100, "refundable": (paid - back) / 100}
        known = {**row, **sums, "currency": self._shop.currency, "days_since_delivery": since}
        return cast("Order", known)

    def create_ticket(
        self,
        ctx: _Calling,
        subject: Annotated[str, Field(min_length=1, max_length=200)],
        body: _Text,
        issue: Annotated[str, Field(min_length=1, max_length=200, description="One ticket each")],
        priority: cases.Priority = "normal",
        follow_up_hours: Annotated[
            int, Field(ge=1, le=720, description="When the customer hears from us")
        ] = 24,
        customer_id: _Customer = "",
    ) -> cases.Ticket:
        """Make a ticket for an issue, or get the one it has; promise the customer follow_up_at."""
        about = {
            "subject": subject, "body": body, "issue": issue, "priority": priority,
            "follow_up_hours": follow_up_hours, "customer_id": customer_id.strip(),
        }  # fmt: skip
        return cases.open_ticket(
            self._shop, _read_meta(ctx, "idempotency_key"), _read_meta(ctx, "thread"), about
        )

    def update_ticket(
        self,
        ctx: _Calling,
        ticket_id: Annotated[str, Field(max_length=64, description="Such as T-1")],
        note: Annotated[str, Field(max_length=20_000, description="For colleagues")] = "",
        message: Annotated[str, Field(max_length=20_000, description="To the customer")] = "",
        status: cases.Status | Literal[""] = "",
        priority: cases.Priority | Literal[""] = "",
        customer_id: _Customer = "",
    ) -> cases.Ticket:
        """Add a note or a message to a ticket of the customer, or set its status or priority."""
        change = {"note": note, "message": message, "status": status, "priority": priority}
        asker = cases.Asker(_read_meta(ctx, "thread"), customer_id.strip())
        return cases.change_ticket(
            self._shop, _read_meta(ctx, "idempotency_key"), ticket_id, asker, change
        )

    def request_refund(
        self,
        ctx: _Calling,
        order_id: _Order,
        amount: Annotated[float, Field(gt=0, le=1e7, allow_inf_nan=False)],
        reason: _Text,
    ) -> cases.Refund:
        """Pay an amount back to the customer of an order; never more than was paid for it."""
        key = _read_meta(ctx, "idempotency_key")
        return cases.pay_back(self._shop, key, order_id.strip(), amount, reason)

    def transfer_to_human(
        self,
        ctx: _Calling,
        reason: _Text,
        summary: Annotated[
            str, Field(max_length=100_000, description="What the colleague must know")
        ] = "",
        customer_id: _Customer = "",
        ticket_id: Annotated[str, Field(max_length=64)] = "",
    ) -> cases.Transfer:
        """Put the case into the queue of the human colleagues; a thread waits there once."""
        case = {
            "reason": reason, "summary": summary, "customer_id": customer_id.strip(),
            "ticket_id": ticket_id,
        }  # fmt: skip
        return cases.queue_for_human(
            self._shop, _read_meta(ctx, "idempotency_key"), _read_meta(ctx, "thread"), case
        )

    def analyse_sentiment(self, text: Annotated[str, Field(max_length=20_000)]) -> Sentiment:
        """Judge how a text sounds, in English or Chinese, by a list of words."""
        found = moods.feeling_in(text)
        return Sentiment(
            mood=found.mood, score=found.score, words=list(found.words), method="lexicon"
        )


_ORDERS = """SELECT o.order_id, o.customer_id, item, kind, quantity, paid, status, ordered_on,
delivered_on, (SELECT coalesce(sum(cents), 0) FROM refunds AS r WHERE r.order_id = o.order_id)
AS back FROM orders AS o"""


def _article(hit: knowledge.Hit) -> Article:
    one = hit.article
    return Article(
        id=one.id, base=one.base, language=one.language, title=one.title, url=one.url,
        score=hit.score, excerpt=one.text,
    )  # fmt: skip


def _one_of(customer_id: str, email: str) -> str:
    given = [text.strip() for text in (customer_id, email) if text.strip()]
    if len(given) != 1:
        message = "Say whose account it is: give either customer_id or email."
        raise Refused(message)
    return given[0]


def _read_meta(ctx: _Calling, name: str) -> str:
    """What the client says of the call beside its arguments; models cannot write it."""
    meta = ctx.request_context.meta
    said = (meta.model_extra or {}).get(f"loopwright/{name}") if meta else None
    return said if isinstance(said, str) else ""


def build_server(shop: Shop, port: int = 0) -> FastMCP[None]:
    """Make the server of a shop; the caller runs it."""
    server = PlainServer("support_desk", log_level="ERROR", host=_HERE, port=port)
    desk = SupportDesk(shop)
    tools: list[tuple[Any, ToolAnnotations]] = [
        (desk.search_knowledge_base, READS),
        (desk.match_faq, READS),
        (desk.get_customer, READS),
        (desk.verify_identity, READS),
        (desk.get_order, READS),
        (desk.list_orders, READS),
        (desk.create_ticket, _ADDS_ONCE),
        (desk.update_ticket, _CHANGES),
        (desk.request_refund, _CHANGES),
        (desk.transfer_to_human, _ADDS_ONCE),
        (desk.analyse_sentiment, READS),
    ]
    for tool, annotations in tools:
        server.add_tool(run_in_thread(tool), annotations=annotations)
    return server


def _port(text: str) -> int:
    port = int(text)
    if not 0 < port < 65_536:
        raise ValueError
    return port


def _taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((_HERE, port)) == 0


def main() -> None:
    """Serve until stdin closes, or over HTTP; or make a shop. A wrong wish ends with code 2."""
    parser = Arguments(prog="support_desk", description="MCP server of a support desk.")
    parser.add_argument("--shop", required=True, metavar="FILE", help="the shop's SQLite file")
    parser.add_argument("--seed", metavar="FOLDER", help="make the shop of these files, and end")
    parser.add_argument(
        "--http", type=_port, metavar="PORT", help="serve http://127.0.0.1:PORT/mcp, not stdio"
    )
    asked = parser.parse_args()
    try:
        if asked.seed is not None:
            there = " is there already and stays as it is" if Path(asked.shop).exists() else ""
            shop = make_shop(Path(asked.seed), Path(asked.shop))
            print(f"{asked.shop}{there}: {count_rows(shop)}")  # noqa: T201 - for the terminal
            return
        shop = Shop(asked.shop)
    except Refused as error:
        parser.error(str(error))
    if asked.http is not None:
        if _taken(asked.http):
            parser.error(f"Port {asked.http} is in use: choose another one.")
        build_server(shop, asked.http).run("streamable-http")
        return
    serve(build_server(shop))  # a change that is not whole at its end is none: see Shop


if __name__ == "__main__":
    main()
