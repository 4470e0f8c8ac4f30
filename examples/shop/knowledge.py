"""Articles in SQLite, found by their words: FTS5, in languages with and without spaces.

FTS5's own tokenizers take a whole Chinese sentence for one word, and find none in it. So texts
are cut into words by loopwright, articles and questions alike, and FTS5 indexes the words;
traditional characters count as simplified ones. Nothing of a question is read as FTS5's syntax.
"""

import json
import math
import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from opencc import OpenCC
from vocabulary import read_vocabulary

from loopwright.text.words import UNSPACED, words_in

TABLES: Final = """
CREATE TABLE articles (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, base TEXT NOT NULL, language TEXT NOT NULL,
    title TEXT NOT NULL, url TEXT NOT NULL, text TEXT NOT NULL
);
CREATE INDEX articles_by_base ON articles (base);
CREATE VIRTUAL TABLE article_words USING fts5 (title, text, also, content='', tokenize='unicode61');
CREATE VIRTUAL TABLE word_counts USING fts5vocab (article_words, 'row');
"""

ENOUGH: Final = 0.3
"""An article below is no hit; measured, see docs/support-desk.md."""
ENOUGH_FOR_FAQ: Final = 0.4
"""To be the answer to a question takes more than to have to do with it."""

_MOST_WORDS: Final = 48
"""Of a long question: those that are rarest among the articles."""
_RANKED: Final = 20
"""How many are looked at for a title that is the question itself."""
_WEIGHTS: Final = "3.0, 1.0, 2.0"
"""How much a word counts in title, text and the words an article is also found by."""
_BEST: Final = 2.2
"""What bm25 gives at most for a word, as a multiple of its rarity."""
_UNKNOWN: Final = 1.6
"""How much more a word counts that no article has: the question may be about just that."""
_ACROSS: Final = 0.4
"""How much a pair of characters counts that no article has: often no word but where two meet."""

_SIMPLIFIED: Final = OpenCC("t2s")
_VOCABULARY: Final = read_vocabulary("says_nothing")
_SAYS_NOTHING: Final = frozenset(words_in(" ".join(_VOCABULARY["en"]), asked=True))
_ZH_SAYS_NOTHING: Final = re.compile("|".join(map(re.escape, _VOCABULARY["zh"])))


@dataclass(frozen=True)
class Article:
    """An article; `also` are words it is found by that it does not say."""

    id: str
    base: str
    language: str
    title: str
    url: str
    text: str
    also: str = ""


@dataclass(frozen=True)
class Hit:
    """An article that was found, and how much of the question it has: from 0 to 1."""

    article: Article
    score: float


def plain(text: str) -> str:
    """A text without what people write in one way or the other: width, case, accents, script."""
    whole = unicodedata.normalize("NFKC", text).casefold()
    if whole.isascii():
        return whole
    apart = unicodedata.normalize("NFD", whole)
    kept = "".join(c for c in apart if not 0x300 <= ord(c) < 0x370)
    return str(_SIMPLIFIED.convert(unicodedata.normalize("NFC", kept)))


def words(text: str, *, asked: bool = False) -> Iterator[str]:
    """The words of a text in order; of a question those that say something."""
    cut = plain(text)
    found = words_in(_ZH_SAYS_NOTHING.sub(" ", cut) if asked else cut, asked=asked)
    yield from (word for word in found if not (asked and word in _SAYS_NOTHING))


def add(database: sqlite3.Connection, articles: Iterable[Article]) -> None:
    """Add articles; an id that there is already is an error of the database."""
    for one in articles:
        row = database.execute(
            "INSERT INTO articles (id, base, language, title, url, text) VALUES (?, ?, ?, ?, ?, ?)",
            (one.id, one.base, one.language, one.title, one.url, one.text),
        )
        cut = (" ".join(words(part)) for part in (one.title, one.text, one.also))
        database.execute(
            "INSERT INTO article_words (rowid, title, text, also) VALUES (?, ?, ?, ?)",
            (row.lastrowid, *cut),
        )


def bases(database: sqlite3.Connection) -> list[str]:
    """The names of the bases."""
    return [name for (name,) in database.execute("SELECT DISTINCT base FROM articles ORDER BY 1")]


def search(
    database: sqlite3.Connection,
    question: str,
    named: Sequence[str],
    *,
    most: int,
    enough: float = ENOUGH,
) -> list[Hit]:
    """The articles that have most of the question, best first, over all bases that are named.

    One index holds all bases, so that ranks compare. The score is what bm25 gives as a part of
    what it would give an article that has nothing else: it compares over questions, too, and a
    word that no article has weighs heaviest.
    """
    rarity = _rarities(database, question)
    known = {word: rare for word, rare in rarity.items() if rare.known}
    if not known:
        return []
    match = " OR ".join(f'"{word}"' for word in known)
    whole = _BEST * sum(rare.weight for rare in rarity.values())
    found = database.execute(
        f"SELECT id, base, language, a.title, url, a.text, -bm25(article_words, {_WEIGHTS}) AS fits"
        " FROM article_words JOIN articles AS a ON a.number = article_words.rowid"
        " WHERE article_words MATCH ? AND base IN (SELECT value FROM json_each(?))"
        " ORDER BY fits DESC, a.number LIMIT ?",
        (match, json.dumps(named), max(most, _RANKED)),
    )
    asked = list(words(question))
    hits = [_hit(asked, Article(*row[:6]), min(row[6] / whole, 1.0)) for row in found]
    best = sorted(hits, key=lambda hit: -hit.score)[:most]
    return [hit for hit in best if hit.score >= enough]


def _hit(asked: list[str], article: Article, score: float) -> Hit:
    """A hit; "Where is my order?" is the title of one article, though its words are everywhere."""
    return Hit(article, 1.0 if list(words(article.title)) == asked else round(score, 3))


@dataclass(frozen=True)
class _Rarity:
    weight: float
    known: bool


def _rarities(database: sqlite3.Connection, question: str) -> Mapping[str, _Rarity]:
    """How rare the words of a question are among the articles, as bm25 takes it."""
    asked = list(dict.fromkeys(words(question, asked=True)))
    counted = dict(
        database.execute(
            "SELECT term, doc FROM word_counts WHERE term IN (SELECT value FROM json_each(?))",
            (json.dumps(asked),),
        )
    )
    (total,) = database.execute("SELECT count(*) FROM articles").fetchone()
    rarities = {word: _rarity(word, counted.get(word, 0), total) for word in asked}
    rarest = sorted(asked, key=lambda word: (not rarities[word].known, -rarities[word].weight))
    return {word: rarities[word] for word in rarest[:_MOST_WORDS]}


def _rarity(word: str, count: int, total: int) -> _Rarity:
    rare = max(math.log((total - count + 0.5) / (count + 0.5)), 1e-6)
    across = not count and UNSPACED.match(word)
    unknown = 1.0 if count else _ACROSS if across else _UNKNOWN
    return _Rarity(rare * unknown, known=count > 0)
