"""The wheel in a fresh virtual environment: everything a user installs, and nothing else."""

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

from support.patience import PATIENCE

ROOMS = sorted(path.parent.name for path in Path(__file__).parents[2].glob("*/__init__.py"))


def run(*command: object, **options: Any) -> str:
    done: subprocess.CompletedProcess[str] = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=PATIENCE, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(clone, tmp_path_factory):
    """Built as `make build` does, from a copy: a build leaves folders behind."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    run(*pip, "--disable-pip-version-check", "-w", folder, ".", cwd=clone(folder / "clone"))
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The interpreter of a new environment that holds the wheel and sees our dependencies."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    run(*pip, "--no-index", "--disable-pip-version-check", wheel)
    # Behind the wheel on the path, and after pip has looked for an installed loopwright.
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return python


def test_the_wheel_holds_the_rooms_and_nothing_else(wheel):
    source = wheel.parent / "clone"
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = [source / "__init__.py", source / "py.typed", source / "ui/entrypoint.js"]
    files.append(source / "evals/shop.yaml")
    files += (source / "prompts").rglob("*.md")
    for room in ROOMS:
        files += (source / room).rglob("*.py")
    assert held == {f"loopwright/{file.relative_to(source).as_posix()}" for file in files}


IMPORTS = """
import importlib, importlib.metadata, pathlib, sys
import loopwright
home = pathlib.Path(loopwright.__file__).parent
assert home.is_relative_to(sys.prefix), home
for name in loopwright.__all__:
    getattr(loopwright, name)
for file in home.rglob("*.py"):
    if file.name not in {"__init__.py", "__main__.py"}:
        module = ".".join(("loopwright", *file.relative_to(home).with_suffix("").parts))
        assert importlib.import_module(module).__file__ == str(file)
print(importlib.metadata.version("loopwright"))
"""


def test_the_command_and_the_bundled_server_start(python, environment, tmp_path):
    told = run(python.with_name("loopwright"), "--help", cwd=tmp_path, env=environment)
    assert {"run", "resume", "threads", "graph", "doctor"} <= set(told.split())
    server = [python, "-m", "loopwright.servers.workspace", "--root", tmp_path]
    assert run(*server, input="", cwd=tmp_path, env=environment) == "", "it ends with its input"


RUNS = """
from loopwright.graphs.build import workspace_mcp
graph = loopwright.build_plan_execute_verify(mcp=workspace_mcp("."))
goal = "Read price.txt and tell me what the lamp costs"
print(graph.invoke({"messages": [{"role": "user", "content": goal}]})["outcome"])
"""


def test_every_module_comes_from_the_wheel_and_a_graph_runs(wheel, python, environment, tmp_path):
    (tmp_path / "price.txt").write_text("The lamp costs 79 euro.\n")
    told = run(python, "-c", IMPORTS + RUNS, cwd=tmp_path, env=environment)
    assert f"-{told.split()[0]}-" in wheel.name
    assert "'status': 'complete'" in told
    assert "79 euro" in told
