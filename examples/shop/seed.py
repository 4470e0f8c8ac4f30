"""Makes a shop of a company's files: the same files give the same shop, row by row.

`company.yaml` names it; `catalogue.yaml` has its products, and how many customers and orders to
invent; `knowledge/<base>.yaml` its articles, one or one for each product of a kind; the rows of
`policy.yaml` are articles, too.
"""

import random
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

import knowledge
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own
from shop import Shop

from loopwright.servers.plain_server import Refused, to_line

_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_POLICIES: Final = "policies"
_TABLES: Final = ("articles", "customers", "orders")
_STATUSES: Final = {"delivered": 70, "shipped": 10, "processing": 8, "returned": 7, "cancelled": 5}
_OLDEST_DAYS: Final = 400
_GOLD: Final = 0.12


def make_shop(folder: Path, path: Path, policies: Sequence[Mapping[str, str]] = ()) -> Shop:
    """Make the shop of a folder, where there is no file yet.

    `policies` are articles that take the place of those in policy.yaml, such as a `PolicyTable`
    gives: `id`, `title`, `text`, `language`.

    Raises:
        Refused: A file is missing or wrong; the text says which and why.
    """
    if path.exists():
        return Shop(path)
    catalogue = _read(folder / "catalogue.yaml")
    found = [*_articles(folder, catalogue), *_policies(folder, catalogue, policies)]
    people = list(_customers(catalogue))

    def fill(database: sqlite3.Connection) -> None:
        told = {key: str(catalogue[key]) for key in ("currency", "today")}
        database.executemany("INSERT INTO about VALUES (?, ?)", told.items())
        knowledge.add(database, found)
        marks = ", ".join("?" * 9)
        database.executemany(f"INSERT INTO customers VALUES ({marks})", people)
        database.executemany(
            f"INSERT INTO orders VALUES ({marks})", _orders(catalogue, [one[0] for one in people])
        )

    try:
        return Shop.made(path, fill)
    except (sqlite3.IntegrityError, KeyError, TypeError, ValueError, IndexError) as error:
        message = f"'{to_line(str(folder))}' makes no shop: {error!r}."
        raise Refused(message) from error


def count_rows(shop: Shop) -> str:
    """How much is in a shop."""
    counts = [f"(SELECT count(*) FROM {table}) AS {table}" for table in _TABLES]
    row = shop.row(f"SELECT {', '.join(counts)}") or {}
    return ", ".join(f"{count:,} {table}" for table, count in row.items())


def _read(path: Path) -> Any:
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        said = " ".join(str(error).split())
        message = f"'{to_line(str(path))}' cannot be read: {to_line(said)}."
        raise Refused(message) from error


def _in(language: str, value: Any) -> Any:
    """A value in a language, where it has several."""
    return value.get(language, "") if isinstance(value, Mapping) else value


def _articles(folder: Path, catalogue: Mapping[str, Any]) -> Iterator[knowledge.Article]:
    for path in sorted((folder / "knowledge").glob("*.yaml")):
        for entry in _read(path):
            try:
                yield from _written(entry, path.stem, catalogue)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                name = entry.get("id", "?") if isinstance(entry, Mapping) else "?"
                message = f"'{to_line(str(path))}', article '{name}': {error!r} does not fit."
                raise Refused(message) from error


def _policies(
    folder: Path, catalogue: Mapping[str, Any], given: Sequence[Mapping[str, str]]
) -> Iterator[knowledge.Article]:
    entries = [
        {"id": one["id"], **{key: {one["language"]: one[key]} for key in ("title", "text")}}
        for one in given
    ]
    if not given and (folder / "policy.yaml").is_file():
        rows = [
            row for one in _read(folder / "policy.yaml")["policies"].values() for row in one["rows"]
        ]
        entries = [{"id": r["id"], "title": r["title"], "text": r["article"]} for r in rows]
    for entry in entries:
        yield from _written({**entry, "id": f"policy-{entry['id']}"}, _POLICIES, catalogue)


def _written(
    entry: Mapping[str, Any], base: str, catalogue: Mapping[str, Any]
) -> Iterator[knowledge.Article]:
    """The articles of an entry: in each language it has, for each product of the kind it names."""
    kind = entry.get("each")
    products = [p for p in catalogue["products"] if p["kind"] == kind] if kind else [{}]
    for product in products:
        name = "-".join(filter(None, (entry["id"], product.get("id", ""))))
        for language in entry["title"]:
            facts = {key: _in(language, value) for key, value in product.items()}
            title, text, also = (
                str(_in(language, entry.get(part, ""))).strip()
                for part in ("title", "text", "also")
            )
            if product:
                title, text, also = (part.format_map(facts) for part in (title, text, also))
            url = f"{catalogue['url']}/{language}/{base}/{name}"
            yield knowledge.Article(f"kb-{name}-{language}", base, language, title, url, text, also)


def _customers(catalogue: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    plan = catalogue["customers"]
    given = {one["customer_id"]: one for one in plan["fixed"]}
    draw = random.Random(f"{catalogue['seed']} customers")
    for number in range(1001, 1001 + plan["count"]):
        who = f"C-{number}"
        language = draw.choices(list(plan["languages"]), list(plan["languages"].values()))[0]
        names = plan["names"][language]
        first, last, city = (draw.choice(names[key]) for key in ("first", "last", "cities"))
        name = f"{last}{first}" if language == "zh" else f"{first} {last}"
        mail = f"{plan['mail'][language]}{number}@{draw.choice(plan['providers'])}"
        one = {
            "name": name, "email": mail, "phone": f"{draw.randrange(10**8, 10**9)}",
            "postcode": f"{city['postcode']}{draw.randrange(1000):03}", "city": city["name"],
            "language": language, "tier": "gold" if draw.random() < _GOLD else "standard",
            "since": str(_day(catalogue, draw.randrange(30, 2000))),
        } | given.get(who, {})  # fmt: skip
        yield (
            who, one["name"], one["email"], str(one["phone"]), str(one["postcode"]), one["city"],
            one["language"], one["tier"], str(one["since"]),
        )  # fmt: skip


def _day(catalogue: Mapping[str, Any], ago: int) -> date:
    return date.fromisoformat(str(catalogue["today"])) - timedelta(days=ago)


def _orders(catalogue: Mapping[str, Any], customers: list[str]) -> Iterator[tuple[Any, ...]]:
    plan, products = catalogue["orders"], catalogue["products"]
    main = catalogue["language"]
    given = {one["order_id"]: one for one in plan["fixed"]}
    draw = random.Random(f"{catalogue['seed']} orders")
    for number in range(1001, 1001 + plan["count"]):
        name = f"A-{number}"
        product, quantity = draw.choice(products), draw.choices((1, 2, 3, 4), (80, 14, 4, 2))[0]
        status = draw.choices(list(_STATUSES), list(_STATUSES.values()))[0]
        moving = status in ("processing", "shipped")
        ordered = draw.randrange(0, 8) if moving else draw.randrange(9, _OLDEST_DAYS)
        arrived = status in ("delivered", "returned")
        one = {
            "customer_id": draw.choice(customers), "product": product["id"], "quantity": quantity,
            "status": status, "ordered_days_ago": ordered,
            "delivered_days_ago": ordered - draw.randrange(2, 9) if arrived else None,
        } | given.get(name, {})  # fmt: skip
        product = next(p for p in products if p["id"] == one["product"])
        since = one["delivered_days_ago"]
        yield (
            name, one["customer_id"], _in(main, product["name"]), product["kind"], one["quantity"],
            round(product["price"] * one["quantity"] * 100), one["status"],
            str(_day(catalogue, one["ordered_days_ago"])),
            None if since is None else str(_day(catalogue, since)),
        )  # fmt: skip
