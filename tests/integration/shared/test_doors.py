"""Every door takes as much as its row of the table says; of ten times that it says so, at once."""

import asyncio
import json
import re
import sqlite3
import sys
import time
import zlib
from contextlib import closing
from http.server import BaseHTTPRequestHandler

import httpx
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import PrivateAttr
from starlette.applications import Starlette

from loopwright import (
    LoopwrightError,
    PolicyTable,
    ScriptedModel,
    build_react,
    command_hook,
    open_durability,
)
from loopwright.calls.toolbox import Toolbox
from loopwright.models.openai_client import LeanChatOpenAI, get_shared_client
from loopwright.prompts.agents import read_agent
from loopwright.prompts.company import read_company
from loopwright.prompts.instructions import read_instructions
from loopwright.prompts.prompt import PromptManager
from loopwright.state.limits import LIMITS
from loopwright.tools.mcp.config import read_servers
from loopwright.ui.ag_ui import ag_ui_route
from loopwright.ui.routes import build_routes
from support.fake_openai import serving
from support.mcp_servers import process
from support.mcp_servers.calling import run as run_calls
from support.reacting import DONE, LOOK, THREAD, one_step, said
from support.scripts import call

TIMES = 10
MOST_SECONDS, MOST_STANDSTILL = 30.0, 1.0
"""On an idle machine it is one second, and 0.1."""


class Large:
    """What is ten times too much, in bytes, values or depth."""

    def __init__(self, door, kind):
        self.kind, self.much = kind, TIMES * getattr(LIMITS[door], kind)

    @property
    def value(self):
        if self.kind == "bytes":
            return "x" * self.much
        if self.kind == "values":
            return [0] * self.much
        nested = []
        for _ in range(self.much):
            nested = [nested]
        return nested

    @property
    def raw(self):
        if self.kind == "depth":
            return "[" * self.much + "]" * self.much
        return json.dumps(self.value)

    async def pieces(self, around='{"messages": %s}'):
        """The body of a request, piece by piece."""
        head, tail = around.split("%s")
        for text in (head, self.raw, tail):
            for place in range(0, len(text), 1_000_000):
                yield text[place : place + 1_000_000].encode()


async def words_of(awaitable):
    """What the package's own error says."""
    with pytest.raises(LoopwrightError) as refused:
        await awaitable
    return str(refused.value)


def words_in(read, *args):
    with pytest.raises(LoopwrightError) as refused:
        read(*args)
    return str(refused.value)


def graph_of(**options):
    return build_react(**{"model": one_step(), "checkpointer": InMemorySaver()} | options)


# Each gives nothing once all is prepared, then what is said.


async def give_input(large, _):
    given = {"messages": [HumanMessage("Hi", additional_kwargs={"more": large.value})]}
    yield
    yield await words_of(graph_of().ainvoke(given, THREAD))


async def give_words(large, _):
    given = said(large.value)
    yield
    yield await words_of(graph_of().ainvoke(given, THREAD))


async def answer(large, _):
    def look(name: str) -> str:
        """Look it up."""
        return name

    graph, given = graph_of(tools=[look], policy="ask"), large.value
    await graph.ainvoke(said(), THREAD)
    yield
    yield await words_of(graph.ainvoke(Command(resume=given), THREAD))
    assert (await graph.aget_state(THREAD)).interrupts, "the question stays open"


async def configure(large, _):
    config = {"configurable": {"thread_id": "t", "more": large.value}}
    yield
    yield await words_of(graph_of().ainvoke(said(), config))


async def set_context(large, _):
    context = {"tool_context": {"more": large.value}}
    yield
    yield await words_of(graph_of().ainvoke(said(), THREAD, context=context))


async def take(large, tmp_path):
    with open_durability(f"sqlite:///{tmp_path}/t.db") as durability:
        graph = graph_of(checkpointer=None, durability=durability)
        given = {**said(), "more": large.value}
        yield
        yield await words_of(graph.atake(THREAD, given, id="one"))


async def post(routes, path, pieces):
    transport = httpx.ASGITransport(Starlette(routes=routes))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        answered = await client.post(path, content=pieces)
    assert answered.status_code >= 400
    return answered.text


def post_to(routes, path):
    async def probe(large, _):
        pieces = [piece async for piece in large.pieces()]

        async def send():
            for piece in pieces:
                yield piece

        yield
        yield await post(routes, path, send())

    return probe


class Endless(BaseHTTPRequestHandler):
    """Begins an answer that has no end."""

    def do_POST(self):
        streams = json.loads(self.rfile.read(int(self.headers["Content-Length"]))).get("stream")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if streams else "application/json")
        self.end_headers()
        while True:
            self.wfile.write(
                b": " + b" " * 500_000 + b"\n\n" if streams else b'{"id": "' + b" " * 500_000
            )

    def log_message(self, *_):
        """Say nothing."""


async def ask_server(*_):
    with serving(Endless) as url:
        for streaming in (False, True):
            model = LeanChatOpenAI(
                model="m", api_key="k", base_url=url, streaming=streaming,
                http_async_client=get_shared_client(),
            )  # fmt: skip
            graph = graph_of(model=model)
            yield
            yield await words_of(graph.ainvoke(said(), THREAD))


class Talker(BaseChatModel):
    """Says more and more, whole or in pieces."""

    whole: bool = False
    _text: str = PrivateAttr("x" * TIMES * LIMITS["model answer"].bytes)

    @property
    def _llm_type(self):
        return "talker"

    def _generate(self, *_, **__):
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self._text))])

    async def _astream(self, *_, **__):
        if self.whole:
            yield ChatGenerationChunk(message=AIMessageChunk(self._text))
        while not self.whole:
            await asyncio.sleep(0)
            yield ChatGenerationChunk(message=AIMessageChunk(self._text[:10_000]))


async def ask_model(*_):
    for options in ({}, {"whole": True}, {"disable_streaming": True}):
        graph = graph_of(model=Talker(**options))
        yield
        yield await words_of(graph.ainvoke(said(), THREAD))


def serve(where):
    async def probe(large, _):
        box = Toolbox(
            mcp={"mcpServers": {"s": process("vast", where, large.kind, str(large.much))}}
        )
        yield
        catalog = await box.catalog()
        if where != "answer":
            is_one_tool = where == "definition" and large.kind != "depth"
            assert ("plain" in catalog.tools) == is_one_tool
            yield "".join(catalog.warnings)
        else:
            (record,) = await run_calls(box, ("vast", {}))
            assert record["status"] == "error"
            yield record["result"]
        await box.aclose()

    return probe


async def call_tool(large, _):
    given = large.value

    def look(name: str):
        """Look it up."""
        return given

    model = ScriptedModel(
        {"thought": [LOOK, DONE], "action": [[call("look", name="x")]], "observation": ["Seen."]}
    )
    graph = graph_of(model=model, tools=[look], policy="allow")
    yield
    state = await graph.ainvoke(said(), THREAD)
    yield next(one.text for one in state["messages"] if one.type == "tool")


def read(act, name, text="{}"):
    """A probe that reads a file, which holds a text with so many bytes in its middle."""

    async def probe(large, tmp_path):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text.replace("{}", large.value))
        yield
        yield act(file)

    return probe


def refuse(act):
    return lambda file: words_in(act, file)


async def load_record(large, tmp_path):
    """A row of a few hundred kilobytes holds ten times the limit when it is unpacked."""
    packer, zeros = zlib.compressobj(), bytes(16_000_000)
    begun = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)
    more = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)
    bomb = begun + more * (large.much // len(zeros))
    with open_durability(f"sqlite:///{tmp_path}/t.db") as durability:
        graph = graph_of(checkpointer=None, durability=durability, model=ScriptedModel([DONE]))
        await graph.ainvoke(said(), THREAD)
        with closing(sqlite3.connect(tmp_path / "t.db")) as file, file:
            file.execute("UPDATE checkpoints SET checkpoint = ?, type = 'msgpack+zlib'", [bomb])
        yield
        yield await words_of(graph.aget_state(THREAD))


async def hear_hook(large, _):
    command = [sys.executable, "-c", f"print('x' * {large.much})"]
    graph = graph_of(hooks=[command_hook("BeforeAgent", command)], model=ScriptedModel([DONE]))
    yield
    state = await graph.ainvoke(said(), THREAD)
    yield " ".join(state["outcome"]["warnings"])


UI = build_routes("")
PROBES = {
    "hook": hear_hook,
    "input": give_input,
    "words": give_words,
    "answer": answer,
    "configurable": configure,
    "context": set_context,
    "tool context": set_context,
    "queue": take,
    "AG-UI": post_to([ag_ui_route(graph_of())], "/ag-ui"),
    "component": post_to(UI, "/ui/react"),
    "model body": ask_server,
    "model answer": ask_model,
    "server answer": serve("answer"),
    "tool list": serve("list"),
    "tool definition": serve("definition"),
    "tool result": call_tool,
    "front matter": read(refuse(read_agent), "agent.md", "---\na: {}\n---\nDo it."),
    "agent": read(refuse(read_agent), "agent.md", "---\nname: a\n---\n{}"),
    "instructions": read(refuse(lambda file: read_instructions(file.parent)), "AGENTS.md"),
    "skill": read(lambda file: read_instructions(file.parent.parent).problems[0], "s/SKILL.md"),
    "rules": read(
        lambda file: words_in(read_company, file.parent) + "\n" + words_in(PolicyTable.read, file),
        "company.yaml",
    ),
    "settings": read(
        lambda file: "\n".join(
            [words_in(read_servers, file), words_in(PromptManager().set_system_context, file)]
        ),
        "mcp.json",
    ),
    "record": load_record,
}
KINDS = [
    (door, kind)
    for door, limit in LIMITS.items()
    for kind in ("bytes", "values", "depth")
    if getattr(limit, kind)
]


async def tick(gaps):
    """Note how long the event loop stands still."""
    while True:
        before = time.perf_counter()
        await asyncio.sleep(0.002)
        gaps.append(time.perf_counter() - before)


@pytest.fixture(scope="module", autouse=True)
def _imported():
    """What a first run reads is not measured."""
    graph_of(model=ScriptedModel([DONE])).invoke(said(), THREAD)


@pytest.mark.req("W-102", "W-123")
@pytest.mark.parametrize(("door", "kind"), KINDS, ids=["-".join(pair) for pair in KINDS])
async def test_of_ten_times_its_limit_a_door_says_so_at_once(door, kind, tmp_path):
    probe = PROBES[door](Large(door, kind), tmp_path)
    async for _ in probe:
        gaps = []
        ticking = asyncio.create_task(tick(gaps))
        await asyncio.sleep(0.01)
        began = time.perf_counter()
        said = await anext(probe)
        took = time.perf_counter() - began
        await asyncio.sleep(0.01)
        ticking.cancel()
        assert took < MOST_SECONDS
        assert max(gaps) < MOST_STANDSTILL
        assert len(said) < 600
        assert re.search("limit here|not read|are read|no valid|recursion|carries", said)


@pytest.mark.req("W-123")
@pytest.mark.parametrize("door", ["AG-UI", "component"])
async def test_who_sends_nothing_more_is_not_waited_for(door, monkeypatch):
    monkeypatch.setitem(LIMITS, door, LIMITS[door]._replace(seconds=0.05))

    async def send():
        yield b"{"
        await asyncio.Event().wait()

    routes = {"AG-UI": [ag_ui_route(graph_of())], "component": UI}[door]
    path = {"AG-UI": "/ag-ui", "component": "/ui/react"}[door]
    assert "did not come within 0.05 s" in await post(routes, path, send())
