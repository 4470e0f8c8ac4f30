"""A server saves the threads; what keeps their runs apart, and the journal, are in Postgres."""

import psycopg
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import LeaseLost, ScriptedModel, build_react, open_durability
from support.visiting import RULES, said

THREAD = {"configurable": {"thread_id": "t"}}
STEAL = (
    "UPDATE loopwright_threads SET owner = 'process 7 on elsewhere', token = 42,"
    " until = clock_timestamp() + interval '1 minute' WHERE name = 't'"
)
GIVE_BACK = "UPDATE loopwright_threads SET until = clock_timestamp() - interval '1 day'"


@pytest.mark.postgres
@pytest.mark.req("W-94", "W-90")
def test_under_a_servers_saver_who_lost_a_thread_makes_no_write_more(postgres_url):
    visits, saver = [], InMemorySaver()

    def visit(place: str) -> str:
        """See a place."""
        visits.append(place)
        if visits == ["Aral"]:
            with psycopg.connect(postgres_url, autocommit=True) as another:
                another.execute(STEAL)
        return f"{place} is as it was"

    def served(kept):
        graph = build_react(
            model=ScriptedModel(RULES["react"]), tools=[visit],
            journal=kept.journal, locked_by=lambda: kept.locks,
        )  # fmt: skip
        return graph.copy(update={"checkpointer": saver})

    with open_durability(postgres_url) as here, open_durability(postgres_url) as there:
        with pytest.raises(LeaseLost, match="process 7 on elsewhere"):
            served(here).invoke(said("Visit Aral, Brno."), THREAD)
        assert visits == ["Aral"]
        with psycopg.connect(postgres_url, autocommit=True) as another:
            another.execute(GIVE_BACK)
        asked = served(there).invoke(None, THREAD)["__interrupt__"]
        assert [one.value["type"] for one in asked] == ["uncertain_call"]
        answer = Command(resume={"type": "respond", "message": "Aral is as it was"})
        values = served(there).invoke(answer, THREAD)
    assert values["outcome"]["status"] == "complete"
    assert visits == ["Aral", "Brno"]
