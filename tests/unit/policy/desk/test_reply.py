"""What code says of replies, judged by replies and answers that others wrote before the code."""

import json
from collections import Counter
from pathlib import Path

import pytest

from loopwright.nodes.desk.understand import read_consent, read_mark
from loopwright.policy.desk.references import REFERENCE
from loopwright.policy.desk.reply import Grounds, settle_reply
from loopwright.text.sentences import ENGLISH, classify_message
from support.desk_replies import UNSOURCED, judge, read_replies

FIXTURES = Path(__file__).parents[3] / "fixtures" / "desk"

GROUNDS = Grounds(
    articles={"kb-12": "Returns\nGoods may be returned up to 14 days after delivery."},
    records={
        "r1": {
            "order_id": "A-1042", "currency": "EUR", "total": 1449.5, "sent": "2026-11-20",
            "items": [{"price": "149.00"}, {"price": "1300.50"}], "tags": [12, 13],
        }
    },
    said="I paid 900 EUR for it",
    language="de",
)  # fmt: skip


def test_no_figure_in_digits_link_or_id_without_a_source_passes_in_five_languages():
    made, passed = Counter(), Counter()
    for one in read_replies():
        made[one["right"], one["language"]] += 1
        passed[one["right"], one["language"]] += not judge(one).problems
        spans = REFERENCE.sub("", " ".join(one["wrong"]))
        if one["kind"] in UNSOURCED and any(map(str.isdigit, spans)):
            assert judge(one).problems, one["reply"]
    assert {language for _, language in made} == {"en", "zh", "de", "es", "ar"}
    right = [sum(n for (is_right, _), n in c.items() if is_right) for c in (passed, made)]
    assert right[0] >= 0.98 * right[1]


def test_only_an_explicit_answer_is_read_as_one_in_five_languages():
    read = Counter()
    for one in json.loads((FIXTURES / "consents.json").read_text(encoding="utf-8")):
        said, spoken = classify_message(one["text"], one["language"])
        word = read_consent(one["text"], said if spoken in (one["language"], ENGLISH) else "", "q1")
        assert word in ("", one["means"]), one
        read[one["bare"]] += bool(word)
    assert read == {True: 51, False: 0}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{{r1.total r1.currency}}", "1.449,50\xa0€"),
        ("{{sum(r1.items.price)}}, {{count(r1.items)}}", "1.449,50, 2"),
        ("{{r1.total - r1.items.0.price}}", "1.300,50"),
        ("{{r1.sent}} {{r1.order_id}}", "20. November 2026 A-1042"),
        ("up to 14 days [kb-12]", "up to 14 days [kb-12]"),
        ("9. a\n4) b", "1. a\n2. b"),
        ("900 EUR", "900 EUR (wie Sie schrieben)"),
    ],
)
def test_a_figure_is_shown_as_its_record_has_it(text, shown):
    reply = settle_reply(text, GROUNDS)
    assert (reply.text, reply.problems, reply.unquoted) == (shown, [], [])


@pytest.mark.parametrize(
    "text",
    [
        "{{r1.items}}", "{{r1.none}}", "{{r2.total}}", "{{sum(r1.items.size)}}", "{{__class__}}",
        "{{r1.total r1.order_id}}", "A-1043", "A-104", "15", "\u0661\u0665", "\uff11\uff15",
        "14 days", "14 weeks [kb-12]", "[kb-99]", "[149, 20]", "https://x.example/a",
        "me@x.example", "\u2461",
    ],
)  # fmt: skip
def test_what_stands_nowhere_is_refused(text):
    assert settle_reply(text, GROUNDS).problems


@pytest.mark.parametrize(
    "text",
    [
        "HTTPS://EVIL.EXAMPLE/PAY", "Evil.com", "[Pay](//evil/pay)", "[x](javascript:alert)",
        "ftp://evil.example/x", "mailto:eve@evil", "t.co/abc", "www.my_evil.com", "evil\uff0ecom",
        "https:\u200b//evil.example", "\u0435vil.com", "\u0435\u0432\u0430@evil.example",
        "{{r1.total}}{{count(r1.items)}} EUR", "see {{r1.currency}}.com", "{{{r1.total}}}",
        "1449.5k EUR", "Erledigt: alles", "Done: all of it",
    ],
)  # fmt: skip
def test_no_spelling_makes_a_link_a_figure_or_a_receipt_of_what_is_none(text):
    assert settle_reply(text, GROUNDS).problems


def test_a_long_message_of_a_customer_is_read_in_time_that_grows_with_it():
    assert settle_reply("Hello 5", Grounds(said="a.b-c_" * 16_000 + " 5")).problems == []


def test_a_mark_is_a_figure_or_stars():
    assert [*map(read_mark, ("5", "\uff13", "4.", "\u2605\u2605", "5/5"))] == [5, 3, 4, 2, 5]
    assert not any(map(read_mark, ("6", "five", "5 no", "1 of 12", "")))
