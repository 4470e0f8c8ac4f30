"""What a turn costs PostgreSQL: rows written, round trips, CPU of the server, bytes of a thread.

    .venv/bin/python benchmarks/postgres.py [turns] [--bouncer]

Each graph runs turns of a scripted model that answers at once, beside LangChain's `create_agent` on
LangGraph's own saver, with as many model calls a turn. The server is one of this program's own; the
clients reach it through a proxy, which counts as a round trip whatever a client sends after it was
answered.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

import psycopg
from langchain.agents import create_agent
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

from loopwright import (
    ScriptedModel,
    build_customer_service,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
    build_task_agent,
    open_durability,
)
from support import postgres
from support.counting import Counting
from support.flows import citing, flow, step
from support.scripts import call, passed, plan, report, thought, todo

ROWS = "SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) FROM pg_stat_user_tables"
BYTES = (
    "SELECT coalesce(sum(pg_total_relation_size(relid)), 0) FROM pg_stat_user_tables"
    " WHERE relname LIKE '%checkpoint%' OR relname LIKE '%loopwright%'"
)
OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> %s"
WARM = 12
DONE = "complete_task"
GOAL = "Look Ada up, then pay her."
ANSWER = "Ada was looked up and paid."
NEXT = thought("I take the next step.", more=True, reason="open")
Turn = Callable[[str], Awaitable[Any]]


def look(name: str) -> str:
    """Look up a fact."""
    return f"{name}: " + "a fact of some length " * 8


def pay(name: str) -> str:
    """Pay somebody."""
    return f"paid {name}"


def tools() -> list[Any]:
    """One that reads, one that writes."""
    reads = {"readOnlyHint": True}
    return [StructuredTool.from_function(look, metadata=reads), StructuredTool.from_function(pay)]


def reacts(messages: list[Any], offered: list[str]) -> Any:
    """Looks, pays, answers."""
    done = sum(message.type == "tool" for message in _turn(messages))
    if offered:
        return [call("look" if done == 0 else "pay", f"c{done}", name="Ada")]
    return NEXT if done < 2 else thought(ANSWER)


def looks(number: int) -> Callable[[list[Any], list[str]], Any]:
    """Calls tools by turns until the last of so many calls of the model, which answers."""

    def turn(messages: list[Any], offered: list[str]) -> Any:
        done = sum(message.type == "tool" for message in _turn(messages))
        if done >= number - 1:
            return [call(DONE, f"c{done}", summary=ANSWER)] if DONE in offered else ANSWER
        return [call("pay" if done == 1 else "look", f"c{done}", name="Ada")]

    return turn


def executes(messages: list[Any], _: list[str]) -> Any:
    """A task of one call and its report."""
    told = repr([message.text for message in messages])
    if any(message.type == "tool" for message in messages):
        return report("Ada was paid 7 euro." if "pay Ada" in told else "Ada is in the book.")
    return [call("pay" if "pay Ada" in told else "look", name="Ada")]


def plans() -> ScriptedModel:
    """Two tasks, one after the other."""
    tasks = plan(todo("1", "look Ada up", []), todo("2", "pay Ada", ["1"]))
    return ScriptedModel(
        {
            "planner": lambda _messages, _offered: tasks,
            "executor": executes,
            "verifier": lambda _messages, _offered: passed("fine", t1=["1.1.0"], t2=["2.1.0"]),
        }
    )


def flows() -> ScriptedModel:
    """Two steps, one after the other."""
    told = {"name": "Ada"}
    steps = flow(step("a", arguments=told), step("b", "pay", ["a"], arguments=told))
    return ScriptedModel({"flow_planner": lambda _messages, _offered: steps, "answerer": citing})


def search_knowledge_base(query: str) -> dict[str, Any]:
    """Search the articles."""
    text = "You can return it within 14 days."
    return {"articles": [{"id": "kb-1", "title": query, "text": text, "url": "u", "score": 3.0}]}


def helps(messages: list[Any], _: list[str]) -> Any:
    """Looks an article up, and answers from it."""
    if any(one.type == "tool" for one in _turn(messages)):
        return "You can return it within 14 days [kb-1]."
    return [call("search_knowledge_base", query="returns")]


def desk() -> ScriptedModel:
    """A question is understood, and answered."""
    heard = {"intent": "question", "mood": "calm", "score": 0}
    return ScriptedModel(
        {
            "proofreader": lambda *_: {"unsupported": []},
            "listener": lambda _messages, _offered: heard,
            "support": helps,
        }
    )


ARTICLES = [StructuredTool.from_function(search_knowledge_base, metadata={"readOnlyHint": True})]


def _turn(messages: list[Any]) -> list[Any]:
    """What came after the last word of the human."""
    humans = [place for place, message in enumerate(messages) if message.text == GOAL]
    return messages[humans[-1] + 1 if humans else 0 :]


OURS: dict[str, tuple[Any, Callable[[], ScriptedModel], dict[str, Any]]] = {
    "react(direct)": (build_react, lambda: ScriptedModel(reacts), {"observe": "direct"}),
    "plan_execute_verify": (build_plan_execute_verify, plans, {}),
    "task_agent": (build_task_agent, lambda: ScriptedModel(looks(3)), {}),
    "prompt_flow": (build_prompt_flow, flows, {}),
    "customer_service": (build_customer_service, desk, {"tools": ARTICLES}),
}


@dataclass
class Cost:
    """Of a turn."""

    rows: float
    trips: float
    cpu: float
    size: float
    calls: float


class Server:
    """The server that is measured, and the way to it."""

    def __init__(self, own: postgres.Server, counting: Counting, port: int) -> None:
        """Reach it by this port."""
        self.own, self.counting, self.port = own, counting, port

    async def cost(self, run: Callable[[str], Any], turns: int) -> Cost:
        """What each of so many turns costs, on threads of three turns."""
        url = self.own.database()
        reached = url.replace(f":{self.own.port}/", f":{self.counting.port}/")
        async with run(reached):
            pass
        await asyncio.to_thread(self._alone, url)
        rows = self._read(url, ROWS)
        async with run(reached) as (turn, model):
            for number in range(WARM):
                await turn(f"warm-{number}")
            size = self._read(url, BYTES)
            trips, cpu, calls = self.counting.trips, self.cpu(), len(model.asked)
            for number in range(turns):
                await turn(f"thread-{number // 3}")
            trips, cpu = self.counting.trips - trips, self.cpu() - cpu
            calls = len(model.asked) - calls
        await asyncio.to_thread(self._alone, url)
        rows, size = self._read(url, ROWS) - rows, self._read(url, BYTES) - size
        return Cost(
            rows / (turns + WARM), trips / turns, cpu / turns, size / turns * 3, calls / turns
        )

    def _read(self, url: str, sql: str) -> float:
        with psycopg.connect(url, autocommit=True) as connection:
            return float(connection.execute(sql).fetchone()[0])  # type: ignore[index]

    def _alone(self, url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            me = connection.info.backend_pid
            while connection.execute(OTHERS, [me]).fetchone()[0]:  # type: ignore[index]
                time.sleep(0.05)

    def cpu(self) -> float:
        """Seconds that the server's processes have taken, by the nanosecond.

        Of those that live: whoever serves a turn lives on.
        """
        total, main = 0, str(self.own.process.pid)
        for folder in Path("/proc").iterdir():
            with suppress(OSError, IndexError):
                told = (folder / "stat").read_text().rpartition(")")[2].split()
                if main in (folder.name, told[1]):
                    total += int((folder / "schedstat").read_text().split()[0])
        return total / 1e9


def ours(name: str) -> Callable[[str], Any]:
    """One of the graphs of this package."""

    @asynccontextmanager
    async def run(url: str) -> AsyncIterator[tuple[Turn, ScriptedModel]]:
        build, model, options = OURS[name]
        scripted = model()
        with await asyncio.to_thread(open_durability, url) as durability:
            given = {"tools": tools(), "policy": "allow", **options}
            graph = build(model=scripted, durability=durability, **given)

            async def turn(thread: str) -> None:
                if build is build_customer_service:  # who asks the same again is handed over
                    thread += f" {len(scripted.asked)}"
                ended = await graph.ainvoke({"messages": [("user", GOAL)]}, on(thread))
                if ended["outcome"]["status"] != "complete":
                    raise RuntimeError(ended["outcome"])

            yield turn, scripted

    return run


def peer(calls: int) -> Callable[[str], Any]:
    """LangChain's agent on LangGraph's saver, with as many model calls."""

    @asynccontextmanager
    async def run(url: str) -> AsyncIterator[tuple[Turn, ScriptedModel]]:
        model = ScriptedModel(looks(calls))
        async with AsyncPostgresSaver.from_conn_string(url) as saver:
            await saver.setup()
            graph: Any = create_agent(model, tools(), checkpointer=saver)

            async def turn(thread: str) -> None:
                await graph.ainvoke({"messages": [("user", GOAL)]}, on(thread))

            yield turn, model

    return run


def on(thread: str) -> Any:
    """The config of a thread."""
    return {"configurable": {"thread_id": thread}, "recursion_limit": 1_000}


async def main(turns: int, *, bounced: bool) -> None:
    """Measure, and print a table."""
    with (
        tempfile.TemporaryDirectory() as folder,
        postgres.server(Path(folder, "server"), "autovacuum=off") as own,
        postgres.bouncer(Path(folder, "bouncer"), own) as port,
        Counting(port if bounced else own.port) as counting,
    ):
        server = Server(own, counting, counting.port)
        _tell("a turn", "model calls", "rows", "round trips", "server CPU, ms", "kB a thread of 3")
        _tell(*["---"] * 6)
        for name in OURS:
            mine = await server.cost(ours(name), turns)
            theirs = await server.cost(peer(round(mine.calls)), turns)
            for who, cost in ((name, mine), ("create_agent", theirs)):
                numbers = (cost.rows, cost.trips, cost.cpu * 1_000, cost.size / 1_000)
                _tell(who, f"{cost.calls:.0f}", *(f"{number:.1f}" for number in numbers))
            both = zip(astuple(mine), astuple(theirs), strict=True)
            ratios = [f"{one / other:.2f}x" for one, other in both][:4]
            _tell("ratio", "", *ratios)


def _tell(*cells: str) -> None:
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    given = [one for one in sys.argv[1:] if not one.startswith("--")]
    asyncio.run(main(int(given[0]) if given else 60, bounced="--bouncer" in sys.argv))
