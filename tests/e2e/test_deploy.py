"""What docs/deploy.md and its examples say is what there is; their commands run."""

import json
import os
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # it has no types
from typer.testing import CliRunner

from loopwright.cli.app import app
from loopwright.graphs.registry import REGISTRY
from support.docs_text import MANUAL, PAGES, ROOT, blocks
from support.forked import Command, server
from support.patience import PATIENCE

PAGE = PAGES["docs/deploy.md"]
COMMANDS = [shlex.split(line) for block in blocks("sh", PAGE) for line in block.splitlines()]
AEGRA = ROOT / "examples" / "aegra"
COMPOSE = yaml.safe_load((ROOT / "examples" / "deploy" / "compose.yaml").read_text())
BENCHMARK = ROOT / "benchmarks" / "aegra.py"


@pytest.mark.postgres
@pytest.mark.req("W-94")
def test_the_doctor_shown_finds_an_empty_database_and_the_worker_starts_and_leaves(postgres_url):
    looks, shown = [command for command in COMMANDS if command[0] == "loopwright"]
    found = CliRunner().invoke(app, [*looks[1:-1], postgres_url])
    assert (found.exit_code, "no tables of loopwright yet" in found.stdout) == (0, True)
    with Command(server(), [*shown[1:-1], postgres_url], env=os.environ) as started:
        until = time.monotonic() + PATIENCE
        while "turns at once" not in "".join(started.said()) and time.monotonic() < until:
            time.sleep(0.1)
        started.send_signal(signal.SIGTERM)
        assert started.wait(PATIENCE) == 0, started.said()
    assert COMPOSE["services"]["worker"]["command"] == shown[:2]  # the URL is a variable there


def test_the_loop_over_several_databases_looks_at_each(tmp_path):
    (loop,) = [block for block in blocks("sh", PAGE) if block.startswith("for db in")]
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in "ab"]
    told = subprocess.run(
        ["bash", "-c", f'loopwright() {{ echo "$@"; }}\n{loop}'], env={"DATABASES": " ".join(urls)},
        capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    assert [line.split()[-1] for line in told] == [*urls, *[urls[0]] * 3, *[urls[1]] * 3]
    for line in told:
        done = CliRunner().invoke(app, line.split())
        assert done.exit_code == 0, done.output


@pytest.mark.req("W-94")
def test_the_shim_has_every_graph(monkeypatch):
    settings = json.loads((AEGRA / "aegra.json").read_text())
    assert settings["graphs"] == {name: f"./graphs.py:{name}" for name in REGISTRY}
    found = runpy.run_path(str(AEGRA / "graphs.py"))
    assert all(found[name] is REGISTRY[name].graph for name in REGISTRY)


@pytest.mark.req("W-94")
def test_the_recipe_is_what_the_benchmark_runs():
    """The commands of the page are those that `benchmarks/aegra.py` runs, with its versions."""
    program = BENCHMARK.read_text()
    steps = [command[1:] for command in COMMANDS if command[0].endswith("/aegra")]
    assert steps == [["db", "upgrade"], ["serve", "--host", "127.0.0.1", "--port", "2026"]]
    for step in (*steps, ["-m", "venv"]):
        assert ", ".join(f'"{word}"' for word in step if word != "2026") in program
    version = runpy.run_path(str(BENCHMARK))["VERSION"]
    (wanted,) = [command for command in COMMANDS if "install" in command]
    assert wanted[2:] == [f"aegra-cli=={version}", "-e", ".[postgres]"]
    installed = (ROOT / "examples" / "deploy" / "constraints.txt").read_text()
    assert f"\naegra-cli=={version.removesuffix('*')}" in installed


def test_the_compose_file_sets_what_there_is():
    services = COMPOSE["services"]
    ours = {name for one in services.values() for name in one.get("environment", ())}
    lines = (AEGRA / "environment").read_text().splitlines()
    of_the_recipe = {line.partition("=")[0] for line in lines if not line.startswith("#")}
    assert {name for name in ours | of_the_recipe if name.startswith("LOOPWRIGHT_")} <= {
        word for word in of_the_recipe if f"`{word}`" in MANUAL
    }
    assert of_the_recipe <= {*services["server"]["environment"]}
    assert services["worker"]["deploy"] == {"replicas": 2}
    assert {"postgres", "worker", "redis", "server", "chat"} < {*services}


@pytest.mark.req("W-94")
def test_aegra_loses_no_message_and_repeats_no_write():
    """Two instances, many messages, a kill: where LOOPWRIGHT_AEGRA names an environment with it."""
    named = os.environ.get("LOOPWRIGHT_AEGRA")
    if not named or not (Path(named) / "bin" / "aegra").exists():
        pytest.skip("Aegra needs Python 3.12: LOOPWRIGHT_AEGRA names no environment that has it")
    if not shutil.which("redis-server"):
        pytest.skip("redis-server is not installed")
    done = subprocess.run([sys.executable, BENCHMARK, named], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
