"""`desk`: the customers whom a human has taken over, for that human: see, answer, give back."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from langchain_core.messages import AnyMessage
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..state.channels import unpack_fields
from ..state.desk import AWAY
from ..state.errors import SettingsError, ThreadBusy, ThreadNotFound
from ..state.messages import calls_in
from ..store.durability import Durability
from ..store.threads.hand_overs import HandOver, find_hand_over
from .run import Session, open_session
from .settings import Settings, check_thread_id, parse_age
from .terminal import Code, Output, clean, render_json, shorten_line
from .threads import format_age

_GRAPH: Final = "customer_service"
"""Of a thread that a program began, which says nothing of its graph."""
_WIDTH: Final = 80
_PATIENCE, _PAUSE = 30.0, 0.1
_SHOWN: Final = 400


@dataclass(frozen=True)
class DeskRequest:
    """What the human wants of a thread: words alone are a reply to the customer."""

    words: str = ""
    gives_back: bool = False
    approves: bool = False
    declines: bool = False

    @property
    def is_action(self) -> bool:
        """Whether anything is wanted but to look."""
        return bool(self.words) or self.gives_back or self.approves or self.declines

    def check(self, one: HandOver) -> None:
        """Refuse what leaves open what becomes of a change that waits.

        Raises:
            SettingsError: Too much is wanted, or too little.
        """
        if self.gives_back + self.approves + self.declines > 1:
            msg = "--return, --approve and --decline are three answers: give one of them."
            raise SettingsError(msg)
        decides = bool((one.packet.get("proposal") or {}).get("why"))
        if self.gives_back and decides:
            msg = f"A change waits for your word on {one.thread_id}: give --approve or --decline."
            raise SettingsError(msg)
        if (self.approves or self.declines) and not decides:
            msg = f"No change waits for your word on {one.thread_id}: give --return, or words."
            raise SettingsError(msg)

    def build_answer(self, one: HandOver) -> Any:
        """The answer to the question of the thread."""
        if self.declines:
            return one.decline(self.words)
        if self.gives_back or self.approves:
            return one.give_back(self.words)
        return one.reply(self.words)


def run_desk(settings: Settings, output: Output, thread: str | None, wanted: DeskRequest) -> int:
    """List who waits, show what is known of one, or answer; the exit code."""
    if thread is None:
        with settings.open() as durability:
            return _print_waiting(output, durability)
    one = _find_hand_over(settings, check_thread_id(thread))
    if not wanted.is_action:
        _print_packet(output, one)
        return Code.COMPLETE
    wanted.check(one)
    named = replace(settings, graph=settings.graph or one.graph or _GRAPH)
    with open_session(named, output, one.thread_id, human=True) as session:
        before = len(session.state().values.get("messages", ()))
        _send_answer(session, one, wanted)
        state = session.state()
        return _print_news(output, one, state, state.values.get("messages", ())[before:])


def set_staffing(settings: Settings, output: Output, away: str | None) -> int:
    """Note that nobody is at the desk, and for how long, or that somebody is back."""
    until = None if away is None else datetime.now(UTC) + parse_age(away, "--away")
    with settings.open() as durability:
        if until is None:
            durability.store.delete(*AWAY)
        else:
            durability.store.put(*AWAY, {"until": until.isoformat(timespec="seconds")})
    told = until.astimezone().strftime("%Y-%m-%d %H:%M") if until else None
    if output.json:
        output.write_result({"away_until": until.isoformat(timespec="seconds") if until else None})
    elif told:
        output.write_line(f"Nobody is at the desk until {told}: customers get a ticket.")
    else:
        output.write_line("The desk is staffed: customers get a colleague.")
    return Code.COMPLETE


def _find_hand_over(settings: Settings, thread: str) -> HandOver:
    with settings.open() as durability:
        one = find_hand_over(durability.checkpointer, thread)
    if one is None:
        msg = f"No human has the thread {thread!r}: `loopwright desk` lists those that wait."
        raise ThreadNotFound(msg)
    return one


def _send_answer(session: Session, one: HandOver, wanted: DeskRequest) -> None:
    """Give the answer as soon as the thread is free: the customer may be writing just now."""
    given: Any = wanted.build_answer(one)
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            if not session.state().interrupts:  # cut off, or stopped: it asks anew
                session.graph.invoke(None, session.config, context=session.context)
            session.graph.invoke(given, session.config, context=session.context)
        except ThreadBusy:
            if time.monotonic() > until:
                raise
            time.sleep(_PAUSE)
        else:
            return


def _print_news(output: Output, one: HandOver, state: Any, news: list[AnyMessage]) -> int:
    """Tell what has been said since, and who has the thread now."""
    said = [m.text for m in news if m.type != "tool" and m.text.strip() and not calls_in(m)]
    waiting, outcome = bool(state.interrupts), state.values.get("outcome")
    owner = unpack_fields(state.values).get("owner", "bot")
    if output.json:
        output.write_result({
            "thread": one.thread_id, "owner": owner, "waiting": waiting, "said": said,
            "outcome": outcome,
        })  # fmt: skip
        return Code.COMPLETE
    for text in said:
        output.write_line(f"> {text}")
    if owner == "human":
        output.write_line("The conversation is yours.")
    elif waiting:
        output.write_line(f"The assistant asks: loopwright resume {one.thread_id}")
    else:
        output.write_line("The assistant has the conversation again.")
    return Code.COMPLETE


def _print_waiting(output: Output, durability: Durability) -> int:
    found = durability.handed_over()
    if output.json:
        output.write_result({"waiting": [_hand_over_to_json(one) for one in found]})
        return Code.COMPLETE
    if not found:
        output.write_error(f"nobody waits for a human in {durability.url}.")
        return Code.COMPLETE
    if not output.is_live:
        for row in (("thread", "since", "mood", "why"), *map(_build_row, found)):
            output.write_line("\t".join(row))
        return Code.COMPLETE
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    for title in ("thread", "since", "mood"):
        table.add_column(title, no_wrap=True)
    table.add_column("why", ratio=1, no_wrap=True, overflow="ellipsis")
    for one in found:
        table.add_row(*map(Text, _build_row(one)))
    Console(highlight=False).print(table)
    output.write_line("See one: loopwright desk THREAD")
    return Code.COMPLETE


def _build_row(one: HandOver) -> tuple[str, str, str, str]:
    return clean(one.thread_id), format_age(one.age), clean(one.mood), shorten_line(one.why, 100)


def _hand_over_to_json(one: HandOver) -> dict[str, Any]:
    return {
        "thread": one.thread_id, "hand_over": one.id, "graph": one.graph, "updated": one.updated,
        "seconds": round(one.age.total_seconds()), "mood": one.mood, "why": one.why,
        "next_step": one.packet.get("next_step", ""), "proposal": one.packet.get("proposal"),
    }  # fmt: skip


def _print_packet(output: Output, one: HandOver) -> None:
    """The packet, a line or a list for each thing that is known."""
    if output.json:
        output.write_result({"thread": one.thread_id, "waiting": one.waiting, **one.packet})
        return
    console = Console(highlight=False, width=None if output.is_live else _WIDTH)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, lines in _list_packet_parts(one.packet, one).items():
        for place, line in enumerate(filter(None, lines)):
            grid.add_row(Text("" if place else name, style="bold"), Text(clean(line)))
    console.print(grid)
    decides = bool((one.packet.get("proposal") or {}).get("why"))
    ways = "--approve or --decline" if decides else "--return"
    output.write_line(f"Answer: loopwright desk {one.thread_id} WORDS, or {ways}")


def _list_packet_parts(packet: Mapping[str, Any], one: HandOver) -> dict[str, list[str]]:
    known = {**packet.get("known", {}), **packet.get("identity", {})}
    put = packet.get("proposal")
    moods = [f"{felt['mood']} (turn {felt['turn']})" for felt in packet.get("mood", [])]
    return {
        "thread": [f"{one.thread_id}, handed over {format_age(one.age)}"],
        "why": [one.why],
        "next step": [packet.get("next_step", "")],
        "intent": [packet.get("intent", "")],
        "mood": [" → ".join(moods)],
        "known": [f"{name}: {value}" for name, value in known.items() if name != "turn"],
        "decide": [f"{put['name']} {render_json(put['args'])}", put.get("why", "")] if put else [],
        "tried": [
            shorten_line(
                f"{t['tool']} {render_json(t['arguments'])}: {t['status']}: {t['result']}", _SHOWN
            )
            for t in packet.get("tried", [])
        ],
        "promised": packet.get("promises", []),
        "tickets": [*packet.get("tickets", {}).values()],
        "said": [f"{said['who']}: {said['text']}" for said in packet.get("talk", [])],
    }
