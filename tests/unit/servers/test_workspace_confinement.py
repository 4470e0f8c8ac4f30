"""Nothing outside the workspace is read, changed or shown, whatever path is asked for."""

import os
import socket
from typing import Any

import pytest
from hypothesis import example, given, strategies as st
from unit.servers.workspace_client import SECRET, Client, text_of

PATH_TOOLS: list[tuple[str, dict[str, Any]]] = [
    ("list_files", {}),
    ("read_file", {}),
    ("search_text", {"query": "secret"}),
    ("write_file", {"content": "harm", "overwrite": True}),
    ("append_file", {"content": "harm"}),
]


def outside(client: Client) -> list[str]:
    """What lies beside the root; the server must never change it."""
    beside = client.root.parent
    assert (beside / "secret.txt").read_text() == SECRET
    return sorted(found.name for found in beside.iterdir())


@pytest.mark.parametrize(("tool", "arguments"), PATH_TOOLS)
@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../secret.txt",
        "a/../../secret.txt",
        "./.././secret.txt",
        "sub/../../real/../secret.txt",
        "/etc/passwd",
        "//etc/passwd",
        "/",
        "{root}/../secret.txt",
        "{root}x/secret.txt",
        "../root/../secret.txt",
        "a\0b",
        "../secret.txt\0.md",
        "n" * 300,
        "d/" * 3_000 + "x",
    ],
)
def test_paths_out_of_the_root(
    client: Client, tool: str, arguments: dict[str, Any], path: str
) -> None:
    before = outside(client)
    text = client.refused(tool, path=path.format(root=client.root), **arguments)
    assert SECRET not in text
    assert len(text) < 400
    assert outside(client) == before


@pytest.mark.parametrize(("tool", "arguments"), PATH_TOOLS)
@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        ("file", "../secret.txt", "file"),
        ("folder", "..", "folder"),
        ("folder", "..", "folder/secret.txt"),
        ("folder", "..", "folder/new.txt"),
        ("inside", "a.md", "inside"),
        ("dangling", "../new.txt", "dangling"),
        ("dangling", "../new", "dangling/new.txt"),
        ("loop", "loop", "loop"),
        ("device", "/dev/zero", "device"),
    ],
)
def test_links_are_never_followed(
    client: Client, tool: str, arguments: dict[str, Any], link: str, target: str, path: str
) -> None:
    (client.root / "a.md").write_text("kept")
    (client.root / link).symlink_to(target)
    before = outside(client)
    text = client.raw(tool, path=path, **arguments)
    assert SECRET not in text_of(text)
    if tool != "search_text" or "/" in path:
        assert "links are not followed" in text_of(text)
        assert text.isError
    assert outside(client) == before
    assert (client.root / "a.md").read_text() == "kept"
    assert (client.root / link).is_symlink()


def test_listing_and_searching_pass_links_by(client: Client) -> None:
    (client.root / "out").symlink_to("..")
    (client.root / "secret").symlink_to("../secret.txt")
    assert client.ok("list_files", recursive=True).splitlines() == [
        "out (link, not opened)",
        "secret (link, not opened)",
    ]
    assert client.ok("search_text", query=SECRET) == "[no match in 0 text files]"


def test_pipes_and_sockets_never_block(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(client.root / "pipe")
    monkeypatch.chdir(client.root)  # a socket's address must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("sock")
        for path in ("pipe", "sock"):
            assert f"{path} (special, not opened)" in client.ok("list_files")
            for tool, arguments in PATH_TOOLS[1:]:
                assert "not a f" in client.refused(tool, path=path, **arguments)
            assert client.ok("search_text", query="x") == "[no match in 0 text files]"


PIECES = st.sampled_from(
    ["..", ".", "", "/", "~", "secret.txt", "root", "real", "out", "a.md", "\0", "%2e%2e", "\\.."]
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PATHS = st.lists(PIECES | NAMES, max_size=8).map("/".join) | NAMES


@given(path=PATHS, absolute=st.booleans())
@example(path="../secret.txt", absolute=False)
@example(path="out/secret.txt", absolute=True)
def test_no_path_string_reads_outside(session: Client, path: str, absolute: bool) -> None:
    if not (session.root / "out").is_symlink():
        (session.root / "out").symlink_to("..")
    path = f"{session.root}/{path}" if absolute else path
    for tool, arguments in PATH_TOOLS[:3]:
        text = text_of(session.raw(tool, path=path, **arguments))
        assert SECRET not in text
        assert "secret.txt (" not in text
    assert outside(session) == ["real", "root", "secret.txt"]
