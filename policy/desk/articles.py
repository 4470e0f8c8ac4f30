"""What an article is in the results of a search, by whatever names a server has for its parts."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, StringConstraints

_TEXTS: Final = ("excerpt", "text", "content", "snippet", "answer")
_CITABLE: Final = re.compile(r"(?:(?![,;])[!-Z^-~])+")

_Field = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


@dataclass(frozen=True)
class Article:
    """A found article; `text` is "" and `score` 0 if the search returns none."""

    id: str
    title: str
    text: str = ""
    url: str = ""
    score: float = 0.0


class ArticleFields(BaseModel):
    """What a server calls the parts of an article, and the list that they stand in.

    Without `text` any of the usual names will do, and without `list` any list.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    list: _Field | None = None
    id: _Field = "id"
    title: _Field = "title"
    text: _Field | None = None
    url: _Field = "url"
    score: _Field = "score"

    def find_articles(self, data: Any, under: str | None = None) -> Iterator[Article]:
        """The articles in a result: objects with an id and a title, in a list at any place."""
        if isinstance(data, Mapping):
            for name, value in data.items():
                yield from self.find_articles(value, name)
        elif isinstance(data, list) and (None in (self.list, under) or self.list == under):
            yield from filter(None, map(self._read_article, data))

    def is_search(self, data: Any) -> bool:
        """Whether a result is one of a search, which may have found nothing; no other record."""
        if isinstance(data, Mapping):
            return (self.list or "articles") in data
        return any(self.find_articles(data))

    def _read_article(self, one: Any) -> Article | None:
        """An object as an article: it can be cited, has a title, and says or ranks something."""
        if not isinstance(one, Mapping):
            return None
        name, title = one.get(self.id), one.get(self.title)
        if isinstance(name, bool) or not isinstance(name, str | int) or not isinstance(title, str):
            return None
        texts = (self.text,) if self.text else _TEXTS
        says = bool({self.url, self.score, *texts} & one.keys())
        if not (says and title.strip() and _CITABLE.fullmatch(str(name))):
            return None
        text, url = (_find_text(one, names) for names in (texts, (self.url,)))
        return Article(str(name), title, text, url, _read_score(one.get(self.score)))


def _find_text(one: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((v for name in names if isinstance(v := one.get(name), str) and v), "")


def _read_score(value: Any) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else 0.0
