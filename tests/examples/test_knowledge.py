"""The knowledge base finds what is meant, in English and Chinese, and nothing where it has nothing.

The questions are in tests/fixtures/questions.yaml.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own

from loopwright.servers.plain_server import Refused
from support.desk_client import Desk, opened
from support.patience import PATIENCE
from support.shops import DESK, LUMEN, SHOP, Shop, count_rows, knowledge, make_shop

QUESTIONS = yaml.safe_load(
    (Path(__file__).parents[1] / "fixtures" / "questions.yaml").read_text(encoding="utf-8")
)
SEEDED = [sys.executable, str(DESK), "--seed"]


@pytest.fixture(scope="module")
def desk(made: Path) -> Iterator[Desk]:
    with opened(Shop(made)) as opened_desk:
        yield opened_desk


def found(desk: Desk, query: str, **more: Any) -> list[str]:
    articles = desk.ok("search_knowledge_base", query=query, **more)["articles"]
    scores = [one["score"] for one in articles]
    assert scores == sorted(scores, reverse=True)
    assert all(knowledge.ENOUGH <= score <= 1 for score in scores)
    return [one["id"] for one in articles]


@pytest.fixture(scope="module", params=QUESTIONS)
def asked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Desk, Any]]:
    """Each of the two shops, and the questions to it."""
    path = tmp_path_factory.mktemp("asked") / "shop.db"
    with opened(make_shop(SHOP / request.param, path)) as opened_desk:
        yield opened_desk, QUESTIONS[request.param]


@pytest.mark.req("S4-66")
def test_what_is_meant_is_among_the_first_three(asked: tuple[Desk, Any]) -> None:
    desk, questions = asked
    for question, article in questions["hits"].items():
        first = [id_.removeprefix("kb-").rpartition("-")[0] for id_ in found(desk, question)[:3]]
        assert article in first, question


@pytest.mark.req("S4-66")
def test_where_the_articles_say_nothing_nothing_is_found(asked: tuple[Desk, Any]) -> None:
    desk, questions = asked
    assert len(questions["misses"]) >= 20
    for question in questions["misses"]:
        assert found(desk, question) == [], question
        assert not desk.ok("match_faq", question=question)["matched"], question


@pytest.mark.req("S4-66")
def test_each_frequent_question_matches_itself(desk: Desk) -> None:
    rows = desk.shop.rows("SELECT * FROM articles WHERE base = 'faq'")
    assert len(rows) >= 60
    for row in rows:
        answer = desk.ok("match_faq", question=row["title"])
        assert answer["matched"], row["title"]
        [article] = answer["articles"]
        assert (article["id"], article["excerpt"]) == (row["id"], row["text"])


@pytest.mark.parametrize(
    ("query", "same"),
    [
        ("退款", "「退款」！"),
        ("退貨", "退货"),
        ("bouclé covers", "BOUCLE covers"),
        ("refund", '"refund"'),
        ("refund", "-refund"),
        ("refund", "(refund"),
        ("refund money", "refund AND money"),
        ("shipping costs", "shipped cost"),
    ],
)  # fmt: skip
def test_ways_to_write_the_same(desk: Desk, query: str, same: str) -> None:
    ids = found(desk, query)
    if "NEAR" in same or "AND" in same or "OR" in same:
        assert set(ids[:1]) <= set(found(desk, same, limit=20))  # a word more that says nothing
    else:
        assert found(desk, same) == ids


@pytest.mark.req("W-116")
def test_characters_behind_a_digit_are_words() -> None:
    assert {"80", "欧元", "运费"} <= set(knowledge.words("满80欧元免运费"))


@pytest.mark.req("S4-66")
def test_a_shop_is_large_varied_and_the_same_every_time(made: Path, tmp_path: Path) -> None:
    shop = make_shop(LUMEN, tmp_path / "again.db")
    dumps = [
        [Shop(path).rows(f"SELECT * FROM {table} ORDER BY 1") for path in (made, shop._path)]
        for table in ("articles", "customers", "orders", "about")
    ]
    assert all(one == other for one, other in dumps)
    (articles, _), (customers, _), (orders, _), _ = dumps
    assert len(articles) >= 300
    assert (len(customers), len(orders)) == (1000, 5000)
    assert {one["base"] for one in articles} == {"faq", "policies", "products"}
    assert {one["language"] for one in articles} == {"en", "zh"}
    assert len({one["text"] for one in articles}) == len(articles)
    begin = {one["text"][:12] for one in articles}
    assert len(begin) > 100, "not one sentence many times"
    assert not any("{" in one["text"] + one["title"] for one in articles)
    assert {one["status"] for one in orders} == {
        "processing", "shipped", "delivered", "returned", "cancelled",
    }  # fmt: skip
    for one in orders:
        arrived = one["status"] in ("delivered", "returned")
        assert (one["delivered_on"] is not None) == arrived
        assert not arrived or one["ordered_on"] < one["delivered_on"] <= "2026-11-20"


def test_a_second_company_is_files_only(tmp_path: Path) -> None:
    done = subprocess.run(
        [*SEEDED, str(SHOP / "yunling"), "--shop", str(tmp_path / "tea.db")],
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    shop = Shop(tmp_path / "tea.db")
    assert count_rows(shop) in done.stdout
    assert "is there already" not in done.stdout
    with opened(shop) as desk:
        assert found(desk, "龙井用多少度的水")[0] == "kb-brew-green-longjing-zh"
        assert found(desk, "開封了可以退嗎")[0] == "kb-opened-zh"
        assert desk.ok("get_order", order_id="A-1001")["currency"] == "CNY"


WRONG = {
    "catalogue.yaml": ("seed: [", "cannot be read"),
    "knowledge/faq.yaml": ("- {id: a, title: {en: T}, text: {en: x}}\n- 5", "article '?'"),
    "knowledge/products.yaml": (
        "- {id: a, each: lamp, title: {en: T}, text: {en: '{colour}'}}", "article 'a': KeyError",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_makes_no_shop_and_is_named(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "company"
    (folder / "knowledge").mkdir(parents=True)
    for path in LUMEN.rglob("*.yaml"):
        (folder / path.relative_to(LUMEN)).write_bytes(path.read_bytes())
    text, why = WRONG[name]
    (folder / name).write_text(text)
    with pytest.raises(Refused) as wrong:
        make_shop(folder, tmp_path / "s.db")
    assert name.rpartition("/")[2] in str(wrong.value)
    assert why in str(wrong.value)
    assert "\n" not in str(wrong.value)
    assert [path.name for path in tmp_path.iterdir()] == ["company"]
