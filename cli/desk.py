"""`desk`: the customers that were handed over to a human: see, answer, give back."""

import getpass
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
from ..state.errors import AnswerRejected, SettingsError, ThreadBusy, ThreadNotFound
from ..state.messages import calls_in
from ..store.durability import Durability
from ..store.threads.thread_list import HandOver, find_hand_over
from ..text.display import show_json
from .run import Session, open_session
from .settings import DESK, Settings, check_thread_id, parse_age
from .show import load_catalog
from .terminal import Code, Output, clean, shorten_line
from .threads import format_age, print_table

_WIDTH: Final = 80
_PATIENCE, _PAUSE = 30.0, 0.1
_SHOWN: Final = 400


@dataclass(frozen=True)
class DeskRequest:
    """The human's request for a thread; words alone are a reply to the customer."""

    words: str = ""
    gives_back: bool = False
    approves: bool = False
    declines: bool = False
    holder: str | None = None
    """Whose the thread is to be; "" for nobody's, None to leave that as it is."""
    operator: str = ""
    """Who answers."""

    @property
    def is_action(self) -> bool:
        """Whether anything is wanted but to look."""
        acts = self.gives_back or self.approves or self.declines or self.holder is not None
        return acts or bool(self.words)

    def check(self, case: HandOver) -> None:
        """Refuse an answer that does not decide about a waiting change."""
        if (given := self.gives_back + self.approves + self.declines) > 1:
            msg = "--return, --approve and --decline are three answers: give one of them."
            raise SettingsError(msg)
        if self.holder is not None and (self.words or given):
            msg = "--claim, --release and --pass-to go alone: give what you say after them."
            raise SettingsError(msg)
        decides = bool((case.packet.get("proposal") or {}).get("why"))
        if self.gives_back and decides:
            msg = f"A change waits for your word on {case.thread_id}: give --approve or --decline."
            raise SettingsError(msg)
        if (self.approves or self.declines) and not decides:
            msg = f"No change waits for your word on {case.thread_id}: give --return, or words."
            raise SettingsError(msg)

    def build_answer(self, case: HandOver) -> Any:
        """The answer to the question of the thread."""
        if self.holder is not None:
            return case.pass_to(self.holder, self.operator)
        if self.declines:
            return case.decline(self.words, self.operator)
        if self.gives_back or self.approves:
            return case.give_back(self.words, self.operator)
        return case.reply(self.words, self.operator)


def find_login_name() -> str:
    """Who is at the terminal, by their login."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no name belongs to the user's number
        return ""


def choose_holder(me: str, passes_to: str | None, *, claims: bool, releases: bool) -> str | None:
    """Whose the thread is to be; "" for nobody's, None to leave that as it is."""
    if claims + releases + (passes_to is not None) > 1:
        msg = "--claim, --release and --pass-to say three things: give one of them."
        raise SettingsError(msg)
    return me if claims else "" if releases else passes_to


def run_desk(settings: Settings, output: Output, thread: str | None, wanted: DeskRequest) -> int:
    """List the customers that wait, show one, or answer; the exit code."""
    if thread is None:
        with settings.open() as durability:
            return _print_waiting(output, durability)
    case = _find_hand_over(settings, check_thread_id(thread))
    if not wanted.is_action:
        _print_packet(output, case)
        return Code.COMPLETE
    wanted.check(case)
    if wanted.approves:
        _check_tools(settings, {call["name"] for call in case.packet["proposal"]["calls"]})
    # A thread that a program began says nothing of its graph.
    named = replace(settings, graph=settings.graph or case.graph or DESK)
    with open_session(named, output, case.thread_id, human=True) as session:
        before = len(session.state().values.get("messages", ()))
        _send_answer(session, case, wanted)
        state = session.state()
        if wrong := (unpack_fields(state.values).get("objections") or {}).get(case.id):
            raise AnswerRejected(wrong)
        return _print_news(output, case, state, state.values.get("messages", ())[before:])


def _check_tools(settings: Settings, names: set[str]) -> None:
    """Refuse to approve what cannot run from here: the word would be spent, and nothing done."""
    catalog, _ = load_catalog(settings)
    if lost := sorted(name for name in names if catalog.find(name) is None):
        msg = (
            f"There is no tool {', '.join(lost)} here, so nothing would be done: name the servers "
            "of the customers' desk with --mcp or LOOPWRIGHT_MCP; a program's run in it alone."
        )
        raise SettingsError(msg)


def set_staffing(settings: Settings, output: Output, away: str | None) -> int:
    """Note that nobody is at the desk, and for how long, or that somebody is back."""
    until = None if away is None else datetime.now(UTC) + parse_age(away, "--away")
    at = until and until.isoformat(timespec="seconds")
    said = "The desk is staffed: customers get a colleague."
    with settings.open() as durability:
        if until is None:
            durability.store.delete(*AWAY)
        else:
            durability.store.put(*AWAY, {"until": at})
            end = until.astimezone().strftime("%Y-%m-%d %H:%M")
            said = f"Nobody is at the desk until {end}: customers get a ticket."
    return output.report({"away_until": at}, said)


def _find_hand_over(settings: Settings, thread: str) -> HandOver:
    with settings.open() as durability:
        case = find_hand_over(durability.checkpointer, thread)
    if case is None:
        msg = f"No human has the thread {thread!r}: `loopwright desk` lists those that wait."
        raise ThreadNotFound(msg)
    return case


def _send_answer(session: Session, case: HandOver, wanted: DeskRequest) -> None:
    """Send the answer as soon as the thread is free: the customer may be writing."""
    answer: Any = wanted.build_answer(case)
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            if not session.state().interrupts:  # cut off, or stopped: it asks again
                session.graph.invoke(None, session.config, context=session.context)
            session.graph.invoke(answer, session.config, context=session.context)
        except ThreadBusy:
            if time.monotonic() > until:
                raise
            time.sleep(_PAUSE)
        else:
            return


def _print_news(output: Output, case: HandOver, state: Any, news: list[AnyMessage]) -> int:
    """Show the new messages, and who has the conversation now."""
    texts = [m.text for m in news if m.type != "tool" and m.text.strip() and not calls_in(m)]
    waiting, outcome = bool(state.interrupts), state.values.get("outcome")
    owner = unpack_fields(state.values).get("owner", "bot")
    end = "The assistant has the conversation again."
    if owner == "human":
        end = "The conversation is yours."
    elif waiting:
        end = f"The assistant asks: loopwright resume {case.thread_id}"
    told = {"thread": case.thread_id, "owner": owner, "waiting": waiting, "said": texts}
    return output.report({**told, "outcome": outcome}, *(f"> {text}" for text in texts), end)


def _print_waiting(output: Output, durability: Durability) -> int:
    cases = durability.handed_over()
    if output.json:
        output.write_result({"waiting": [_hand_over_to_json(case) for case in cases]})
        return Code.COMPLETE
    if not cases:
        output.write_error(f"nobody waits for a human in {durability.url}.")
        return Code.COMPLETE
    print_table(
        output, ("thread", "waits", "new", "held by", "mood", "why"), [*map(_build_row, cases)]
    )
    if output.is_live:
        output.write_line("See one: loopwright desk THREAD")
    return Code.COMPLETE


def _build_row(case: HandOver) -> tuple[str, ...]:
    return (
        clean(case.thread_id),
        format_age(case.age),
        "new" if case.is_new else "",
        clean(case.holder),
        clean(case.mood),
        shorten_line(case.why, 100),
    )


def _hand_over_to_json(case: HandOver) -> dict[str, Any]:
    return {
        "thread": case.thread_id, "hand_over": case.id, "graph": case.graph,
        "updated": case.updated, "seconds": round(case.age.total_seconds()),
        "mood": case.mood, "why": case.why, "holder": case.holder, "is_new": case.is_new,
        "next_step": case.packet.get("next_step", ""), "proposal": case.packet.get("proposal"),
    }  # fmt: skip


def _print_packet(output: Output, case: HandOver) -> None:
    """Print the packet: a line or a list for each part."""
    if output.json:
        output.write_result({"thread": case.thread_id, "waiting": case.waiting, **case.packet})
        return
    console = Console(highlight=False, width=None if output.is_live else _WIDTH)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, lines in _list_packet_parts(case.packet, case).items():
        for place, line in enumerate(filter(None, lines)):
            grid.add_row(Text("" if place else name, style="bold"), Text(clean(line)))
    console.print(grid)
    decides = bool((case.packet.get("proposal") or {}).get("why"))
    ways = "--approve or --decline" if decides else "--return"
    output.write_line(f"Answer: loopwright desk {case.thread_id} WORDS, or {ways}")


def _list_packet_parts(packet: Mapping[str, Any], case: HandOver) -> dict[str, list[str]]:
    known = {**packet.get("known", {}), **packet.get("identity", {})}
    put = packet.get("proposal")
    moods = [f"{felt['mood']} (turn {felt['turn']})" for felt in packet.get("mood", [])]
    return {
        "thread": [f"{case.thread_id}, handed over {format_age(case.age)}"],
        "held by": [case.holder],
        "why": [case.why],
        "next step": [packet.get("next_step", "")],
        "intent": [packet.get("intent", "")],
        "mood": [" → ".join(moods)],
        "known": [f"{name}: {value}" for name, value in known.items() if name != "turn"],
        "decide": [*(one["line"] for one in put["calls"]), put.get("why", "")] if put else [],
        "tried": [
            shorten_line(
                f"{t['tool']} {show_json(t['arguments'])}: {t['status']}: {t['result']}", _SHOWN
            )
            for t in packet.get("tried", [])
        ],
        "promised": packet.get("promises", []),
        "tickets": [*packet.get("tickets", {}).values()],
        "said": [f"{message['who']}: {message['text']}" for message in packet.get("talk", [])],
    }
