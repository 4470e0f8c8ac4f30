import json
import sys
from typing import Any

import pytest

from loopwright.state.errors import ToolServerError
from loopwright.text.secrets import MASK
from loopwright.tools.mcp.config import read_servers


def one(entry, **environ) -> Any:
    return read_servers({"mcpServers": {"a": entry}}, environ=environ)[0]


def test_a_configuration_is_read_from_a_file(tmp_path):
    path = tmp_path / "mcp.json"
    servers = {
        "local": {"command": "run", "args": ["-x", 1], "env": {"K": "${KEY}"}, "cwd": "/tmp"},
        "far": {"url": "https://x/mcp", "headers": {"Authorization": "Bearer ${KEY}"}},
        "old": {"type": "sse", "url": "http://x/sse", "timeout": 5, "autoApprove": ["look"]},
    }
    path.write_text(json.dumps({"mcpServers": servers}))
    local, far, old = read_servers(path, environ={"KEY": "s3cret"})
    assert (local.transport, local.args, local.env) == ("stdio", ("-x", "1"), {"K": "s3cret"})
    assert (far.transport, far.headers) == ("http", {"Authorization": "Bearer s3cret"})
    assert (old.transport, old.timeout) == ("sse", 5.0)
    assert old.approves("look")
    assert not old.approves("write")
    assert "s3cret" not in repr(far)


@pytest.mark.req("S0-50")
def test_servers_that_are_switched_off_are_left_out():
    servers = {
        "on": {"command": "a"},
        "also_on": {"command": "a", "enabled": True},
        "off": {"command": "a", "enabled": False},
        "also_off": {"command": "a", "disabled": True},
    }
    assert [s.name for s in read_servers(servers)] == ["on", "also_on"]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({}, 'neither "command" nor "url"'),
        ({"command": ""}, 'neither "command" nor "url"'),
        ({"url": "ftp://x"}, "http:// or https://"),
        ({"command": "a", "timeout": 30_000}, "a number of seconds"),
        ({"command": "a", "env": {"K": "${NOPE}"}}, "NOPE is not set"),
        ({"command": "a", "env": {"K": None}}, '"env.K" must be a text'),
        ({"command": "a", "origin": "mine"}, '"origin" must be trusted or foreign'),
        ({"command": "a", "origin": {"t": "x"}}, '"origin.t" must be trusted or foreign'),
        ({"command": "a", "sinks": {"t": "to"}}, '"sinks.t" must be lists of argument names by'),
        ({"url": "http://x", "transport": "pigeon"}, '"transport" must be stdio, http or sse'),
    ],
)
def test_a_wrong_entry_says_what_is_wrong_and_stops_nobody_else(entry, words):
    wrong, right = read_servers({"a": entry, "b": {"command": "run"}}, environ={})
    assert words in wrong.problem
    assert right.problem == ""


@pytest.mark.req("S0-163")
def test_variables_are_filled_in_everywhere_alike():
    local = {
        "command": "${X}/run", "args": ["--key=${X}", "${Y:-y}"], "cwd": "${X}",
        "env": {"K": "${X}"},
    }  # fmt: skip
    read = one(local, X="/x")
    assert (read.command, read.args, read.cwd) == ("/x/run", ("--key=/x", "y"), "/x")
    assert read.env == {"K": "/x"}
    far = one({"url": "${X}/mcp", "headers": {"A": "Bearer ${X}"}}, X="http://x")
    assert (far.url, far.headers) == ("http://x/mcp", {"A": "Bearer http://x"})


@pytest.mark.parametrize(
    ("entry", "place"),
    [
        ({"command": "${NOPE}"}, "command"),
        ({"command": "a", "args": ["x", "${NOPE}"]}, "args[1]"),
        ({"command": "a", "cwd": "${NOPE}"}, "cwd"),
        ({"command": "a", "env": {"K": "${NOPE}"}}, "env.K"),
        ({"url": "${NOPE}/mcp"}, "url"),
        ({"url": "http://x", "headers": {"H": "${NOPE}"}}, "headers.H"),
    ],
)
def test_a_variable_that_is_not_set_is_the_servers_problem(entry, place):
    problem = one(entry).problem
    assert f'"{place}" uses ${{NOPE}}' in problem
    assert "environment variable NOPE is not set" in problem


@pytest.mark.req("W-146")
@pytest.mark.parametrize(
    ("command", "module", "ours"),
    [
        ("python", "loopwright.servers.workspace", True),
        ("python3", "loopwright.servers.workspace", True),
        ("python", "shop.servers.orders", False),
        ("/opt/bin/python3", "loopwright.servers.workspace", False),
    ],
)
def test_python_of_a_server_of_ours_is_this_interpreter(command, module, ours):
    read = one({"command": command, "args": ["-P", "-m", module, "--root", "."]})
    assert read.command == (sys.executable if ours else command)


def test_a_file_that_cannot_be_used_is_one_clear_error(tmp_path):
    with pytest.raises(ToolServerError, match="cannot be read"):
        read_servers(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{'a': 1}")
    with pytest.raises(ToolServerError, match="no valid JSON"):
        read_servers(str(tmp_path / "bad.json"))
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(ToolServerError, match="mcpServers"):
        read_servers(tmp_path / "list.json")
    with pytest.raises(ToolServerError, match="mcpServers"):
        read_servers({"mcpServers": ["a"]})
    assert read_servers(None) == []


def test_what_a_server_says_is_shown_without_the_secrets_it_was_given():
    servers = {
        "a": {
            "command": "x",
            "env": {"API_TOKEN": "sk-12345678", "MODE": "production", "PASS": "ab"},
        },
        "b": {"url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer abcdefgh"}},
    }
    first, second = read_servers({"mcpServers": servers})
    assert first.mask("401 for sk-12345678 in production ab") == f"401 for {MASK} in production ab"
    assert second.mask("Bearer abcdefgh was refused") == f"Bearer {MASK} was refused"


def test_secret_variables_are_masked_wherever_they_were_filled_in():
    entry = {
        "command": "x",
        "args": ["--key", "${MY_API_KEY}"],
        "env": {"URL": "pg://u:${env:MY_API_KEY}@h"},
    }
    (server,) = read_servers({"mcpServers": {"a": entry}}, environ={"MY_API_KEY": "abcdefgh"})
    assert server.args[1] == "abcdefgh"
    assert server.env["URL"] == "pg://u:abcdefgh@h"
    assert "abcdefgh" not in server.mask("no such key abcdefgh\n") + repr(server.args[:1])
    (wrong,) = read_servers({"mcpServers": {"a": {"command": "x", "args": ["${K-x}"]}}}, environ={})
    assert "${K-x}" in wrong.problem


def test_a_file_that_is_nested_too_deeply_is_told_and_no_secret_is_shown(tmp_path):
    (path := tmp_path / "mcp.json").write_text("[" * 100_000)
    with pytest.raises(ToolServerError, match="no valid JSON"):
        read_servers(path)
    assert "s3cret" not in repr(one({"command": "a", "env": {"API_KEY": "s3cret"}}))
