"""README and manual do what they say: their commands and programs run."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.docs_text import PAGES, README, ROOT, blocks, section, table
from support.forked import Command, server
from support.patience import PATIENCE
from support.screen import Terminal

sys.path.append(str(ROOT / "benchmarks"))
compare = import_module("compare")

NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv", ".links", ".env", ".loopwright", ".langgraph_api", ".hypothesis",
    "*_cache", "__pycache__", "*.egg-info", "build", "dist",
)  # fmt: skip

# A test cannot run the suite it belongs to: it runs the same command on one module, in one process.
STANDS_FOR = {"make test": "make test TEST='-n 0 tests/unit/test_public_api.py'"}
# Commands in `sh` blocks need a key, a model server or a browser; every other block is run.
NOT_RUN = {
    "make dev",
    "export OPENAI_BASE_URL=http://localhost:11434/v1",
    "python3.12 -m venv build/aegra",  # these by test_deploy.py
    "pip install '.[eval]'",  # these by test_evals.py and test_eval_command.py
    "createdb --host=host --username=user agents",
    "loopwright login search              # opens the browser",  # these by test_oauth.py
    'for db in $DATABASES; do loopwright prune --older-than 30d --db "$db"; done',
}
# What a command leaves in the user's home: Matplotlib keeps a list of the fonts there is.
LEAVES = {".venv/bin/python examples/sales/run.py": {".cache", ".config"}}


# ---- commands


@pytest.fixture
def checkout(tmp_path):
    """A copy of the repository as a newcomer has it, with this run's environment as its .venv."""
    copy = tmp_path / "loopwright"
    shutil.copytree(ROOT, copy, ignore=NOT_COPIED)
    (copy / ".venv").symlink_to(Path(sys.prefix))
    return copy


def environment(home):
    """What a login on a new machine has: no settings, no keys, an empty home."""
    home.mkdir()
    return {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm"}


def on_terminal(command, folder, environ):
    """Run a command on a terminal of 40 rows and 100 columns; its exit code and what it showed."""
    fcntl, pty, termios = (pytest.importorskip(name) for name in ("fcntl", "pty", "termios"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    process = subprocess.Popen(
        command, shell=True, cwd=folder, env=environ, start_new_session=True,
        stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while piece := _read(ours):
        shown += piece
    os.close(ours)
    return process.wait(), shown.decode()


def forked(folder, environ, script, *args):
    """The same of an example, without the imports, and with the list of fonts that is there."""
    environ = environ | {"MPLCONFIGDIR": str(Path.home() / ".cache" / "matplotlib")}
    with contextlib.chdir(folder):
        process = Command(server(), args, env=environ, script=folder / script)
    with process:
        code = process.wait(PATIENCE)
        return code, "".join(process.said())


def _read(terminal):
    try:
        return os.read(terminal, 65_536)
    except OSError:  # Linux says so when the last writer has gone
        return b""


def plain(text):
    """Lines without colours, redrawing, and what differs from run to run."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    text = re.sub(r"\b[\da-f]{4}(-[\da-f]{4}){3}\b", "THREAD", text)
    text = re.sub(r"[\d,]+ tokens", "N tokens", text)
    return [" ".join(line.split()) for line in re.split(r"[\r\n]+", text) if line.strip()]


def shows(shown, promised):
    """Whether the promised lines come in this order; `…` stands for anything."""
    pattern = "".join(
        rf"(?:^|.*\n){'.*'.join(map(re.escape, re.split(' ?… ?', line)))}(?=\n|$)"
        for line in promised
        if line != "…"
    )
    return re.match(pattern, "\n".join(shown), re.DOTALL)


WALKS = COMPANY, TUTORIAL, REPLAY = "docs/own-company.md", "docs/tutorial.md", "docs/replay.md"
SERVER = section("docs/mcp.md", "How do I write a server?")
REST = "\n".join(text.replace(SERVER, "") for page, text in PAGES.items() if page not in WALKS)
CONSOLE = [block.removeprefix("$ ").split("\n", 1) for block in blocks("console", REST)]


@pytest.mark.req("S0-161")
@pytest.mark.parametrize(("command", "output"), CONSOLE)
def test_a_command_shows_what_the_manual_shows(command, output, checkout, tmp_path):
    command = STANDS_FOR.get(command, command)
    environ = environment(tmp_path / "home")
    # The environment is there already: `-o` keeps make from installing it anew.
    run = re.sub(r"^make ", "make -o .venv/.package -o .venv/.installed ", command)
    if example := re.match(r"\.venv/bin/python (examples/\S+)(.*)", command):
        code, text = forked(checkout, environ, example[1], *shlex.split(example[2]))
    else:
        code, text = on_terminal(run, checkout, environ)
    assert code == 0, text
    assert shows(plain(text), plain(output)), text
    left = {path.name for path in (tmp_path / "home").iterdir()}
    assert left <= LEAVES.get(command, set())


def test_only_commands_that_need_the_world_are_left_out():
    assert len(CONSOLE) == 4
    assert {block.splitlines()[0] for block in blocks("sh", REST)} == NOT_RUN


@pytest.mark.req("S2-30")
def test_the_goal_of_the_quick_start_shows_a_repair_as_the_manual_says(tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=NOT_COPIED)
    [goal] = re.findall(r'^\$ make run GOAL=(".+")$', README, re.MULTILINE)
    terminal = Terminal("run", "--graph", "prompt_flow", json.loads(goal))
    assert terminal.end() == 0, terminal.seen
    said = "\n".join(plain(terminal.seen))
    assert "\nComplete.\n" in said
    assert "The returns policy is owned by Mara Lindqvist, Customer Care." in said
    assert "Models: offline (flow_planner, recovery, llm_call, answerer)" in said
    assert "· 5 tool calls ·" in said, "the files are listed once, the read that fails is repeated"


# ---- pages that begin in an empty folder

FILE = re.compile(r"^\*\*`([\w./-]+)`\*\*\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def types(tmp_path, monkeypatch, forked_servers):
    """From an empty folder: a command of the page as its reader types it; what it shows."""
    (folder := tmp_path / "empty").mkdir()
    monkeypatch.chdir(folder)
    environ = environment(tmp_path / "home") | {"PATH": os.environ["PATH"]}

    def run(command, lines):
        sets = dict(re.findall(r"\b([A-Z_]+)=(\S+)", command))
        first, *args = shlex.split(re.sub(r"^([A-Z_]+=\S+ )+", "", command))
        if first == "export":
            environ.update(sets)
            return ""
        if first == "cat":
            return "".join(Path(name).read_text(encoding="utf-8") for name in args)
        script = Path(args.pop(0)).resolve() if first == "python" else None
        typed = "".join(f"{line}\n" for line in lines)
        with Command(server(), args, env=environ | sets, stdin=typed, script=script) as process:
            code, (told, wrong) = process.wait(PATIENCE), process.said()
        if code == -signal.SIGKILL:
            return f"{told}Killed\n"  # which the reader's shell says
        assert code in ((0, 5) if "chat" in args else (0,)), (command, told, wrong)
        return told

    return run


def walk(text, types):
    """Each file and command of a page or section, in its order, and nothing else."""
    parts = re.split(r"(?=^\*\*`)|(?=^```console\n)", text, flags=re.MULTILINE)[1:]
    assert len(parts) * 2 == len(re.findall("^```", text, re.MULTILINE)), "no other block"
    for part in parts:
        if made := FILE.match(part):
            Path(made[1]).parent.mkdir(parents=True, exist_ok=True)
            Path(made[1]).write_text(made[2], encoding="utf-8")
            continue
        (block,) = blocks("console", part)
        for step in block.removeprefix("$ ").split("\n$ "):
            command, _, promised = step.partition("\n")
            typed = re.findall(r"^> (.*)$", promised, re.MULTILINE) if " chat " in command else []
            shown = types(command, typed)
            assert shows(plain(shown), plain(promised)), (command, shown)


def test_a_company_of_ones_own_works_as_its_page_says(types):
    walk(PAGES[COMPANY], types)
    orders = json.loads(Path("orders.json").read_text(encoding="utf-8"))["orders"]
    assert [one["status"] for one in orders.values()] == ["cancelled", "cancelled"]


def test_the_tutorial_ends_with_a_kill_inside_a_write_and_one_payment_each(types):
    walk(PAGES[TUTORIAL], types)
    assert Path("payments.txt").read_text() == "paid A-7\npaid A-8\n"


def test_a_recorded_run_is_replayed_and_becomes_a_test_as_its_page_says(types):
    walk(PAGES[REPLAY], types)
    assert Path("hello.txt").read_text() == "Hello"


def test_a_server_of_ones_own_is_chatted_with_as_its_section_says(types):
    walk(SERVER, types)


# ---- programs


PYTHON = blocks("python", REST)
INTERPRETER = sys.executable


@pytest.fixture
def beside_mcp_json(tmp_path, forked_servers):
    """A folder with the example's mcp.json, where `python` is one that runs the server of it."""
    shutil.copy(ROOT / "examples" / "mcp.json", tmp_path)
    policy, *_ = blocks("yaml", PAGES["docs/policies.md"])
    (tmp_path / "policy.yaml").write_text(policy, encoding="utf-8")


@pytest.fixture(params=["an empty folder", "the root"])
def place(request, beside_mcp_json, tmp_path, monkeypatch):
    """Where a program is started, by somebody who has not activated the environment."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    if request.param == "the root":
        root = request.getfixturevalue("checkout")
        for file in ("mcp.json", "policy.yaml"):
            shutil.copy(tmp_path / file, root)
        monkeypatch.chdir(root)


@pytest.mark.req("W-146")
@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_a_program_runs_as_it_stands(number, place, capsys):
    """Offline, beside nothing but the files that its page shows; warnings are errors."""
    exec(compile(PYTHON[number], f"program {number} of the manual", "exec"), {"__name__": "manual"})
    printed = capsys.readouterr().out
    assert ("print(" in PYTHON[number]) == bool(printed)
    assert ("complete" in printed) == ("outcome" in PYTHON[number])
    for promised in re.findall(r"^# prints: (.+)$", PYTHON[number], re.MULTILINE):
        assert promised in printed


def test_the_embedding_example_is_the_one_in_the_readme():
    example = (ROOT / "examples" / "embed.py").read_text(encoding="utf-8")
    code = example.partition('"""\n\n')[2]
    assert re.sub(r"  # noqa.*", "", code) == PYTHON[0] == blocks("python", README)[0]


@pytest.mark.req("S0-13")
@pytest.mark.parametrize(
    ("example", "printed"),
    [
        pytest.param(
            "shop/desk_hooks.py",
            ["30 days", "'sourced': 1", "'rejected': 2"],
            marks=pytest.mark.req("S4-70"),
        ),
        ("investigate.py", ["complete: ", "files speak of in_doubt"]),
        ("reviewer.py", ["It may go out."]),
        ("scripted.py", []),
    ],
)
def test_an_example_runs(example, printed, tmp_path):
    environ = environment(tmp_path / "home") | {"PYTHONWARNINGS": "error"}
    with Command(server(), (), env=environ, script=ROOT / "examples" / example) as program:
        code, (told, wrong) = program.wait(PATIENCE), program.said()
    assert (code, wrong) == (0, ""), wrong
    assert all(text in told for text in printed)


@pytest.mark.req("W-146")
@pytest.mark.parametrize("folder", ["empty", "loopwright"])
def test_the_first_program_runs_anywhere_with_no_python_on_the_path(folder, checkout, tmp_path):
    """As a user starts it who has not activated the environment; a second time, too."""
    (tmp_path / folder).mkdir(exist_ok=True)
    environ = environment(tmp_path / "home") | {"PYTHONWARNINGS": "error", "PATH": "/nowhere"}
    for _ in range(2):
        done = subprocess.run(
            [INTERPRETER, checkout / "examples" / "embed.py"], cwd=tmp_path / folder, env=environ,
            capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("complete")
        assert "paid 40 EUR to Miller" in done.stdout
    assert (tmp_path / folder / "agent.db").exists()


def test_the_first_program_is_short_and_needs_nothing_beside_it():
    lines = [line for line in PYTHON[0].splitlines() if line.strip()]
    assert len(lines) <= 12
    assert len(README.splitlines()) <= 120


@pytest.mark.parametrize("case", compare.CASES)
def test_the_comparison_says_what_was_measured(case):
    """Of those that are installed; deepagents by the script itself."""
    [row] = [row for row in table("| what goes wrong |") if row[-1] == f"`{case}`"]
    said = dict(zip(compare.CONTESTANTS, row[1:], strict=False))
    here = [name for name in said if name != "deepagents" or find_spec(name)]
    assert compare.measure(case, here) == {name: said[name] for name in here}


@pytest.mark.req("S0-113", "S0-162")
def test_example_of_a_business_context_reaches_the_prompt(capsys):
    program = next(p for p in PYTHON if "set_all_business_contexts" in p)
    exec(program, {"__name__": "manual"})
    prompt = capsys.readouterr().out
    assert "Find the order, then the rule" in prompt
    assert "Prices are in EUR" in prompt
    assert prompt.startswith("You are the planner")
