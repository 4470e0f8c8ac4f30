"""What a turn costs PostgreSQL, counted: rows that are written and times that a client waits."""

import time

import psycopg
import pytest
from langchain_core.tools import StructuredTool

from loopwright import ScriptedModel, build_react, open_durability
from loopwright.doors.checkpoints import line
from support.counting import Counting
from support.scripts import call, thought
from support.toy_graphs import on

TURNS = 3
ROWS = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables"
OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> %s"
GOAL = {"messages": [("user", "Look Ada up, then pay her.")]}


def look(name: str) -> str:
    """Look up a fact."""
    return f"fact {name}"


def pay(name: str) -> str:
    """Pay somebody."""
    return f"paid {name}"


def paying(durability):
    def turn(messages, offered):
        done = sum(message.type == "tool" for message in messages)
        goals = sum(message.text == GOAL["messages"][0][1] for message in messages)
        if offered:
            return [call("pay" if done % 2 else "look", f"c{done}", name="Ada")]
        if done < 2 * goals:
            return thought("I take the next step.", more=True, reason="open")
        return thought("Ada was looked up and paid.")

    reads = StructuredTool.from_function(look, metadata={"readOnlyHint": True})
    model = ScriptedModel(turn)
    return build_react(model=model, tools=[reads, pay], durability=durability, observe="direct")


def rows(url):
    """How many were ever written, when all connections but this one have said so."""
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(OTHERS, [connection.info.backend_pid]).fetchone()[0]:
            time.sleep(0.05)
        return connection.execute(ROWS).fetchone()[0]


@pytest.mark.postgres
@pytest.mark.req("W-95")
def test_a_turn_of_two_calls_is_25_rows_and_30_trips_at_most(
    postgres_server, postgres_url, monkeypatch
):
    monkeypatch.setattr(line, "_PATIENCE", 10.0)  # this machine may be slow
    monkeypatch.setattr(line, "_LONGEST", 10.0)
    open_durability(postgres_url).close()
    before, trips = rows(postgres_url), []
    with Counting(postgres_server.port) as counting:
        url = postgres_url.replace(f":{postgres_server.port}/", f":{counting.port}/")
        with open_durability(url, connections=2) as durability:
            graph = paying(durability)
            for _ in range(2 * TURNS):
                trips.append(-counting.trips)
                assert graph.invoke(GOAL, on("t"))["outcome"]["status"] == "complete"
                trips[-1] += counting.trips
    assert (rows(postgres_url) - before) / (2 * TURNS) <= 25
    assert min(trips[TURNS:]) <= 30, trips
