"""The workspace tools as a client meets them, over real stdio and over an in-memory transport."""

import pytest
from unit.servers.workspace_client import Client, fill

# --- what is offered ------------------------------------------------------------------------


def test_five_tools_with_names_that_are_no_prefix_of_each_other(client: Client) -> None:
    names = set(client.tools())
    assert names == {"list_files", "read_file", "search_text", "write_file", "append_file"}
    assert not [(a, b) for a in names for b in names if a != b and b.startswith(a)]


@pytest.mark.parametrize(
    ("name", "read_only", "destructive", "idempotent"),
    [
        ("list_files", True, False, True),
        ("read_file", True, False, True),
        ("search_text", True, False, True),
        ("write_file", False, True, True),
        ("append_file", False, False, False),
    ],
)
def test_annotations(
    client: Client, name: str, read_only: bool, destructive: bool, idempotent: bool
) -> None:
    hints = client.tools()[name].annotations
    assert hints is not None
    assert hints.readOnlyHint is read_only
    assert hints.destructiveHint is destructive
    assert hints.idempotentHint is idempotent
    assert hints.openWorldHint is False


# --- list_files -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("*.md", ["a.md"]),
        ("sub/*.py", ["sub/b.py", "sub/deep/c.py"]),
        ("sub/**/*.py", ["sub/b.py", "sub/deep/c.py"]),
        ("**/*.md", ["a.md"]),
    ],
)
def test_list_glob(client: Client, glob: str, expected: list[str]) -> None:
    fill(client)
    lines = client.ok("list_files", glob=glob).splitlines()
    assert [line.split(" (")[0] for line in lines] == expected


# --- read_file ------------------------------------------------------------------------------


def test_preview_by_default_and_the_rest_on_request(client: Client) -> None:
    whole = "".join(f"line {number}\n" for number in range(1, 346))
    (client.root / "long.txt").write_text(whole)
    lines = client.ok("read_file", path="long.txt").splitlines()
    assert lines[99:] == [
        "line 100",
        "[lines 1-100 of 345; read on with offset=101; full=true gives the rest]",
    ]
    assert client.ok("read_file", path="long.txt", full=True) == whole
    part = client.ok("read_file", path="long.txt", offset=344, limit=1)
    assert part == "line 344\n[lines 344-344 of 345; read on with offset=345]"
    last = client.ok("read_file", path="long.txt", offset=345)
    assert last == "line 345\n[lines 345-345 of 345]"
    assert client.refused("read_file", path="long.txt", offset=346) == (
        "'long.txt' has 345 lines; line 346 is past its end."
    )


def test_of_a_huge_file_only_the_start_is_read(client: Client) -> None:
    with (client.root / "huge.txt").open("wb") as file:
        file.write(b"start\n" * 2_000)
        file.truncate(5_000_000_000)
    text = client.ok("read_file", path="huge.txt")
    assert text.startswith("start\n")
    assert text.endswith("has 5000000000 bytes; only the first 16777216 can be read]")


# --- search_text ----------------------------------------------------------------------------


def test_search_plain_and_regex(client: Client) -> None:
    fill(client)
    assert client.ok("search_text", query="BETA") == "sub/b.py:1: beta"
    assert client.ok("search_text", query="BETA", match_case=True) == "[no match in 3 text files]"
    assert client.ok("search_text", query="^(al|ga)", regex=True).splitlines() == [
        "a.md:1: alpha",
        "sub/deep/c.py:1: gamma",
    ]
    assert client.ok("search_text", query="a.*a", glob="*.md") == "[no match in 1 text files]"
    assert client.ok("search_text", query="gamma", path="sub/deep/c.py") == "sub/deep/c.py:1: gamma"
    assert client.ok("search_text", query="a", path="sub", glob="*.py").splitlines() == [
        "sub/b.py:1: beta",
        "sub/deep/c.py:1: gamma",
    ]


@pytest.mark.req("S3-32")
@pytest.mark.parametrize("regex", [False, True])
def test_search_is_capped_and_cuts_long_lines(client: Client, regex: bool) -> None:
    (client.root / "many.txt").write_text("needle\n" * 60)
    lines = client.ok("search_text", query="needle", regex=regex, max_matches=10).splitlines()
    assert len(lines) == 11
    assert lines[-1].startswith("[first 10 matches; for more raise max_matches (to 500)")
    (client.root / "many.txt").write_text("x" * 9_000 + "needle" + "y" * 9_000)
    line = client.ok("search_text", query="needle", regex=regex)
    assert "needle" in line
    assert len(line) < 300


# --- write_file and append_file -------------------------------------------------------------


def test_write_makes_folders_and_does_not_replace_unless_told(client: Client) -> None:
    path = client.root / "x" / "y" / "new.txt"
    assert client.ok("write_file", path="x/y/new.txt", content="eins\r\nzwei ü") == (
        "x/y/new.txt created, 13 bytes."
    )
    assert path.read_bytes() == "eins\r\nzwei ü".encode()
    assert client.refused("write_file", path="x/y/new.txt", content="other") == (
        "'x/y/new.txt' exists with other content;"
        " pass overwrite=true to replace it, or use append_file."
    )
    assert "other content" in client.refused("write_file", path="x/y/new.txt", content="eins")
    again = client.ok("write_file", path="x/y/new.txt", content="eins\r\nzwei ü")
    assert "nothing was changed" in again
    path.chmod(0o640)
    assert "replaced" in client.ok("write_file", path="x/y/new.txt", content="", overwrite=True)
    assert path.read_bytes() == b""
    assert path.stat().st_mode & 0o777 == 0o640
    assert [found.name for found in path.parent.iterdir()] == ["new.txt"]
