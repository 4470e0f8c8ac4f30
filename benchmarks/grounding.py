"""How many wrong answers does the desk's check let pass, and how many right ones does it refuse?

    PYTHONPATH=tests python benchmarks/grounding.py

No model is asked. The questions are the titles of articles of both shops of examples/, found by
their own search; the answers are sentences of these articles, as they stand (right), or spoiled in
one way (wrong). Those of tests/fixtures/answers.yaml are in words of their own.
"""

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own

from loopwright.policy.desk.grounding import ComparedText, Grounds, find_unproven
from loopwright.state.desk import is_polite
from support.shops import SHOP, Article, Shop, knowledge, make_shop

ROOT = Path(__file__).parents[1]
WRITTEN = ROOT / "tests" / "fixtures" / "answers.yaml"
FACTS = '{"order_id": "A-1042", "paid": 149.0, "status": "delivered", "days_since_delivery": 5}'
MOST = 200
"""Articles of a shop that are asked about."""

Answer = tuple[str, bool, str]
"""What it is, whether it is right, and its text."""


def found_for(shop: Shop, question: str) -> list[Article]:
    """What the shop's own search gives."""
    with shop.reading() as database:
        hits = knowledge.search(database, question, knowledge.bases(database), most=5)
    return [hit.article for hit in hits]


def answers(article: Article, others: list[Article]) -> Iterator[Answer]:
    """Answers of the first two sentences of an article that are more than a word or an apology."""
    said = [one for one in ComparedText(article.text).sentences if len(one.words) > 1]
    sentences = [one.text for one in said if not is_polite(one.text)]
    stop = "。" if article.language == "zh" else "."
    for sentence in sentences[:2]:
        bare = sentence.rstrip(" .。;；")  # noqa: RUF001 - full-width
        cited = f"{bare} [{article.id}]{stop}"
        yield from right_of(article, cited)
        yield "no citation", False, bare + stop
        yield "invented source", False, cited.replace(article.id, "kb-9999")
        strangers = (one for one in others if one.base != article.base)
        if (other := next(strangers, None)) is not None:
            yield "another article's id", False, cited.replace(article.id, other.id)
        for kind, spoiled in spoils(bare):
            if spoiled != bare:
                yield kind, False, f"{spoiled} [{article.id}]{stop}"
        yield "an address added", False, f"{cited} https://help.example/rules"
        zh = "全部商品可在99天内退货。"
        added = zh if stop == "。" else " Everything can be returned within 99 days."
        yield "a rule added", False, cited + added


def right_of(article: Article, cited: str) -> Iterator[Answer]:
    """The answer as it stands, and among words of politeness."""
    hello, more = "Hello, thank you for asking. ", " Can I help you with anything else?"
    if article.language == "zh":
        hello, more = "您好，感谢您的提问。", "需要我为您建工单吗？"  # noqa: RUF001 - full-width
    yield "as it stands", True, cited
    yield "among polite words", True, hello + cited + more


def spoils(text: str) -> Iterator[tuple[str, str]]:
    """A sentence with another number, another unit, the opposite."""
    yield "another number", re.sub(r"\d+", lambda one: str(int(one[0]) + 17), text, count=1)
    other = re.sub(r"(?<=\d )(?:working )?\bdays\b", "months", text)
    yield "another unit", re.sub(r"(?<=[\d一二三四五六七八九十])(?:个工作日|天)", "个月", other)
    if not ComparedText(text).is_denial:
        yield "the opposite", re.sub(r"\b(is|are|can|must)\b", r"\1 not", text, count=1)


def judged() -> Iterator[tuple[str, bool, bool]]:
    """Of each answer what it is, whether it is right, and whether it is given."""
    for name in ("lumen", "yunling"):
        with tempfile.TemporaryDirectory() as folder:
            shop = make_shop(SHOP / name, Path(folder) / "shop.db")
            for kind, right, answer, grounds in cases(shop, written=name == "lumen"):
                given = not find_unproven(answer, grounds)
                if given != right:
                    sys.stderr.write(f"{kind}: {answer}\n")
                yield kind, right, given


def cases(shop: Shop, *, written: bool) -> Iterator[tuple[str, bool, str, Grounds]]:
    """Answers with what they may stand on."""
    for one in yaml.safe_load(WRITTEN.read_text(encoding="utf-8")) if written else ():
        grounds = grounds_of(found_for(shop, one["ask"]), one["ask"], one.get("language", ""))
        for right in (True, False):
            for answer in one["right" if right else "wrong"]:
                yield "in words of its own", right, answer, grounds
    with shop.reading() as database:
        rows = database.execute("SELECT id, base, language, title, url, text FROM articles")
        articles = [Article(*row) for row in rows.fetchall()]
    for article in articles[:: max(1, len(articles) // MOST)]:
        found = found_for(shop, article.title)
        if article.id in {one.id for one in found}:
            others = [o for o in found if o.id != article.id and o.language == article.language]
            for kind, right, answer in answers(article, others):
                yield kind, right, answer, grounds_of(found, article.title, article.language)


def grounds_of(found: list[Article], asked: str, language: str) -> Grounds:
    """What a desk has after a search and a look at an order."""
    articles = {one.id: f"{one.title}\n{one.text}" for one in found}
    return Grounds(articles, FACTS, asked, {one.url for one in found}, language)


def main() -> None:
    """Print the table."""
    made, given = Counter[tuple[str, bool]](), Counter[tuple[str, bool]]()
    for kind, right, passed in judged():
        made[kind, right] += 1
        given[kind, right] += passed
    sys.stdout.write("| answers | which | made | given |\n|---|---|---|---|\n")
    for kind, right in sorted(made, key=lambda one: (not one[1], one[0])):
        key, word = (kind, right), "right" if right else "wrong"
        sys.stdout.write(f"| {kind} | {word} | {made[key]} | {given[key]} |\n")


if __name__ == "__main__":
    main()
