"""The project file and the Makefile: what is imported is declared, and a goal arrives as typed."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ROOMS = {path.parent.name for path in ROOT.glob("*/__init__.py")}
# Import names that are not the name of what installs them.
COMES_WITH = {
    "pydantic_core": "pydantic",
    "ag_ui": "ag-ui-protocol",
    "opentelemetry": "opentelemetry-sdk",
    "psycopg": "psycopg",
    "psycopg_pool": "psycopg",
    "grimp": "import-linter",
    "yaml": "pyyaml",
}
SHOP = ROOT / "examples" / "shop"
OF_THE_SHOP = {path.stem.replace("_", "-") for path in SHOP.glob("*.py")}
OURS = {"loopwright", "support", "unit", "conftest"} | OF_THE_SHOP


def declared(requirements):
    return {re.split(r"[\[<>=]", one)[0] for one in requirements}


def imported(files):
    """The installed packages that these files import, late imports included."""
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found = [".".join((node.module or "", node.names[0].name))]
            else:
                continue
            yield from map(installed_as, found)


def installed_as(module):
    name, _, rest = module.partition(".")
    if name == "langgraph" and rest.startswith("checkpoint."):
        kind = rest.split(".")[1]
        name = f"langgraph-checkpoint-{kind}" if kind in ("sqlite", "postgres") else name
    return COMES_WITH.get(name, name.replace("_", "-"))


def foreign(files):
    return set(imported(files)) - OURS - {n.replace("_", "-") for n in sys.stdlib_module_names}


def foreign_to(folder):
    """The same for the programs of a folder, which import each other from beside them."""
    programs = list((ROOT / folder).rglob("*.py"))
    return foreign(programs) - {program.stem.replace("_", "-") for program in programs}


PACKAGE = declared(PROJECT["project"]["dependencies"])
EXTRAS = {k: declared(v) for k, v in PROJECT["project"]["optional-dependencies"].items()}
OF_ENGINES = {"dbos", "celery", "redis", "temporalio", "my-graph", "celery-turns"}
"""What `make engines` installs beside, and the module of a user's that recipes import."""
NEEDED_BY_THE_SHOP = declared(
    line
    for line in (SHOP / "requirements.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
)


def test_the_package_declares_what_it_imports_and_nothing_else():
    used = foreign(
        [ROOT / "__init__.py", *(f for room in ROOMS for f in (ROOT / room).rglob("*.py"))]
    )
    late = ("workers", "ag-ui", "prices", "eval", "keyring")
    optional = set().union(*(EXTRAS[name] for name in late))
    assert used - PACKAGE - optional == EXTRAS["desk"]
    assert EXTRAS["postgres"] < EXTRAS["workers"]
    assert PACKAGE - used == set()


def test_the_suite_declares_what_it_imports():
    used = foreign((ROOT / "tests").rglob("*.py")) | foreign_to("benchmarks")
    used -= {"inspect-evals"}  # large; its test is skipped where it is not
    assert used - OF_ENGINES - PACKAGE - EXTRAS["dev"] - EXTRAS["workers"] == set()


def test_the_examples_declare_what_they_import_and_nothing_else():
    needed = EXTRAS["examples"] | NEEDED_BY_THE_SHOP
    assert foreign_to("examples") - OF_ENGINES - PACKAGE == needed
    assert needed <= EXTRAS["dev"], "the suite runs them"


def test_every_declared_package_has_a_tried_version():
    tried = declared((ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines())
    assert (PACKAGE | set().union(*EXTRAS.values())) <= tried


def test_the_image_installs_what_has_a_hash_and_runs_without_root():
    folder = ROOT / "examples" / "deploy"
    text = (folder / "constraints.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert not re.search(r"^-|index-url|find-links|trusted-host", text, re.MULTILINE)
    bare = re.sub(r"^ *#.*", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    lines = [line.split() for line in bare.splitlines() if line.strip()]
    for name, *hashes in lines:
        assert re.fullmatch(r"[a-z0-9-]+==[\w.]+", name)
        assert hashes, name
        assert all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", each) for each in hashes), name
    pinned = {line[0].split("==")[0] for line in lines}
    assert PACKAGE | EXTRAS["workers"] | {"aegra-cli", "setuptools"} <= pinned
    steps = (folder / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert steps[-1].startswith("USER ")
    assert steps[-1].split()[1] not in ("root", "0")
    installs = [step for step in steps if "pip install" in step]
    assert len(installs) == 2
    assert "--require-hashes -r" in installs[0]
    assert all("--no-deps" in step for step in installs)
    assert "--no-build-isolation" in installs[1], "nothing else is downloaded to build it"


def test_servers_stand_alone_and_no_room_is_forgotten():
    layers, alone, unknown, *_ = PROJECT["tool"]["importlinter"]["contracts"]
    others = {f"loopwright.{room}" for room in ROOMS - {"servers"}}
    assert {room for layer in layers["layers"] for room in layer.split(" | ")} == others
    assert set(alone["forbidden_modules"]) == set(unknown["source_modules"]) == others
    assert alone["source_modules"] == unknown["forbidden_modules"] == ["loopwright.servers"]


def steps(target):
    """What make would do for a target where nothing is installed yet."""
    make = ["make", "--no-print-directory", "-C", str(ROOT), "-nB", target, "GOAL=x"]
    told = subprocess.run(make, capture_output=True, text=True, check=True).stdout
    return [line for line in told.splitlines() if not line.startswith("touch ")]


@pytest.mark.req("W-60")
def test_the_first_run_installs_the_package_alone_and_tells_each_step():
    said, made, said_more, installed, ran = steps("run")
    assert (said.split()[0], said_more.split()[0]) == ("echo", "echo")
    assert made.endswith(" -m venv .venv")
    assert installed.endswith(" -e .")
    assert "--quiet" not in installed
    assert "loopwright run" in ran
    *package, said, tools, suite = steps("test")
    assert package == [*steps("run")[:4]]
    assert said.startswith("echo ")
    assert tools.endswith(" -e '.[dev]'")
    assert "pytest" in suite


@pytest.fixture
def run(tmp_path):
    """`make run` with a command that prints what it is given."""
    command = tmp_path / "loopwright"
    command.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    command.chmod(0o755)
    make = ["make", "--no-print-directory", "-C", str(ROOT), "-o", ".venv/.package"]
    environ = {"PATH": os.environ["PATH"]}

    def run_(*goal, **more):
        return subprocess.run(
            [*make, "run", f"BIN={tmp_path}", *goal], capture_output=True, text=True,
            env=environ | more,
        )  # fmt: skip

    return run_


@pytest.mark.parametrize(
    "goal",
    [
        """say "hi" and 'ho'""",
        "pay $5, $(shell touch oops) or ${unfinished",
        "`touch oops`; $HOME $$HOME # x",
        "--help",
        "-x",
        r"back\slash 100 %",
    ],
)
def test_a_goal_reaches_the_command_as_it_was_typed(goal, run):
    for done in (run(f"GOAL={goal}"), run(GOAL=goal)):
        assert json.loads(done.stdout) == ["run", "--", goal], done.stderr
    assert not (ROOT / "oops").exists()


@pytest.mark.parametrize("goal", [[], ["GOAL="], ["GOAL=  "]])
def test_no_goal_is_one_sentence(goal, run):
    done = run(*goal)
    assert (done.returncode, done.stdout) == (2, "")
    assert 'GOAL is empty: make run GOAL="what you want done"' in done.stderr
    assert len(done.stderr.splitlines()) == 1


LOOK_ALIKES = "prompts/tags.py"
"""Letters that look like Latin ones, so that a forged tag is seen."""


def test_no_module_holds_words_of_another_language():
    """They are data, in prompts/core/<language>/."""
    other = re.compile(r"[\u0370-\u1fff\u3040-\ud7ff]{2}")
    modules = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for room in ROOMS for path in (ROOT / room).rglob("*.py")
    }  # fmt: skip
    holding = {name for name, text in modules.items() if other.search(text)}
    assert holding == {LOOK_ALIKES}
