"""A real `langgraph dev` in a process of its own, and a copy of the repository to run it in."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from support.dev_auth import AUTHENTICATE, GUARD_STORE
from support.patience import PATIENCE

REPOSITORY = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns(
    ".*_cache", ".coverage", ".env", ".git", ".hypothesis", ".langgraph_api", ".links",
    ".loopwright", ".venv", "*.egg-info", "__pycache__", "build", "dist",
    "node_modules",
)  # fmt: skip
OWN_SETTINGS = ("LOOPWRIGHT_", "OPENAI_", "ANTHROPIC_", "LANGSMITH_", "LANGCHAIN_", "LANGGRAPH_")


class DevServer:
    """A running server: its address, its folder, its log and the processes it has started."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.log = folder.parent / "server.log"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        command = [str(Path(sys.executable).with_name("langgraph")), "dev", "--no-browser"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--no-reload", "--port", str(self.port)],
                cwd=folder,
                env=bare_environment() | settings,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self, seconds: float = PATIENCE) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            try:
                if httpx.get(f"{self.url}/ok", timeout=5, trust_env=False).is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.1)
        raise AssertionError(f"the server did not start:\n{self.said()}")

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def children(self) -> dict[int, str]:
        """Process id to command line of what the server has started and has not ended."""
        return {pid: line for pid, parent, line in processes() if parent == self.process.pid}

    def stop(self) -> int:
        """Ctrl-C, as a terminal sends it to the server's process group."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            raise


def bare_environment() -> dict[str, str]:
    """This environment without settings of models, tools, tracing or servers."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN_SETTINGS)}
    quiet = {"LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGGRAPH_NO_VERSION_CHECK": "true"}
    return kept | quiet | {"NO_COLOR": "1"}


def processes() -> list[tuple[int, int, str]]:
    table = subprocess.run(
        ["ps", "-Aww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout
    rows = (line.split(None, 2) for line in table.splitlines())
    return [(int(row[0]), int(row[1]), row[2]) for row in rows if len(row) == 3]


@contextmanager
def running(folder: Path, **settings: str) -> Iterator[DevServer]:
    server = DevServer(folder, **settings)
    try:
        server.wait()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def serve():
    """Starts `langgraph dev` in a folder, under settings given as environment variables."""
    return running


@pytest.fixture(scope="session")
def environment():
    return bare_environment()


@pytest.fixture(scope="session")
def alive():
    """Which of these process ids still run."""
    return lambda pids: {pid: line for pid, _, line in processes() if pid in pids}


@pytest.fixture(scope="session")
def clone():
    """Copies what git keeps of the repository into a folder."""
    return lambda folder: Path(shutil.copytree(REPOSITORY, folder, ignore=LEFT_OUT))


@pytest.fixture(scope="session")
def repository():
    return REPOSITORY


@pytest.fixture
def guarded_app(tmp_path):
    """A folder with the graphs for `langgraph dev` that lets in whoever names themselves."""
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "auth.py").write_text(AUTHENTICATE + GUARD_STORE)
    (folder / ".env").write_text("")
    settings = json.loads((REPOSITORY / "langgraph.json").read_text())
    settings["auth"] = {"path": "./auth.py:auth"}
    (folder / "langgraph.json").write_text(json.dumps(settings))
    return folder
