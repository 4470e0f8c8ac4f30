"""What is attached to a message reaches the roles that see the request, as it came."""

import base64
import json
import os
import signal
from pathlib import Path
from textwrap import dedent

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import (
    Context,
    ScriptedModel,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
    open_durability,
)
from loopwright.prompts.prompt import read_json, read_section
from loopwright.state.errors import ModelCallFailed
from support.budget import alongside
from support.flows import flow, step
from support.forked import Program
from support.scripts import call, passed, plan, report, thought, todo

THREAD = {"configurable": {"thread_id": "t"}}
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(60)).decode()

BLOCKS = {
    "openai url": {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}},
    "openai base64": {
        "type": "image_url",
        "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"},
    },
    "standard url": {"type": "image", "url": "https://example.org/cat.png"},
    "standard base64": {"type": "image", "base64": PIXEL, "mime_type": "image/png"},
    "front end": {
        "type": "image", "source_type": "base64", "mime_type": "image/png", "data": PIXEL,
        "metadata": {"name": "cat.png"},
    },
    "anthropic": {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
    },
    "file": {"type": "file", "base64": PIXEL, "mime_type": "application/pdf"},
    "file id": {"type": "file", "file": {"file_id": "file-1"}},
    "audio": {"type": "input_audio", "input_audio": {"data": PIXEL, "format": "wav"}},
    "of nobody": {"type": "hologram", "data": PIXEL},
}  # fmt: skip


def look(name: str) -> str:
    """Look something up."""
    return f"it is {name}"


def attached(*blocks, words="What is on it?"):
    text = [{"type": "text", "text": words}] if words else []
    return {"messages": [HumanMessage([*text, *blocks])]}


def planned(turns=1):
    return ScriptedModel(
        {
            "planner": [plan(todo("1", "Say what is on it"))] * turns,
            "executor": [report("A cat is on it.")] * turns,
            "verifier": [passed("A cat.", t1=[])] * turns,
        }
    )


def flowing(turns=1):
    return ScriptedModel(
        {
            "flow_planner": [flow(step("s1", "look", arguments={"name": "cat"}))] * turns,
            "answerer": ["A cat [s1]."] * turns,
        }
    )


GRAPHS = {
    "plan_execute_verify": (build_plan_execute_verify, planned),
    "prompt_flow": (build_prompt_flow, flowing),
}
every_graph = pytest.mark.parametrize(("build", "scripted"), GRAPHS.values(), ids=GRAPHS)


def shown(asked):
    """The blocks of a request that are no text."""
    human = next(m for m in asked.messages if m.type == "human")
    return [] if isinstance(human.content, str) else [
        block for block in human.content if block["type"] != "text"
    ]  # fmt: skip


def standard(blocks):
    """Blocks as LangChain reads them, whoever spelled them; it gives some of them ids."""
    read = HumanMessage(blocks).content_blocks
    return [{key: value for key, value in block.items() if key != "id"} for block in read]


@pytest.mark.req("W-09")
@every_graph
@pytest.mark.parametrize(
    ("block", "words"),
    alongside([(block,) for block in BLOCKS.values()], [("What is on it?",), ("",)]),
)
def test_what_is_attached_reaches_every_role_that_sees_the_request(build, scripted, block, words):
    model = scripted()
    graph = build(model=model, tools=[look], checkpointer=InMemorySaver())
    outcome = graph.invoke(attached(block, words=words), THREAD)["outcome"]
    assert outcome["status"] == "complete"
    for asked in model.asked:
        assert standard(shown(asked)) == standard([block]), asked.role
        text = next(m for m in asked.messages if m.type == "human").text
        assert "1, attached to the request" in text
        assert read_section(text, "request") == (
            words or "The request has no words: it is what is attached to it."
        )
        assert isinstance(asked.messages[0].content, str)


@pytest.mark.req("W-09")
@every_graph
def test_an_image_of_the_first_turn_is_there_in_the_third(build, scripted):
    model = scripted(3)
    graph = build(model=model, tools=[look], checkpointer=InMemorySaver(), foreign="allow")
    first, second = BLOCKS["standard base64"], BLOCKS["openai url"]
    graph.invoke(attached(first), THREAD)
    graph.invoke(attached(second, words=""), THREAD)
    graph.invoke({"messages": [HumanMessage("What was on the first?")]}, THREAD)
    asked = model.asked[-1]
    assert shown(asked) == [first, second]
    text = next(m for m in asked.messages if m.type == "human").text
    talk = read_json(text, "conversation")
    assert [entry.get("attached") for entry in talk] == [["image 1"], None, ["image 2"], None]
    assert "[image 1, sent earlier in the conversation:]" in text
    assert "attached to the request" not in text


KILLED = """
    import sys
    sys.path.insert(0, sys.argv[2])
    from test_attachments import *
    Killed(sys.argv[1]).both_turns()
"""


class Killed:
    """Two turns over one file: the first has an image, the second is killed inside a call."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def executor(self, messages, _):
        with (self.folder / "seen").open("a") as file:
            file.write(json.dumps([m.content for m in messages]) + "\n")
        if messages[-1].type == "tool":
            return report("It is a cat.")
        return [call("look_twice", name="cat")]

    def look_twice(self, name: str) -> str:
        """Look; the second call kills the process, the third does not."""
        with (self.folder / "looked").open("a") as file:
            file.write("x")
        if (self.folder / "looked").stat().st_size == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return name * 400

    def graph(self, database):
        tool = StructuredTool.from_function(self.look_twice, metadata={"readOnlyHint": True})
        self.model = ScriptedModel({
            "planner": lambda *_: plan(todo("1", "Say what is on it")),
            "executor": self.executor,
            "verifier": lambda *_: passed("A cat.", t1=["1.1.0"]),
        })  # fmt: skip
        return build_plan_execute_verify(model=self.model, tools=[tool], durability=database)

    def both_turns(self):
        with open_durability(f"sqlite:///{self.folder}/threads.db") as database:
            graph = self.graph(database)
            graph.invoke(attached(BLOCKS["standard base64"]), THREAD)
            graph.invoke(attached(BLOCKS["openai url"], words="And on this?"), THREAD)


@pytest.mark.req("W-07", "W-09")
def test_after_a_kill_a_task_goes_on_with_the_same_images_talk_and_evidence(tmp_path):
    here = Path(__file__).parent
    with Program(dedent(KILLED), str(tmp_path), str(here)) as process:
        assert process.wait() == -signal.SIGKILL
    run = Killed(tmp_path)
    with open_durability(f"sqlite:///{tmp_path}/threads.db") as database:
        outcome = run.graph(database).invoke(None, THREAD)["outcome"]
    assert outcome["status"] == "complete"
    lines = map(json.loads, (tmp_path / "seen").read_text().splitlines())
    first, _, killed, *again, after = lines  # the model's answer may have been on its way to disk
    assert again in ([], [killed])
    assert after[: len(killed)] == killed, "the prefix is the same in the other process"
    assert len(after) == len(killed) + 2
    kinds = [block["type"] for block in killed[1]]
    assert kinds == ["text", "image", "text", "image_url", "text"]
    assert [block["type"] for block in first[1]] == ["text", "image", "text"]
    assert '"t1:1.1.0"' in killed[1][-1]["text"]


@pytest.mark.req("W-09")
@every_graph
def test_a_model_that_cannot_read_it_ends_the_run_with_one_sentence(build, scripted):
    class BadRequestError(Exception):
        status_code = 400

    role = "planner" if scripted is planned else "flow_planner"
    model = ScriptedModel({role: [BadRequestError("no image input here")] * 9})
    graph = build(model=model, tools=[look], checkpointer=InMemorySaver())
    with pytest.raises(ModelCallFailed, match="it was sent image: if it cannot read that"):
        graph.invoke(attached(BLOCKS["standard url"]), THREAD)


@pytest.mark.req("W-09")
def test_without_a_model_the_run_says_at_once_what_it_cannot_read():
    context = Context(interactive=False)
    for build in (build_plan_execute_verify, build_prompt_flow, build_react):
        graph = build(tools=[look], model="offline", checkpointer=InMemorySaver())
        result = graph.invoke(attached(BLOCKS["standard url"]), THREAD, context=context)
        asked = "".join(str(i.value) for i in result.get("__interrupt__", []))
        said = asked or str(result["outcome"])
        assert "what you attached cannot be read" in said, build


@pytest.mark.req("W-09")
def test_react_has_the_picture_in_its_messages():
    model = ScriptedModel({"thought": [thought("A cat.")]})
    build_react(model=model).invoke(attached(BLOCKS["standard base64"], words=""))
    assert shown(model.asked[0]) == [BLOCKS["standard base64"]]
