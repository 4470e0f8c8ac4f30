"""A PostgreSQL server of the tests' own, and PgBouncer in front of it.

Both listen on 127.0.0.1 alone, keep their files in a temporary folder and end with the block. The
server refuses to run as root: there it runs as the user `postgres`, whom its package brings.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import sql

_SETTINGS = (
    # What is lost with the machine is not what the tests are about: a kill loses nothing by it.
    "fsync=off",
    "max_connections=200",
    "shared_buffers=32MB",
    "unix_socket_directories=",
)
_PATIENCE = 60.0
CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
"""Ends all other connections to a database."""
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"


def program(name: str) -> str | None:
    """Where a server's program is; Debian keeps most of PostgreSQL's away from PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(found[-1]) if found else shutil.which(name, path="/usr/sbin"))


def missing(*names: str) -> str:
    """Which of these programs is not installed; '' where all are."""
    return next((name for name in names if program(name) is None), "")


def free_port() -> int:
    """A port nobody listens on."""
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


class Server:
    """A running PostgreSQL server, and the databases on it."""

    def __init__(self, port: int, process: "subprocess.Popen[bytes]") -> None:
        self.port, self.process = port, process

    @contextmanager
    def away(self, how: signal.Signals) -> Iterator[None]:
        """Stop it, by SIGINT in order and by SIGQUIT at once; it is started at the block's end."""
        self.process.send_signal(how)
        self.process.wait()
        try:
            yield
        finally:
            self.process = subprocess.Popen(self.process.args, stderr=subprocess.DEVNULL, cwd="/")
            _until_open(self.port, self.process)

    def url(self, name: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"t{uuid4().hex}"
        self.run(f"CREATE DATABASE {name}")
        return self.url(name)

    def run(self, sql: str) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(sql)


def everything(connection: "psycopg.Connection[tuple[str]]") -> dict[str, list[tuple[str]]]:
    """All rows of all tables."""
    found = {}
    for (name,) in connection.execute(_TABLES).fetchall():
        rows = connection.execute(sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(name)))
        found[name] = sorted(rows.fetchall())
    return found


@contextmanager
def server(folder: Path, *settings: str) -> Iterator[Server]:
    """A new server for the length of a block; `folder` is for its files."""
    data, port = folder / "data", free_port()
    _own(folder)
    made = [_path("initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "-N"]
    subprocess.run(_as_user(made), check=True, stdout=subprocess.DEVNULL, cwd=folder)
    given = (*_SETTINGS, *settings, f"port={port}", "listen_addresses=127.0.0.1")
    options = [f"-c{one}" for one in given]
    with (folder / "log").open("wb") as log:
        command = _as_user([_path("postgres"), "-D", str(data), *options])
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    running = Server(port, process)
    try:
        _until_open(port, process, folder / "log")
        yield running
    finally:
        running.process.send_signal(signal.SIGQUIT)  # at once: nobody reads its files again
        running.process.wait()


@contextmanager
def bouncer(folder: Path, of: Server, *, size: int = 10, port: int = 0) -> Iterator[int]:
    """PgBouncer in transaction mode before a server, for the length of a block; gives its port."""
    folder.mkdir(parents=True, exist_ok=True)
    port = port or free_port()
    lines = (
        "[databases]",
        f"* = host=127.0.0.1 port={of.port} user=postgres",
        "[pgbouncer]",
        f"listen_port = {port}",
        "listen_addr = 127.0.0.1",
        "auth_type = any",
        "pool_mode = transaction",
        f"default_pool_size = {size}",
        "max_client_conn = 1000",
        "unix_socket_dir =",
    )
    # With `any` everybody is let in, as the user of the first line.
    (folder / "pgbouncer.ini").write_text("\n".join(lines) + "\n", encoding="utf-8")
    _own(folder)
    with (folder / "log").open("wb") as log:
        command = _as_user([_path("pgbouncer"), str(folder / "pgbouncer.ini")])
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        _until_open(port, process, folder / "log")
        yield port
    finally:
        process.kill()
        process.wait()


def _path(name: str) -> str:
    found = program(name)
    assert found is not None, name
    return found


def _until_open(
    port: int, process: "subprocess.Popen[bytes]", log: Path = Path(os.devnull)
) -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(log.read_text(encoding="utf-8", errors="replace"))
        with suppress(psycopg.OperationalError):
            psycopg.connect(Server(port, process).url(), connect_timeout=2).close()
            return
        time.sleep(0.05)


def _own(folder: Path) -> None:
    """Give a folder to who runs the servers, and let him reach it."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.getuid() != 0:
        return
    user = pwd.getpwnam("postgres")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user.pw_uid, user.pw_gid)
    for above in folder.parents:
        if above.stat().st_uid == 0 and above.stat().st_mode & 0o001 == 0:
            above.chmod(above.stat().st_mode | 0o011)


def _as_user(command: Sequence[str]) -> list[str]:
    if os.getuid() != 0:
        return [*command]
    return [_path("setpriv"), "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]
