"""`loopwright stop` and `steer` while another process runs the thread, and Ctrl-C there."""

import json
import os
import re
import signal
import threading
import time

import pytest

from support.fake_openai import Reply, fake_openai
from support.forked import Command, Done, server
from support.patience import PATIENCE
from support.scripts import passed, plan, report, todo


def cli(*args, **env):
    with Command(server(), args, stdin="", env=os.environ | env) as command:
        return Done(command.wait(PATIENCE), *command.said())


class Provider:
    """Plans what a request names; the first report of a task waits to be let go."""

    def __init__(self):
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self, request):
        contract, text = json.dumps(request.get("response_format")), json.dumps(request["messages"])
        if "PlannerResponse" in contract:
            asked = re.findall(r"<request>\\n(.*?)\\n</request>", text)[-1]
            names = [name for name in ("north", "south", "east") if name in asked]
            return Reply(json.dumps(plan(*(todo(n, f"describe the {n}") for n in names))))
        if "VerifierResponse" in contract:
            names = sorted(set(re.findall(r'\\"(\w+)\.report\\"', text)))
            done = passed("All is described.", **{f"t{n}": [f"{n}.report"] for n in names})
            return Reply(json.dumps(done))
        self.begun.set()
        assert self.go_on.wait(PATIENCE)
        return Reply(json.dumps(report("It is a wide land with many hills.")))


@pytest.mark.req("W-27")
@pytest.mark.parametrize("verb", ["stop", "steer"])
def test_a_run_of_another_process_is_stopped_or_steered(verb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    provider, words = Provider(), ["describe the east"] if verb == "steer" else []
    assert cli(verb, "t", *words).returncode == 2  # there is no such thread
    with fake_openai(provider) as model:
        env = {"LOOPWRIGHT_MODEL": "openai:m", "OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "k"}
        given = ("run", "--json", "--max-parallel", "1", "--thread", "t", "the north, the south")
        with Command(server(), given, stdin="", env=os.environ | env) as running:
            assert provider.begun.wait(PATIENCE)
            done = cli(verb, "t", *words, "--json")
            assert (done.returncode, json.loads(done.stdout)["running"]) == (0, True)
            if verb == "steer":
                threading.Timer(2.5, provider.go_on.set).start()  # after the next look
            code, (stdout, _) = running.wait(PATIENCE), running.said()
    ended = json.loads(stdout)
    statuses = {task["id"]: task["status"] for task in ended["tasks"]}
    if verb == "stop":
        assert (code, ended["status"], ended["reason"]) == (3, "cancelled", "ABORTED")
        assert statuses["south"] == "pending"
    else:
        assert (code, ended["status"]) == (0, "complete")
        assert statuses == {"north": "completed", "east": "completed"}
    provider.go_on.set()
    refused = cli(verb, "t", *words)
    assert refused.returncode == (0 if verb == "stop" else 2)


@pytest.mark.req("W-103")
@pytest.mark.parametrize("verb", ["stop", "ctrl-c"])
def test_a_model_that_is_writing_is_cut(verb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = "The north is a wide land with many hills. " * 30
    replies = [Reply(words, takes=60.0), Reply(words)]
    with fake_openai(replies) as model:
        env = {"LOOPWRIGHT_MODEL": "openai:m", "OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "k"}
        given = ("run", "--graph", "react", "--thread", "t", "describe the north")
        with Command(server(), given, stdin="", env=os.environ | env) as running:
            assert model.begun.acquire(timeout=PATIENCE)
            if verb == "stop":
                assert cli("stop", "t").returncode == 0
            else:
                running.send_signal(signal.SIGINT)
            began = time.monotonic()
            code, stderr = running.wait(PATIENCE), running.said()[1]
        assert model.closed, stderr
        assert model.closed[0] < began + 3
        assert code == (3 if verb == "stop" else 130)
        assert cli("resume", "t", **env).returncode == 0
