"""A company's policy: what its file may say, one row for each cell, and what cannot be read."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from loopwright import PolicyTable, SettingsError
from loopwright.policy import rules as policy_rules
from loopwright.policy.conditions import Interval, read_interval
from loopwright.policy.file import parse_rules
from loopwright.policy.paths import KnownFacts, UnreadFact
from support.docs_text import blocks

ROOT = Path(__file__).parents[3]
SHIPPED = sorted(ROOT.glob("examples/shop/*/policy.yaml"))
MOBILE = ROOT / "tests" / "fixtures" / "mobile.yaml"
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)

FILE = """
identity: {tool: verify, confirmed: ok, customer: who.id}
timezone: Asia/Shanghai
facts:
  order: {tool: get_order, ask: {id: call.order}, owner: buyer}
dimensions:
  gift: {is: order.gift, values: [yes, no]}
  days: {days since: order.arrived, if empty: not yet}
  hours: {hours since: order.paid_at}
  sum: {is: call.amount + order.refunded, number: above 0 and at most 1000}
  rest: {compare: call.amount, with: order.total - order.refunded}
tools:
  refund: {policy: refunds}
policies:
  refunds:
    rows:
      - {id: fresh, when: {gift: no, days: at most 14}, then: allowed, article: ok}
      - {id: old, when: {gift: no, days: [above 14, not yet]}, then: asks, article: asks}
      - {id: gift, when: {gift: yes}, then: forbidden, article: no}
"""


def table_of(text, where="text"):
    return PolicyTable(**parse_rules(text, where))


def refund(table, order, customer="C-1", now=NOW, **args):
    known = KnownFacts(call={"order": "A-1", **args}, customer=customer, facts={"order": order})
    return table.rule(table.tools["refund"], known, now)


ORDER = {"id": "A-1", "buyer": "C-1", "gift": False, "arrived": "2026-11-10"}


@pytest.mark.parametrize("path", [*SHIPPED, MOBILE], ids=lambda path: path.parent.name)
def test_each_cell_and_each_boundary_of_a_shipped_table_has_exactly_one_row(path):
    table = PolicyTable.read(path)
    assert len(SHIPPED) == 2
    for section in table.sections.values():
        pieces = section.cut_pieces()
        for values in product(*pieces.values()):
            chosen = {name: piece.sample for name, piece in zip(pieces, values, strict=True)}
            assert [row for row in section.rows if row.fits(chosen)] == section.find_rows(
                {name: [value] for name, value in chosen.items()}
            )


@pytest.mark.parametrize(("shop", "days", "amount", "row"), [
    ("lumen", 30, "300", "refund-small"), ("lumen", 30, "300.01", "refund-large"),
    ("lumen", 31, "1", "refund-late"), ("lumen", 0, "0.01", "refund-small"),
    ("yunling", 7, "200", "tea-week"), ("yunling", 7, "200.01", "tea-dear"),
    ("yunling", 8, "1", "tea-fortnight"), ("yunling", 15, "1", "tea-fortnight"),
    ("yunling", 16, "1", "tea-late"),
])  # fmt: skip
def test_a_bound_belongs_to_the_row_that_says_so(shop, days, amount, row):
    table = PolicyTable.read(ROOT / "examples" / "shop" / shop / "policy.yaml")
    order = {
        "order_id": "A-1", "customer_id": "C-1", "status": "delivered", "kind": "lamp",
        "days_since_delivery": days, "refunded": 0, "refundable": 900,
    }  # fmt: skip
    buyer = {"customer_id": "C-1", "tier": "standard"}
    call = {"order_id": "A-1", "amount": float(amount), "reason": "r"}
    known = KnownFacts(call=call, customer="C-1", facts={"order": order, "buyer": buyer})
    ruling = table.rule(table.tools["request_refund"], known, NOW)
    assert ruling.row == row, ruling
    # What was paid back before counts: nobody splits one refund into several.
    before = {**order, "refunded": 900 - float(amount), "refundable": float(amount)}
    split = KnownFacts(call=call, customer="C-1", facts={"order": before, "buyer": buyer})
    assert table.rule(table.tools["request_refund"], split, NOW).verdict != "allowed"


def test_an_article_says_in_both_languages_what_the_row_decides():
    table = PolicyTable.read(SHIPPED[0])
    english, chinese = table.articles("en"), table.articles("zh")
    rows = [row.id for section in table.sections.values() for row in section.rows]
    assert [one["id"] for one in english] == [one["id"] for one in chinese] == rows
    assert "- Days since it was delivered: at most 30" in english[0]["text"]
    assert "送达后的天数为：不超过 30" in chinese[0]["text"]
    assert all(one["title"] and one["text"] for one in english + chinese)


def replaced(old, new):
    assert old in FILE
    return FILE.replace(old, new)


@pytest.mark.parametrize(("text", "told"), [
        (replaced("at most 14}", "below 14}"), "gap: no row for gift: no, days: 14"),
        (replaced("[above 14, not yet]", "above 14"), "gap: no row for gift: no, days: not yet"),
        (replaced("at most 14}", "most 14}"), "'most 14' is no range of numbers"),
        (replaced("at most 14}", "at most -1}"), "goes to -1"),
        (replaced("at most 14}", "at least 1 and above 3}"), "two bounds on one side"),
        (replaced("then: asks", "then: ask"), "'ask' is none of allowed, asks, forbidden"),
        (replaced("article: asks", "articles: asks"), "did you mean 'article'?"),
        (replaced("policy: refunds", "policy: refund"), "there is no policy 'refund'"),
        (replaced("identity: {tool: verify, confirmed: ok, customer: who.id}", ""),
         "has no identity"),
        (replaced("order.gift,", "orders.gift,"), "'orders.gift' leads nowhere"),
        (replaced("  days: {days since", "  gift: {days since"), "'gift' stands twice"),
        ("[1, 2", "no YAML"),
        ("tools: {a: {then: allowed}}\nx: 1", "'x'"),
        ("tools: {a: {reads: sometimes}}", "yes or no"),
    ])  # fmt: skip
def test_what_is_wrong_in_a_file_is_named_with_its_place(text, told):
    with pytest.raises(SettingsError) as error:
        table_of(text, "policy.yaml")
    assert told in str(error.value)
    assert str(error.value).startswith("The policy policy.yaml")


@pytest.mark.parametrize(("change", "verdict"), [
    ({}, "allowed"), ({"arrived": "2026-11-06"}, "allowed"), ({"arrived": "2026-11-05"}, "asks"),
    ({"arrived": None}, "asks"), ({"gift": True}, "forbidden"),
    # 23:30 in Berlin is the next day in Shanghai, where days begin.
    ({"arrived": "2026-11-05T23:30:00+01:00"}, "allowed"),
    ({"arrived": "2026-11-05T23:30:00+08:00"}, "asks"),
    ({"arrived": "2026-11-05T16:30:00Z"}, "allowed"),
])  # fmt: skip
def test_the_row_of_the_facts_holds(change, verdict):
    assert refund(table_of(FILE), {**ORDER, **change}).verdict == verdict


@pytest.mark.parametrize("change", [
        {"gift": "no"},
        {"gift": None},
        {"arrived": "yesterday"},
        {"arrived": "2026-11-10T10:00:00"},
        {"arrived": ""},
        {"arrived": "1800-01-01"},
        {"buyer": "C-2"},
        {"buyer": ["C-1"]},
        {"id": "a-1"},
    ])  # fmt: skip
def test_a_fact_that_is_no_such_fact_or_not_the_customers_allows_nothing(change):
    table = table_of(FILE)
    order = {**ORDER, **change}
    read = table.facts["order"].check_answer({"id": "A-1"}, order)
    assert refund(table, read).verdict == "forbidden"


def test_without_identity_or_answer_and_with_a_strange_argument_nothing_is_allowed():
    table = table_of(FILE)
    assert "verify" in refund(table, ORDER, customer=None).words
    assert refund(table, ORDER, to="my account").verdict == "forbidden"
    assert (
        refund(table, UnreadFact("policy_tool_failed", {"tool": "get_order"})).verdict
        == "forbidden"
    )
    for data in (None, "A-1", ["A-1"], 7):
        assert isinstance(table.facts["order"].check_answer({"id": "A-1"}, data), UnreadFact)
    for odd in (None, "", True, 1.0, ["A-1"], {"x": 1}):
        asked = table.facts["order"].build_question(KnownFacts(call={"order": odd}, customer="C-1"))
        assert isinstance(asked, UnreadFact)


@pytest.mark.parametrize("amount", [
    float("nan"), float("inf"), -1, 0, 1001, 10**400, "5", True, None, [5], {"value": 5}, 1e300,
])  # fmt: skip
def test_an_amount_that_is_no_usable_number_allows_nothing(amount):
    text = replaced(
        "when: {gift: no, days: at most 14}",
        "when: {gift: no, days: at most 14, sum: at most 1000}",
    )
    table = table_of(text)
    assert refund(table, {**ORDER, "refunded": 0}, amount=5).verdict == "allowed"
    assert refund(table, {**ORDER, "refunded": 0}, amount=amount).verdict == "forbidden"
    before = {**ORDER, "refunded": amount or "0"}
    assert refund(table, before, amount=5).verdict == "forbidden"


def test_sums_are_those_of_the_decimal_numbers_that_were_meant():
    text = replaced("when: {gift: yes}", "when: {gift: yes, rest: [below, equal]}") + (
        "      - {id: more, when: {gift: yes, rest: above}, then: forbidden, article: no}\n"
    )
    table = table_of(text)
    order = {**ORDER, "gift": True, "total": 0.3, "refunded": 0.1}
    assert refund(table, order, amount=0.2).row == "gift"
    assert refund(table, order, amount=0.21).row == "more"


def test_a_table_with_a_clock_of_its_own_is_asked_at_that_time(tmp_path):
    (tmp_path / "policy.yaml").write_text(FILE, encoding="utf-8")
    moments = [NOW, NOW + timedelta(days=5)]
    table = PolicyTable.read(tmp_path / "policy.yaml", clock=lambda: moments.pop(0))
    long_after = NOW + timedelta(days=300)
    assert [refund(table, ORDER, now=long_after).row for _ in range(2)] == ["fresh", "old"]


def test_what_a_change_is_about_is_the_customer_or_what_the_file_says():
    plain = table_of(FILE)
    named = table_of(replaced("  refunds:\n", "  refunds:\n    subject: call.order\n"))
    own = table_of(replaced("{policy: refunds}", "{policy: refunds, subject: call.place}"))
    free = table_of(replaced("{policy: refunds}", "{policy: refunds, identity: no}"))
    for table, subject in ((plain, "C-1"), (named, "A-1"), (own, "B-1"), (free, "A-1")):
        known = KnownFacts(call={"order": "A-1", "place": "B-1"}, customer="C-1")
        assert table.find_subject(table.tools["refund"], known) == subject
    # A change of which nobody can say what it is about stands beside no other.
    assert refund(named, ORDER).verdict == "allowed"
    odd = KnownFacts(call={"order": ["A-1"]}, customer="C-1", facts={"order": ORDER})
    assert "subject cannot be read" in named.rule(named.tools["refund"], odd, NOW).words
    with pytest.raises(SettingsError, match=r"an argument such as call\.order_id"):
        table_of(replaced("{policy: refunds}", "{policy: refunds, subject: order.id}"))


def test_hours_go_on_across_days_and_zones():
    text = FILE.replace("gift: no, days: at most 14", "gift: no, hours: at most 48").replace(
        "gift: no, days: [above 14, not yet]", "gift: no, hours: above 48"
    )
    table = table_of(text)
    two_days = (NOW - timedelta(hours=48)).isoformat()
    assert refund(table, {**ORDER, "paid_at": two_days}).row == "fresh"
    later = NOW + timedelta(microseconds=1)
    assert refund(table, {**ORDER, "paid_at": two_days}, now=later).row == "old"
    assert refund(table, {**ORDER, "paid_at": "2026-11-18"}).verdict == "forbidden"


BOUNDS = st.lists(st.integers(-5, 25), min_size=1, max_size=4, unique=True).map(sorted)


@given(BOUNDS, st.booleans(), st.integers(-10, 30).map(Decimal))
def test_rows_made_of_cuts_are_proven_and_one_left_out_is_a_gap(cuts, inclusive, value):
    low, high = ("at most", "above") if inclusive else ("below", "at least")
    whens = [f"{low} {cuts[0]}"]
    whens += [f"{high} {a} and {low} {b}" for a, b in pairwise(cuts)]
    whens += [f"{high} {cuts[-1]}"]
    rows = [{"id": f"r{i}", "when": when} for i, when in enumerate(whens)]

    def text(rows):
        lines = [
            f"- {{id: {r['id']}, when: {{n: {r['when']}}}, then: allowed, article: a}}"
            for r in rows
        ]
        return (
            "dimensions: {n: {is: call.n, number: at least -10 and at most 30}}\n"
            "tools: {t: {policy: p, identity: no}}\npolicies:\n  p:\n    rows:\n      "
            + "\n      ".join(lines)
        )

    section = table_of(text(rows)).sections["p"]
    (row,) = section.find_rows({"n": [value]})
    assert read_interval(rows[int(row.id[1:])]["when"]).contains(value)
    with pytest.raises(SettingsError, match="gap"):
        table_of(text(rows[1:]))
    with pytest.raises(SettingsError, match="overlap"):
        table_of(text([*rows, {"id": "twice", "when": rows[0]["when"]}]))


@given(
    st.integers(-20, 20), st.integers(-20, 20), st.booleans(), st.booleans(), st.integers(-25, 25)
)
def test_an_interval_means_its_words(low, high, low_in, high_in, number):
    interval = Interval(Decimal(low), Decimal(high), low_in, high_in)
    if interval.is_empty:
        assert not interval.contains(Decimal(number))
    else:
        assert read_interval(str(interval)).contains(Decimal(number)) == interval.contains(
            Decimal(number)
        )


def test_a_table_too_large_to_prove_says_so(monkeypatch):
    monkeypatch.setattr(policy_rules, "_MOST_STEPS", 2)
    with pytest.raises(SettingsError, match="too many cells to be proven"):
        table_of(FILE)


LISTS = """
identity: {tool: verify, confirmed: ok, customer: id}
facts:
  order: {tool: get_order, ask: {order: call.order}, owner: buyer}
  things: {tool: list_things, ask: {ids: each(call.ids)}, same: {id: ids}, owner: buyer}
dimensions:
  sound: {is: each(things.whole), values: [yes, no], if empty: nothing}
  fragile: {is: any(things.kinds=glass), values: [yes, no]}
  each kind: {is: each(things.kinds=wood), values: [yes, no]}
  some: {is: any(order.flags), values: [yes, no], if empty: none}
  price: {is: sum(things.price) + 2 * count(things.kinds=glass), number: at least 0 and at most 999}
  many: {is: count(call.ids), whole number: at least 0 and at most 9}
  paid: {compare: sum(things.price) - call.fee, with: sum(order.payments.amount)}
  first: {match: call.card, with: order.payments.0.card}
  own: {match: call.card, with: any(order.payments.card)}
  among: {match: each(call.ids), with: any(order.ids)}
  pairs: {match: each(call.ids), with: each(order.ids)}
  alone: {match: each(order.payments.card), with: call.card}
tools:
  TOOLS
policies:
"""
LISTS = LISTS.replace("  TOOLS\n", "".join(
    f"  t{i}: {{policy: p{i}, arguments: [order, ids, card, fee]}}\n" for i in range(12)
)) + "".join(
    f"  p{i}: {{rows: [{{id: r{i}, when: {{{name}: {values}}}, then: allowed, article: a}}]}}\n"
    for i, (name, values) in enumerate((
        ("sound", "[yes, no, nothing]"), ("fragile", "[yes, no]"), ("each kind", "[yes, no]"),
        ("some", "[yes, no, none]"), ("price", "at least 0"), ("many", "at least 0"),
        ("paid", "[below, equal, above]"), *((one, "[equal, other]") for one in (
            "first", "own", "among", "pairs", "alone")),
    ))
)  # fmt: skip
CARDS = [{"card": "visa", "amount": 30}, {"card": "gift", "amount": 0.5}]
THINGS = [
    {"id": "a", "buyer": "C-1", "whole": True, "price": 10.25, "kinds": ["wood", "glass"]},
    {"id": "b", "buyer": "C-1", "whole": False, "price": 20, "kinds": ["wood"]},
]


@pytest.mark.parametrize(("name", "change", "value"), [
    ("sound", {}, "no"), ("sound", {"whole": True}, "yes"), ("sound", {"things": []}, "nothing"),
    ("sound", {"whole": "yes"}, None), ("sound", {"whole": None}, None),
    ("fragile", {}, "yes"), ("fragile", {"kinds": []}, "yes"), ("fragile", {"kinds": [7]}, None),
    ("fragile", {"things": []}, "no"), ("fragile", {"things": {"kinds": "glass"}}, None),
    ("each kind", {}, "no"), ("each kind", {"things": []}, None),
    ("each kind", {"things": THINGS[1:]}, "yes"),
    ("some", {"flags": []}, "none"), ("some", {"flags": None}, "none"), ("some", {}, None),
    ("some", {"flags": [None]}, None), ("some", {"flags": [False, True]}, "yes"),
    ("price", {}, "32.25"), ("price", {"things": []}, "0"), ("price", {"price": "20"}, None),
    ("price", {"price": -1}, None), ("price", {"price": float("nan")}, None),
    ("price", {"price": 1000}, None),
    ("many", {}, "2"), ("many", {"ids": []}, "0"), ("many", {"ids": "ab"}, None),
    ("many", {"ids": {"a": 1}}, None), ("many", {"ids": ["a"] * 10}, None),
    ("paid", {"fee": 0}, "below"), ("paid", {"fee": -1}, None), ("paid", {"fee": 0.25}, "below"),
    ("paid", {"fee": 0, "price": 20.25}, "equal"),
    ("first", {"card": "visa"}, "equal"), ("first", {"card": "gift"}, "other"),
    ("first", {"card": "Visa"}, "other"), ("first", {"card": 7}, None),
    ("first", {"card": "visa", "payments": []}, None), ("first", {"card": ""}, None),
    ("own", {"card": "gift"}, "equal"), ("own", {"card": "cash"}, "other"),
    ("own", {"card": "cash", "payments": []}, "other"), ("own", {"card": ["gift"]}, None),
    ("among", {"owned": ["b", "c", "a"]}, "equal"), ("among", {"owned": ["a"]}, "other"),
    ("among", {"owned": ["a", "b"], "ids": ["a", "a"]}, "other"),
    ("among", {"owned": ["a", "b"], "ids": []}, None), ("among", {"owned": [1, 2]}, None),
    ("among", {"owned": ["a", None]}, None),
    ("pairs", {"owned": ["a", "b"]}, "equal"), ("pairs", {"owned": ["b", "a"]}, "other"),
    ("pairs", {"owned": ["a", "b", "b"]}, "other"), ("pairs", {"owned": []}, None),
    ("alone", {"card": "visa"}, "other"),
    ("alone", {"card": "visa", "payments": CARDS[:1] * 2}, "equal"),
])  # fmt: skip
def test_what_stands_in_lists_is_read_whole_or_allows_nothing(name, change, value):
    table = table_of(LISTS)
    dimension, source = table.dimensions[name]
    last = {key: change[key] for key in ("whole", "price", "kinds") if key in change}
    things = change.get("things", [THINGS[0], {**THINGS[1], **last}])
    order = {"buyer": "C-1", "payments": change.get("payments", CARDS), "ids": change.get("owned")}
    order |= {"flags": change["flags"]} if "flags" in change else {}
    call = {
        "ids": ["a", "b"],
        **{key: change[key] for key in ("ids", "card", "fee") if key in change},
    }
    known = KnownFacts(call=call, customer="C-1", facts={"order": order, "things": things})
    found = source.read_values(known, NOW, dimension)
    told = None if isinstance(found, UnreadFact) else str(found[0])
    assert told == value, found


def test_an_answer_about_a_list_repeats_it_one_for_one_and_is_all_the_customers():
    fact = table_of(LISTS).facts["things"]
    known = KnownFacts(call={"ids": ["a", "b"]}, customer="C-1")
    asked = fact.build_question(known)
    assert asked == {"ids": ["a", "b"]}
    assert fact.check_answer(asked, THINGS) == THINGS
    assert fact.is_owned(THINGS, "C-1")
    for odd in ("a", [], ["a", ""], ["a", 1], [["a"]], None, {"a": "b"}):
        unasked = fact.build_question(KnownFacts(call={"ids": odd}))
        assert isinstance(unasked, UnreadFact), odd
    for answer in (THINGS[:1], THINGS[::-1], [*THINGS, *THINGS], [], ["a", "b"], {"id": "a"}):
        assert isinstance(fact.check_answer(asked, answer), UnreadFact), answer
    assert not fact.is_owned([THINGS[0], {**THINGS[1], "buyer": "C-2"}], "C-1")
    assert not fact.is_owned([{**THINGS[0], "buyer": ["C-1"]}], "C-1")


@pytest.mark.parametrize(("old", "new", "told"), [
    (", same: {id: ids}", "", "say which field of the answer repeats the list 'ids'"),
    ("is: each(things.whole)", "is: sum(things.whole)", "sum(…) says nothing here"),
    ("is: each(things.whole), values: [yes, no]", "is: any(things.kind), values: [a, b]",
     "any(…) says nothing here"),
    ("sum(things.price) +", "each(things.price) +", "each(…) says nothing here"),
    ("sum(things.price) +", "sum(things.price=1) +", "'=1' says nothing here"),
    ("sum(things.price) +", "sum(things.price +", "write a path, or each, any, count or sum"),
    ("match: call.card, with: any", "match: 2 * call.card, with: any", "only numbers"),
    ("match: each(order.payments.card), with: call.card",
     "match: any(order.payments.card), with: each(call.ids)", "turn them round"),
    ("count(call.ids)", "count(cal.ids)", "'cal.ids' leads nowhere"),
    ("sum(things.price) +", "sum(things.price - call.fee) +", "write a path, or each, any"),
    ("with: order.payments.0.card", "with: call.fee, values: [a]", "nothing beside 'match'"),
    ("is: count(call.ids)", "is: count(call.ids), with: call.fee", "nothing beside 'is'"),
])  # fmt: skip
def test_what_a_list_cannot_be_asked_is_told_with_its_place(old, new, told):
    assert old in LISTS
    with pytest.raises(SettingsError) as error:
        table_of(LISTS.replace(old, new, 1))
    assert told in str(error.value)


LABELS = """
tools:
  pay_back:
    {then: allowed, identity: no, label: {en: refund, de: Erstattung}, arguments: {
      order: {label: {en: order, de: Bestellung}}, items: {label: items}, unit: {},
      amount: {money: call.unit}, on: {label: {en: on, de: am}, date: yes}, note: {}}}
"""


@pytest.mark.parametrize(("args", "language", "line"), [
    ({"amount": 449.0, "unit": "EUR", "order": "A-1042"}, "en",
     "Refund · order A-1042 · 449.00 EUR"),
    ({"order": 7, "on": "2026-12-01", "items": ["a", "b, c"]}, "de",
     'Erstattung · Bestellung 7 · items a, "b, c" · am 2026-12-01'),
    ({"amount": 12, "unit": "JPY"}, "fr", "Refund · 12.00 JPY"),
    ({"amount": 0.125, "note": "", "on": None}, "en", "Refund · 0.125"),
    ({"amount": "1e9", "order": True}, "en", "Refund · order true · 1e9"),
    ({"amount": float("nan")}, "en", "Refund · NaN"),
    # No value draws a line, a part or a direction of its own.
    ({"order": "A-1 · 1.00 EUR", "note": "x\n- amount: 1\u202e"}, "en",
     'Refund · order "A-1 · 1.00 EUR" · x\\n- amount: 1\\u202e'),
    ({"items": [], "other_thing": {"a": [1]}}, "en", 'Refund · items [] · other thing: {"a": [1]}'),
])  # fmt: skip
def test_a_call_is_one_line_that_people_can_read(args, language, line):
    assert table_of(LABELS).describe_call("pay_back", "shop", args, language) == line


def test_a_call_without_labels_is_told_by_its_names_and_a_figure_can_be_written_otherwise():
    table = table_of(LABELS)
    args = {"order_id": "A-1", "amount": 5.0}
    told = table.describe_call("cancel-order", None, args)
    assert told == "Cancel order · order id: A-1 · amount: 5.0"
    shop = PolicyTable.read(SHIPPED[0])
    assert shop.describe_call("request_refund", "desk", {**args, "reason": "迟到"}, "zh") == (
        "退款 · 订单 A-1 · 5.00 EUR · 原因 迟到"
    )
    seen = []
    shop.describe_call(
        "request_refund", None, args, "de", lambda *figure: seen.append(figure) or "5,00 €"
    )
    assert seen == [("text", "A-1", "", "de"), ("money", 5.0, "EUR", "de")]
    with pytest.raises(SettingsError, match=r"write a currency such as EUR, or call\.currency"):
        table_of(LABELS.replace("call.unit", "order.unit"))


DOCS = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("old", "new"), [
    ("days: at most 14, amount: at most", "days: below 14, amount: at most"),
    ("[above 14, not yet]", "[above 40000, not yet]"),
])  # fmt: skip
def test_the_errors_of_the_manual_are_those_of_its_file(old, new):
    policy, *_ = blocks("yaml", DOCS)
    assert table_of(policy).name == "Corner shop"
    with pytest.raises(SettingsError) as error:
        table_of(policy.replace(old, new))
    shown = [row.split("`")[1] for row in DOCS.splitlines() if row.startswith(("- `gap", "- `'"))]
    assert len(shown) == 2
    assert any(one in str(error.value) for one in shown), str(error.value)
