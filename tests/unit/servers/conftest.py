from collections.abc import Iterator

import pytest
from anyio.from_thread import start_blocking_portal
from unit.servers.workspace_client import SECRET, Client, over_stdio


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    base = tmp_path_factory.mktemp("outside")
    (base / "secret.txt").write_text(SECRET)
    real = base / "real"
    real.mkdir()
    root = base / "root"
    root.symlink_to(real)  # the root itself may be a link
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(over_stdio(root)) as opened,
    ):
        yield Client(portal, opened, root)


@pytest.fixture
def client(session: Client) -> Client:
    """The module's session, on an empty root."""
    for found in sorted(session.root.rglob("*"), reverse=True):
        if found.is_dir() and not found.is_symlink():
            found.rmdir()
        else:
            found.unlink()
    return session
