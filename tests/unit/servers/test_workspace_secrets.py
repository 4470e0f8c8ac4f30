"""What the workspace server keeps out of reach, and what a human is asked about."""

import os
import re
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from unit.servers.workspace_client import Client, fill

from loopwright import ScriptedModel, build_react
from loopwright.graphs.build import workspace_mcp
from loopwright.servers.root_folder import DELICATE
from support.reacting import said
from support.scripts import call, thought

THREAD: Any = {"configurable": {"thread_id": "t"}}
STATE = "the journal of runs"
KEY = "sk-of-the-shop-0123456789"
PATH_TOOLS: list[tuple[str, dict[str, Any]]] = [
    ("list_files", {}),
    ("list_files", {"recursive": True}),
    ("read_file", {}),
    ("search_text", {"query": "journal"}),
    ("write_file", {"content": "harm", "overwrite": True}),
    ("append_file", {"content": "harm"}),
]


def state_in(root) -> Any:
    """The state of runs, a file of credentials, and other names of both."""
    (root / ".loopwright").mkdir()
    (root / ".loopwright" / "threads.db").write_text(STATE)
    (root / ".env").write_text(f"KEY={KEY}\n")
    os.link(root / ".loopwright" / "threads.db", root / "innocent.md")
    os.link(root / ".env", root / "notes.md")
    (root / "link").symlink_to(root / ".loopwright")
    (root / "link.db").symlink_to(root / ".loopwright" / "threads.db")


@pytest.mark.req("W-78")
@pytest.mark.parametrize(("tool", "arguments"), PATH_TOOLS)
@pytest.mark.parametrize(
    "path",
    [
        ".loopwright", ".loopwright/threads.db", "./.loopwright/./threads.db", ".LoopWright",
        ".LOOPWRIGHT/threads.db", "sub/../.loopwright/threads.db", "{root}/.loopwright/threads.db",
        "//{root}//.loopwright", ".loopwright/../.loopwright/threads.db", "link/threads.db",
        "link.db", "innocent.md", "notes.md", ".loop\u200bwright/threads.db", ".\uff4coopwright",
        "sub/.loopwright/new.db", ".loopwright ",
    ],
)  # fmt: skip
def test_the_state_of_runs_is_out_of_reach(
    client: Client, tool: str, arguments: dict[str, Any], path: str
) -> None:
    fill(client)
    state_in(client.root)
    result = client.raw(tool, path=path.format(root=client.root), **arguments)
    told = "".join(getattr(block, "text", "") for block in result.content)
    listed = tool == "list_files" and path in ("innocent.md", "notes.md")
    harmless = tool == "search_text" and "left out" in told
    assert result.isError or listed or harmless, told
    assert STATE not in told
    assert KEY not in told
    assert (client.root / ".loopwright" / "threads.db").read_text() == STATE
    assert (client.root / ".env").read_text() == f"KEY={KEY}\n"
    assert not (client.root / "sub" / ".loopwright").exists()


@pytest.mark.req("W-78")
def test_walks_neither_name_nor_read_it(client: Client) -> None:
    fill(client)
    state_in(client.root)
    for told in (
        client.ok("list_files"),
        client.ok("list_files", recursive=True),
        client.ok("list_files", glob="**/*.db"),
        client.ok("search_text", query="journal"),
        client.ok("search_text", query="sk-", glob=".env"),
    ):
        assert ".loopwright" not in told
        assert STATE not in told
        assert KEY not in told
    assert "often hold credentials" in client.ok("search_text", query="sk-")
    assert KEY in client.ok("read_file", path=".env"), "whoever may name it reads it"
    assert KEY in client.ok("search_text", query="sk-", path=".env")


@pytest.mark.req("W-78")
def test_a_file_with_several_names_is_not_changed_in_place(client: Client) -> None:
    outside = client.root.parent / "diary.txt"
    outside.write_text("dear diary\n")
    os.link(outside, client.root / "log.txt")
    told = client.refused("append_file", path="log.txt", content="harm")
    assert "several names" in told
    client.ok("write_file", path="log.txt", content="new", overwrite=True)
    assert outside.read_text() == "dear diary\n"
    client.ok("append_file", path="log.txt", content="er")
    assert (client.root / "log.txt").read_text() == "newer"
    outside.unlink()


@pytest.mark.req("W-78")
@pytest.mark.parametrize(
    ("path", "asked"),
    [
        (".env", True), ("./.env", True), ("sub/../.ENV", True), (".env.local", True),
        (".envrc", True), ("app/.env/x", True), (".git", True), (".git/config", True),
        ("a/.GIT/hooks", True), ("notes.md", False), (".gitignore", False), ("x.env", False),
        (".github/x", False), ("a.git", False), (".", False),
    ],
)  # fmt: skip
def test_which_paths_a_human_is_asked_about(path: str, asked: bool) -> None:
    assert bool(re.search(DELICATE, path)) is asked


def reading(path):
    return ScriptedModel(
        {
            "thought": [thought("I read it.", more=True), thought("That was it.")],
            "action": [[call("read_file", path=path)]],
            "observation": ["Seen."],
        }
    )


@pytest.mark.req("W-78")
def test_a_human_is_asked_before_credentials_are_read(tmp_path) -> None:
    (tmp_path / ".env").write_text(f"KEY={KEY}\n")
    (tmp_path / "notes.md").write_text("plain\n")
    mcp = workspace_mcp(str(tmp_path))
    plain = build_react(model=reading("notes.md"), mcp=mcp, checkpointer=InMemorySaver())
    assert plain.invoke(said(), THREAD)["outcome"]["status"] == "complete"

    graph = build_react(model=reading("./.env"), mcp=mcp, checkpointer=InMemorySaver())
    asked = graph.invoke(said(), THREAD)
    assert "wants a human to be asked" in str(asked["__interrupt__"])
    assert KEY not in str(graph.get_state(THREAD))
    done = graph.invoke(Command(resume={"type": "approve"}), THREAD)
    assert done["outcome"]["status"] == "complete"
    assert KEY in str(graph.get_state(THREAD).values["evidence"])

    alone = build_react(model=reading(".env"), mcp=mcp)  # nobody can be asked
    events = list(alone.stream(said(), stream_mode=["custom", "values"]))
    assert KEY not in str(events)
    assert "not_interactive" in str(events)

    let = build_react(model=reading(".env"), mcp=mcp, policy="allow")
    assert KEY in str(list(let.stream(said(), stream_mode="custom")))
