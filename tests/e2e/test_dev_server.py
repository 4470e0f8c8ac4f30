"""`langgraph dev` as a developer starts it, seen through the SDK that Studio speaks."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, convert_to_messages
from langgraph_sdk import get_client, get_sync_client

from loopwright.graphs.registry import REGISTRY
from loopwright.state.roles import roles_of
from support.fake_openai import Reply, call as tool_call, fake_openai
from support.front_ends import chat_ui_draws
from support.patience import PATIENCE

GOAL = "List the files in examples/data, read notes.md and tell me who owns the returns policy"
# A plan of tool calls is made before anything is known: its paths must be whole.
PLANNED = GOAL.replace("notes.md", "examples/data/notes.md")
ENDS = {"intake", "finish"}
GRAPH = "plan_execute_verify"
WRITERS = sorted(REGISTRY.keys() - {"customer_service"})
"""Those that write a file without a language model."""
TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"


@pytest.fixture(scope="module")
def server(serve, clone, alive, tmp_path_factory):
    """A server in a fresh clone: nothing is configured, there is no .env and no key."""
    with serve(clone(tmp_path_factory.mktemp("fresh") / "clone")) as started:
        with get_sync_client(url=started.url) as client:
            started.assistants = {a["graph_id"]: a for a in client.assistants.search()}
            ids = {graph: a["assistant_id"] for graph, a in started.assistants.items()}
            started.schemas = {g: client.assistants.get_schemas(i) for g, i in ids.items()}
            started.drawn = {g: client.assistants.get_graph(i, xray=True) for g, i in ids.items()}
        started.after_reads = started.children()
        yield started
        children = started.children()
        assert started.stop() == 0
    assert not alive(children)
    assert "BlockingError" not in started.said()


@pytest.fixture
async def client(server):
    async with get_client(url=server.url) as opened:
        yield opened


async def begin(client: Any, goal: str, graph: str = GRAPH, **options: Any) -> Any:
    thread = (await client.threads.create())["thread_id"]
    message = {"messages": [{"role": "user", "content": goal}]}
    return thread, await client.runs.wait(
        thread, graph, input=message, raise_error=False, **options
    )


async def writes(client: Any, goal: str, graph: str, thread: str = "") -> Any:
    """Ask for a write."""
    thread = thread or (await client.threads.create())["thread_id"]
    said = {"messages": [{"role": "user", "content": goal}]}
    return thread, await client.runs.wait(thread, graph, input=said, raise_error=False)


async def answer(client: Any, thread: str, value: object, graph: str = GRAPH) -> Any:
    return await client.runs.wait(thread, graph, command={"resume": value}, raise_error=False)


async def questions(client: Any, thread: str) -> Any:
    return (await client.threads.get_state(thread))["interrupts"]


@pytest.mark.req("P-40")
def test_every_graph_is_served_as_one_assistant(server, repository):
    declared = json.loads((repository / "langgraph.json").read_text())["graphs"]
    assert set(server.assistants) == set(declared) == set(REGISTRY)
    for graph, assistant in server.assistants.items():
        assert assistant["name"] == graph
        assert assistant["description"] == declared[graph]["description"]
        assert {node["id"] for node in server.drawn[graph]["nodes"]} > ENDS


@pytest.mark.req("P-40", "P-44", "W-65")
def test_schemas_show_the_conversation_and_the_settings_form(server):
    of_flow = {"execution_plan", "variables"}
    shown: dict[str, set[str]] = {}
    for graph, schemas in server.schemas.items():
        known = {"messages"} | (of_flow if graph == "prompt_flow" else set())
        assert set(schemas["input_schema"]["properties"]) == known
        assert set(schemas["output_schema"]["properties"]) == {"messages", "outcome", "ui"}
        kinds = schemas["input_schema"]["properties"]["messages"]["items"]["oneOf"]
        assert {"$ref": "#/$defs/HumanMessage"} in kinds
        form = schemas["context_schema"]["properties"]
        shown[graph] = set(form)
        assert all(field["description"] for field in form.values())
        assert form["model"]["langgraph_type"] == "model"
        assert form["system_context"]["langgraph_type"] == "prompt"
        assert sorted(field["x-order"] for field in form.values()) == [*range(len(form))]
        assert {*roles_of(graph)} < {*form["models"]["properties"]}
    assert shown["react"] - shown[GRAPH] == {"max_iterations", "observe"}
    assert shown["prompt_flow"] - shown[GRAPH] == {"max_steps", "max_recoveries"}
    form = server.schemas[GRAPH]["context_schema"]["properties"]
    assert (form["max_tasks"]["minimum"], form["max_tasks"]["maximum"]) == (1, 200)
    assert form["review_plan"]["default"] is False


@pytest.mark.req("P-40", "P-45", "S0-14", "S0-148")
async def test_a_run_streams_its_phases_and_ends_complete(server, client):
    thread = (await client.threads.create())["thread_id"]
    message = {"messages": [{"role": "user", "content": GOAL}]}
    seen: dict[str, list[Any]] = {"updates": [], "custom": []}
    async for part in client.runs.stream(
        thread, GRAPH, input=message, stream_mode=["updates", "custom"]
    ):
        assert part.event != "error", part.data
        seen.setdefault(part.event, []).append(part.data)
    nodes = [node for update in seen["updates"] for node in update]
    assert [n for n in nodes if n in {"intake", "planner", "work", "verifier", "finish"}] == [
        "intake", "planner", "work", "verifier", "finish",
    ]  # fmt: skip
    kinds = {event["type"] for event in seen["custom"]}
    assert kinds >= {"phase", "plan", "task", "tool_call", "verdict", "outcome"}
    values = (await client.threads.get_state(thread))["values"]
    assert (values["outcome"]["status"], values["outcome"]["reason"]) == ("complete", "GOAL")
    assert "Mara Lindqvist" in values["messages"][-1]["content"]
    (tools,) = server.children().values()
    assert tools.endswith(f"-m loopwright.servers.workspace --root {server.folder}")


@pytest.mark.req("P-40", "P-45", "S1-13")
async def test_a_run_of_react_streams_its_phases_and_ends_complete(server, client):
    thread = (await client.threads.create())["thread_id"]
    message = {"messages": [{"role": "user", "content": GOAL}]}
    phases: list[str] = []
    async for part in client.runs.stream(thread, "react", input=message, stream_mode="custom"):
        assert part.event != "error", part.data
        if part.event == "custom" and part.data["type"] == "phase":
            phases.append(part.data["role"])
    assert phases[:4] == ["thought", "action", "observation", "thought"]
    values = (await client.threads.get_state(thread))["values"]
    assert (values["outcome"]["status"], values["outcome"]["reason"]) == ("complete", "GOAL")
    assert "Mara Lindqvist" in values["messages"][-1]["content"]


@pytest.mark.req("P-40", "P-45", "S2-17", "S2-35", "S2-36")
async def test_a_run_of_prompt_flow_streams_its_steps_and_ends_complete(server, client):
    thread = (await client.threads.create())["thread_id"]
    message = {"messages": [{"role": "user", "content": PLANNED}]}
    seen: dict[str, list[Any]] = {"updates": [], "custom": []}
    async for part in client.runs.stream(
        thread, "prompt_flow", input=message, stream_mode=["updates", "custom"]
    ):
        assert part.event != "error", part.data
        seen.setdefault(part.event, []).append(part.data)
    nodes = [node for update in seen["updates"] for node in update]
    assert [node for node in nodes if node != "task"] == [
        "intake", "plan_flow", "check_flow", "run_flow", "answer_flow", "finish",
    ]  # fmt: skip
    events = [e for e in seen["custom"] if e["type"].startswith("prompt_flow_step")]
    (planned,) = [e["todos"] for e in seen["custom"] if e["type"] == "plan"]
    assert len(planned) >= 2
    for step in planned:
        start, result = [e for e in events if e["step_id"] == step["id"]]
        assert (start["type"], start["tool"]) == ("prompt_flow_step_start", step["tool"])
        assert (result["type"], result["success"]) == ("prompt_flow_step_result", True)
    values = (await client.threads.get_state(thread))["values"]
    assert (values["outcome"]["status"], values["outcome"]["reason"]) == ("complete", "GOAL")
    assert "Mara Lindqvist" in values["messages"][-1]["content"]


REVIEWED = {"plan_execute_verify": "review_plan", "prompt_flow": "review_flow"}


@pytest.mark.req("P-40", "P-45", "P-37")
async def test_a_reviewed_plan_runs_once_the_right_answer_came(client):
    await asyncio.gather(*(reviewed(client, graph) for graph in REVIEWED))


async def reviewed(client: Any, graph: str) -> None:
    thread, paused = await begin(client, PLANNED, graph, context={"review_plan": True})
    (question,) = await questions(client, thread)
    assert paused["__interrupt__"][0]["id"] == question["id"]
    assert question["value"]["action_requests"][0]["name"] == REVIEWED[graph]
    for bad in ({question["id"]: "maybe"}, "maybe"):
        error = (await answer(client, thread, bad, graph))["__error__"]
        assert error["error"] == "AnswerRejected"
        assert error["message"].startswith("The answer to thread")
        assert "an answer is approve, reject[: reason]" in error["message"]
        assert [q["id"] for q in await questions(client, thread)] == [question["id"]]
    ended = await answer(client, thread, {question["id"]: {"type": "approve"}}, graph)
    assert ended["outcome"]["status"] == "complete"
    assert "Mara Lindqvist" in ended["outcome"]["answer"]


@pytest.mark.req("P-20", "P-40", "P-45")
async def test_a_write_waits_for_approval_in_the_shapes_of_both_front_ends(server, client):
    await asyncio.gather(*(approved(client, graph, server.folder) for graph in WRITERS))


async def approved(client: Any, graph: str, folder: Path) -> None:
    file = folder / f"{graph}.txt"
    thread, paused = await writes(client, f'Write "good morning" to {graph}.txt', graph)
    asked = paused["__interrupt__"][0]["value"]
    arguments = {"path": f"{graph}.txt", "content": "good morning"}
    (action,) = asked["action_requests"]
    assert (action["name"], action["args"]) == ("write_file", arguments)
    assert asked["review_configs"][0]["action_name"] == "write_file"
    assert asked["action_request"] == {"action": "write_file", "args": arguments}
    assert asked["config"]["allow_accept"] is True
    assert not file.exists()
    ended = await answer(client, thread, {"decisions": [{"type": "approve"}]}, graph)
    assert ended["outcome"]["status"] == "complete"
    assert file.read_text() == "good morning"


@pytest.mark.req("W-14", "S0-149", "P-20", "P-40")
async def test_an_approval_is_drawn_under_the_last_message_in_every_turn(server, client):
    await asyncio.gather(*(drawn(client, graph, server.folder) for graph in WRITERS))


async def drawn(client: Any, graph: str, folder: Path) -> None:
    thread = ""
    for number, text in ((1, "one"), (2, "two")):
        goal = f'Write "{text}" to {graph}-{number}.txt'
        thread, _ = await writes(client, goal, graph, thread)
        state = await client.threads.get_state(thread)
        (newest, *_) = await client.threads.get_history(thread, limit=1)
        assert newest["values"]["messages"] == state["values"]["messages"]
        messages = convert_to_messages(state["values"]["messages"])
        assert [one["value"]["type"] for one in state["interrupts"]] == ["tool_approval"]
        assert all(chat_ui_draws(messages, hides_tool_calls=hides) for hides in (False, True))
        assert isinstance(messages[-1], AIMessage)
        assert messages[-1].tool_calls[0]["args"] == {
            "path": f"{graph}-{number}.txt",
            "content": text,
        }
        assert messages[-1].additional_kwargs["agent_type"] in (
            "executor",
            "flow_planner",
            "action",
            "agent",
        )
        ended = await answer(client, thread, {"decisions": [{"type": "approve"}]}, graph)
        assert ended["outcome"]["status"] == "complete"
        assert ended["messages"][-1]["content"] == ended["outcome"]["answer"]
        assert (folder / f"{graph}-{number}.txt").read_text() == text


BLOCKS = """
import time
from langgraph.graph import START, MessagesState, StateGraph

async def block(state):
    time.sleep(0.01)

builder = StateGraph(MessagesState)
builder.add_node("block", block)
builder.add_edge(START, "block")
graph = builder.compile()
"""


def model_of(request: dict[str, Any]) -> Reply:
    """A model with one task, one call and a verdict on it, by the request's contract."""
    contract = json.dumps(request.get("response_format"))
    if "PlannerResponse" in contract:
        return Reply(json.dumps({"summary": "", "todos": [{"id": "1", "description": "Look"}]}))
    if "VerifierResponse" in contract:
        judged = {"id": "1", "completed": True, "feedback": "", "evidence": ["1.1.0"]}
        verdict = {"allCompleted": True, "userNeedsSatisfied": True, "tasks": [judged]}
        if "Say it twice" in str(request) and len(request["messages"]) == 2:
            judged["evidence"], verdict["summary"] = ["9.9.9"], "It holds nothing."
        return Reply(json.dumps({"summary": "The shelf holds lamp.txt."} | verdict))
    if request["messages"][-1]["role"] == "tool":
        told = request["messages"][-1]["content"]
        return Reply(json.dumps({"summary": f"It holds {told}", "taskCompleted": True}))
    wanted = tool_call("list_files", "{}")
    if "Write a label" in str(request["messages"]):
        wanted = tool_call("write_file", '{"path": "label.txt", "content": "lamp"}')
    return Reply(None, tool_calls=[wanted], finish_reason="tool_calls")


def configured(folder: Path, shelf: Path, repository: Path) -> Path:
    """A folder with settings of its own: tools and model in .env, and one more graph."""
    folder.mkdir()
    shelf.mkdir()
    (shelf / "lamp.txt").write_text("on")
    command = ["-m", "loopwright.servers.workspace", "--root", str(shelf)]
    servers = {"mcpServers": {"shelf": {"command": sys.executable, "args": command}}}
    (folder / "tools.json").write_text(json.dumps(servers))
    (folder / ".env").write_text("LOOPWRIGHT_MCP=tools.json\nLOOPWRIGHT_MODEL=lamp-1\n")
    (folder / "blocks.py").write_text(BLOCKS)
    settings = json.loads((repository / "langgraph.json").read_text())
    settings["graphs"]["blocks"] = "./blocks.py:graph"
    (folder / "langgraph.json").write_text(json.dumps(settings))
    return folder


@pytest.mark.req("P-40", "P-45")
async def test_a_server_elsewhere_follows_its_settings_and_a_question_survives_its_restart(
    serve, alive, repository, tmp_path
):
    folder = configured(tmp_path / "served", tmp_path / "shelf", repository)
    database = f"sqlite:///{tmp_path}/threads.db"
    with fake_openai(model_of) as provider:
        settings = {"OPENAI_BASE_URL": provider.url}
        with serve(folder, LOOPWRIGHT_DATABASE_URL=database, **settings) as server:
            seen = await seen_elsewhere(server)
            children = server.children()
            assert server.stop() == 0
        assert not alive(children)
        with serve(folder, **settings) as server:  # no database named: it kept the thread itself
            async with get_client(url=server.url) as client:
                ended = await answer(client, seen["thread"], "approve")
    assert seen["outcome"]["answer"] == "The shelf holds lamp.txt."
    assert seen["outcome"]["status"] == "complete"
    assert set(seen["outcome"]["models"].values()) == {"lamp-1"}
    assert {request["model"] for request in provider.requests} == {"lamp-1"}
    assert seen["questions"]
    assert "BlockingError" not in seen["said"]
    assert seen["blocked"] == "BlockingError", "the server is watching"
    assert [line.split()[-1] for line in children.values()] == [str(tmp_path / "shelf")]
    assert saved(tmp_path / "threads.db") <= {"fence", "turn"}, (
        "threads are the server's; nothing was written but who may write and what turns have taken"
    )
    assert ended["outcome"]["status"] == "complete"
    assert (tmp_path / "shelf" / "label.txt").read_text() == "lamp"


async def replayed(client: Any, mode: str) -> str:
    """The text of the answer as a client has it that streams messages in one of two modes.

    In one the server adds the pieces up; in the other one clients do, as Agent Chat UI does.
    """
    thread = (await client.threads.create())["thread_id"]
    message = {"messages": [{"role": "user", "content": "What is on the shelf? Say it twice."}]}
    texts: dict[str, str] = {}
    kinds, values = list[str](), list[Any]()
    async for part in client.runs.stream(
        thread, GRAPH, input=message, stream_mode=["values", mode]
    ):
        assert part.event != "error", part.data
        if part.event == "values":
            values = part.data["messages"]
        elif part.event in ("messages", "messages/partial", "messages/complete"):
            told = part.data[0]
            kinds.append(told["type"])
            known = "" if told["type"] == "remove" or mode == "messages" else texts.get(told["id"])
            texts[told["id"]] = (known or "") + told["content"]
    assert {m["id"]: m["content"] for m in values if m["id"] in texts} == texts
    if mode == "messages-tuple":
        assert "remove" in kinds
        assert kinds.count("AIMessageChunk") > 5
    return texts[values[-1]["id"]]


async def seen_elsewhere(server: Any) -> dict[str, Any]:
    """What a server with settings of its own does with a goal, a question and a graph that blocks.

    Returns:
        The first one's `outcome`, the `questions` that wait on a `thread`, what the server has
        `said` up to then, and the error of the run that `blocked`.
    """
    async with get_client(url=server.url) as client:
        _, ended = await begin(client, "What is on the shelf?")
        thread, paused = await begin(client, "Write a label for it")
        said = server.said()
        for mode in ("messages", "messages-tuple"):
            assert await replayed(client, mode) == "The shelf holds lamp.txt."
        _, blocked = await begin(client, "Block", graph="blocks")
    return {
        "outcome": ended["outcome"],
        "thread": thread,
        "questions": paused["__interrupt__"],
        "said": said,
        "blocked": blocked["__error__"]["error"],
    }


def saved(database):
    """Tables of a database that are not empty; of the journal the kinds of its rows."""
    with closing(sqlite3.connect(database)) as opened:
        tables = {name for (name,) in opened.execute(TABLES)} - {
            "store_migrations", "loopwright_schema",
        }  # fmt: skip
        kinds = opened.execute("SELECT DISTINCT kind FROM loopwright_journal").fetchall()
        tables.discard("loopwright_journal")
        full = {name for name in tables if opened.execute(f"SELECT 1 FROM {name}").fetchone()}
        return full | {kind for (kind,) in kinds}


STRICT = """
import asyncio, pathlib, sys, time
from blockbuster import BlockBuster, BlockingError
from langgraph.types import Command
from loopwright import build_plan_execute_verify, open_durability
from loopwright.graphs.build import workspace_mcp

async def run(graph, given):
    async for _ in graph.astream(given, THREAD, stream_mode=["updates", "custom"]):
        pass
    return await graph.aget_state(THREAD)

async def main(graph):
    watch = BlockBuster()
    watch.activate()
    try:
        try:
            time.sleep(0.001)
        except BlockingError:
            print("watched")
        goal = 'Write "good evening" to note.txt'
        asked = await run(graph, {"messages": [{"role": "user", "content": goal}]})
        print(len(asked.interrupts), "question")
        return await run(graph, Command(resume="approve"))
    finally:
        watch.deactivate()

THREAD = {"configurable": {"thread_id": "t"}}
folder = sys.argv[1]
with open_durability(f"sqlite:///{folder}/threads.db") as durability:
    graph = build_plan_execute_verify(mcp=workspace_mcp(folder), durability=durability)
    print(asyncio.run(main(graph)).values["outcome"]["status"])
print(pathlib.Path(folder, "note.txt").read_text())
"""


@pytest.mark.req("P-40", "P-45")
def test_embedded_with_sqlite_nothing_blocks_the_event_loop(environment, tmp_path):
    """In a process of its own, so that what is imported late is imported on the watched loop."""
    done = subprocess.run(
        # -u: after BlockBuster, Python 3.11 may crash when it flushes a buffered stream at its end.
        [sys.executable, "-u", "-c", STRICT, str(tmp_path)],
        capture_output=True, text=True, timeout=PATIENCE, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["watched", "1 question", "complete", "good evening"]


@pytest.mark.req("W-120", "W-144")
async def test_a_customer_writes_to_a_colleague_and_never_speaks_for_them(client):  # noqa: PLR0915 - one conversation
    thread, _ = await begin(client, "I want a human", "customer_service")

    async def answers(number: int) -> None:
        assert await questions(client, thread) == []  # it is not theirs, nor is its packet
        said = {"type": "respond", "message": f"operator {number}"}
        ways = (said, {"type": "approve"}, "reject")
        for given in ways[: 3 if number == 0 else 1]:
            refused = (await answer(client, thread, given, "customer_service"))["__error__"]
            assert refused["error"] == "AnswerRejected"
            assert "Only the operator answers" in refused["message"]

    for number in range(2):
        await answers(number)
        said = {"messages": [{"role": "user", "content": f"customer {number}"}]}
        await client.runs.wait(thread, "customer_service", input=said, raise_error=False)
    history = await client.threads.get_history(thread)
    seen = json.dumps([history, await client.threads.get_state(thread)])
    assert "who has all that we have talked about" in seen
    assert "action_request" not in seen  # without authentication everybody is the customer
    old = [one for one in history if "with_human" in [task["name"] for task in one["tasks"]]][-1]
    given: Any = {"command": {"resume": "approve"}, "checkpoint": old["checkpoint"]}
    refused = await client.runs.wait(thread, "customer_service", raise_error=False, **given)
    assert "Only the operator answers" in refused["__error__"]["message"]
    await client.runs.wait(thread, "customer_service", command={"goto": "__end__"})
    state = await client.threads.get_state(thread)
    words = [one["content"] for one in state["values"]["messages"] if one["type"] == "human"]
    assert words == ["I want a human", *(f"customer {n}" for n in range(2))]
    assert "operator" not in json.dumps(state["values"]["messages"])
    assert state["values"].keys() == {"messages", "ui", "outcome"}
    assert state["values"]["outcome"].keys() == {"status", "answer"}
    assert {one["type"] for one in state["values"]["messages"]} == {"human", "ai"}
    (listed,) = await client.threads.search(ids=[thread])
    assert listed["values"].keys() <= {"messages", "ui", "outcome"}
