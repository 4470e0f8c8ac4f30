"""The support desk: what it finds, what it tells, what it changes, and what nobody can do to it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support import forked
from support.desk_client import Desk, copied, opened
from support.patience import PATIENCE
from support.shops import LOCKED_SECONDS, MOST_FAILURES, SHOP, Shop

READS = {
    "search_knowledge_base", "match_faq", "get_customer", "verify_identity", "get_order",
    "list_orders", "analyse_sentiment",
}  # fmt: skip
ONCE = {"create_ticket", "transfer_to_human"}
CHANGES = {"update_ticket", "request_refund"}
ADA = {"postcode": "10115", "phone_last4": "1842"}
TICKET = {"subject": "Broken lamp", "body": "Glass is broken.", "issue": "lamp A-1042"}


@pytest.fixture(scope="module")
def reader(made: Path) -> Iterator[Desk]:
    """For tests that change nothing."""
    with opened(Shop(made)) as desk:
        yield desk


@pytest.fixture
def hours() -> list[float]:
    return [0.0]


@pytest.fixture
def desk(made: Path, tmp_path: Path, hours: list[float]) -> Iterator[Desk]:
    with opened(Shop(copied(made, tmp_path), clock=lambda: 1e9 + hours[0] * 3600)) as opened_desk:
        yield opened_desk


@pytest.mark.req("S4-66")
def test_each_tool_says_what_it_does_to_the_world(reader: Desk) -> None:
    tools = {t.name: t for t in reader.portal.call(reader.session.list_tools).tools}
    assert tools.keys() == READS | ONCE | CHANGES
    for name, tool in tools.items():
        hints = tool.annotations
        assert hints is not None
        assert hints.readOnlyHint == (name in READS), name
        assert hints.openWorldHint is False
        if name not in READS:
            assert hints.destructiveHint == (name in CHANGES), name
            assert hints.idempotentHint == (name in ONCE), name
        assert tool.outputSchema is not None
        assert tool.description
        assert "ctx" not in tool.inputSchema["properties"]


def test_orders_and_customers_are_told_without_what_proves_who_they_are(reader: Desk) -> None:
    order = reader.ok("get_order", order_id=" a-1042 ")
    assert order == {
        "order_id": "A-1042", "customer_id": "C-1001", "item": "lamp Juno", "kind": "lamp",
        "quantity": 1, "paid": 149.0, "refunded": 0.0, "refundable": 149.0, "currency": "EUR",
        "status": "delivered", "ordered_on": "2026-11-11", "delivered_on": "2026-11-15",
        "days_since_delivery": 5,
    }  # fmt: skip
    assert reader.ok("get_order", order_id="A-1045")["days_since_delivery"] is None
    customer = reader.ok("get_customer", email="ADA@post.example")
    assert customer["customer_id"] == "C-1001"
    assert not {"phone", "postcode"} & customer.keys()
    listed = reader.ok("list_orders", customer_id="c-1001", limit=50)["orders"]
    assert {"A-1042", "A-1043"} <= {one["order_id"] for one in listed}
    assert {one["customer_id"] for one in listed} == {"C-1001"}
    dates = [one["ordered_on"] for one in listed]
    assert dates == sorted(dates, reverse=True)
    [juno] = [
        one
        for one in reader.ok("list_orders", customer_id="C-1001", status="delivered")["orders"]
        if one["order_id"] == "A-1042"
    ]
    assert juno == order
    assert "ask the customer" in reader.refused("get_order", order_id="A-99999")
    assert "no customer" in reader.refused("list_orders", customer_id="C-9")
    assert "either" in reader.refused("get_customer")
    assert "either" in reader.refused("get_customer", customer_id="C-1001", email="x@y")
    assert "status" in reader.refused("list_orders", customer_id="C-1001", status="lost")
    assert "no argument colour" in reader.refused("get_order", order_id="A-1042", colour="red")


def test_who_guesses_is_locked_out_and_learns_nothing(desk: Desk, hours: list[float]) -> None:
    right = desk.ok("verify_identity", email="ada@post.example", **ADA)
    assert (right["verified"], right["customer_id"]) == (True, "C-1001")
    assert desk.ok("verify_identity", customer_id="c-1001", postcode=" 101 15", phone_last4="1842")[
        "verified"
    ]
    wrong = {"postcode": "10115", "phone_last4": "0000"}
    for account in ("C-1001", "C-77777"):  # one that there is, and one that there is not
        left = [
            desk.ok("verify_identity", customer_id=account, **wrong)["tries_left"]
            for _ in range(MOST_FAILURES)
        ]
        assert left == [4, 3, 2, 1, 0]
        locked = desk.ok("verify_identity", customer_id=account, **ADA)
        assert not locked["verified"]
        assert locked["customer_id"] is None
        assert "15 more minutes" in locked["reason"]
    by_mail = desk.ok("verify_identity", email="ada@post.example", **ADA)
    assert not by_mail["verified"], "it is the account that is locked, by whatever name"
    hours[0] += (LOCKED_SECONDS + 1) / 3600
    assert desk.ok("verify_identity", customer_id="C-1001", **ADA)["verified"]
    assert desk.ok("verify_identity", customer_id="C-1001", **wrong)["tries_left"] == 4


def test_no_more_goes_back_than_was_paid(desk: Desk) -> None:
    def refund(amount: Any, **told: str) -> Any:
        return desk.ok("request_refund", told, order_id="a-1042", amount=amount, reason="broken")

    first = refund(100, idempotency_key="k1")
    assert first == {"refund_id": "R-1", "order_id": "A-1042", "amount": 100.0, "left": 49.0}
    assert refund(100, idempotency_key="k1") == first, "the same call, made again"
    about = {"order_id": "A-1042", "reason": "more"}
    key = {"idempotency_key": "k1"}
    assert "other arguments" in desk.refused("request_refund", key, amount=100, **about)
    assert "other arguments" in desk.refused("create_ticket", key, **TICKET, customer_id="C-1001")
    why = desk.refused("request_refund", amount=49.01, **about)
    assert "49.01 is more than what is left" in why
    assert "49.00 can still go back" in why
    assert refund(49)["left"] == 0
    assert desk.ok("get_order", order_id="A-1042")["refunded"] == 149.0
    for amount in (0.01, 149, 1e6):
        desk.refused("request_refund", amount=amount, **about)
    for wrong in (0, -5, 0.001, 1.005, "nan", "inf", 1e300, "much"):
        desk.refused("request_refund", amount=wrong, **about)
    assert "no order" in desk.refused("request_refund", order_id="A-0", amount=1, reason="x")
    assert desk.count("refunds") == 2


@pytest.mark.req("S4-62")
def test_an_issue_has_one_ticket_and_a_time_to_follow_up(desk: Desk) -> None:
    before = datetime.now(UTC)
    about: Any = {**TICKET, "follow_up_hours": 48, "priority": "high"}
    stranger = desk.ok("create_ticket", {"thread": "t1"}, **about)
    assert stranger["created"]
    assert stranger["status"] == "open"
    due = datetime.fromisoformat(stranger["follow_up_at"]) - before
    assert timedelta(hours=47.9) < due < timedelta(hours=48.1)
    again = desk.ok("create_ticket", {"thread": "t1"}, **{**about, "issue": " LAMP  a-1042 "})
    assert again == {**stranger, "created": False}
    known = desk.ok("create_ticket", {"thread": "t1"}, **about, customer_id="C-1001")
    assert known["ticket_id"] == stranger["ticket_id"], "the stranger has said who they are"
    elsewhere = desk.ok("create_ticket", {"thread": "t2"}, **about, customer_id="c-1001")
    assert elsewhere["ticket_id"] == stranger["ticket_id"]
    assert desk.ok("create_ticket", {"thread": "t3"}, **about)["created"], "somebody else's"
    other = desk.ok("create_ticket", **{**about, "issue": "sofa"}, customer_id="C-1001")
    assert other["created"]
    assert "customer_id" in desk.refused("create_ticket", **about)
    assert "no customer" in desk.refused("create_ticket", **about, customer_id="C-1")
    assert "follow_up_hours" in desk.refused(
        "create_ticket", **{**TICKET, "follow_up_hours": 0}, customer_id="C-1001"
    )
    assert desk.count("tickets") == 3


def test_a_ticket_goes_on_and_a_thread_waits_once_for_a_human(desk: Desk) -> None:
    ticket = desk.ok("create_ticket", {"thread": "t1"}, customer_id="C-1001", **TICKET)["ticket_id"]
    here = {"thread": "t1"}
    once = {**here, "idempotency_key": "k"}
    changed = desk.ok(
        "update_ticket", once, ticket_id=ticket, message="We look into it.", priority="urgent"
    )
    assert changed["priority"] == "urgent"
    desk.ok("update_ticket", once, ticket_id=ticket, message="We look into it.", priority="urgent")
    [note] = desk.shop.rows("SELECT * FROM ticket_notes")
    assert (note["to_customer"], note["text"]) == (1, "We look into it.")
    about = {"reason": "asked for a person", "summary": "{}", "ticket_id": ticket}
    first = desk.ok("transfer_to_human", {"thread": "t1"}, **about, customer_id="C-1001")
    assert first == {"transfer_id": "H-1", "created": True, "state": "waiting"}
    assert not desk.ok("transfer_to_human", {"thread": "t1"}, reason="again")["created"]
    assert desk.ok("transfer_to_human", {"thread": "t2"}, reason="other")["transfer_id"] == "H-2"
    [row] = desk.shop.rows("SELECT status FROM tickets")
    assert row["status"] == "with_human"
    for wrong in ("T-99", "x", "T-", "T-²", "T-1; DROP TABLE tickets", ""):
        assert "no ticket" in desk.refused("update_ticket", here, ticket_id=wrong, note="x")
    assert "what to change" in desk.refused("update_ticket", ticket_id=ticket)
    others: list[tuple[Any, Any]] = [({"thread": "t2"}, ""), ({"thread": "t2"}, "C-1002"), ({}, "")]
    for told, customer in others:
        about = {"ticket_id": ticket, "customer_id": customer}
        assert "no ticket" in desk.refused("update_ticket", told, note="x", **about)
        assert "no ticket" in desk.refused("transfer_to_human", told, reason="x", **about)
    desk.ok("update_ticket", {"thread": "t9"}, ticket_id="1", note="x", customer_id="c-1001")


NASTY = [
    "'; DROP TABLE orders; --", '" OR 1=1 --', "A-1042' OR '1'='1", "%", "_", "\x00", "​",
    "../../etc/passwd", "{{order.id}}", "NEAR(a b)", "𝕁𝕦𝕟𝕠" * 5, "💡",
]  # fmt: skip


def test_sql_in_arguments_is_text(desk: Desk) -> None:
    counts = {t: desk.count(t) for t in ("orders", "customers", "articles")}
    for text in NASTY:
        desk.refused("get_order", order_id=text)
        desk.refused("get_customer", customer_id=text)
        desk.refused("get_customer", email=text)
        desk.refused("list_orders", customer_id=text)
        desk.refused("request_refund", order_id=text, amount=1, reason=text)
        told = {"thread": text, "idempotency_key": f"ticket {text}"}
        desk.ok("create_ticket", told, subject=text, body=text, issue=f"i{text}")
        told["idempotency_key"] = f"transfer {text}"
        desk.ok("transfer_to_human", told, reason=text, summary=text)
        assert not desk.ok("verify_identity", customer_id=text + "x", **ADA)["verified"]
        desk.ok("search_knowledge_base", query=text)
        desk.ok("analyse_sentiment", text=text)
    assert {t: desk.count(t) for t in counts} == counts
    assert desk.count("tickets") == desk.count("transfers") == len(NASTY)
    assert desk.count("refunds") == 0


OF_THE_SHOP = f"""
import sys
from pathlib import Path
sys.path.append({str(SHOP)!r})
from shop import Shop
"""
WRITER = f"""{OF_THE_SHOP}
import cases
from loopwright.servers.plain_server import Refused
shop = Shop(Path(sys.argv[1]))
about = dict(subject="s", body="b", priority="low", follow_up_hours=1, customer_id="C-1001")
for number in range(20):
    try:
        cases.pay_back(shop, "", "A-1042", 10, "at once")
    except Refused:
        pass
    cases.open_ticket(shop, "", "t", {{**about, "issue": f"issue {{number}}"}})
"""
HALF = f"""{OF_THE_SHOP}
import time
shop = Shop(Path(sys.argv[1]))
def work(database):
    database.execute("INSERT INTO refunds (order_id, cents, reason, made_at)"
                     " VALUES ('A-1042', 100, 'half', '')")
    print("written", flush=True)
    time.sleep(600)
shop.once("key", "half", work)
"""


def test_two_processes_at_once_pay_no_more_than_was_paid(desk: Desk, tmp_path: Path) -> None:
    command = [forked.server().python, "-c", WRITER, str(tmp_path / "shop.db")]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    for one in both:
        _, wrong = one.communicate(timeout=PATIENCE)
        assert one.returncode == 0, wrong.decode()
    [row] = desk.shop.rows("SELECT count(*) AS n, sum(cents) AS cents FROM refunds")
    assert (row["n"], row["cents"]) == (14, 14_000)
    assert desk.count("tickets") == 20


def test_a_change_that_is_killed_half_way_is_none(desk: Desk, tmp_path: Path) -> None:
    command = [sys.executable, "-c", HALF, str(tmp_path / "shop.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        assert desk.ok("get_order", order_id="A-1042")["refunded"] == 0, "readers do not wait"
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=PATIENCE)
    told = {"idempotency_key": "key"}
    paid = desk.ok("request_refund", told, order_id="A-1042", amount=149, reason="broken")
    assert paid["refund_id"] == "R-1"
    assert desk.count("refunds") == 1
