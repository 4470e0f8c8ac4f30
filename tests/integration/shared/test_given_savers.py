"""A saver of LangGraph's that somebody gave: journal and locks stand in its database."""

import asyncio
import os
import signal
from contextlib import nullcontext

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from loopwright import (
    Hook,
    ScriptedModel,
    ThreadBusy,
    build_customer_service,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
    build_router,
    build_task_agent,
)
from support.elsewhere import ElsewhereSaver
from support.flows import flow, step
from support.forked import Command as Process, server
from support.patience import PATIENCE
from support.places import reach
from support.scripts import PROOFREAD, call, passed, plan, report, thought, todo
from support.toy_graphs import on

SAID = {"messages": [("user", "Pay Ada.")]}

KILLED = (
    reach(__file__)
    + """
import asyncio, sys, warnings
from test_given_savers import begin, opened, paying
warnings.simplefilter("ignore")

async def main():
    async with opened(sys.argv[1]) as saver:
        await begin(paying(saver, sys.argv[2], sys.argv[3], dies=True), sys.argv[3])

asyncio.run(main())
"""
)


BUILD = {
    "react": build_react, "agent": build_task_agent, "plan": build_plan_execute_verify,
    "flow": build_prompt_flow, "router": build_router, "service": build_customer_service,
}  # fmt: skip


def paying(saver, paid, graph="react", *, dies=False, names=("Ada",), **more):
    """Pays each once; a process that dies does so in the middle of the payment."""

    def pay(name: str) -> str:
        """Pay somebody."""
        with open(paid, "a", encoding="utf-8") as book:
            book.write(f"{name}\n")
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"paid {name}"

    once = [call("pay", f"c{place}", name=name) for place, name in enumerate(names)]
    steps = [
        step(f"s{place or ''}", "pay", arguments={"name": name},
             dependencies=["s"] if place else []) for place, name in enumerate(names)
    ]  # fmt: skip
    end = [call("complete_task", summary="Ada was paid.")]

    def after(first, then):
        return lambda messages, _: then if "paid" in messages[-1].text else first

    turns = {
        "thought": after(thought("I pay.", more=True, reason="due"), thought("Ada was paid.")),
        "action": [once] * 2, "observation": ["She is paid."] * 2,
        "agent": after(once, end), "dispatcher": [{"graph": "react", "why": "due"}] * 2,
        "planner": [plan(todo("1", "Pay Ada"))] * 2,
        "executor": after(once, report("Ada was paid.")),
        "verifier": [passed("Ada was paid.", t1=["1.1.0"])],
        "flow_planner": [flow(*steps)] * 2,
        "answerer": ["Ada was paid [s]."],
        **PROOFREAD, "listener": lambda *_: {"intent": "order", "mood": "calm", "score": 0},
        "support": lambda messages, _: (
            "Ada was paid." if any(one.type == "tool" for one in messages) else once
        ),
    }  # fmt: skip
    given = {"policy": "allow", **({"observe": "direct"} if graph == "react" else {}), **more}
    return BUILD[graph](model=ScriptedModel(turns), tools=[pay], checkpointer=saver, **given)


async def begin(made, graph, **options):
    """Say what is wanted; the customer of a service must agree to it as well."""
    if graph == "service":
        await made.ainvoke(SAID, on("t"))
        return await made.ainvoke({"messages": [("user", "Yes!")]}, on("t"), **options)
    return await made.ainvoke(SAID, on("t"), **options)


class _Synchronous:
    def __init__(self, within):
        self._within = within

    async def __aenter__(self):
        return self._within.__enter__()

    async def __aexit__(self, *how):
        return self._within.__exit__(*how)


def opened(url):
    """One of LangGraph's savers, of the database that is named; or somebody's own, of a file."""
    if url.endswith("own.db"):
        return nullcontext(ElsewhereSaver(url))
    if url.startswith("postgres"):
        return AsyncPostgresSaver.from_conn_string(url)
    if url.endswith("async.db"):
        return AsyncSqliteSaver.from_conn_string(url)
    return _Synchronous(SqliteSaver.from_conn_string(url))


@pytest.fixture(params=["given.db", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return str(tmp_path / request.param)


@pytest.mark.req("W-166", "W-104")
@pytest.mark.filterwarnings("ignore:The database of checkpointer")
@pytest.mark.parametrize(
    ("url", "graph"),
    [
        *((name, graph) for name in ("given.db", "async.db", "own.db") for graph in BUILD),
        pytest.param("postgres", "react", marks=pytest.mark.postgres),
    ],
    indirect=["url"],
)
async def test_a_payment_in_which_the_process_died_is_asked_about(url, tmp_path, graph):
    paid, script = tmp_path / "paid", tmp_path / "killed.py"
    script.write_text(KILLED)
    async with opened(url) as saver:
        if url.startswith("postgres"):
            await saver.setup()
    with Process(server(), (url, str(paid), graph), env={**os.environ}, script=script) as process:
        assert await asyncio.to_thread(process.wait, PATIENCE) == -signal.SIGKILL
    async with opened(url) as saver:
        made = paying(saver, str(paid), graph)
        asked = (await made.ainvoke(None, on("t"), wait=PATIENCE))["__interrupt__"]
        assert [one.value["type"] for one in asked] == ["uncertain_call"]
        answer = Command(resume={"type": "respond", "message": "paid Ada"})
        done = await made.ainvoke(answer, on("t"))
    assert done["outcome"]["status"] == "complete"
    assert paid.read_text() == "Ada\n"


@pytest.mark.req("W-166")
async def test_two_that_share_a_database_do_not_run_a_thread_at_once(url, tmp_path):
    paid = str(tmp_path / "paid")
    async with opened(url) as mine, opened(url) as other:
        if url.startswith("postgres"):
            await mine.setup()
        first, second = paying(mine, paid, policy="ask"), paying(other, paid, policy="ask")
        held = asyncio.Event()

        async def hold():
            async for _ in first.astream(SAID, on("t"), stream_mode="updates"):
                held.set()
                with pytest.raises(ThreadBusy):
                    await second.ainvoke(SAID, on("t"))
                return

        await hold()
        assert held.is_set()
        asked = (await second.ainvoke(SAID, on("u")))["__interrupt__"]
        assert len(asked) == 1
        done = await first.ainvoke(Command(resume={"type": "approve"}), on("u"))
    assert done["outcome"]["status"] == "complete"


@pytest.mark.req("W-166")
async def test_a_saver_whose_database_is_not_known_is_warned_of(tmp_path):
    with pytest.warns(UserWarning, match=r"checkpointer= \(ElsewhereSaver\)"):
        graph = paying(ElsewhereSaver(), str(tmp_path / "paid"))
    done = await graph.ainvoke(SAID, on("t"))
    assert done["outcome"]["status"] == "complete"
    told = [text for text in done["outcome"]["warnings"] if "LOOPWRIGHT_DATABASE_URL" in text]
    assert len(told) == 1


@pytest.mark.req("W-166")
async def test_a_database_in_memory_belongs_to_its_process(tmp_path):
    async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
        done = await paying(saver, str(tmp_path / "paid")).ainvoke(SAID, on("t"))
    assert done["outcome"]["status"] == "complete"


@pytest.mark.req("W-104")
@pytest.mark.parametrize("graph", BUILD)
@pytest.mark.parametrize("make", [InMemorySaver, ElsewhereSaver])
@pytest.mark.filterwarnings("ignore:The database of checkpointer")
async def test_another_graph_on_a_saver_in_memory_asks_about_a_payment_cut_off(
    make, graph, tmp_path
):
    saver, paid, begun = make(), tmp_path / "paid", asyncio.Event()
    loop = asyncio.get_running_loop()

    async def hang():
        loop.call_soon_threadsafe(begun.set)
        await asyncio.sleep(PATIENCE)

    hook = Hook(event="AfterTool", run=lambda _: hang())
    running = asyncio.ensure_future(begin(paying(saver, str(paid), graph, hooks=[hook]), graph))
    await begun.wait()
    running.cancel()
    await asyncio.wait([running])
    asked = (await paying(saver, str(paid), graph).ainvoke(None, on("t")))["__interrupt__"]
    assert [one.value["type"] for one in asked] == ["uncertain_call"]
    assert paid.read_text() == "Ada\n"


def _hang(begun, after=1):
    """A hook in which the payments hang once so many are made."""
    loop, made = asyncio.get_running_loop(), []

    async def hang():
        made.append(1)
        if len(made) == after:
            loop.call_soon_threadsafe(begun.set)
            await asyncio.sleep(PATIENCE)

    return Hook(event="AfterTool", run=lambda _: hang())


async def _cut_off(running, begun):
    """End a run in the middle of what has begun, as a kill would."""
    waiting = asyncio.ensure_future(begun.wait())
    await asyncio.wait([waiting, running], return_when=asyncio.FIRST_COMPLETED)
    assert begun.is_set(), running.result()
    running.cancel()
    await asyncio.wait([running])


@pytest.mark.req("W-104")
@pytest.mark.parametrize(("graph", "lost"), [("agent", ["Ada", "Bob"]), ("flow", ["Bob"])])
@pytest.mark.filterwarnings("ignore:The database of checkpointer")
async def test_each_payment_of_a_pass_that_nobody_saw_end_is_asked_about(tmp_path, graph, lost):
    file, paid, begun = tmp_path / "own.db", tmp_path / "paid", asyncio.Event()
    names, hooks = ("Ada", "Bob"), [_hang(begun, after=2)]
    first = paying(ElsewhereSaver(file), paid, graph, names=names, hooks=hooks)
    await _cut_off(asyncio.ensure_future(first.ainvoke(SAID, on("t"))), begun)
    done = await paying(ElsewhereSaver(file), paid, graph, names=names).ainvoke(None, on("t"))
    for name in lost:  # each in a process of its own
        (asked,) = done["__interrupt__"]
        assert asked.value["type"] == "uncertain_call"
        assert asked.value["action_requests"][0]["args"] == {"name": name}
        answer = Command(resume={"type": "respond", "message": f"paid {name}"})
        done = await paying(ElsewhereSaver(file), paid, graph, names=names).ainvoke(answer, on("t"))
    assert done["outcome"]["status"] == "complete"
    assert paid.read_text() == "Ada\nBob\n"


@pytest.mark.req("W-104")
@pytest.mark.parametrize("graph", BUILD)
@pytest.mark.filterwarnings("ignore:The database of checkpointer")
async def test_what_another_process_approves_is_asked_about_once(tmp_path, graph):
    file, paid, begun = tmp_path / "own.db", tmp_path / "paid", asyncio.Event()
    yes = Command(resume={"type": "approve"})

    def elsewhere(**more):
        return paying(ElsewhereSaver(file), paid, graph, **{"policy": "ask", **more})

    done = await begin(elsewhere(), graph)
    assert [one.value["type"] for one in done["__interrupt__"]] == ["tool_approval"]
    running = elsewhere(hooks=[_hang(begun)]).ainvoke(yes, on("t"))  # asks nobody again
    await _cut_off(asyncio.ensure_future(running), begun)
    done = await elsewhere().ainvoke(None, on("t"))
    assert [one.value["type"] for one in done["__interrupt__"]] == ["uncertain_call"]
    assert paid.read_text() == "Ada\n"
    done = await elsewhere().ainvoke(yes, on("t"))  # run it again
    assert "__interrupt__" not in done
    assert done["outcome"]["status"] == "complete"
    assert paid.read_text() == "Ada\nAda\n"


@pytest.mark.req("W-104")
@pytest.mark.parametrize("graph", ["agent", "flow"])
@pytest.mark.filterwarnings("ignore:The database of checkpointer")
async def test_where_nobody_can_be_asked_it_fails_as_uncertain(tmp_path, graph):
    file, paid, begun = tmp_path / "own.db", tmp_path / "paid", asyncio.Event()
    first = paying(ElsewhereSaver(file), paid, graph, hooks=[_hang(begun)]).ainvoke(SAID, on("t"))
    await _cut_off(asyncio.ensure_future(first), begun)
    alone = paying(ElsewhereSaver(file), paid, graph)
    done = await alone.ainvoke(None, on("t"), context={"interactive": False})
    assert done["outcome"]["status"] != "complete"
    assert [one["tool"] for one in done["outcome"]["uncertain_calls"]] == ["pay"]
    assert paid.read_text() == "Ada\n"
