"""Every test starts without the user's settings and in a folder of its own."""

import gc
import os
import re
import signal
import sys
import tempfile
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings

# How often a property is tried: the suite stays quick, `--hypothesis-profile thorough` searches.
settings.register_profile("quick", max_examples=50, deadline=None)
settings.register_profile("thorough", max_examples=1_000, deadline=None)
settings.load_profile("quick")

# A suite started in the background inherits an ignored Ctrl-C; the tests, and the processes they
# start, are about one that works.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Dozens of processes import the package: one that may not keep what it compiled does it each time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

SETTINGS = (
    "LOOPWRIGHT_MODEL",
    "LOOPWRIGHT_MCP",
    "LOOPWRIGHT_MCP_PROCESSES",
    "LOOPWRIGHT_POLICY",
    "LOOPWRIGHT_FOREIGN",
    "LOOPWRIGHT_INSTRUCTIONS",
    "LOOPWRIGHT_HOOKS",
    "LOOPWRIGHT_AGENTS",
    "LOOPWRIGHT_COMPANY",
    "LOOPWRIGHT_DATABASE_URL",
    "LOOPWRIGHT_RECORD",
    "LOOPWRIGHT_RESULTS",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_API_BASE",
)


NUMBERS = count()


@pytest.fixture
def tmp_path(request, tmp_path_factory):
    """A new folder; pytest's own first looks through those of all tests before for a free name."""
    named = re.sub(r"\W", "_", request.node.name)[:30]
    path = tmp_path_factory.getbasetemp() / f"{named}-{next(NUMBERS)}"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch, tmp_path):
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


REFUSED: list[str] = []
"""What a strict LangGraph would not have read back of a checkpoint, in the test that runs."""


@pytest.fixture(autouse=True)
def nothing_but_safe_types_is_saved(request):
    """Of a thread only JSON and messages are read back: `LANGGRAPH_STRICT_MSGPACK` changes nothing.

    A test that saves something else says so with the marker `odd_types`.
    """
    REFUSED.clear()
    yield
    assert request.node.get_closest_marker("odd_types") or not REFUSED, REFUSED


@pytest.fixture
def forked_servers(monkeypatch):
    """MCP servers that are started with this interpreter are forked from one that did the imports.

    So is what a configuration calls `python`.
    """
    from support.forked import server  # noqa: PLC0415 - it imports the package

    python = Path(server().python)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("PATH", str(python.parent), prepend=os.pathsep)


@pytest.fixture(scope="session")
def postgres_server():
    """A PostgreSQL server of this session's own; `support.postgres` says how."""
    pytest.importorskip("psycopg")
    from support import postgres  # noqa: PLC0415 - the driver is an extra

    if lacks := postgres.missing("initdb", "postgres"):
        pytest.skip(f"{lacks} is not installed: .ci/servers installs it")
    # Not in the folder of pytest, which each new session of it closes to all but its owner.
    with (
        tempfile.TemporaryDirectory(prefix="loopwright-postgres-") as folder,
        postgres.server(Path(folder)) as server,
    ):
        yield server


@pytest.fixture
def postgres_url(postgres_server):
    """The URL of a new, empty database."""
    return postgres_server.database()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request, tmp_path):
    """A new database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/threads.db"
    return request.getfixturevalue("postgres_url")


@pytest.fixture(scope="session")
def bouncer_port(postgres_server):
    """The port of PgBouncer in transaction mode, before the same server."""
    from support import postgres  # noqa: PLC0415 - the driver is an extra

    if lacks := postgres.missing("pgbouncer"):
        pytest.skip(f"{lacks} is not installed: .ci/servers installs it")
    with (
        tempfile.TemporaryDirectory(prefix="loopwright-bouncer-") as folder,
        postgres.bouncer(Path(folder), postgres_server) as port,
    ):
        yield port


@pytest.fixture
def bouncer_url(postgres_server, bouncer_port, postgres_url):
    """The same database as `postgres_url`, through PgBouncer in transaction mode."""
    return postgres_url.replace(f":{postgres_server.port}/", f":{bouncer_port}/")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """One more than there are cores: many tests wait for a process or a deadline."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_finish():
    """What was imported and collected stays to the end: to look for garbage in it takes long."""
    if "langgraph.graph" in sys.modules:
        from support.remembered import remember  # noqa: PLC0415 - xdist's controller needs no graph

        remember()
        from langgraph.checkpoint.serde import event_hooks  # noqa: PLC0415 - likewise

        event_hooks.register_serde_event_listener(lambda event: REFUSED.append(str(event)))
    gc.collect()
    gc.freeze()


@pytest.fixture
def meter(monkeypatch):
    """What an OpenTelemetry meter hears meanwhile."""
    from opentelemetry.metrics import _internal  # noqa: PLC0415 - few tests need it

    from support.metering import Meter  # noqa: PLC0415 - the same

    meter = Meter()
    monkeypatch.setattr(_internal, "_METER_PROVIDER", meter.provider)
    yield meter
    meter.provider.shutdown()
