"""The `loopwright` command as users run it: real processes, terminals, servers and files."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loopwright import open_durability
from support.fake_openai import Reply, fake_openai
from support.forked import COMMAND, Command, Done, server
from support.patience import PATIENCE
from support.screen import Terminal
from support.scripts import passed, plan, report, todo

FAULTY = Path(__file__).parents[1] / "support" / "mcp_servers" / "faulty.py"
DESK = Path(__file__).parents[1] / "support" / "mcp_servers" / "desk.py"
ESCAPE = "\x1b"
DESK_GRAPH = "customer_service"


def cli(*args, stdin="", **env):
    """The command in a process of its own, forked from one that has done the imports."""
    with Command(server(), args, stdin=stdin, env=os.environ | env) as command:
        return Done(command.wait(PATIENCE), *command.said())


def installed(*args, stdin="", **env):
    """The command as a shell starts it: a new interpreter, with pipes for its streams."""
    return subprocess.run(
        [*COMMAND, *args], input=stdin, capture_output=True, text=True, encoding="utf-8",
        timeout=PATIENCE, env=os.environ | env, check=False,
    )  # fmt: skip


def sentence(done):
    """The one line of an error; no traceback and nothing on standard output."""
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


def answers(*, slow="", seconds=0.0, planned=None, verdict=None, executor=None):
    """A model server's script: plan, work, verdict; the `slow` role takes its time once."""
    seen = []

    def script(request):
        role = re.findall(r"You are the (\w+)", str(request["messages"][0]["content"]))[0]
        content = {
            "planner": planned or plan(todo("1", "look at it")),
            "executor": executor or report("It is 42."),
            "verifier": verdict or passed("# Found\n\nIt is **42** [1.report].", t1=["1.report"]),
        }[role]
        hang = seconds if role == slow and role not in seen else 0.0
        seen.append(role)
        if callable(content):
            content = content(request)
        return content if isinstance(content, Reply) else Reply(json.dumps(content), hang=hang)

    return script


def model_env(fake):
    """The settings of a run on this model server, without tools unless a test names some."""
    return {
        "LOOPWRIGHT_MCP": mcp_file(Path.cwd(), "none.json"),
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_BASE_URL": fake.url,
        "LOOPWRIGHT_MODEL": "openai:test-model",
    }


def mcp_file(tmp_path, name="mcp.json", **servers):
    path = tmp_path / name
    path.write_text(json.dumps({"mcpServers": servers}))
    return str(path)


class InstalledTerminal(Terminal):
    """The same with a new interpreter, as a shell starts it."""

    def start(self, args, env, path):
        # The first terminal that the leader of a new session opens becomes its own.
        line = f'exec "$@" <>{shlex.quote(path)} >&0 2>&0'
        process = subprocess.Popen(
            ["sh", "-c", line, "sh", *COMMAND, *args], env=env, start_new_session=True
        )
        process.close = process.kill
        return process


def started(*args, **env):
    """A running process whose standard input is no terminal."""
    return Command(server(), args, env=os.environ | env)


def wait_until(condition, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def notes():
    Path("notes.md").write_text("The meeting is on Monday at nine.\n")


# Running


@pytest.mark.req("S0-21", "S0-60", "S0-148")
def test_a_run_without_a_terminal_is_told_in_plain_lines(notes):
    done = installed("run", "Read notes.md")
    assert done.returncode == 0
    assert ESCAPE not in done.stdout + done.stderr
    assert "plan: 1 task: 1 Read notes.md" in done.stdout
    assert 'call 1.1.0 read_file {"path": "notes.md"}' in done.stdout
    assert "call 1.1.0 success" in done.stdout
    assert "✓ [1.1.0] read_file" in done.stdout
    assert "Monday at nine" in done.stdout
    assert "No language model is configured" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("graph", ["prompt_flow", "router", DESK_GRAPH])
def test_json_is_one_object_and_nothing_else(graph, notes):
    done = cli("run", "--graph", graph, "--json", "--thread", "mine", "Read notes.md")
    told = json.loads(done.stdout)
    # A desk needs a language model: without one it says so.
    ends = (3, "blocked") if graph == "customer_service" else (0, "complete")
    assert (done.returncode, told["status"], told["thread"]) == (*ends, "mine")
    assert set(told) == {
        "status", "reason", "headline", "answer", "tasks", "unmet", "uncertain_calls", "spend",
        "models", "warnings", "resume", "result", "thread",
        *(["tried"] if graph == "router" else []),
    }  # fmt: skip


@pytest.mark.req("S2-01", "S2-17")
@pytest.mark.req("S4-46")
def test_the_agent_of_a_file_runs(notes):
    Path("clerk.md").write_text("---\nname: clerk\ntools: list_files\ncolor: red\n---\nBe brief.\n")
    done = cli("run", "--agent", "clerk.md", "List the files in .", "--json")
    told = json.loads(done.stdout)
    assert (told["status"], done.returncode) == ("complete", 0)
    assert "color is not known" in str(told["warnings"])
    done = cli("run", "--agent", "clerk.md", "--graph", "react", "List the files in .")
    assert "--agent is for task_agent" in sentence(done)


def test_a_plan_of_the_users_own_is_followed_with_values_for_its_variables(notes):
    read = {"id": "r", "tool": "read_file", "arguments": {"path": "{{global.file}}"}}
    Path("plan.json").write_text(json.dumps({"steps": [read]}), encoding="utf-8")
    script = {"answerer": ["It says so [r]."]}
    Path("said.json").write_text(json.dumps(script), encoding="utf-8")
    given = ("run", "--plan", "plan.json", "--script", "said.json", "--json", "Read it.")
    done = cli(*given, "--set", "file=notes.md")
    outcome = json.loads(done.stdout)
    assert (done.returncode, outcome["status"]) == (0, "complete")
    assert "Monday" in outcome["tasks"][0]["result"]
    without = cli(*given)
    assert without.returncode == 3
    assert "no value: 'file'" in without.stdout


def test_a_plan_waits_for_its_review_and_runs_once_it_is_approved(notes):
    command = ["--graph", "prompt_flow", "--thread", "t", "--review", "Read notes.md"]
    denied = cli("run", *command)
    assert denied.returncode == 3
    assert "Blocked: somebody must approve a call" in denied.stdout
    waiting = cli("run", "--yes", *command)
    assert waiting.returncode == 5, "--yes is for calls, not for plans"
    assert "Run this plan?" in waiting.stdout
    assert "s1. Read notes.md: read_file(" in waiting.stdout
    assert "resume t --review ANSWER" in waiting.stdout
    done = cli("resume", "t", "approve", "--review")
    assert done.returncode == 0
    assert "Monday at nine" in done.stdout


def of_desk(*support):
    """The options of a desk whose model takes these turns; without a model it does nothing."""
    understood = {"intent": "order", "mood": "calm", "score": 0}
    Path("script.json").write_text(
        json.dumps(
            {"proofreader": [{"unsupported": []}] * 3, "listener": [understood], "support": support}
        )
    )
    return ("--script", "script.json")


WRITE = [{"name": "write_file", "args": {"path": "out.txt", "content": "hello"}}]


@pytest.mark.parametrize("graph", ["plan_execute_verify", "task_agent", DESK_GRAPH])
def test_what_policy_asks_is_denied_where_nobody_can_be_asked(graph):
    model = of_desk(WRITE, "I cannot do that here.") if graph == DESK_GRAPH else ()
    done = cli("run", "--graph", graph, "Write the text 'hello' to out.txt", *model)
    assert done.returncode == 3
    assert "Blocked: somebody must approve a call" in done.stdout
    assert not Path("out.txt").exists()


@pytest.mark.parametrize("graph", ["react", "prompt_flow", DESK_GRAPH])
def test_yes_approves_what_policy_asks(graph):
    asked = ("run", "--graph", graph, "--yes", "--thread", "t")
    model = of_desk(WRITE) if graph == DESK_GRAPH else ()
    done = cli(*asked, "Write the text 'hello' to out.txt", *model)
    if graph == DESK_GRAPH:  # --yes speaks for the policy, not for the customer
        assert "· content: hello" in done.stdout
        assert not Path("out.txt").exists()
        done = cli(*asked, "yes", *of_desk("It is done."))
    assert done.returncode == 0, done.stdout
    assert Path("out.txt").read_text() == "hello"


def test_yes_does_not_answer_questions_to_the_user():
    asks = plan(needsMorePlanning=True, missingInformation=["Which day?"])
    with fake_openai(answers(planned=asks)) as fake:
        done = cli("run", "--yes", "--json", "--thread", "t", "Book it", **model_env(fake))
        told = json.loads(done.stdout)
        assert done.returncode == 5
        assert told["status"] == "waiting"
        assert [sorted(entry) for entry in told["interrupts"]] == [["id", "value"]]
        again = cli("resume", "t", **model_env(fake))
        assert again.returncode == 5
        assert "Which day?" in again.stdout


@pytest.mark.req("W-25")
def test_an_answer_to_a_waiting_thread_goes_on_with_it():
    def planned(request):
        if "Monday" in str(request["messages"]):
            return plan(todo("1", "book Monday"))
        return plan(needsMorePlanning=True, missingInformation=["Which day?"])

    with fake_openai(answers(planned=planned)) as fake:
        assert cli("run", "--yes", "--thread", "t", "Book it", **model_env(fake)).returncode == 5
        refused = cli("resume", "t", "approve", **model_env(fake))
        assert refused.returncode == 2
        assert "respond: text" in sentence(refused)
        done = cli("resume", "t", "Monday", **model_env(fake))
        assert done.returncode == 0, done.stdout + done.stderr


# What users get wrong


@pytest.mark.req("S0-151")
@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["run", ""], "The goal is empty"),
        (["run", "x", "--graph", "nope"], "plan_execute_verify"),
        (["run", "x", "--mcp", "broken.json"], "no valid JSON"),
        (["run", "x", "--script", "s.json", "--model", "offline"], "give one of them"),
        (["run", "x", "--set", "city"], "--set name=value"),
        (["run", "x", "--db", "sqlite:////proc/threads.db"], "/proc/threads.db"),
        (["resume", "nobody", "approve"], "No thread 'nobody'"),
    ],
)
def test_wrong_use_is_one_sentence(args, says):
    Path("broken.json").write_text("{not json" * 100)
    done = cli(*args)
    assert done.returncode == 2
    assert says in sentence(done)
    assert len(sentence(done).splitlines()) == 1


@pytest.mark.req("W-41")
def test_nothing_of_the_current_folder_is_imported(tmp_path, notes):
    for module in ("anyio", "mcp", "regex", "loopwright", "pydantic", "argparse", "sitecustomize"):
        Path(f"{module}.py").write_text(f"open({str(tmp_path / 'taken')!r}, 'a')")
    server = ["-m", "loopwright.servers.workspace", "--root", "."]
    config = mcp_file(tmp_path, files={"command": sys.executable, "args": server})
    done = subprocess.run(  # as the installed script is: no folder of its own to import from
        [COMMAND[0], "-P", *COMMAND[1:], "run", "Read notes.md", "--mcp", config],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert not Path(tmp_path, "taken").exists()


@pytest.mark.req("S0-76", "S0-148")
def test_a_dead_model_is_named_and_the_thread_is_kept():
    def busy(request):
        return Reply(status=401, error={"message": "wrong \x1b[2Jkey"})

    with fake_openai(busy) as fake:
        done = cli("run", "--thread", "t", "x", **model_env(fake))
        assert done.returncode == 4
        assert "openai:test-model" in done.stderr
        assert "loopwright resume t" in done.stderr
        assert "Traceback" not in done.stderr
        assert "Traceback" in Path(".loopwright/loopwright.log").read_text()
        again = cli("resume", "t", "--json", LOOPWRIGHT_DEBUG="1", **model_env(fake))
        told = json.loads(again.stdout)
        assert (told["status"], told["thread"]) == ("failed", "t")
        assert "Traceback" in again.stderr
        assert "\x1b" not in done.stderr + again.stderr
    with fake_openai(answers()) as fake:
        assert cli("resume", "t", **model_env(fake)).returncode == 0


# Stopping


@pytest.mark.req("S0-22", "S0-104")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_waits_for_what_runs_and_keeps_it(number):
    two = plan(todo("1", "one"), todo("2", "two", ["1"]))
    verdict = passed("All of it is 42 [1.report].", t1=["1.report"], t2=["2.report"])
    script = answers(slow="executor", seconds=1.0, planned=two, verdict=verdict)
    with fake_openai(script) as fake:
        with started("run", "--thread", "t", "x", **model_env(fake)) as process:
            wait_until(lambda: len(fake.requests) == 2)
            process.send_signal(number)
            out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
        assert "Stopping after what is running" in err
        assert "Traceback" not in err
        assert "never retrieved" not in err
        assert "go on with: loopwright resume t" in out
        assert len(fake.requests) == 2
        done = cli("resume", "t", **model_env(fake))
        assert done.returncode == 0, done.stdout + done.stderr
        asked = [str(r["messages"][0]["content"])[:20] for r in fake.requests]
        assert sum("planner" in words for words in asked) == 1


def test_the_second_signal_stops_at_once():
    with fake_openai(answers(slow="executor", seconds=2 * PATIENCE)) as fake:
        with started("run", "--json", "--thread", "t", "x", **model_env(fake)) as process:
            wait_until(lambda: len(fake.requests) == 2)
            process.send_signal(signal.SIGINT)
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
        assert json.loads(out) == {
            "status": "paused", "thread": "t", "resume": "loopwright resume t",
        }  # fmt: skip
        assert "Traceback" not in err
        assert "never retrieved" not in err
        assert cli("resume", "t", **model_env(fake)).returncode == 0


def test_a_stopped_run_leaves_no_server_process(tmp_path):
    config = mcp_file(tmp_path, desk={"command": sys.executable, "args": [str(DESK)]})
    with (
        fake_openai(answers(slow="executor", seconds=1.0)) as fake,
        started("run", "--mcp", config, "x", **model_env(fake)) as process,
    ):
        wait_until(lambda: len(fake.requests) == 2)
        found = _children(process.pid)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
        assert found
        wait_until(lambda: not any(_is_running(pid) for pid in found), 20)


def _children(pid):
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            found.append(int(stat.parent.name))
    return found


def _is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# On a terminal


@pytest.mark.req("S3-13")
def test_a_terminal_shows_the_task_list_and_the_answer_as_markdown(notes):
    terminal = Terminal("run", "Read notes.md")
    assert terminal.end() == 0
    assert "100 %" in terminal.seen
    assert "✓" in terminal.seen
    assert "Monday at nine" in terminal.seen
    assert "**Read" not in terminal.seen.rpartition("100 %")[2], "only while it is written"


def test_an_approval_is_asked_and_given():
    terminal = Terminal("run", "Write the text 'hello' to out.txt")
    terminal.wait_for("[q]uit")
    assert "write_file" in terminal.seen
    assert not Path("out.txt").exists()
    terminal.type("f")
    terminal.wait_for('"hello"')
    terminal.type("what")
    terminal.wait_for("[q]uit")
    terminal.type("a")
    assert terminal.end() == 0
    assert Path("out.txt").read_text() == "hello"


TILL = """
import asyncio, pathlib
from mcp.server.fastmcp import FastMCP
from mcp.types import ToolAnnotations

server = FastMCP("till")


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def price(article: str) -> str:
    'Look up a price.'
    return "5"


@server.tool()
async def pay(amount: int) -> str:
    'Pay an amount.'
    book = pathlib.Path("book.txt")
    paid = book.read_text() if book.exists() else ""
    book.write_text(paid + f"{amount} ")
    if not paid:
        await asyncio.sleep(60)
    return f"paid {amount}"


server.run()
"""


def till(tmp_path):
    """A configuration with the till, whose first payment never comes back."""
    (tmp_path / "till.py").write_text(TILL)
    return mcp_file(
        tmp_path, till={"command": server().python, "args": [str(tmp_path / "till.py")]}
    )


@pytest.mark.req("P-06")
def test_a_call_that_may_have_run_is_settled_by_a_human_alone(tmp_path):
    config = till(tmp_path)
    command = ["--graph", "react", "--thread", "t", "--mcp", config, "--yes", "Pay 5"]
    with started("run", *command):
        wait_until(lambda: Path("book.txt").exists())
    waiting = cli("resume", "t", "--mcp", config, "--yes")
    assert waiting.returncode == 5, waiting.stdout + waiting.stderr
    assert 'Did pay {"amount": 5} take effect?' in waiting.stdout
    terminal = Terminal("resume", "t", "--mcp", config)
    terminal.wait_for("[g]ive up")
    terminal.type("i")
    terminal.wait_for("What was its result?")
    terminal.type("paid 5, says the bank")
    assert terminal.end() == 0, terminal.seen
    assert "says the bank" in terminal.seen
    assert Path("book.txt").read_text() == "5 "


@pytest.mark.req("P-06")
def test_a_killed_plan_shows_what_is_done_and_asks_about_what_may_have_run(tmp_path):
    steps = [
        {"id": "ask", "tool": "price", "arguments": {"article": "Juno"}},
        {"id": "buy", "tool": "pay", "arguments": {"amount": "{{ask}}"}},
    ]

    def script(request):
        planner = "You are the flow_planner" in str(request["messages"][0]["content"])
        return Reply(json.dumps({"steps": steps}) if planner else "Bought. [buy]")

    with fake_openai(script) as fake:
        env = model_env(fake) | {"LOOPWRIGHT_MCP": till(tmp_path)}
        command = ["--graph", "prompt_flow", "--thread", "t", "--yes", "Buy Juno"]
        with started("run", *command, **env):
            wait_until(lambda: Path("book.txt").exists())
        terminal = Terminal("resume", "t", **env)
        terminal.wait_for("[g]ive up")
        assert "1 of 2 steps done" in terminal.seen
        assert re.search(r"✓\S* +ask", re.sub(r"\x1b\[[\d;]*m", "", terminal.seen))
        terminal.type("i")
        terminal.wait_for("What was its result?")
        terminal.type("paid 5, says the bank")
        assert terminal.end() == 0, terminal.seen
        assert len(fake.requests) == 2, "a plan and an answer"
    assert Path("book.txt").read_text() == "5 "


def test_an_approval_can_be_edited():
    terminal = Terminal("run", "Write the text 'hello' to out.txt", EDITOR="", VISUAL="")
    terminal.wait_for("[q]uit")
    terminal.type("e")
    terminal.wait_for("one line of JSON")
    terminal.type("{oops")
    terminal.wait_for("no valid JSON")
    terminal.type("e")
    terminal.wait_for("one line of JSON")
    terminal.type(json.dumps({"path": "other.txt", "content": "bye"}))
    terminal.end()
    assert Path("other.txt").read_text() == "bye"
    assert not Path("out.txt").exists()


def test_an_approval_can_be_rejected_with_a_reason():
    terminal = Terminal("run", "--thread", "t", "Write the text 'hello' to out.txt")
    terminal.wait_for("[q]uit")
    terminal.type("r")
    terminal.wait_for("Why?")
    terminal.type("not on Sundays")
    assert terminal.end() == 3
    assert not Path("out.txt").exists()


def test_quitting_leaves_the_question_open():
    terminal = Terminal("run", "--thread", "t", "Write the text 'hello' to out.txt")
    terminal.wait_for("[q]uit")
    terminal.type("q")
    assert terminal.end() == 5
    assert "loopwright resume t" in terminal.seen
    assert cli("threads").stdout.splitlines()[1].split("\t")[2] == "waiting"
    told = json.loads(cli("resume", "t", "--json").stdout)
    assert told["status"] == "waiting"
    by_id = json.dumps({told["interrupts"][0]["id"]: {"type": "approve"}})
    assert cli("resume", "t", "banana").returncode == 2
    assert cli("resume", "t", by_id).returncode == 0
    assert Path("out.txt").read_text() == "hello"


# The other commands


@pytest.mark.req("W-79")
def test_after_the_second_ctrl_c_the_call_in_doubt_is_named(tmp_path):
    """A real terminal, a write that hangs; signals that come while the command leaves are lost."""
    begun = tmp_path / "begun"
    config = mcp_file(tmp_path, odd={"command": server().python, "args": [str(FAULTY)]})
    think = 'I hold it.\n\n<agent_meta>{"shouldContinue": true}</agent_meta>'
    calls = [{"name": "hold", "args": {"path": str(begun)}}]
    Path("script.json").write_text(json.dumps({"thought": [think], "action": [calls]}))
    asked = ("--graph", "react", "--mcp", config, "--script", "script.json", "--yes")
    terminal = InstalledTerminal("run", *asked, "--thread", "t", "Hold it")
    wait_until(begun.exists)
    os.write(terminal.fd, b"\x03")
    terminal.wait_for("Stopping after")  # the first was heard; what comes with it counts once
    for _ in range(20):
        os.write(terminal.fd, b"\x03")
        time.sleep(0.02)
    assert terminal.end() == 130
    told = " ".join(terminal.seen.split())
    assert "Nothing is lost" not in told
    assert "not known whether this call took effect" in told
    assert "hold {" in told
    assert "A call is in doubt, which the thread will ask about" in told
    assert "Traceback" not in told
    with open_durability("sqlite:///.loopwright/threads.db") as durability:
        assert [row.in_doubt for row in durability.journal.rows("t")] == [True]


STEERING = "\x1b]0;owned\x07\x1b[2J\u202e"


@pytest.mark.parametrize(
    "args",
    [
        ("run", "--db", f"sqlite:///{STEERING}.db", "Write the text 'hello' to out.txt"),
        ("run", "--thread", f"t{STEERING}", "--db", "sqlite:///a.db", "Hello"),
        ("run", "--mcp", f"{STEERING}.json", "Hello"),
        ("run", "--model", f"openai:{STEERING}", "Hello"),
        ("resume", f"t{STEERING}"),
        ("doctor", "--mcp", "steering.json"),
        ("run", "--mcp", "steering.json", f"Read notes.md{STEERING}"),
        ("run", "--mcp", "steering.json", "--json", f"Read notes.md{STEERING}"),
    ],
    ids=lambda args: " ".join(args[:2]),
)
def test_no_text_steers_the_terminal(notes, args):
    servers = {f"s{STEERING}": {"command": f"no-such{STEERING}"}}
    Path("steering.json").write_text(json.dumps({"mcpServers": servers}))
    done = cli(*args)
    for said in (done.stdout, done.stderr):
        assert not {"\x1b", "\x07", "\u202e"} & set(said)
    if "--json" in args:
        json.loads(done.stdout)
