"""What a desk changes in a shop: refunds, tickets, transfers, and who has proven who they are."""

import math
import sqlite3
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from hmac import compare_digest
from typing import Final, Literal, NamedTuple

from shop import Row, Shop, now
from typing_extensions import TypedDict

from loopwright.servers.plain_server import Refused, to_line

Priority = Literal["low", "normal", "high", "urgent"]
Status = Literal["open", "waiting_for_customer", "with_human", "solved", "closed"]

MOST_FAILURES: Final = 5
LOCKED_SECONDS: Final = 15 * 60


class Asker(NamedTuple):
    """In which thread a call is made, and for which customer; either may be empty."""

    thread: str
    customer_id: str


class Identity(TypedDict):
    """Whether somebody has proven who they are."""

    verified: bool
    customer_id: str | None
    reason: str
    tries_left: int


class Refund(TypedDict):
    """Money that goes back, and what could still go back for the order."""

    refund_id: str
    order_id: str
    amount: float
    left: float


class Ticket(TypedDict):
    """A ticket; `created` is false where the issue had one."""

    ticket_id: str
    created: bool
    status: str
    priority: str
    follow_up_at: str


class Transfer(TypedDict):
    """A case that waits for a human; `created` is false where it waited already."""

    transfer_id: str
    created: bool
    state: str


def verify_identity(shop: Shop, given: str, postcode: str, phone_last4: str) -> Identity:
    """Compare what somebody says with the account; who guesses too often is locked out.

    An account that there is not is answered like a wrong postcode, and locked like one.
    """
    with shop.writing() as database:
        known = _customer(database, given)
        account = known["customer_id"] if known else f"?{given.strip().casefold()[:200]}"
        failed = database.execute("SELECT * FROM failures WHERE account = ?", (account,)).fetchone()
        count = failed["count"] if failed else 0
        if failed and failed["locked_until"]:
            left = failed["locked_until"] - shop.clock()
            if left > 0:
                reason = f"Too many wrong answers: locked for {math.ceil(left / 60)} more minutes."
                return Identity(verified=False, customer_id=None, reason=reason, tries_left=0)
            count = 0
        if known and _proves(known, postcode, phone_last4):
            database.execute("DELETE FROM failures WHERE account = ?", (account,))
            who = str(known["customer_id"])
            return Identity(verified=True, customer_id=who, reason="", tries_left=MOST_FAILURES)
        count += 1
        until = shop.clock() + LOCKED_SECONDS if count >= MOST_FAILURES else 0.0
        database.execute("REPLACE INTO failures VALUES (?, ?, ?)", (account, count, until))
    reason = "Account, postcode and phone number do not belong together."
    tries = MOST_FAILURES - count
    return Identity(verified=False, customer_id=None, reason=reason, tries_left=tries)


def _customer(database: sqlite3.Connection, given: str) -> sqlite3.Row | None:
    row: sqlite3.Row | None = database.execute(
        "SELECT * FROM customers WHERE customer_id = ? OR email = ?", (given.strip(),) * 2
    ).fetchone()
    return row


def _proves(customer: sqlite3.Row, postcode: str, phone_last4: str) -> bool:
    given = f"{''.join(postcode.split())} {phone_last4.strip()}".casefold()
    right = f"{''.join(customer['postcode'].split())} {customer['phone'][-4:]}".casefold()
    return compare_digest(given.encode("utf-8", "replace"), right.encode())


def pay_back(shop: Shop, key: str, order_id: str, amount: float, reason: str) -> Refund:
    """Pay an amount back; the database refuses what is more than was paid."""
    cents = int((Decimal(str(amount)) * 100).to_integral_value(ROUND_HALF_UP))
    if Decimal(cents) != Decimal(str(amount)) * 100 or cents <= 0:
        message = f"An amount has at most two decimals and is at least 0.01, not {amount}."
        raise Refused(message)

    def work(database: sqlite3.Connection) -> Refund:
        order = _find_row(database, "orders", "order_id", order_id)
        try:
            number = database.execute(
                "INSERT INTO refunds (order_id, cents, reason, made_at) VALUES (?, ?, ?, ?)",
                (order["order_id"], cents, reason, now()),
            ).lastrowid
        except sqlite3.IntegrityError as error:
            left = (order["paid"] - _back(database, order_id)) / 100
            message = (
                f"{amount:.2f} is more than what is left of order {order_id}: of"
                f" {order['paid'] / 100:.2f} paid, {left:.2f} can still go back."
            )
            raise Refused(message) from error
        left = (order["paid"] - _back(database, order_id)) / 100
        name = order["order_id"]
        return Refund(refund_id=f"R-{number}", order_id=name, amount=cents / 100, left=left)

    return shop.once(key, ["refund", order_id, cents, reason], work)


def _back(database: sqlite3.Connection, order_id: str) -> int:
    """The cents that went back already."""
    sql = "SELECT coalesce(sum(cents), 0) FROM refunds WHERE order_id = ?"
    return int(database.execute(sql, (order_id,)).fetchone()[0])


def open_ticket(shop: Shop, key: str, thread: str, about: Row) -> Ticket:
    """Make the ticket of an issue, or give the one there is, of this customer or this thread."""
    customer = about["customer_id"] or None
    if not customer and not thread:
        message = "Say whose ticket it is: give customer_id, as get_customer has it."
        raise Refused(message)
    issue = " ".join(about["issue"].casefold().split())

    def work(database: sqlite3.Connection) -> Ticket:
        who = _find_row(database, "customers", "customer_id", customer)[0] if customer else None
        there = database.execute(
            "SELECT * FROM tickets WHERE issue = ? AND (customer_id = ? OR (thread = ? AND"
            " (customer_id IS NULL OR ? IS NULL))) ORDER BY customer_id IS NULL, number",
            (issue, who, thread or None, who),
        ).fetchone()
        if there is not None:
            sql = "UPDATE tickets SET customer_id = coalesce(customer_id, ?) WHERE number = ?"
            database.execute(sql, (who, there["number"]))  # a stranger may be known by now
            return _ticket(there, created=False)
        follow_up = datetime.now(UTC) + timedelta(hours=about["follow_up_hours"])
        made = database.execute(
            "INSERT INTO tickets (customer_id, thread, issue, subject, body, priority, status,"
            " made_at, follow_up_at) VALUES (?, ?, ?, ?, ?, ?, 'open', ?, ?) RETURNING *",
            (
                who, thread or None, issue, about["subject"], about["body"],
                about["priority"], now(), follow_up.isoformat(timespec="seconds"),
            ),
        ).fetchone()  # fmt: skip
        return _ticket(made, created=True)

    return shop.once(key, ["ticket", about], work)


def _ticket(row: sqlite3.Row, *, created: bool) -> Ticket:
    return Ticket(
        ticket_id=f"T-{row['number']}", created=created, status=row["status"],
        priority=row["priority"], follow_up_at=row["follow_up_at"],
    )  # fmt: skip


def change_ticket(shop: Shop, key: str, ticket_id: str, asker: Asker, change: Row) -> Ticket:
    """Add to a ticket of who asks, and set its status and priority where they are given."""
    if not any(change.values()):
        message = "Say what to change: note, message, status or priority."
        raise Refused(message)

    def work(database: sqlite3.Connection) -> Ticket:
        number = _ticket_of(database, asker, ticket_id)
        for to_customer, text in enumerate((change["note"], change["message"])):
            if text:
                database.execute(
                    "INSERT INTO ticket_notes (ticket, to_customer, text, made_at)"
                    " VALUES (?, ?, ?, ?)",
                    (number, to_customer, text, now()),
                )
        row = database.execute(
            "UPDATE tickets SET status = coalesce(nullif(?, ''), status),"
            " priority = coalesce(nullif(?, ''), priority) WHERE number = ? RETURNING *",
            (change["status"], change["priority"], number),
        ).fetchone()
        return _ticket(row, created=False)

    return shop.once(key, ["change", ticket_id, change], work)


def queue_for_human(shop: Shop, key: str, thread: str, case: Row) -> Transfer:
    """Put a case into the queue of the humans; a thread that waits there waits once."""

    def work(database: sqlite3.Connection) -> Transfer:
        customer = case["customer_id"] or None
        who = _find_row(database, "customers", "customer_id", customer)[0] if customer else None
        asker = Asker(thread, customer or "")
        ticket = _ticket_of(database, asker, case["ticket_id"]) if case["ticket_id"] else None
        waiting = database.execute(
            "SELECT * FROM transfers WHERE thread = ? AND state = 'waiting'", (thread or None,)
        ).fetchone()
        if waiting is not None:
            return _transfer(waiting, created=False)
        made = database.execute(
            "INSERT INTO transfers (thread, customer_id, ticket, reason, summary, state, made_at)"
            " VALUES (?, ?, ?, ?, ?, 'waiting', ?) RETURNING *",
            (thread or None, who, ticket, case["reason"], case["summary"], now()),
        ).fetchone()
        if ticket is not None:
            database.execute("UPDATE tickets SET status = 'with_human' WHERE number = ?", (ticket,))
        return _transfer(made, created=True)

    return shop.once(key, ["transfer", case], work)


def _transfer(row: sqlite3.Row, *, created: bool) -> Transfer:
    return Transfer(transfer_id=f"H-{row['number']}", created=created, state=row["state"])


def _ticket_of(database: sqlite3.Connection, asker: Asker, ticket_id: str) -> int:
    """The number of a ticket; one of somebody else is not there, so nobody tries numbers."""
    number = ticket_id.strip().upper().removeprefix("T-")
    wanted = int(number) if number.isascii() and number.isdigit() and len(number) < 16 else -1
    known = database.execute(
        "SELECT 1 FROM tickets AS t LEFT JOIN customers AS c ON c.customer_id = t.customer_id"
        " WHERE t.number = ? AND (thread = nullif(?, '') OR c.customer_id = nullif(?, ''))",
        (wanted, *asker),
    ).fetchone()
    if known is None:
        message = (
            f"There is no ticket '{to_line(ticket_id)}' of this customer:"
            " take the id that create_ticket gave, and give customer_id."
        )
        raise Refused(message)
    return wanted


def _find_row(database: sqlite3.Connection, table: str, column: str, value: str) -> sqlite3.Row:
    row: sqlite3.Row | None = database.execute(
        f"SELECT * FROM {table} WHERE {column} = ?", (value,)
    ).fetchone()
    if row is None:
        message = f"There is no {table[:-1]} '{to_line(value)}': ask the customer for the number."
        raise Refused(message)
    return row
