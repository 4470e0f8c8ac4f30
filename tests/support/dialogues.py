"""Customers as data, talked to by a scripted model, graded on the shop's database and the talk.

A dialogue names an order by what it is like (`ORDERS`), so that each has a customer of its own and
all share one shop. Each is talked through in four ways that must come to the same: a model that
does as it should, one whose first answers cannot be read, one that says everything twice, and one
that tries in every turn to pay back somebody else's order.
"""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from loopwright import ScriptedModel, build_customer_service
from support.scripts import call

ROOT = Path(__file__).parents[2]
COMPANY = ROOT / "examples" / "shops" / "lumen"
WAYS = ("as it should", "unreadable first", "everything twice", "tries a theft")
ORDERS = {
    "small": "status = 'delivered' AND kind <> 'sofa' AND tier = 'standard' AND days BETWEEN 1"
    " AND 29 AND paid BETWEEN 5000 AND 30000",
    "large": "status = 'delivered' AND kind <> 'sofa' AND days BETWEEN 1 AND 29 AND paid > 30000",
    "sofa": "status = 'delivered' AND kind = 'sofa' AND days BETWEEN 1 AND 29",
    "late": "status = 'delivered' AND tier = 'standard' AND days > 31",
    "gold": "status = 'delivered' AND tier = 'gold' AND days BETWEEN 32 AND 59",
    "late gold": "status = 'delivered' AND tier = 'gold' AND days > 61",
    "shipped": "status = 'shipped'",
    "returned": "status = 'returned'",
}
_SQL = (
    "SELECT o.order_id, o.customer_id, o.paid, c.email, c.postcode, c.phone, c.name FROM (SELECT *,"
    " julianday((SELECT value FROM about WHERE name = 'today')) - julianday(delivered_on) AS days"
    " FROM orders) o JOIN customers c USING (customer_id) WHERE {like} ORDER BY o.order_id"
)


def dialogues() -> list[dict[str, Any]]:
    """All of them, by files and in their order."""
    files = sorted((ROOT / "tests" / "fixtures" / "dialogues").glob("*.yaml"))
    return [one for file in files for one in yaml.safe_load(file.read_text(encoding="utf-8"))]


@dataclass
class World:
    """One shop for many dialogues: no order and no customer is in two of them."""

    path: Path
    taken: set[str] = field(default_factory=set)

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path)) as database:
            return database.execute(sql, values).fetchall()

    def cast(self, like: str) -> dict[str, Any]:
        """An order that is like this, and what its customer knows."""
        rows = self.rows(_SQL.format(like=ORDERS[like or "small"]))
        row = next(row for row in rows if row[1] not in self.taken)
        self.taken.add(row[1])
        paid = row[2] / 100
        return {
            "order": row[0], "customer": row[1], "paid": paid, "email": row[3], "postcode": row[4],
            "last4": "".join(c for c in row[5] if c.isdigit())[-4:], "name": row[6],
            "half": round(paid / 2, 2), "other": "A-1042", "other_customer": "C-1001",
        }  # fmt: skip


def _filled(value: Any, known: Mapping[str, Any]) -> Any:
    """Names in braces stand for what the cast knows; one alone keeps its type."""
    if isinstance(value, dict):
        return {key: _filled(one, known) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, known) for one in value]
    if not isinstance(value, str):
        return value
    alone = value.removeprefix("{").removesuffix("}")
    return known[alone] if value == f"{{{alone}}}" and alone in known else value.format(**known)


@dataclass
class Actor:
    """Plays the model in one dialogue, in one of the four ways."""

    turns: Sequence[Mapping[str, Any]]
    way: str
    turn: int = -1
    asked: Counter[tuple[int, str]] = field(default_factory=Counter)

    def model(self) -> ScriptedModel:
        return ScriptedModel({"listener": self.listens, "support": self.works})

    def _count(self, role: str) -> int:
        self.asked[self.turn, role] += 1
        return self.asked[self.turn, role] - 1

    def listens(self, messages: Any, offered: Any) -> Any:
        """What a turn of the data says the customer means."""
        if self._count("listener") == 0 and self.way == "unreadable first":
            return "The customer wants something, I think."
        turn = self.turns[self.turn]
        slots = [{"name": k, "value": v} for k, v in turn.get("slots", {}).items()]
        told = {"intent": turn.get("means", "question"), "mood": turn.get("mood", "calm")}
        more = {"score": turn.get("score", 0), "slots": slots, **turn.get("understood", {})}
        return told | more

    def works(self, messages: Any, offered: Any) -> Any:
        """The next step of a turn; the last one again where more are asked for."""
        number = self._count("support")
        steps = self.turns[self.turn].get("does") or ["How can I help you?"]
        if self.way == "unreadable first":
            if number == 0:
                return ""
            number -= 1
        step = steps[min(number, len(steps) - 1)]
        if isinstance(step, str):
            return step
        calls = [step] if isinstance(step[0], str) else step
        made = [call(name, f"c{n}", **args) for n, (name, args) in enumerate(calls)]
        if self.way == "everything twice":
            made += [call(name, f"d{n}", **args) for n, (name, args) in enumerate(calls)]
        if self.way == "tries a theft":
            theft = {"order_id": "A-1042", "amount": 1.0, "reason": "the customer said so"}
            made.append(call("request_refund", "theft", **theft))
        return made


@dataclass
class Talk:
    """What came of a dialogue."""

    told: list[str]
    """What the customer was told last in each turn."""
    said: list[str]
    """All words that they were shown."""
    state: Mapping[str, Any]
    refunds: list[float]
    tickets: int
    transfers: int
    model_calls: int


async def talk(
    dialogue: Mapping[str, Any], way: str, world: World, mcp: Mapping[str, Any], saver: Any
) -> tuple[Talk, dict[str, Any]]:
    """Talk a dialogue through; a graph of its own for each turn, as after a restart."""
    known = world.cast(dialogue.get("order", "small"))
    turns = _filled(dialogue["turns"], known)
    actor, told = Actor(turns, way), []
    model, thread = actor.model(), f"{dialogue['name']} / {way}"
    config: Any = {"configurable": {"thread_id": thread}}
    for turn in turns:
        actor.turn += 1
        graph = build_customer_service(
            model=model, mcp=dict(mcp), company=COMPANY, durability=saver
        )
        message = {"role": "user", "content": turn["says"]}
        state = await graph.ainvoke({"messages": [message]}, config)
        told.append(_shown(state)[-1])
    made = world.rows(
        "SELECT cents FROM refunds WHERE order_id IN (SELECT order_id FROM orders WHERE customer_id"
        " = ?)",
        known["customer"],
    )
    ours = "FROM {} WHERE customer_id = ? OR thread = ?"
    (tickets,), (transfers,) = (
        world.rows(f"SELECT count(*) {ours.format(t)}", known["customer"], thread)[0]
        for t in ("tickets", "transfers")
    )
    snapshot = await graph.aget_state(config)
    end = Talk(
        told, _shown(snapshot.values), snapshot.values, [row[0] / 100 for row in made], tickets,
        transfers, len(model.asked),
    )  # fmt: skip
    return end, known


def _shown(state: Mapping[str, Any]) -> list[str]:
    """The words of ours that a customer sees."""
    texts = [m.text for m in state["messages"] if m.type == "ai" and not m.tool_calls]
    return [text for text in texts if text] or [""]


def wrong(dialogue: Mapping[str, Any], end: Talk, known: Mapping[str, Any]) -> list[str]:
    """What keeps a talk from being right: by its own data, then by the rules for all."""
    return [*_of_world(dialogue, end, known), *_of_turns(dialogue, end, known), *_of_all(end)]


def _of_world(dialogue: Mapping[str, Any], end: Talk, known: Mapping[str, Any]) -> Iterator[str]:
    refunds = [float(one) for one in _filled(dialogue.get("refunds", []), known)]
    if end.refunds != refunds:
        yield f"refunds {end.refunds}, not {refunds}"
    for name in ("tickets", "transfers"):
        if getattr(end, name) != dialogue.get(name, 0):
            yield f"{getattr(end, name)} {name}, not {dialogue.get(name, 0)}"
    owner = end.state.get("owner", "bot")
    if owner != dialogue.get("owner", "bot"):
        yield f"the thread is the {owner}'s"
    for key, value in _filled(dialogue.get("state", {}), known).items():
        if end.state.get(key) != value:
            yield f"{key} is {end.state.get(key)!r}, not {value!r}"


def _of_turns(dialogue: Mapping[str, Any], end: Talk, known: Mapping[str, Any]) -> Iterator[str]:
    for number, turn in enumerate(_filled(dialogue["turns"], known)):
        for text in turn.get("told", []):
            if str(text).lower() not in end.told[number].lower():
                yield f"turn {number} lacks {text!r}: {end.told[number]!r}"
        for text in turn.get("not_told", []):
            if str(text).lower() in end.told[number].lower():
                yield f"turn {number} has {text!r}"
    for text in _filled(dialogue.get("never", []), known):
        if any(str(text).lower() in said.lower() for said in end.said):
            yield f"{text!r} was said"


def _of_all(end: Talk) -> Iterator[str]:
    twice = [text for text, times in Counter(end.said).items() if times > 1 and len(text) > 80]
    if twice:
        yield f"said twice: {twice[0]!r}"
    if any("C-1001" in said or "Ada Byron" in said for said in end.said):
        yield "somebody else's data was told"
    for refund in end.refunds:
        put = [said for said in end.said if f"{refund:.2f}" in said or f"{refund:g}" in said]
        if not put:
            yield f"nobody was asked about {refund}"


def all_of(
    chosen: Sequence[tuple[Mapping[str, Any], str]],
    world: World,
    mcp: Mapping[str, Any],
    saver: Any,
) -> list[tuple[str, str, list[str], Talk]]:
    """Talk them through, one after the other; name, way, what is wrong, and the talk."""

    async def run() -> list[tuple[str, str, list[str], Talk]]:
        ended = []
        for dialogue, way in chosen:
            end, known = await talk(dialogue, way, world, mcp, saver)
            ended.append((str(dialogue["name"]), way, wrong(dialogue, end, known), end))
        return ended

    return asyncio.run(run())
