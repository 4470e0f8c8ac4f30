"""Hooks that are commands and files of hooks, in whole runs."""

import asyncio
import contextlib
import json
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import Context, ScriptedModel, SettingsError, build_task_agent, command_hook
from loopwright.cli.run import build_named_graph
from loopwright.cli.settings import Settings
from loopwright.graphs.build import assemble_served_parts
from loopwright.hooks.contract import EVENTS
from support.mcp_servers import soon
from support.patience import PATIENCE
from support.reacting import THREAD
from support.scripts import call

GOAL = {"messages": [("user", "Pay Ada")]}
ASK = [{"tool": "pay", "action": "ask"}]


class Till:
    """A tool and what it did."""

    def __init__(self):
        self.paid = []

    def pay(self, to: str, amount: int = 1) -> str:
        """Pay somebody."""
        self.paid.append((to, amount))
        return f"paid {amount} to {to}"


def built(*hooks, till=None, model=None, **options):
    points = {"keyPoints": ["Ada is paid"], "nextSteps": ["end"]}
    model = model or ScriptedModel([
        [call("pay", "c1", to="ada")],
        [call("summarize_and_continue", "c2", **points)],
        [call("complete_task", "c3", summary="Ada is paid.")],
    ])  # fmt: skip
    options = {"hooks": hooks, "policy": "allow", "checkpointer": InMemorySaver()} | options
    return build_task_agent(model=model, tools=[(till or Till()).pay], **options)


def script(folder, text, name="hook.sh"):
    """A file that the shell runs."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return str(path)


def members(group):
    """The living processes of a process group."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, its_group = stat.read_text().rsplit(")", 1)[1].split()[:3]
            if (its_group, state == "Z") == (group, False):
                yield stat.parent.name


def texts(graph):
    return str(graph.get_state(THREAD).values)


OWN = {
    "SessionStart": "source", "SessionEnd": "reason", "BeforeAgent": "prompt",
    "AfterAgent": "prompt_response", "BeforeModel": "llm_request", "AfterModel": "llm_response",
    "BeforeToolSelection": "llm_request", "BeforeTool": "tool_input", "AfterTool": "tool_response",
    "PreCompress": "trigger", "Notification": "notification_type",
}  # fmt: skip


@pytest.mark.parametrize("event", EVENTS)
def test_a_command_hears_of_each_event_and_is_heard(event, tmp_path, caplog):
    seen, events = tmp_path / "seen", []
    text = f'cat >> {seen}; echo >> {seen}; echo \'{{"systemMessage": "heard"}}\''
    caplog.set_level("INFO", "loopwright.hooks.registry")
    graph = built(command_hook(event, [script(tmp_path, text)], name="ear"), policy=ASK)
    for given in (GOAL, Command(resume={"type": "approve"})):
        events += graph.stream(given, THREAD, stream_mode="custom", context=Context())
    assert graph.get_state(THREAD).values["outcome"]["status"] == "complete"
    inputs = [json.loads(line) for line in seen.read_text().splitlines()]
    assert {(one["hook_event_name"], one["session_id"]) for one in inputs} == {(event, "t")}
    assert all(OWN[event] in one for one in inputs)
    of_it = [e for e in events if e.get("type") == "hook"]
    if event.startswith("Session"):  # a session has no stream
        assert caplog.text.count("'message': 'heard'") == len(inputs) == 2
    else:
        assert [(e["event"], e["message"], e["status"]) for e in of_it] == [
            (event, "heard", "ok")
        ] * len(inputs)


@pytest.mark.parametrize(
    ("written", "paid"),
    [
        ('echo \'{"decision": "block", "reason": "not today"}\'', []),
        ("echo not today >&2; exit 2", []),
        ("echo '{\"hookSpecificOutput\": {\"hookEventName\": \"PreToolUse\","
         " \"permissionDecision\": \"deny\", \"permissionDecisionReason\": \"not today\"}}'", []),
        ('echo \'{"hookSpecificOutput": {"toolInput": {"to": "eve"}}}\'', [("eve", 1)]),
        ("echo just words", [("ada", 1)]),
        ("exit 0", [("ada", 1)]),
    ],
)  # fmt: skip
def test_what_it_says_decides(written, paid, tmp_path):
    till = Till()
    graph = built(command_hook("BeforeTool", script(tmp_path, written), match="^pay$"), till=till)
    graph.invoke(GOAL, THREAD)
    assert till.paid == paid
    assert ("not today" in texts(graph)) is not paid


PYTHON = shlex.quote(sys.executable)
FAILURES = {
    "hang": ("sleep 600 & sleep 600", "did not end within 1 s"),
    "crash": ("echo a secret s3cr3t-of-ours >&2; exit 1", "exit code 1"),
    "huge": (f"{PYTHON} -c \"print('x' * 20_000_000)\"", "more than 10,000,000 bytes"),
    "endless": ("yes", "more than 10,000,000 bytes"),
    "endless complaint": ("yes >&2", "exit code -9"),
    "no UTF-8": (r"printf '\377\376'", "UTF-8"),
    "half": ('echo \'{"decision": "den\'', "JSON"),
    "unknown key": ('echo \'{"decison": "deny"}\'', "decison"),
}


@pytest.mark.parametrize("kind", FAILURES)
@pytest.mark.parametrize("on_error", ["open", "closed"])
def test_a_failure_blocks_only_where_it_guards_and_leaves_no_process(
    kind, on_error, tmp_path, monkeypatch
):
    monkeypatch.setenv("BANK_TOKEN", "s3cr3t-of-ours")
    written, why = FAILURES[kind]
    till, pid = Till(), tmp_path / "pid"
    command, seconds = script(tmp_path, f"echo $$ > {pid}\n{written}"), 1 if kind == "hang" else 60
    guard = command_hook("BeforeTool", [command], match="pay", on_error=on_error, timeout=seconds)
    graph, began = built(guard, till=till), time.monotonic()
    events = list(graph.stream(GOAL, THREAD, stream_mode="custom"))
    assert till.paid == ([("ada", 1)] if on_error == "open" else [])
    assert [event for event in events if event["type"] == "warning"]
    assert why in next(event["error"] for event in events if event.get("status") == "failed")
    assert time.monotonic() - began < PATIENCE
    assert asyncio.run(soon(lambda: not [*members(pid.read_text().strip())]))
    # What it said last is shown, without secrets, and never saved.
    assert "s3cr3t" not in texts(graph) + str(events)
    assert ("a secret" in str(events)) is (kind == "crash")
    assert "a secret" not in texts(graph)


async def test_what_it_left_behind_ends_with_it_and_so_does_a_run_that_is_cancelled(tmp_path):
    pid = tmp_path / "pid"
    command = script(tmp_path, f"sleep 600 & echo $$ > {pid}; echo done")
    result = await built(command_hook("BeforeTool", [command])).ainvoke(GOAL, THREAD)
    assert result["outcome"]["status"] == "complete"
    assert await soon(lambda: not [*members(pid.read_text().strip())])

    till = Till()
    command = script(tmp_path, f"sleep 600 & echo $$ > {pid}.2; sleep 600", "second.sh")
    run = asyncio.ensure_future(
        built(command_hook("BeforeTool", [command]), till=till).ainvoke(GOAL, THREAD)
    )
    pid = tmp_path / "pid.2"
    assert await soon(lambda: pid.exists() and pid.read_text())
    group = pid.read_text().strip()
    assert [*members(group)]
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert await soon(lambda: not [*members(group)])
    assert till.paid == []


RUNNING = """
import sys
sys.path.insert(0, {tests!r})
from integration.shared.test_command_hooks import GOAL, THREAD, built
from loopwright import command_hook
built(command_hook("BeforeTool", [{command!r}])).invoke(GOAL, THREAD)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_it_does_not_outlive_a_process_that_was_killed(number, tmp_path):
    pid = tmp_path / "pid"
    command = script(tmp_path, f"trap '' TERM; echo $$ > {pid}; sleep 600")
    tests = str(Path(__file__).parents[2])
    with subprocess.Popen(
        [sys.executable, "-c", RUNNING.format(tests=tests, command=command)]
    ) as parent:
        assert asyncio.run(soon(lambda: pid.exists() and pid.read_text()))
        group = pid.read_text().strip()
        assert [*members(group)]
        time.sleep(0.2)
        parent.send_signal(number)
        assert parent.wait(PATIENCE) == -number
    assert asyncio.run(soon(lambda: not [*members(group)]))


def test_it_runs_where_we_do_with_our_environment_and_its_words_are_masked(tmp_path, monkeypatch):
    monkeypatch.setenv("MAIL_TOKEN", "t0ken-for-mails")
    seen = tmp_path / "seen"
    command = f"env > {seen}; pwd >> {seen}; echo $MAIL_TOKEN is wrong >&2; exit 2"
    words = {"additionalContext": "mail by t0ken-for-mails", "systemMessage": "t0ken-for-mails"}
    told = script(tmp_path, f"echo '{json.dumps(words)}'")
    hooks = command_hook("BeforeTool", command, match="pay"), command_hook("BeforeAgent", told)
    graph = built(*hooks)
    assert "t0ken" not in str([*graph.stream(GOAL, THREAD, stream_mode="custom")])
    assert "mail by" in texts(graph)
    *lines, folder = seen.read_text().splitlines()
    assert {"MAIL_TOKEN=t0ken-for-mails", f"CLAUDE_PROJECT_DIR={folder}"} <= {*lines}
    assert "is wrong" in texts(graph)
    assert "t0ken" not in texts(graph)


# Files


def hooks_file(folder, hooks, **more):
    path = folder / "hooks.json"
    path.write_text(json.dumps({"hooks": hooks, "permissions": {"of": "another program"}} | more))
    return str(path)


def entries(*commands, **more):
    return [{"hooks": [{"type": "command", "command": c} for c in commands], **more}]


@pytest.mark.parametrize("name", ["BeforeTool", "PreToolUse"])
def test_a_file_of_claude_code_or_gemini_cli_guards_a_run(name, tmp_path, monkeypatch):
    monkeypatch.setenv("LIMIT_OF", "1000")
    till, seen = Till(), tmp_path / "seen"
    guard = {
        "type": "command", "command": f"echo $LIMIT_OF >> {seen}; echo not today >&2; exit 2",
        "timeout": 5, "onError": "closed",
    }  # fmt: skip
    hooks = {
        name: [{"matcher": "pay|send", "hooks": [guard]}, {"matcher": "never", "hooks": [guard]}],
        "Stop": entries("echo the end", matcher="*"),
        "SessionStart": entries(f"echo begun >> {seen}", matcher="startup|clear", sequential=True),
    }
    graph = built(till=till, hooks=hooks_file(tmp_path, hooks))
    events = list(graph.stream(GOAL, THREAD, stream_mode="custom"))
    assert till.paid == []
    assert "not today" in texts(graph)
    assert [e["message"] for e in events if e.get("event") == "AfterAgent"] == ["the end"]
    assert seen.read_text() == "begun\n1000\n"


def test_the_file_of_the_docs_guards_where_its_script_is(tmp_path, monkeypatch):
    page = (Path(__file__).parents[3] / "docs" / "hooks.md").read_text("utf-8")
    (tmp_path / "hooks.json").write_text(re.search(r"```json\n(.*?)```", page, re.DOTALL)[1])
    script(tmp_path, "cat; echo; exit 2", "guard.sh")
    monkeypatch.chdir(tmp_path)
    till = Till()
    built(till=till, hooks="hooks.json").invoke(GOAL, THREAD)
    assert till.paid == []
    (tmp_path / "guard.sh").unlink()
    built(till=till, hooks="hooks.json").invoke(GOAL, THREAD)
    assert till.paid == []


@pytest.mark.parametrize(
    ("hooks", "why"),
    [
        ({"SubagentStop": entries("true")}, "no hook event 'SubagentStop'"),
        ({"BeforeTool": entries("true", matcher="[")}, "no regular expression"),
        ({"AfterAgent": entries("true", matcher="pay")}, "has nothing to match"),
        ({"BeforeTool": entries("true", matchers="pay")}, "BeforeTool.0.matchers: Extra"),
        ({"BeforeTool": [{"hooks": [{"type": "prompt", "command": "?"}]}]}, "type: .*'command'"),
        (
            {
                "BeforeTool": [
                    {"hooks": [{"type": "command", "command": "true", "timeout": 60_000}]}
                ]
            },
            "timeout: .* less than 1000",
        ),
        ({"BeforeTool": entries("true")[0]}, "BeforeTool: .* array"),
        (None, "hooks: "),
    ],
)
def test_a_file_that_would_not_guard_is_refused(hooks, why, tmp_path):
    with pytest.raises(SettingsError, match=why) as caught:
        built(hooks=Path(hooks_file(tmp_path, hooks)))
    assert str(caught.value).startswith("The hooks file '")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_no_json_is_refused(tmp_path):
    with pytest.raises(SettingsError, match=r"cannot be used: .*No such file"):
        built(hooks=tmp_path / "none.json")
    for bad in (b"{", b"\xff\xfe", b"[]"):
        (tmp_path / "bad.json").write_bytes(bad)
        with pytest.raises(SettingsError, match=r"The hooks file '.*bad\.json'"):
            built(hooks=str(tmp_path / "bad.json"))


async def test_the_operator_names_the_file_and_with_a_wrong_one_nothing_runs(tmp_path, monkeypatch):
    path = hooks_file(tmp_path, {"BeforeTool": entries("true")})
    assert f"--hooks {path}" in Settings(hooks=path).build_resume_command("t", "")
    for settings in (
        Settings(hooks="none.json"),
        Settings(environ={"LOOPWRIGHT_HOOKS": "none.json"}),
    ):
        with pytest.raises(SettingsError, match=r"'none\.json' cannot be used"):
            build_named_graph(settings, "react", Context(), None, None)
    monkeypatch.setenv("LOOPWRIGHT_HOOKS", path)
    assert assemble_served_parts().hooks.events == {"BeforeTool"}
    monkeypatch.setenv("LOOPWRIGHT_HOOKS", "none.json")
    with pytest.raises(SettingsError, match=r"'none\.json' cannot be used"):
        await assemble_served_parts().toolbox.catalog()
