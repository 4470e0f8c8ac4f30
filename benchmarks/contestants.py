"""Who is measured: loops by hand, LangGraph's, LangChain's, ours.

The model is the server of `model_server.py`, whose address stands in OPENAI_BASE_URL. Each is built
once and then runs scripts of the server, every one on a thread of its own.
"""

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from model_server import PAGE

GOAL = "Look the numbers up one after another. Script: [[{}]]"
SYSTEM = "You look up numbers, one after another, with the tool."
LOOP = "loop"
"""The model whose server expects no prompts of ours."""
OBJECT = "react(direct), an object"
"""The same with a model that is given as `ChatOpenAI(…)`."""
BLOCKING = 0.2
_OUTSIDE = ThreadPoolExecutor(64)


async def look(number: int) -> str:
    """Look up a number."""
    return f"{number}: {PAGE}"


PAGED: list[float] = []
"""CPU seconds of this process at each call of `page`."""


async def page(number: int) -> str:
    """Look up a page of two kilobytes."""
    PAGED.append(time.process_time())
    return f"{number}: {(PAGE * 7)[:2_000]}"


def block(number: int) -> str:
    """Look up a number, by a library that blocks."""
    time.sleep(BLOCKING)
    return f"{number}"


async def work(name: str, seconds: float, given: list[Any]) -> dict[str, str]:
    """Take some time over what other steps gave."""
    # Woken as by a socket: asyncio's own timers are up to a millisecond late.
    await asyncio.get_running_loop().run_in_executor(_OUTSIDE, time.sleep, seconds)
    return {"done": f"{name}, {len(given)} before it"}


TOOLS: dict[str, Callable[..., Any]] = {"look": look, "page": page, "block": block, "work": work}


@dataclass(frozen=True)
class Built:
    """A contestant that is ready to run on threads of its own."""

    run: Callable[[str, str], Awaitable[Any]]
    """Takes a thread and a script."""
    read: Callable[[str], Awaitable[Any]] | None = None
    """Reads a thread's state."""
    texts: Callable[[str, str], AsyncIterator[str]] | None = None
    """Runs, and gives the visible text as it comes."""


@dataclass(frozen=True)
class Wanted:
    """What to build: the tool that is called, and the folder where threads are kept, if any."""

    tool: str = "look"
    place: str = ""
    alive: bool = True
    """Whether ours tell what happens: numbered events, kept in state, components made of them."""


def spec_of(name: str) -> dict[str, Any]:
    """A tool in OpenAI's format."""
    from langchain_core.utils.function_calling import convert_to_openai_tool  # noqa: PLC0415

    return convert_to_openai_tool(TOOLS[name])


def tool_of(name: str) -> Any:
    """A tool that says it only reads."""
    from langchain_core.tools import StructuredTool  # noqa: PLC0415

    made, sync = TOOLS[name], name == "block"
    given = {"func": made} if sync else {"coroutine": made}
    about = {"readOnlyHint": True}
    return StructuredTool.from_function(
        **given, name=name, metadata=about, description=made.__doc__
    )


async def called(call: dict[str, Any]) -> dict[str, Any]:
    """A tool call made by hand, and its result as a message."""
    made, given = TOOLS[call["function"]["name"]], json.loads(call["function"]["arguments"])
    if made is block:
        text = await asyncio.get_running_loop().run_in_executor(_OUTSIDE, lambda: made(**given))
    else:
        text = await made(**given)
    content = text if isinstance(text, str) else json.dumps(text)
    return {"role": "tool", "tool_call_id": call["id"], "content": content}


Message = dict[str, Any]


def begun(script: str) -> list[Message]:
    """How a loop by hand begins."""
    goal = {"role": "user", "content": GOAL.format(script)}
    return [{"role": "system", "content": SYSTEM}, goal]


Ask = Callable[[list[Message]], Awaitable[Message]]


@contextmanager
def by_hand(ask: Ask, place: str) -> Iterator[Built]:
    """The least a loop can do: ask, call, append; each message a row where threads are kept."""
    database = sqlite3.connect(f"{place}/raw.db" if place else ":memory:")
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("CREATE TABLE messages (thread TEXT, message TEXT)")

    def keep(thread: str, messages: list[Message]) -> None:
        rows = [(thread, json.dumps(message)) for message in messages]
        database.executemany("INSERT INTO messages VALUES (?, ?)", rows)
        database.commit()

    async def run(thread: str, script: str) -> None:
        messages, kept = begun(script), 0
        while True:
            answer = await ask(messages)
            messages.append(answer)
            messages += await asyncio.gather(*map(called, answer.get("tool_calls") or []))
            if place:
                keep(thread, messages[kept:])
                kept = len(messages)
            if not answer.get("tool_calls"):
                return

    with closing(database):
        yield Built(run)


@asynccontextmanager
async def raw_http(wanted: Wanted) -> AsyncIterator[Built]:
    """By hand over HTTP."""
    import httpx  # noqa: PLC0415

    tools, url = [spec_of(wanted.tool)], os.environ["OPENAI_BASE_URL"]
    head = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    async with httpx.AsyncClient(base_url=url, headers=head, timeout=None) as client:

        async def ask(messages: list[Message]) -> Message:
            body = {"model": LOOP, "messages": messages, "tools": tools}
            given = await client.post("/chat/completions", json=body)
            answer: Message = given.json()["choices"][0]["message"]
            return answer

        with by_hand(ask, wanted.place) as built:
            yield built


def openai_ask(wanted: Wanted) -> Ask:
    """Ask by the openai client."""
    from openai import AsyncOpenAI  # noqa: PLC0415

    client, tools = AsyncOpenAI(), [spec_of(wanted.tool)]

    async def ask(messages: list[Message]) -> Message:
        given: Any = await client.chat.completions.create(
            model=LOOP,
            messages=messages,
            tools=tools,  # type: ignore[arg-type]
        )
        answer: Message = given.choices[0].message.model_dump(exclude_none=True)
        return answer

    return ask


@asynccontextmanager
async def raw(wanted: Wanted) -> AsyncIterator[Built]:
    """By hand over the openai client."""
    with by_hand(openai_ask(wanted), wanted.place) as built:
        yield built


async def saver_of(wanted: Wanted, stack: AsyncExitStack) -> Any:
    """LangGraph's own SQLite saver, where threads are kept."""
    if not wanted.place:
        return None
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver  # noqa: PLC0415

    opened = AsyncSqliteSaver.from_conn_string(f"{wanted.place}/langgraph.db")
    return await stack.enter_async_context(opened)


def appended(state: list[Message], writes: list[list[Message]]) -> list[Message]:
    """A reducer of messages that only appends."""
    return [*state, *(message for write in writes for message in write)]


@asynccontextmanager
async def lean(wanted: Wanted) -> AsyncIterator[Built]:
    """The least a LangGraph loop can do: two nodes over the openai client, a channel of deltas."""
    from typing import Annotated  # noqa: PLC0415

    from langgraph.channels.delta import DeltaChannel  # noqa: PLC0415
    from langgraph.graph import END, START, StateGraph  # noqa: PLC0415
    from typing_extensions import TypedDict  # noqa: PLC0415

    # Each message stands in a list of its own: LangGraph makes objects of dicts that look like one.
    ask, channel = openai_ask(wanted), DeltaChannel(appended, list)

    class State(TypedDict):
        history: Annotated[list[Any], channel]

    async def agent(state: Any) -> Any:
        return {"history": [[await ask([message for (message,) in state["history"]])]]}

    async def tools(state: Any) -> Any:
        calls = state["history"][-1][0]["tool_calls"]
        results = await asyncio.gather(*map(called, calls))
        return {"history": [[result] for result in results]}

    graph: Any = StateGraph(State)
    graph.add_node("agent", agent)
    graph.add_node("tools", tools)
    graph.add_edge(START, "agent")
    graph.add_edge("tools", "agent")
    graph.add_conditional_edges(
        "agent", lambda state: "tools" if state["history"][-1][0].get("tool_calls") else END
    )
    async with AsyncExitStack() as stack:
        compiled = graph.compile(checkpointer=await saver_of(wanted, stack))
        yield of_graph(compiled, lambda script: {"history": [[one] for one in begun(script)]})


@asynccontextmanager
async def bare(wanted: Wanted) -> AsyncIterator[Built]:
    """What a turn costs without any work: three nodes that add a message, on our own saver."""
    from typing import Annotated  # noqa: PLC0415

    from langchain_core.messages import AIMessage, ToolMessage  # noqa: PLC0415
    from langgraph.channels.delta import DeltaChannel  # noqa: PLC0415
    from langgraph.graph import START, StateGraph  # noqa: PLC0415
    from typing_extensions import TypedDict  # noqa: PLC0415

    class State(TypedDict):
        messages: Annotated[list[Any], DeltaChannel(appended, list)]

    call = AIMessage("", tool_calls=[{"name": "look", "args": {"number": 0}, "id": "c"}])
    said = (call, ToolMessage(PAGE, tool_call_id="c"), AIMessage("Everything is looked up."))
    graph: Any = StateGraph(State)
    for place, message in enumerate(said):
        graph.add_node(str(place), lambda _, message=message: {"messages": [message]})
        graph.add_edge(str(place - 1) if place else START, str(place))
    opened = import_module("loopwright").open_durability
    with opened(f"sqlite:///{wanted.place}/loopwright.db") as kept:
        yield of_graph(graph.compile(checkpointer=kept.checkpointer), request)


def request(script: str) -> dict[str, Any]:
    """The input of a graph that has its own system prompt."""
    return {"messages": begun(script)[1:]}


def of_graph(graph: Any, given: Callable[[str], dict[str, Any]], **options: Any) -> Built:
    """A compiled graph, and what it is given."""

    def config(thread: str) -> dict[str, Any]:
        return {"configurable": {"thread_id": thread}, "recursion_limit": 10_000}

    async def run(thread: str, script: str) -> Any:
        ended = await graph.ainvoke(given(script), config(thread), **options)
        status = (ended.get("outcome") or {}).get("status", "complete")
        if status != "complete":
            raise RuntimeError(json.dumps(ended["outcome"], default=str))
        return ended

    async def texts(thread: str, script: str) -> AsyncIterator[str]:
        from langchain_core.messages import AIMessage  # noqa: PLC0415

        streaming = {"stream_mode": "messages", **options}
        async for message, _ in graph.astream(given(script), config(thread), **streaming):
            if isinstance(message, AIMessage) and message.text:
                yield message.text

    return Built(run, lambda thread: graph.aget_state(config(thread)), texts)


@asynccontextmanager
async def create_agent(wanted: Wanted) -> AsyncIterator[Built]:
    """LangChain's agent."""
    from langchain.agents import create_agent as create  # noqa: PLC0415

    async with AsyncExitStack() as stack:
        saver = await saver_of(wanted, stack)
        model, tools = f"openai:{LOOP}", [tool_of(wanted.tool)]
        graph = create(model, tools, system_prompt=SYSTEM, checkpointer=saver)
        yield of_graph(graph, request)


@asynccontextmanager
async def summing_up(wanted: Wanted) -> AsyncIterator[Built]:
    """LangChain's agent with the middleware that sums up what does not fit any more."""
    from langchain.agents import create_agent as create  # noqa: PLC0415
    from langchain.agents.middleware import SummarizationMiddleware  # noqa: PLC0415

    async with AsyncExitStack() as stack:
        saver, model = await saver_of(wanted, stack), f"openai:{LOOP}"
        # Off 100,000 tokens to 80,000, as ours.
        shorter = SummarizationMiddleware(
            model, trigger=("tokens", 100_000), keep=("tokens", 80_000)
        )
        tools = [tool_of(wanted.tool)]
        graph = create(model, tools, system_prompt=SYSTEM, middleware=[shorter], checkpointer=saver)
        yield of_graph(graph, request)


@asynccontextmanager
async def deepagents(wanted: Wanted) -> AsyncIterator[Built]:
    """LangChain's agent that plans, delegates and sums up; nobody has to install it."""
    from langchain_openai import ChatOpenAI  # noqa: PLC0415

    async with AsyncExitStack() as stack:
        saver, tools = await saver_of(wanted, stack), [tool_of(wanted.tool)]
        model = ChatOpenAI(model=LOOP, use_responses_api=False)  # it would choose the other API
        create = import_module("deepagents").create_deep_agent
        graph = create(model, tools, system_prompt=SYSTEM, checkpointer=saver)
        yield of_graph(graph, request)


def stock_model(name: str) -> Any:
    """A model as a program builds it."""
    from langchain_openai import ChatOpenAI  # noqa: PLC0415

    return ChatOpenAI(model=name, max_retries=0, use_responses_api=False)


def ours(
    name: str, graph: str, *, as_object: bool = False, **options: Any
) -> Callable[[Wanted], Any]:
    """One of loopwright's graphs; its model is given by name, or as an object of LangChain's."""

    @asynccontextmanager
    async def built(wanted: Wanted) -> AsyncIterator[Built]:
        import loopwright  # noqa: PLC0415
        from loopwright.graphs import build  # noqa: PLC0415

        telling = build.with_events
        build.with_events = telling if wanted.alive else lambda _, node: node
        async with AsyncExitStack() as stack:
            kept = None
            if wanted.place:
                opened = loopwright.open_durability(f"sqlite:///{wanted.place}/loopwright.db")
                kept = stack.enter_context(opened)
            compiled = getattr(loopwright, name)(
                model=stock_model(graph) if as_object else f"openai:{graph}",
                tools=[tool_of(wanted.tool)], durability=kept, **options,
            )  # fmt: skip
            build.with_events = telling
            context = loopwright.Context(
                max_iterations=1_000, max_executor_rounds=1_000, max_steps=1_000, max_turns=1_000,
                dedupe="off",
                max_parallel_tasks=8, max_parallel_models=256,
            )  # fmt: skip
            yield of_graph(compiled, request, context=context)

    return built


CONTESTANTS: dict[str, Callable[[Wanted], Any]] = {
    "raw HTTP": raw_http,
    "raw": raw,
    "lean StateGraph": lean,
    "bare StateGraph": bare,
    "create_agent": create_agent,
    "create_agent, summing up": summing_up,
    "deepagents": deepagents,
    "task_agent": ours("build_task_agent", "agent"),
    "react(direct)": ours("build_react", "react", observe="direct"),
    OBJECT: ours("build_react", "react", observe="direct", as_object=True),
    "react": ours("build_react", "react", observe="model"),
    "plan_execute_verify": ours("build_plan_execute_verify", "plan"),
    "prompt_flow": ours("build_prompt_flow", "flow"),
}


def with_transform(wanted: bool) -> None:
    """Leave the openai client as it is, or take its walk through each request out."""
    from openai import NotGiven, Omit  # noqa: PLC0415
    from openai.resources.chat.completions import completions  # noqa: PLC0415

    if not hasattr(completions, "kept_transform"):
        completions.kept_transform = completions.async_maybe_transform  # type: ignore[attr-defined]

    async def as_given(data: dict[str, Any], _: Any) -> dict[str, Any]:
        return {key: value for key, value in data.items() if not isinstance(value, Omit | NotGiven)}

    kept = completions.kept_transform  # type: ignore[attr-defined]
    completions.async_maybe_transform = kept if wanted else as_given
