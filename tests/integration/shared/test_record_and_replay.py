"""A run on record is a test: its model answers again, and shows where it is asked otherwise."""

import asyncio
import inspect
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage
from langchain_core.messages.tool import invalid_tool_call
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import (
    Context,
    RequestNotRecorded,
    ScriptedModel,
    open_durability,
    record_model,
    replay_model,
)
from loopwright.cli.replay import replay_thread
from loopwright.cli.run import build_named_graph
from loopwright.cli.settings import Settings
from loopwright.cli.terminal import Output
from loopwright.graphs.registry import REGISTRY
from loopwright.models.on_record import RecordedError
from loopwright.models.refusals import is_retryable
from loopwright.state.errors import AnswerRejected, DatabaseError, SettingsError
from support.desk_writer import desk_writer
from support.flows import flow, step
from support.scripts import call, passed, plan, report, thought, todo

ON_T: Any = {"configurable": {"thread_id": "t"}}
GOAL = 'Write "good morning" to a.txt'
WRITE = {"path": "a.txt", "content": "good morning"}
FAULTY = Path(__file__).parents[2] / "support" / "mcp_servers" / "faulty.py"


def writer():
    """It writes what is asked for, in every graph; the calls have new ids in each run."""
    wrote = [{"name": "write_file", "args": WRITE}]
    return ScriptedModel(
        {
            "dispatcher": [{"graph": "react", "why": "it fits"}],
            "planner": [plan(todo("1", "write", []))],
            "executor": [wrote, report("Written.")],
            "verifier": [passed("Written.", t1=["1.1.0"])],
            "thought": [thought("I write.", more=True), thought("Written.")],
            "action": [wrote],
            "observation": ["It is written."],
            "flow_planner": [flow(step("w", "write_file", arguments=WRITE))],
            "answerer": ["Written [w]."],
            "agent": [wrote, [{"name": "complete_task", "args": {"summary": "Written."}}]],
        }
    )


def write_file(path: str, content: str) -> str:
    """Write a file."""
    return f"wrote {len(content)} characters to {path}"


def run(name: str, model: Any, goal: str = GOAL) -> Any:
    """The outcome of a turn in which a human approves the write."""
    graph: Any = REGISTRY[name].build(
        model=model, tools=[write_file], policy="ask", checkpointer=InMemorySaver()
    )
    words = [goal, "yes"] if name == "customer_service" else [goal]
    for text in words:
        said = graph.invoke({"messages": [("user", text)]}, ON_T)
    assert said["__interrupt__"]
    return graph.invoke(Command(resume="approve"), ON_T)["outcome"]


def told(outcome):
    """What is equal in two equal runs: the rest is times, and names and prices of models."""
    tasks = [(t["id"], t["status"], t["result"]) for t in outcome.get("tasks") or ()]
    spent = [outcome["spend"][k] for k in ("model_calls", "tool_calls", "input_tokens")]
    kept = {k: v for k, v in outcome.items() if k not in ("tasks", "spend")}
    return {**kept, "tasks": tasks, "spent": spent}


@pytest.mark.parametrize("name", REGISTRY)
def test_a_run_of_every_graph_is_given_again_to_a_run_like_it_and_to_no_other(name, tmp_path):
    model = desk_writer() if name == "customer_service" else writer()
    first = run(name, record_model(model, tmp_path))
    assert first["status"] == "complete"
    again = replay_model(tmp_path)
    assert told(run(name, again)) == told(first)
    assert again.list_unused() == []


def play(folder, capsys, **more):
    """What `loopwright replay` says of the thread."""
    code = replay_thread(Settings(record=str(folder), **more), Output(json=True), "t")
    told = json.loads(capsys.readouterr().out)
    assert (code == 1) == (told["status"] == "different")
    return told


NOTE = [{"name": "note", "args": {"path": "a.txt"}}]
ROLES = {
    "dispatcher": [{"graph": "react", "why": "it fits"}],
    "planner": [plan(todo("1", "note", []))],
    "executor": [NOTE, report("Noted.")],
    "verifier": [passed("Noted.", t1=["1.1.0"])],
    "thought": [thought("I note.", more=True), thought("Noted.")],
    "action": [NOTE],
    "observation": ["It is noted."],
    "flow_planner": [
        flow(
            step("w", "note", arguments={"path": "a.txt"}),
            step("q", "llm_call", ["w"], arguments={"prompt": "Sum up."}),
        )
    ],
    "llm_call": ["It is noted."],
    "answerer": ["Noted [w]."],
    "agent": [
        [{"name": "notes_note", "args": {"path": "a.txt"}}],  # it has a note of its own
        [{"name": "complete_task", "args": {"summary": "Noted."}}],
    ],
    "listener": [{"intent": "order", "mood": "calm", "score": 0}] * 2,
    "support": [NOTE, "Noted.", "Noted."],
    "proofreader": [{"unsupported": []}] * 2,
}


def write_mailing_hook(mails):
    """A file of a hook that acts on the world, and whose words a model reads."""
    command = f"echo mailed >> {mails}; echo '{json.dumps({'additionalContext': 'It is Monday.'})}'"
    hook = {"type": "command", "command": command}
    Path("hooks.json").write_text(json.dumps({"hooks": {"PostToolUse": [{"hooks": [hook]}]}}))
    return "hooks.json"


@pytest.mark.parametrize("name", REGISTRY)
def test_a_thread_of_every_graph_is_replayed_without_server_or_tool(
    name, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    servers: Any = {"notes": {"command": sys.executable, "args": [str(FAULTY)]}}
    Path("mcp.json").write_text(json.dumps({"mcpServers": servers}))
    Path("script.json").write_text(json.dumps(ROLES))
    own: Any = {"mcp": "mcp.json", "hooks": write_mailing_hook(tmp_path / "mails")}
    settings = Settings(graph=name, script="script.json", record="rec", **own)
    with open_durability("sqlite:///t.db") as kept:
        graph, _ = build_named_graph(settings, name, Context(), kept, None)
        said: Any = [("user", "Note it.")]
        if name == "customer_service":
            graph.invoke({"messages": said}, ON_T)
            said = [("user", "yes")]
        assert graph.invoke({"messages": said}, ON_T)["__interrupt__"]
        outcome = graph.invoke(Command(resume="approve"), ON_T)["outcome"]
        graph.own_builder.tape = None
    assert outcome["status"] == "complete", outcome
    Path("mcp.json").write_text(json.dumps({"mcpServers": {"notes": {"command": "/nowhere"}}}))
    told = play("rec", capsys, **own)
    assert told["status"] == "equal", told
    assert (told["model_answers"] > 1, told["tool_results"]) == (True, 1)
    assert Path("a.txt").read_text() == "noted\n"
    assert Path("mails").read_text() == "mailed\n" * (1 + (name == "prompt_flow"))
    monkeypatch.setenv("LOOPWRIGHT_POLICY", "deny")
    (first, *rest) = play("rec", capsys, **own)["differences"]
    assert (first[:4], bool(rest)) == ("Run ", True)


async def test_a_model_is_recorded_by_every_way_it_is_asked_with_its_errors(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_TOKEN", token := "zz-very-secret-99")
    broken = ConnectionError("gone")
    cut = AIMessage("", invalid_tool_calls=[invalid_tool_call(name="f", args='{"a', id="1")])
    model = record_model(ScriptedModel(["one", token, cut, broken]), tmp_path)

    def asks(model):
        return [
            lambda: model.bind_tools([write_file]).invoke("a"),
            lambda: model.ainvoke([SystemMessage(token), HumanMessage("b")]),
            lambda: collect(model.astream("c")),
            lambda: model.ainvoke("d"),
        ]

    async def tell(model):
        said = []
        for ask in asks(model):
            try:
                answer = ask()
                answer = await answer if inspect.isawaitable(answer) else answer
                said.append((answer.text, answer.tool_calls, answer.usage_metadata))
                said.append([c["args"] for c in answer.invalid_tool_calls])
            except (ConnectionError, RecordedError) as error:
                said.append((type(error).__name__, str(error), is_retryable(error)))
        return said

    first, again = await tell(model), replay_model(tmp_path)
    second = await tell(again)
    assert [str(s).replace(token, "…masked…") for s in first] == [str(s) for s in second]
    files = [path.read_text() for path in tmp_path.iterdir()]
    assert (len(files), any(token in text for text in files)) == (4, False)
    assert {path.stat().st_mode & 0o077 for path in tmp_path.iterdir()} == {0}, "others cannot read"
    assert again.list_unused() == []


async def collect(chunks):
    return sum([chunk async for chunk in chunks], AIMessageChunk(content=""))


async def test_what_was_not_recorded_is_refused_with_a_diff_also_of_equal_requests(tmp_path):
    recorded = record_model(ScriptedModel(["one", "two", "three"]), tmp_path)
    for words in ("Be brief.\nUse one line.\nWho is Ada?", "Who is Ada?", "Who is Ada?"):
        await recorded.ainvoke(words)
    (tmp_path / ".1-half").write_text("{")  # as a process that is killed leaves it
    model = replay_model(tmp_path)
    said = await asyncio.gather(*[model.ainvoke("Who is Ada?") for _ in range(2)])
    assert {answer.text for answer in said} == {"two", "three"}
    with pytest.raises(RequestNotRecorded, match="asked the same again"):
        await model.ainvoke("Who is Ada?")
    with pytest.raises(
        RequestNotRecorded, match=r"\n-.*Be brief\.\n\+.*Be kind\.\n Use one line\."
    ):
        await model.ainvoke("Be kind.\nUse one line.\nWho is Ada?")
    assert len(model.list_unused()) == 1


def read_all(folder):
    return "".join(path.read_text() for path in Path(folder).iterdir())


async def test_threads_that_ran_side_by_side_are_replayed_apart_and_a_stopped_one_is_not(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPWRIGHT_RECORD", "rec")
    saver = InMemorySaver()
    names = ("t", "u")

    def answer(messages, _):
        name = messages[-1].text.split()[-1]
        return thought(f"I am {name}.")

    graph: Any = REGISTRY["react"].build(model=ScriptedModel(answer), checkpointer=saver, mcp={})
    own = {"tool_context": {"shop": {"password": "hunter2", "urls": ["db://u:hunter2@h/d"]}}}
    await asyncio.gather(
        *[
            graph.ainvoke({"messages": [("user", f"You are {name}")]}, thread, context=own)
            for name, thread in ((n, {"configurable": {"thread_id": n}}) for n in names)
        ]
    )
    assert "hunter2" not in read_all("rec")
    with pytest.raises(SettingsError):
        await graph.ainvoke({"messages": [("user", "hi")]}, ON_T, context={"max_turns": "many"})
    with pytest.raises(AnswerRejected):
        await graph.ainvoke(Command(resume="yes"), ON_T)
    told = await asyncio.to_thread(play, "rec", capsys)
    assert (told["status"], told["runs"], told["model_answers"]) == ("equal", 1, 1)
    await graph.ainvoke({"messages": [("user", "again t")]}, ON_T)
    await graph.astop(ON_T)
    with pytest.raises(SettingsError, match="stopped or steered"):
        await asyncio.to_thread(play, "rec", capsys)


def test_a_folder_that_fails_after_a_payment_does_not_lose_what_was_paid(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_RECORD", str(folder := tmp_path / "rec"))
    paid = []

    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        shutil.rmtree(folder)
        folder.touch()  # as a full disk: nothing can be written
        return "paid"

    script = {"thought": [thought("I pay.", more=True), thought("Paid.")]}
    script |= {"action": [[call("pay", amount=7)]], "observation": ["It is paid."] * 2}
    graph: Any = REGISTRY["react"].build(
        ScriptedModel(script), [pay], policy="allow", checkpointer=InMemorySaver()
    )
    with pytest.raises(DatabaseError, match="cannot be written to"):
        graph.invoke({"messages": [("user", "Pay 7")]}, ON_T)
    folder.unlink()
    outcome = graph.invoke(None, ON_T)["outcome"]
    assert (outcome["status"], outcome["answer"], paid) == ("complete", "Paid.", [7])
