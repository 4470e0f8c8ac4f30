"""What a server tells and asks in the middle of a call."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import build_react, open_durability
from loopwright.text.secrets import MASK
from support.budget import alongside
from support.forked import Program
from support.mcp_servers import process, serving, stdio  # noqa: F401 - KILLED takes `process`
from support.patience import PATIENCE
from support.reacting import DONE, LOOK, THREAD, one_step, said
from support.scripts import call

KEY = {"env": {"DESK_TOKEN": "still-here"}, "headers": {"X-Token": "still-here"}}
"""What the server repeats in its log is a secret that it was given."""

TESTS = Path(__file__).parents[3]


@pytest.fixture(params=["stdio", "http"])
def entry(request) -> Any:
    with contextlib.ExitStack() as stack:
        if request.param == "http":
            yield {"url": stack.enter_context(serving())[1], "trust": True}
        else:
            yield stdio("desk")


def signing(path, entry, runs=1, begins=True, **how) -> Any:
    """A graph whose one call asks who signs; the model is ready for so many runs at once.

    Without `begins` the call is made already: the model goes on behind it.
    """
    model = one_step(
        thought=[LOOK] * runs * begins + [DONE] * runs,
        action=[[call("sign", path=str(path))]] * runs,
        observation=["It is signed or not."] * runs,
    )
    return build_react(
        model=model,
        mcp={"mcpServers": {"desk": entry}},
        policy="allow",
        **how,
    )


def said_by(result) -> Any:
    return [m.text for m in result["messages"] if m.type == "tool"]


async def test_progress_and_log_messages_are_events_of_the_run(entry):
    model = one_step(action=[[call("chatty")]])
    graph = build_react(model=model, mcp={"mcpServers": {"desk": {**entry, **KEY}}})
    events = [event async for event in graph.astream(said(), THREAD, stream_mode="custom")]
    told = [event for event in events if event["type"] == "tool_progress"]
    assert [(e["id"], e["tool"], e["progress"], e["total"]) for e in told] == [
        ("react.1.0", "chatty", step, 3.0) for step in (0, 1, 2)
    ]
    assert {event["message"] for event in told} == {"on the way"}
    logs = [event for event in events if event["type"] == "server_log"]
    assert {(e["server"], e["level"], e["text"]) for e in logs} == {("desk", "info", MASK)}
    assert len(logs) == 3


ANSWERS: list[tuple[Any, str]] = [
    ("respond: Ada", "signed by Ada"),
    ("Ada", "signed by Ada"),
    (["Ada"], "signed by Ada"),
    ({"name": "Ada"}, "signed by Ada"),
    ('{"name": "Ada"}', "signed by Ada"),
    ("No", "signed by No"),
    ({"type": "edit", "args": {"name": "Ada", "answer": ""}}, "signed by Ada"),
    ({"type": "respond", "message": '{"name": "Ada"}'}, "signed by Ada"),
    ("reject: not me", "not signed: decline"),
]


@pytest.mark.req("W-25")
@pytest.mark.parametrize(
    ("answer", "told", "entry"),
    alongside(ANSWERS, [("stdio",), ("http",)]),
    indirect=["entry"],
)
async def test_a_human_answers_and_the_same_call_goes_on(tmp_path, entry, answer, told):
    path = tmp_path / "signed"
    graph = signing(path, entry, checkpointer=InMemorySaver())
    waiting = await graph.ainvoke(said(), THREAD)
    (question,) = waiting["__interrupt__"]
    assert question.value["type"] == "elicitation"
    assert "Who signs?" in question.value["description"]
    assert question.value["action_request"]["args"]["name"] == ""
    result = await graph.ainvoke(Command(resume=answer), THREAD)
    assert said_by(result) == [told]
    assert result["outcome"]["status"] == "complete"
    assert path.read_text().count("asked") == 1


async def test_an_answer_that_does_not_fit_the_form_is_asked_for_again(tmp_path):
    graph = signing(tmp_path / "signed", stdio("desk"), checkpointer=InMemorySaver())
    await graph.ainvoke(said(), THREAD)
    again = await graph.ainvoke(Command(resume={"type": "edit", "args": {"name": 7}}), THREAD)
    (question,) = again["__interrupt__"]
    assert "does not fit" in question.value["description"]
    result = await graph.ainvoke(Command(resume="respond: Ada"), THREAD)
    assert said_by(result) == ["signed by Ada"]


async def test_an_open_question_holds_up_no_other_run(tmp_path, entry):
    """The session is shared: while one human thinks, others work on."""
    graph = signing(tmp_path / "signed", entry, runs=2, checkpointer=InMemorySaver())
    await graph.ainvoke(said(), THREAD)
    other = {"configurable": {"thread_id": "other"}}
    second = asyncio.create_task(graph.ainvoke(said(), other))
    waiting = await asyncio.wait_for(second, PATIENCE)
    assert waiting["__interrupt__"][0].value["type"] == "elicitation"
    for thread, name in ((other, "Bob"), (THREAD, "Ada")):
        result = await graph.ainvoke(Command(resume=f"respond: {name}"), thread)
        assert said_by(result) == [f"signed by {name}"]


KILLED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from unit.tools.mcp.test_active_calls import open_durability, process, said, signing, THREAD
with open_durability({url!r}) as durability:
    graph = signing({path!r}, process("desk"), durability=durability)
    assert graph.invoke(said(), THREAD)["__interrupt__"]
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_dies_while_a_question_is_open_leaves_the_call_in_doubt(tmp_path):
    url, path = f"sqlite:///{tmp_path / 'threads.db'}", tmp_path / "signed"
    script = KILLED.format(tests=str(TESTS), url=url, path=str(path))
    with Program(script) as ran:
        assert ran.wait() == -9, ran.said()
    with open_durability(url) as durability:
        graph = signing(path, stdio("desk"), begins=False, durability=durability)
        asked = graph.invoke(Command(resume="respond: Ada"), THREAD)
        (question,) = asked["__interrupt__"]
        assert question.value["type"] == "uncertain_call"
        assert path.read_text().count("asked") == 1  # not sent again by itself
        result = graph.invoke(Command(resume="respond: it was signed"), THREAD)
        assert said_by(result) == ["it was signed"]
        assert result["outcome"]["status"] == "complete", "no question stays open"
