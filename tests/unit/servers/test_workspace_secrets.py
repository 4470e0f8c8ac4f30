"""What the workspace server keeps out of reach, and what a human is asked about."""

import asyncio
import os
import re
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from mcp.shared.memory import create_connected_server_and_client_session
from unit.servers.workspace_client import Client, fill

from loopwright import ScriptedModel, build_react, build_task_agent
from loopwright.graphs.build import workspace_mcp
from loopwright.servers.root_folder import DELICATE, Root
from loopwright.servers.workspace import build_server
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


PLACES = [
    ".ssh/id_rsa", ".ssh/config", "id_ed25519", "certs/server.pem", "tls.key", ".netrc", "_netrc",
    ".aws/credentials", ".config/gcloud/credentials.db", ".azure/accessTokens.json",
    ".kube/config", ".docker/config.json", ".npmrc", ".pypirc", ".git-credentials", ".pgpass",
    "store.p12", "store.pfx", "my.kdbx", "putty.ppk", ".gnupg/secring.gpg", "credentials.json",
    ".cargo/credentials.toml", ".vault-token", "service-account-1.json", ".config/gh/hosts.yml",
]  # fmt: skip


@pytest.mark.req("W-129")
@pytest.mark.parametrize("path", PLACES)
def test_files_of_credentials_are_out_of_reach_unless_the_operator_lets_them(
    client: Client, path: str
) -> None:
    """Also in other spellings and under other names; where he lets them, a human is asked."""
    file = client.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"KEY={KEY}\n")
    os.link(file, client.root / "notes.md")
    for tool, arguments in PATH_TOOLS[2:]:
        for name in (path, path.upper(), f"sub/../{path}", str(file), "notes.md"):
            told = client.raw(tool, path=name, **arguments)
            assert told.isError or (tool, name) == ("search_text", "notes.md")
            assert KEY not in str(told)
    assert KEY not in client.ok("search_text", query="KEY")
    assert file.read_text() == f"KEY={KEY}\n"
    let = Root(str(client.root), credentials=True)
    assert KEY.encode() in let.read(let.split_path(path), 100).data
    (read,) = (t for t in asyncio.run(build_server(let).list_tools()) if t.name == "read_file")
    assert re.search((read.meta or {})["loopwright/asks"]["path"], f"./{path}")


@pytest.mark.req("W-129")
def test_what_only_looks_like_credentials_is_not_out_of_reach(client: Client) -> None:
    for path in ("id_rsa.pub", "keys.md", "pem.txt", "ssh/config", "src/credentials/form.py",
                 "monkey", "docker/config.json", "tokens.json", ".config/app.toml"):  # fmt: skip
        client.ok("write_file", path=path, content="plain\n")
        assert client.ok("read_file", path=path) == "plain\n"


@pytest.mark.req("W-129")
async def test_a_run_writes_no_more_than_its_quota(tmp_path) -> None:
    server, told = build_server(Root(str(tmp_path)), quota=10), []
    async with create_connected_server_and_client_session(server) as session:
        for turn, name, content in [("1", "a", "x" * 6), ("1", "b", "x" * 6), ("2", "b", "x" * 6)]:
            run = {"loopwright/thread": "t", "loopwright/turn": turn}
            given = {"path": name, "content": content}
            told.append(await session.call_tool("append_file", given, meta=run))
    assert [one.isError for one in told] == [False, True, False]
    assert "One run may write 10 bytes" in str(told[1])


def test_the_operator_sets_the_quota(tmp_path) -> None:
    mcp = workspace_mcp(str(tmp_path))
    mcp["mcpServers"]["workspace"]["args"] += ["--quota", "0"]
    ends = [call("complete_task", summary="It is written.")]
    model = ScriptedModel([[call("write_file", path="a", content="x")], ends, ends])
    graph = build_task_agent(model=model, mcp=mcp, policy="allow", checkpointer=InMemorySaver())
    assert "One run may write 0 bytes" in str(graph.invoke(said(), THREAD)["messages"])


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
