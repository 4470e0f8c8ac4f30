"""A turn that is stopped ends honestly; one that is steered goes on with the new words."""

import asyncio
import random
import threading

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import (
    ScriptedModel,
    SettingsError,
    ThreadNotFound,
    build_react,
    open_durability,
)
from loopwright.store.locks.thread_locks import _lines
from support import killed
from support.budget import STEP
from support.front_ends import chat_ui_drops
from support.patience import PATIENCE
from support.scripts import call, thought
from support.visiting import (
    CALM,
    FIRST,
    RULES,
    SECOND,
    THREAD,
    Book,
    graph_of,
    places,
    run,
    said,
    stop_there,
)


def requests(values):
    return [m.text for m in values["messages"] if m.type == "human"]


def model_calls(book):
    return book.told("events").count("BeforeModel")


def steered_at(kind, moment, folder):
    """A run that is steered at an event, or None where it has fewer; what it did and came to."""
    folder.mkdir()
    book, before = Book(folder), []

    async def steer(graph, number):
        if number == moment:
            before.append((model_calls(book), set(book.told("visits"))))
            assert await graph.asteer(THREAD, SECOND)

    graph = graph_of(
        kind, book, at=lambda graph, number, _: steer(graph, number), checkpointer=InMemorySaver()
    )
    values = graph.invoke(said(FIRST), THREAD, context=CALM)
    return (book, values, *before[0]) if before else None


@pytest.mark.req("W-27")
@pytest.mark.parametrize("kind", [*RULES])
def test_whenever_a_turn_is_steered_no_visit_is_made_twice(kind, tmp_path):
    moments = 0
    while found := steered_at(kind, moments, tmp_path / str(moments)):
        book, values, asked, seen = found
        visits = book.told("visits")
        assert values["outcome"]["status"] == "complete", moments
        assert sorted(visits) == sorted(set(visits)), moments
        assert set(visits) >= set(places(SECOND))
        assert requests(values) == [FIRST, SECOND]
        # What was under way, another plan, and then what the new words need.
        needed = {"react": 3, "agent": 1, "plan": 2, "flow": 0}[kind] * len(set(visits) - seen) + 1
        planned = 0 if kind in ("react", "agent") else 1
        assert model_calls(book) - asked <= planned + needed + 1, moments
        moments += 2 * STEP - 1
    assert moments >= 10


def test_messages_that_come_one_after_the_other_are_taken_in_their_order(tmp_path):
    book, words = Book(tmp_path), ["Visit Brno.", "Visit Cork, Dijon."]

    async def steer(graph, number):
        if number == 1:
            for text in words:
                assert await graph.asteer(THREAD, text)

    graph = graph_of("plan", book, at=lambda g, n, _: steer(g, n), checkpointer=InMemorySaver())
    values = graph.invoke(said(FIRST), THREAD)
    assert requests(values) == [FIRST, *words]
    assert {"Cork", "Dijon"} <= set(book.told("visits"))


@pytest.mark.req("W-27")
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("plan", ["= Aral. see Aral", "+ Dijon. see Dijon", "- Brno. see Brno",
                  "- Cork. see Cork"]),
        ("flow", ["= Aral: visit", "+ Dijon: visit — do Dijon", "- Brno: visit — do Brno",
                  "- Cork: visit — do Cork"]),
        ("react", None),
        ("agent", None),
    ],
)  # fmt: skip
def test_what_a_message_changes_is_shown(kind, changes, tmp_path):
    book, told = Book(tmp_path), []

    async def steer(graph, name):
        if name == "AfterTool" and len(book.told("visits")) == 1:
            assert await graph.asteer(THREAD, {"role": "user", "content": SECOND, "id": "mine"})

    graph = graph_of(
        kind, book, at=lambda graph, _, name: steer(graph, name), checkpointer=InMemorySaver()
    )
    for mode, chunk in graph.stream(
        said(FIRST), THREAD, context=CALM, stream_mode=["custom", "values"]
    ):
        told.append(chunk) if mode == "custom" else (values := chunk)
    (steered,) = (event for event in told if event["type"] == "steered")
    assert steered["messages"] == [SECOND]
    assert steered["kept"] == (["Aral"] if changes else [])
    assert [m.id for m in values["messages"] if m.text == SECOND] == ["mine"]
    plans = [event.get("changes") for event in told if event["type"] == "plan"]
    assert plans == ([None, changes] if changes else [])
    texts = [m.text for m in values["messages"]]
    assert not changes or any(text.endswith("\n".join(changes)) for text in texts)
    assert values["outcome"]["status"] == "complete"


@pytest.mark.req("W-27")
@pytest.mark.parametrize("kind", [*RULES])
def test_a_kill_changes_nothing_of_a_steered_turn(kind, tmp_path):
    chance = random.Random(f"{kind} 27")
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        book, steer_at = Book(folder), chance.randrange(6)
        kill_at = steer_at + chance.randrange(4)
        process = killed.spawn(run, kind, str(folder), steer_at, kill_at)
        process.join(PATIENCE)
        assert book.told("steered") == [str(steer_at)]
        with open_durability(f"sqlite:///{folder}/threads.db") as durability:
            graph = graph_of(kind, book, durability=durability)
            values = graph.invoke(None, THREAD, context=CALM)
            if asked := values.get("__interrupt__"):  # killed behind a visit, before its end
                place = asked[0].value["action_requests"][0]["args"]["place"]
                assert place in book.told("visits"), (kind, steer_at, kill_at)
                values = graph.invoke(Command(resume="respond: it ran"), THREAD, context=CALM)
        visits = book.told("visits")
        about = (number, steer_at, kill_at)
        assert values["outcome"]["status"] == "complete", about
        assert requests(values) == [FIRST, SECOND], about
        assert sorted(visits) == sorted(set(visits)), about
        assert set(visits) >= set(places(SECOND)), about


def stopped_at(kind, moment, folder):
    """A run that is stopped at an event, or None where it has fewer; what it had done by then."""
    folder.mkdir()
    book, before = Book(folder), []

    async def stop(graph, number):
        if number == moment:
            before.append((model_calls(book), len(book.told("visits"))))
            assert await graph.astop(THREAD) is None

    graph = graph_of(
        kind, book, at=lambda graph, number, _: stop(graph, number), checkpointer=InMemorySaver()
    )
    outcome = graph.invoke(said(FIRST), THREAD, context=CALM)["outcome"]
    return (book, graph, outcome, *before[0]) if before else None


@pytest.mark.req("W-27", "S0-22", "S1-14")
@pytest.mark.parametrize("kind", [*RULES])
def test_whenever_a_turn_is_stopped_it_ends_as_cancelled_and_can_be_resumed(kind, tmp_path):
    moment = 0
    while found := stopped_at(kind, moment, tmp_path / str(moment)):
        book, graph, outcome, asked, visited = found
        assert (outcome["status"], outcome["reason"]) == ("cancelled", "ABORTED"), moment
        assert outcome["unmet"]
        assert outcome["uncertain_calls"] == []
        assert outcome["spend"]["model_calls"] == model_calls(book)
        assert model_calls(book) - asked <= 1  # the one under way
        assert len(book.told("visits")) - visited <= 1
        assert not graph.get_state(THREAD).next
        assert chat_ui_drops(graph.get_state(THREAD).values) == []
        ended = graph.invoke(None, THREAD)
        assert chat_ui_drops(graph.get_state(THREAD).values) == []
        assert ended["outcome"]["status"] == "complete", moment
        assert sorted(book.told("visits")) == sorted(places(FIRST)), moment
        moment += 2 * STEP - 1
    assert moment >= 10


def cut_off_at(kind, ask, folder):
    """A run whose model fails at an ask during which it is stopped, or None where it has fewer."""
    folder.mkdir()
    book, cut_off = Book(folder), []

    async def stop(graph, name):
        if name == "BeforeModel" and model_calls(book) == ask + 1 and not cut_off:
            cut_off.append(ask)
            assert await graph.astop(THREAD) is None

    def down():
        return cut_off == [ask] and model_calls(book) == ask + 1

    graph = graph_of(
        kind, book, at=lambda graph, _, name: stop(graph, name), down=down,
        checkpointer=InMemorySaver(),
    )  # fmt: skip
    outcome = graph.invoke(said(FIRST), THREAD, context=CALM)["outcome"]
    return (book, graph, outcome) if cut_off else None


@pytest.mark.req("W-27")
@pytest.mark.parametrize("kind", [*RULES])
def test_a_model_that_fails_under_a_stop_is_asked_no_more_and_the_turn_ends_as_cancelled(
    kind, tmp_path
):
    """So nobody who has stopped a turn waits for the retries of a call that hangs, or its error."""
    ask = 0
    while found := cut_off_at(kind, ask, tmp_path / str(ask)):
        book, graph, outcome = found
        assert (outcome["status"], outcome["reason"]) == ("cancelled", "ABORTED"), ask
        assert model_calls(book) == ask + 1
        assert outcome["uncertain_calls"] == []
        graph.invoke(None, THREAD)
        assert sorted(book.told("visits")) == sorted(places(FIRST)), ask
        ask += 1
    assert ask >= 2


@pytest.mark.req("W-27")
@pytest.mark.parametrize("kind", [*RULES])
def test_a_thread_that_waits_at_a_question_is_stopped_at_once(kind, tmp_path):
    book = Book(tmp_path)
    graph = graph_of(kind, book, checkpointer=InMemorySaver(), policy="ask")
    assert "__interrupt__" in graph.invoke(said(FIRST), THREAD)
    outcome = graph.stop(THREAD)
    assert (outcome["status"], outcome["reason"]) == ("cancelled", "ABORTED")
    state = graph.get_state(THREAD)
    assert (state.interrupts, state.next, book.told("visits")) == ((), (), [])
    assert graph.stop(THREAD) == outcome  # nothing is left to stop
    assert not graph.steer(THREAD, SECOND)
    assert requests(graph.get_state(THREAD).values) == [FIRST]


def test_what_cannot_be_stopped_or_steered_is_told(tmp_path):
    graph = graph_of("react", Book(tmp_path), checkpointer=InMemorySaver())
    with pytest.raises(ThreadNotFound, match="No thread 't' is saved"):
        graph.stop(THREAD)
    with pytest.raises(SettingsError, match="name the thread_id"):
        graph.stop({"configurable": {}})
    for wrong in ("", {"role": "assistant", "content": "Done."}, 7, None):
        with pytest.raises(SettingsError, match="cannot be handed to the thread"):
            graph.steer(THREAD, wrong)
    assert graph.invoke(said(FIRST), THREAD)["outcome"]["status"] == "complete"


def test_the_run_of_another_process_hears_of_a_stop(tmp_path):
    """Two graphs on one file stand for two processes: neither knows the other's runs by itself."""
    book, begun, asked = Book(tmp_path), threading.Event(), threading.Event()

    async def rest(number):
        if number == 2:
            begun.set()
            assert await asyncio.to_thread(asked.wait, PATIENCE)
            await asyncio.sleep(2.5)  # two looks

    url = f"sqlite:///{tmp_path}/threads.db"
    with open_durability(url) as durability:
        graph = graph_of("plan", book, at=lambda _, n, __: rest(n), durability=durability)
        ended = []
        thread = threading.Thread(
            target=lambda: ended.append(graph.invoke(said(FIRST), THREAD, context=CALM))
        )
        thread.start()
        assert begun.wait(PATIENCE)
        process = killed.spawn(stop_there, url)
        process.join(PATIENCE)
        asked.set()
        thread.join(PATIENCE)
    assert process.exitcode == 0
    assert ended[0]["outcome"]["status"] == "cancelled"
    assert len(book.told("visits")) < 3


async def in_line(running):
    """Until what runs waits for its thread."""
    while not _lines:
        assert not running.done()
        await asyncio.sleep(0.01)


def test_a_message_is_taken_up_once_whether_by_the_run_or_by_who_waits_behind_it(tmp_path):
    for moment in range(0, 30, STEP + 1):
        (tmp_path / str(moment)).mkdir()
        book, later = Book(tmp_path / str(moment)), []

        async def act(graph, number, moment=moment, later=later):
            if number == 0:
                behind = graph.ainvoke(said("Visit Gent."), THREAD, context=CALM, wait=PATIENCE)
                later.append(asyncio.create_task(behind))
                await in_line(later[0])
            if number == moment:
                later.append(await graph.asteer(THREAD, SECOND))

        graph = graph_of(
            "react", book, at=lambda g, n, _, act=act: act(g, n), checkpointer=InMemorySaver()
        )

        async def both(graph=graph, later=later):
            await graph.ainvoke(said(FIRST), THREAD, context=CALM)
            return await later[0]

        values = asyncio.run(both())
        if len(later) == 1:
            break
        assert requests(values).count(SECOND) == 1
        assert book.told("visits").count("Gent") == 1
    assert moment > 5


def test_a_turn_that_was_steered_is_steered_and_stopped_again_at_once(tmp_path):
    """By somebody beside the run: it must not take its steered turn for one that is over."""

    async def main():
        asked = asyncio.Queue()

        async def think(messages, _):
            asked.put_nowait(messages)
            await asyncio.sleep(0.05)
            return thought("One more.", more=True, reason="it is asked")

        turns = {"thought": think, "action": lambda messages, _: [call("look", n=len(messages))]}
        graph = build_react(
            model=ScriptedModel(turns), tools=[look], observe="direct", checkpointer=InMemorySaver()
        )
        running = asyncio.create_task(graph.ainvoke(said(FIRST), THREAD))
        await asked.get()
        for text in (SECOND, "Visit Dijon."):
            assert await asyncio.wait_for(graph.asteer(THREAD, text), 2)
            while text not in [m.text for m in await asked.get()]:
                pass
        assert await asyncio.wait_for(graph.astop(THREAD), 2) is None
        values = await asyncio.wait_for(running, PATIENCE)
        assert values["outcome"]["status"] == "cancelled"
        assert requests(values) == [FIRST, SECOND, "Visit Dijon."]

    def look(n: int) -> str:
        """Look."""
        return f"fact {n}"

    asyncio.run(main())
