"""`loopwright chat` through a pipe; and on a terminal, where words and signals reach the turn."""

import json
import os
import re
import threading
from pathlib import Path

import pytest

from loopwright import open_durability
from loopwright.cli.settings import NO_MODEL
from loopwright.graphs.registry import REGISTRY
from support.fake_openai import Reply, fake_openai
from support.forked import Command, server
from support.mcp_servers import stdio
from support.patience import PATIENCE
from support.screen import Terminal

CTRL_C, CTRL_U = "\x03", "\x15"


def thought(text, *, more=False):
    meta = json.dumps({"shouldContinue": more, "reason": "so"})
    return f"{text}<agent_meta>{meta}</agent_meta>"


def chat(*args, stdin):
    with Command(server(), ("chat", *args), stdin=stdin, env=dict(os.environ)) as command:
        return command.wait(PATIENCE), *command.said()


def messages(thread):
    with open_durability("sqlite:///.loopwright/threads.db") as kept:
        saved = {one.thread_id: one for one in kept.threads()}
        return saved[thread].request, len(saved)


def messages_of_newest():
    with open_durability("sqlite:///.loopwright/threads.db") as kept:
        return kept.threads(limit=1)[0].request


@pytest.mark.req("S3-21")
@pytest.mark.parametrize("graph", sorted(REGISTRY.keys() - {"customer_service"}))
def test_every_graph_talks_one_message_a_line(graph, tmp_path):
    (tmp_path / "notes.md").write_text("The meeting is on Monday.")
    (tmp_path / "more.md").write_text("Bring coffee.")
    lines = "Read notes.md\n\n/help\n/nothing\nRead more.md\n"
    code, told, _ = chat("--graph", graph, "--thread", "t", stdin=lines)
    assert code == 0, told
    first, second = told.split("> Read more.md")
    assert told.startswith(f"{graph} · thread t · /help\n{NO_MODEL}\n> Read notes.md")
    assert "Monday" in first
    assert "Bring coffee." in second
    assert told.count("\nComplete. ") == 2
    assert "Evidence:" not in told
    assert "/resume [ID]   go on" in first
    assert "There is no /nothing; /help names what there is." in first
    assert told.endswith("Go on with: loopwright chat --thread t\n")
    assert messages("t") == ("Read notes.md", 1)
    if graph == "react":
        code, told, _ = chat("--thread", "t", stdin="/resume\n")
        assert (code, told.startswith("react · thread t")) == (0, True)
        assert told.count("Bring coffee.") == 2, "the last words, and the end told again"


def test_a_question_ends_a_pipe_that_nobody_answers(tmp_path):
    wanted = "Write the text 'hello' to out.txt"
    assert chat(stdin=wanted)[0] == 3, "denied: nobody can be asked"
    code, told, _ = chat("--review", "--yes", "--thread", "t", stdin=f"{wanted}\nTwo\n")
    assert (code, "> Two" in told) == (5, False)
    assert "loopwright resume t --review ANSWER" in told
    assert not (tmp_path / "out.txt").exists()
    code, told, _ = chat("--thread", "t", stdin="/stop\n")
    assert (code, "Cancelled: the turn was stopped." in told) == (3, True)
    assert chat("--yes", stdin=wanted)[0] == 0
    assert (tmp_path / "out.txt").read_text() == "hello"


class Provider:
    """Lets each thought wait until it is let go; tells what it was asked."""

    def __init__(self):
        self.begun, self.go_on = threading.Semaphore(0), threading.Semaphore(0)
        self.half = threading.Event()

    def __call__(self, request):
        self.begun.release()
        assert self.go_on.acquire(timeout=PATIENCE)
        asked = json.dumps(request["messages"])
        if "and coffee" not in asked:
            return Reply(thought("I look.", more=True))
        return Reply(thought("# Found\n\nCoffee on **Monday**, and more of it."), half=self.half)


@pytest.fixture
def provider(tmp_path, monkeypatch):
    """A provider, and the settings of a conversation with it in the environment."""
    (tmp_path / "none.json").write_text('{"mcpServers": {}}')
    provider = Provider()
    with fake_openai(provider) as model:
        for name, value in {
            "LOOPWRIGHT_MODEL": "openai:m", "OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "k",
            "LOOPWRIGHT_MCP": "none.json",
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        provider.asked = lambda: json.dumps(model.requests[-1]["messages"])
        yield provider


def asks(talk, provider, words):
    """Begin a turn, which waits at its first thought."""
    talk.wait_for_prompt()
    talk.type(words)
    assert provider.begun.acquire(timeout=PATIENCE), talk.seen


def test_words_reach_the_turn_its_answer_is_shown_while_it_is_written_ctrl_c_twice_leaves(provider):
    talk = Terminal("chat", "--graph", "react")
    asks(talk, provider, "When is it?")
    talk.press("what is half typed")
    talk.wait_for("half typed")
    talk.press(f"{CTRL_U}and coffeee\x7f\n")  # the first thought still waits
    talk.wait_for("words typed here")
    talk.wait_for("> and coffee")
    provider.go_on.release(3)  # and its action, and the next thought, with the new words
    assert all(provider.begun.acquire(timeout=PATIENCE) for _ in range(2))
    talk.wait_for("Coffee on")  # while the rest of the answer is still to come
    talk.press("next ")
    talk.wait_for("> next")
    provider.half.set()
    talk.wait_for("Complete.")
    talk.type("time")  # what was half typed stands at the prompt
    assert provider.begun.acquire(timeout=PATIENCE)
    assert "next time" in provider.asked()
    talk.press(CTRL_C)
    talk.wait_for("Stopping after what is running")
    talk.press(CTRL_C)
    assert talk.end() == 130
    assert "go on with: loopwright resume" in talk.seen
    provider.go_on.release()


@pytest.mark.req("S3-19", "S3-20", "S3-22")
def test_ctrl_c_stops_the_turn_and_its_thread_is_offered_until_it_is_dismissed(provider):
    talk = Terminal("chat", "--graph", "react")
    asks(talk, provider, "When is it?")
    talk.press(CTRL_C)
    talk.wait_for("Stopping after what is running")
    provider.go_on.release()
    talk.wait_for("Cancelled: the turn was stopped.")
    talk.wait_for_prompt()
    talk.type("/quit")
    assert talk.end() == 0
    again = Terminal("chat", "--graph", "react")
    again.wait_for("1 unfinished thread")
    again.wait_for("When is it?")
    again.type("d1")
    again.wait_for("is deleted.")
    again.wait_for("/help")
    again.type("/quit")
    assert again.end() == 0


@pytest.mark.req("S3-21")
def test_without_a_model_a_desk_says_so_and_does_nothing():
    code, told, _ = chat("--graph", "customer_service", stdin="Read notes.md\n")
    assert code == 3, told
    assert NO_MODEL in told
    assert told.count("No language model is configured, so this cannot be answered") == 1
    assert "Blocked: something is missing that only you can give." in told


@pytest.mark.req("S3-20", "S3-21")
def test_a_question_of_a_conversation_stays_open_and_is_answered_later():
    talk = Terminal("chat")
    talk.wait_for("the built-in offline model stands in")
    talk.type("Write the text 'hello' to out.txt")
    talk.wait_for("[q]uit")
    talk.press(CTRL_C)
    talk.wait_for("/resume comes back to it")
    talk.wait_for_prompt()  # until then it is the turn's, which is over in a moment
    talk.press(CTRL_C)
    talk.wait_for("Ctrl-C again")
    talk.wait_for_prompt()
    talk.press(CTRL_C)
    assert talk.end() == 0
    assert "Go on with: loopwright chat --thread" in talk.seen
    again = Terminal("chat")
    again.wait_for("1 unfinished thread")
    again.type("1")
    again.wait_for("[q]uit")
    assert not Path("out.txt").exists()
    again.type("a")
    again.wait_for("Complete.")
    assert Path("out.txt").read_text() == "hello"
    again.type("/quit")
    assert again.end() == 0


@pytest.mark.req("W-145")
def test_what_is_no_choice_of_the_list_is_the_first_message():
    Path("notes.md").write_text("The meeting is on Monday.")
    talk = Terminal("chat", "--review")
    talk.wait_for_prompt()
    talk.type("Read notes.md")
    talk.wait_for("[q]uit")
    talk.type("q")
    talk.wait_for("Waiting for an answer")
    talk.type("/quit")
    assert talk.end() == 0
    for first, told in (("Read notes.md", "on Monday"), ("d7", "model call")):
        again = Terminal("chat")
        again.wait_for("Type a message to start, a number to continue, d2 to delete thread 2.")
        again.type(first)
        again.wait_for(told)
        again.wait_for_prompt()
        again.type("/quit")
        assert again.end() == 0
        assert messages_of_newest() == first


def shown_of(talk):
    return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", talk.seen)


DONE = {"summary": "I have written it down."}


@pytest.fixture
def asked():
    """What was shown where a message of three lines led to a write, which waits to be approved."""
    Path("notes.md").write_text("Bring tea.\n")
    Path("no\x1b[2J\u202e.md").touch()  # not offered
    write = {"path": "notes.md", "content": "Bring tea.\nBring cups.", "overwrite": True}
    for name, call, args in (("asks", "write_file", write), ("ends", "complete_task", DONE)):
        turns = {"agent": [[{"name": call, "args": args}]]}
        Path(f"{name}.json").write_text(json.dumps(turns))
    talk = Terminal("chat", "--graph", "task_agent", "--script", "asks.json")
    talk.wait_for_prompt()
    talk.press("Write down\x1b\rthe cups\\\n@no")  # Alt-Enter, a backslash, and a file
    talk.wait_for("notes.md")
    talk.press("\t")
    talk.wait_for("tes.md")
    talk.press("\n")
    talk.wait_for("[q]uit")
    shown = shown_of(talk)
    talk.type("q")
    talk.wait_for("Waiting for an answer")
    talk.wait_for_prompt()
    talk.type("/quit")
    assert talk.end() == 0
    return shown


@pytest.mark.req("W-148")
def test_a_write_is_approved_beside_what_it_changes_and_continue_comes_back_to_it(asked):
    assert "+Bring cups." in asked
    assert " Bring tea." in asked
    talk = Terminal("continue", "--script", "ends.json", COLUMNS="60")
    talk.wait_for("[q]uit")
    talk.type("a")
    talk.wait_for("I have written it down.")
    talk.wait_for_prompt()
    assert shown_of(talk).count("✓ write_file") == 1
    assert "complete_task" not in talk.seen
    assert Path("notes.md").read_text() == "Bring tea.\nBring cups."
    assert messages_of_newest() == "Write down\nthe cups\nnotes.md"
    talk.type("/cost")
    talk.wait_for("1 turn of this chat")
    talk.wait_for_prompt()
    for earlier in ("/cost", "qui", "the cups"):  # of this process, then of the other one
        talk.press("\x1b[A")
        talk.wait_for(earlier)
    talk.press(CTRL_C)
    talk.wait_for("Ctrl-C again")
    talk.type("/quit")
    assert talk.end() == 0


@pytest.mark.req("W-148")
def test_commands_say_what_the_chat_costs_which_tools_it_has_and_which_model_answers(tmp_path):
    (tmp_path / "notes.md").write_text("The meeting is on Monday.")
    script = json.dumps({"agent": [[{"name": "complete_task", "args": DONE}]]})
    (tmp_path / "script.json").write_text(script)
    lines = "Hello\n/cost\n/tools\n/model\n/model offline\nRead notes.md\n/resume x\nHi\n"
    how = ("--graph", "task_agent", "--script", "script.json", "--thread", "t")
    code, told, errors = chat(*how, stdin=lines)
    assert "1 turn of this chat: 1 model call · 0 tool calls" in told
    assert "ask write_file (otherwise): " in told
    assert re.search(r"> /model\nscript.json \(.*agent.*\)\n> /model offline\noffline \(", told)
    assert "Monday" in told.partition("> Read notes.md")[2]
    assert (code, "no thread 'x'" in errors, "> Hi" in told) == (2, True, False)
    assert messages("t") == ("Hello", 1)
    chat("--thread", "other", stdin="Read notes.md\n")
    code, told, _ = chat("--thread", "t", stdin="/resume other\n/cost\n")
    assert (code, "plan_execute_verify · thread other" in told) == (0, True)


@pytest.mark.req("S3-24", "S3-43", "S4-46")
def test_a_conversation_remembers_its_agent_and_says_what_became_of_it(tmp_path, monkeypatch):
    team = tmp_path / "team"
    team.mkdir()
    (team / "c.md").write_text("---\nname: clerk\ncolor: red\n---\nBe brief.\n")
    monkeypatch.setenv("LOOPWRIGHT_AGENTS", str(team))
    code, told, errors = chat("--agent", "clerk", "--thread", "t", stdin="List the files in .\n")
    assert (code, "color is not known" in told) == (0, True), told + errors
    monkeypatch.delenv("LOOPWRIGHT_AGENTS")
    code, told, _ = chat("--thread", "t", stdin="List the files in .\n")
    assert (code, told.startswith("task_agent")) == (0, True)
    assert "color is not known" in told, "the agent's own file was read"
    code, told, _ = chat("--thread", "t", stdin="/stop\n")
    (team / "c.md").write_text("---\nname: clerk\n---\nBe briefer.\n")
    code, told, _ = chat("--thread", "t", stdin="/help\n")
    assert f"Its agent {team / 'c.md'} has changed since the last turn" in told
    code, told, _ = chat("--agent", "codebase_investigator", "--thread", "t", stdin="/help\n")
    assert f"Its agent was {team / 'c.md'}; from now on it is codebase_investigator." in told
    (team / "c.md").unlink()
    code, _, errors = chat("--thread", "t", stdin="Hello\n")
    assert (code, f"The thread 't' needs its agent {team / 'c.md'}. " in errors) == (2, True)
    code, _, errors = chat("--agent", "nobody", stdin="Hello\n")
    shipped = "codebase_investigator, knowledge_base, refund_expert, technical_expert"
    known = f"give the path of its file, or one of {shipped}."
    assert (code, known in errors) == (2, True), errors


def test_prompts_and_resources_of_servers_are_listed(tmp_path):
    servers = {"library": stdio("library"), "gone": {"command": "nowhere"}}
    servers["odd"] = stdio("faulty", "odd")
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    how = ("--graph", "react", "--mcp", "mcp.json")
    code, told, _ = chat(*how, "--thread", "t", stdin="/prompts\n")
    listed = told.partition("> /prompts\n")[2].splitlines()
    assert listed[:3] == [
        "library: review title=… tone=… Review a book.�[2J",
        "library: greet Greet.",
        "library: books://juno juno A book about a lamp.",
    ]
    assert "! gone: the command 'nowhere'" in listed[3]
    assert listed[4:6] == ["odd: {'a': 1}", "odd:"]
    assert code == 0
