"""OAuth for remote MCP servers: login, runs, renewal and attacks, against real local servers."""

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_sync_client
from mcp.client.auth import OAuthFlowError
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse

from loopwright import ScriptedModel, build_task_agent, open_durability
from loopwright.calls.toolbox import Toolbox
from loopwright.tools.mcp.config import read_servers
from loopwright.tools.mcp.oauth import UserLogin, check_address
from support.docs_text import blocks, section
from support.fake_openai import Reply, call as called, fake_openai
from support.forked import COMMAND, Command, Done, server
from support.mcp_servers import soon
from support.mcp_servers.calling import run as run_all
from support.patience import PATIENCE
from support.scripts import call

pytest.importorskip("keyring")
from support.authorising import World, authorising

SUPPORT = Path(__file__).parents[1]
COMMANDS = [
    shlex.split(line, comments=True)[1:]
    for line in blocks("sh", section("docs/mcp.md", "How do users log in?"))[0].splitlines()
]
NO_KEYRING = "keyring.backends.fail.Keyring"
SCREENS = {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"}
NOWHERE = "http://127.0.0.1:1/callback"

THREAD: Any = {"configurable": {"thread_id": "t"}}
SAID: Any = {"messages": [{"role": "user", "content": "Who am I? Write hello down."}]}
END = [call("complete_task", summary="You are the operator, and hello is written down.")]

BROWSER = """
import sys, urllib.error, urllib.request
from urllib.parse import parse_qs, urlsplit
back = parse_qs(urlsplit(sys.argv[1]).query)["redirect_uri"][0]
try:
    urllib.request.urlopen(f"{back}?code=evil&state=guessed")
    open("visited", "a").write("taken;")
except urllib.error.HTTPError as refused:
    open("visited", "a").write(f"{refused.code};")
opened = urllib.request.urlopen(sys.argv[1])
open("visited", "a").write(f"{opened.status} {opened.url}")
"""


@pytest.fixture(autouse=True)
def keyring_file(monkeypatch, tmp_path) -> Any:
    """A keyring and a home of the test's own, for processes as well."""
    import keyring  # noqa: PLC0415 - an extra

    from support.file_keyring import FileKeyring  # noqa: PLC0415 - needs it

    before = keyring.get_keyring()
    keyring.set_keyring(FileKeyring())
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "support.file_keyring.FileKeyring")
    monkeypatch.setenv("TEST_KEYRING", str(tmp_path / "keyring.json"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])
    )
    yield tmp_path / "keyring.json"
    keyring.set_keyring(before)


@pytest.fixture
def world() -> Any:
    with authorising() as world:
        yield world


def entry(world: World, **more: Any) -> dict[str, Any]:
    kind = "sse" if world.url.endswith("sse") else "http"
    return {
        "mcpServers": {
            "search": {"url": world.url, "type": kind, "auth": "oauth", "trust": True, **more}
        }
    }


async def visit(address: str) -> str:
    """What a browser does, and the address at which it ends."""
    async with httpx.AsyncClient() as browser:
        return str((await browser.get(address)).headers["location"])


async def log_in_as(world: World, user: str | None, receive: Any = visit, **more: Any) -> None:
    (config,) = read_servers(entry(world, **more))
    world.user = user or "operator"
    await asyncio.wait_for(UserLogin(config, user).log_in(NOWHERE, receive), PATIENCE)


async def whoami(box: Toolbox, user: str | None = None) -> str:
    (record,) = await run_all(box, ("whoami", {}), user=user)
    return str(record["result"])


def cli(*args: str, **env: str) -> Done:
    """The command in a process of its own."""
    with Command(server(), args, env=os.environ | env) as command:
        return Done(command.wait(PATIENCE), *command.said())


def test_the_command_logs_in_through_a_browser_that_comes_back(world, tmp_path):
    """On 127.0.0.1, where a stranger who guesses a state is refused, and nobody listens later."""
    log_in_here, as_user, log_out_here = COMMANDS
    Path("mcp.json").write_text(json.dumps(entry(world)))
    Path("browser.py").write_text(BROWSER)
    browser = f"{sys.executable} {tmp_path / 'browser.py'} %s"
    done = cli(*log_in_here, "--mcp", "mcp.json", BROWSER=browser)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("Logged in to search.\n")
    visited = Path("visited").read_text()
    assert visited.startswith("400;200 http://127.0.0.1:")
    with pytest.raises(httpx.ConnectError):
        httpx.get(visited.split()[-1])
    (asked,) = world.asked
    assert (asked.resource, asked.scopes) == (world.url, ["desk"])
    assert cli(*as_user, "--mcp", "mcp.json", BROWSER=browser).returncode == 0
    assert cli(*log_out_here, "--mcp", "mcp.json").stdout == "Logged out of search.\n"
    again = cli("logout", "search", "--mcp", "mcp.json", "--json")
    assert json.loads(again.stdout)["was_logged_in"] is False
    ann = cli("logout", "search", "--mcp", "mcp.json", "--user", "ann", "--json")
    assert json.loads(ann.stdout)["was_logged_in"] is True


@pytest.mark.req("W-152")
def test_a_whole_run_with_a_login_that_is_renewed_on_its_way(world, tmp_path, caplog):
    """Nothing that the run says or keeps holds a token."""
    asyncio.run(log_in_as(world, None))
    turns = iter([[call("whoami")], [call("write_down", text="hello")], END])

    def answer(messages, offered):
        world.access.clear()  # between two calls the server forgets the token
        return next(turns)

    model = ScriptedModel(answer)
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = build_task_agent(model, mcp=entry(world), policy="allow", durability=kept)
        heard = []
        for event in graph.stream(SAID, THREAD, stream_mode=["updates", "custom"]):
            heard.append(repr(event))
        state = graph.get_state(THREAD)
        saved = [repr(one) for one in kept.checkpointer.list(None)]
    assert state.values["outcome"]["status"] == "complete", state.values["outcome"]
    assert world.notes == ["hello"]
    assert "operator with …masked…" in repr(state.values)
    assert len(world.renewals) >= 2
    database = b"".join(file.read_bytes() for file in tmp_path.glob("t.db*") if file.is_file())
    for token in world.given:
        assert all(token not in text for text in [*heard, *saved, caplog.text])
        assert token.encode() not in database


def test_a_run_without_a_login_says_how_to_log_in(world):
    graph = build_task_agent(ScriptedModel([END]), mcp=entry(world), policy="allow")
    result = graph.invoke(SAID, THREAD)
    (warning,) = [one for one in result["outcome"]["warnings"] if "search" in one]
    assert warning == (
        "MCP server 'search' is left out: nobody has logged in to it; "
        "run `loopwright login search`. Its tools are missing."
    )
    assert not world.asked


def test_a_machine_without_a_browser_gets_the_answer_from_another_command(world):
    Path("mcp.json").write_text(json.dumps(entry(world)))
    command = [*COMMAND, *COMMANDS[0], "--mcp", "mcp.json"]
    here = {name: value for name, value in os.environ.items() if name not in SCREENS}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=here) as process:
        assert process.stdout
        process.stdout.readline()
        back = asyncio.run(visit(process.stdout.readline().strip()))
        assert httpx.get(back).text == "Close this page."
        said, _ = process.communicate(timeout=PATIENCE)
    assert said.endswith("Logged in to search.\n")


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_each_user_acts_with_the_own_login(transport):
    with authorising(transport) as world:
        for user in ("ann", "bob", None):
            await log_in_as(world, user)
        box = Toolbox(mcp=entry(world))
        users = ["ann", "bob", None] * 5
        answers = await asyncio.gather(*(whoami(box, user) for user in users))
        for user, answer in zip(users, answers, strict=True):
            assert answer.startswith(f"{user or 'operator'} with …masked…")
        (stranger,) = (await box.catalog("eve's")).warnings
        assert "run `loopwright login search --user 'eve'\"'\"'s'`" in stranger
        world.revoke_all()
        ended = await whoami(box, "bob")
        assert "expired or was revoked; run `loopwright login search --user bob`" in ended
        assert not (await box.catalog("bob")).tools
        await log_in_as(world, "bob")
        (config,) = read_servers(entry(world))
        assert await UserLogin(config, "ann").log_out()
        await box.aclose()
        box = Toolbox(mcp=entry(world))
        assert (await whoami(box, "bob")).startswith("bob with")
        assert not (await box.catalog("ann")).tools
        await box.aclose()


def test_two_processes_renew_one_login_and_lose_no_token(world):
    """Each refresh token is good for one use; a second use would end the login of both."""
    world.lifetime = 1
    asyncio.run(log_in_as(world, None))
    program = SUPPORT / "support" / "renewing.py"
    args = (world.url, "6")
    with (
        Command(server(), args, env=os.environ, script=program) as first,
        Command(server(), args, env=os.environ, script=program) as second,
    ):
        for process in (first, second):
            assert process.wait(PATIENCE) == 0, process.said()
    assert len(world.renewals) >= 4
    assert len(set(world.renewals)) == len(world.renewals)


async def test_a_cancelled_call_does_not_lose_the_new_token(world):
    await log_in_as(world, None)
    box = Toolbox(mcp=entry(world))
    assert (await whoami(box)).startswith("operator")
    world.access.clear()
    world.delay = 1.0
    work = asyncio.create_task(whoami(box))
    assert await soon(lambda: world.renewals)
    work.cancel()
    await asyncio.wait([work])
    assert (await whoami(box)).startswith("operator")
    assert len(world.renewals) == 1
    await box.aclose()


async def test_a_renewal_without_a_new_refresh_token_keeps_the_old_one(world):
    world.rotates = False
    await log_in_as(world, None)
    box = Toolbox(mcp=entry(world))
    for _ in range(3):
        world.access.clear()
        assert (await whoami(box)).startswith("operator")
    assert len(world.renewals) == 3
    await box.aclose()


async def test_an_authorisation_server_that_is_away_costs_no_login(world, keyring_file):
    await log_in_as(world, None)
    world.access.clear()
    kept = keyring_file.read_text()
    port = world.issuer.rsplit(":")[-1]
    keyring_file.write_text(kept.replace(port, "1"))  # nobody is there
    box = Toolbox(mcp=entry(world))
    (warning,) = (await box.catalog()).warnings
    assert "its login could not be renewed (All connection attempts failed)" in warning
    keyring_file.write_text(kept)
    await box.aclose()
    box = Toolbox(mcp=entry(world))
    assert (await whoami(box)).startswith("operator")
    await box.aclose()


async def test_the_operators_own_client(world, monkeypatch):
    await log_in_as(world, None)
    (client,) = world.clients.values()
    client.token_endpoint_auth_method = "client_secret_basic"
    monkeypatch.setenv("DESK_SECRET", client.client_secret)
    auth = {"client_id": client.client_id, "client_secret": "${DESK_SECRET}"}
    await log_in_as(world, "ann", auth=auth)
    assert len(world.clients) == 1
    world.access.clear()
    box = Toolbox(mcp=entry(world, auth=auth))
    assert (await whoami(box, "ann")).startswith("ann")
    assert client.client_secret not in repr(read_servers(entry(world, auth=auth)))
    await box.aclose()


@pytest.mark.parametrize(
    ("auth", "more", "problem"),
    [
        ("basic", {}, '"auth" must be "oauth", or an object'),
        ({"client_id": "${NOT_SET_AT_ALL}"}, {}, "NOT_SET_AT_ALL is not set"),
        ({"client": "x"}, {}, '"auth.client" must be'),
        ("oauth", {"headers": lambda _: {}}, "exclude each other"),
        ("oauth", {"url": "http://mcp.example.com/mcp"}, 'needs a "url" that begins with https://'),
    ],
)
def test_an_entry_that_is_wrong_says_so(auth, more, problem):
    servers = {"search": {"url": "https://mcp.example.com/mcp", "auth": auth, **more}}
    (config,) = read_servers({"mcpServers": servers})
    assert problem in config.problem


@pytest.mark.parametrize(
    ("server", "named", "problem"),
    [
        ("https://93.184.216.34/mcp", "http://93.184.216.34/token", "https is needed"),
        ("https://93.184.216.34/mcp", "http://127.0.0.1/token", "https is needed"),
        ("https://93.184.216.34/mcp", "https://127.0.0.1/x", "in a private network"),
        ("https://93.184.216.34/mcp", "https://169.254.169.254/x", "in a private network"),
        ("https://93.184.216.34/mcp", "https://[::ffff:10.0.0.1]/x", "in a private network"),
        ("https://93.184.216.34/mcp", "https://93.184.216.35/token", ""),
        ("https://10.0.0.2/mcp", "https://10.0.0.1/x", ""),
        ("http://127.0.0.1:9/mcp", "http://93.184.216.34/token", "https is needed"),
        ("http://127.0.0.1:9/mcp", "http://localhost:8/token", ""),
    ],
)
async def test_a_server_may_not_name_every_address(server, named, problem):
    (config,) = read_servers({"mcpServers": {"s": {"url": server, "auth": "oauth"}}})
    assert not config.problem
    if not problem:
        await check_address(config, httpx.URL(named))
        return
    with pytest.raises(OAuthFlowError, match=problem):
        await check_address(config, httpx.URL(named))


def _instead(part: str, make: Any) -> Any:
    """Something between the MCP server and the network that answers these paths itself."""

    def around(app: Any, world: World) -> Any:
        async def answer(scope: Any, receive: Any, send: Any) -> None:
            mine = scope["type"] == "http" and part in scope["path"]
            response = make(world) if mine else None
            await (response or app)(scope, receive, send)

        return answer

    return around


async def _endless() -> Any:
    while True:
        yield b" " * 65_536
        await asyncio.sleep(0.001)


def _resource(world: World, **more: Any) -> Response:
    about = {"resource": world.url, "authorization_servers": [world.issuer]}
    return JSONResponse(about | more)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lambda w: _resource(w, resource="https://bank.example/mcp"), "does not match"),
        (lambda w: _resource(w, authorization_servers=["http://192.0.2.1/"]), "https is needed"),
        (
            lambda w: _resource(w, authorization_servers=[f"{w.issuer}/another"]),
            "Registration failed|mismatch",
        ),
        (lambda _: StreamingResponse(_endless()), "Registration failed|mismatch"),
        (lambda _: Response(status_code=503), "503"),
    ],
)
async def test_a_server_that_lies_about_its_authorisation(answer, problem):
    shown: list[str] = []

    async def receive(address: str) -> str:
        shown.append(address)
        return await visit(address)

    with (
        authorising(around=_instead("oauth-protected-resource", answer)) as world,
        pytest.raises(OAuthFlowError, match=problem),
    ):
        await log_in_as(world, None, receive)
    assert not shown
    assert not world.given


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda back: re.sub("state=[^&]*", "state=guessed", back), "State parameter mismatch"),
        (lambda back: re.sub("&state=[^&]*", "", back), "State parameter mismatch"),
        (lambda back: re.sub("iss=[^&]*", "iss=https://evil.example", back), "another authoris"),
        (lambda back: re.sub("code=[^&]*", "error=access_denied", back), "'access_denied'"),
        (lambda back: re.sub("code=[^&]*", "code=of-another", back), "invalid_grant"),
        (lambda _: "", "'nothing'"),
    ],
)
async def test_an_answer_that_is_not_of_this_login(world, change, problem):
    async def receive(address: str) -> str:
        return str(change(await visit(address)))

    with pytest.raises(OAuthFlowError, match=problem):
        await log_in_as(world, None, receive)
    assert not world.given


async def test_a_token_goes_to_its_server_only(world, keyring_file):
    """Not after a redirect, and not to a server of the same name at another address."""
    await log_in_as(world, None)
    with authorising() as other:
        moved = RedirectResponse(other.url, 307)
        with authorising(around=_instead("/mcp", lambda _: moved)) as mover:
            text = keyring_file.read_text()
            keyring_file.write_text(text.replace(world.url, mover.url))
            box = Toolbox(mcp=entry(mover))
            assert (await box.catalog()).warnings
            await box.aclose()
        keyring_file.write_text(text)
        box = Toolbox(mcp=entry(other))
        assert "nobody has logged in" in (await box.catalog()).warnings[0]
        await box.aclose()
        assert not other.seen


def test_no_keyring_is_one_clear_sentence(world, monkeypatch):
    Path("mcp.json").write_text(json.dumps(entry(world)))
    done = cli("login", "search", "--mcp", "mcp.json", PYTHON_KEYRING_BACKEND=NO_KEYRING)
    assert done.returncode == 2
    assert "the keyring with its login cannot be used (No recommended backend" in done.stderr
    monkeypatch.setitem(sys.modules, "keyring", None)
    graph = build_task_agent(ScriptedModel([END]), mcp=entry(world), policy="allow")
    warnings = graph.invoke(SAID, THREAD)["outcome"]["warnings"]
    assert any("pip install '.[keyring]'" in one for one in warnings)


def work(request: Any) -> Reply:
    """Asks who it is where it can, then reports what it was told."""
    names = {tool["function"]["name"] for tool in request.get("tools", ())}
    told = [m["content"] for m in request["messages"] if m["role"] == "tool"]
    if told or "whoami" not in names:
        done = json.dumps({"summary": f"I was told {len(told)} names."})
        return Reply(tool_calls=[called("complete_task", done)])
    return Reply(tool_calls=[called("whoami", "{}")])


def ask_server(url: str, user: str) -> Any:
    """The outcome of a run in a new thread of a user, and all that the client can read of it."""
    with get_sync_client(url=url, headers={"Authorization": f"Bearer {user}"}) as client:
        thread = client.threads.create()["thread_id"]
        claim = {"user_id": "ann", "langgraph_auth_user_id": "ann"}
        ended: Any = client.runs.wait(
            thread, "task_agent", input=SAID, config={"configurable": claim}
        )
        shown = json.dumps([ended, client.threads.get_history(thread)], ensure_ascii=False)
        return ended["outcome"], shown


def test_the_server_gives_each_user_the_own_login_and_others_the_command(world, serve, guarded_app):
    """Who claims to be another by `configurable` gets nothing of them."""
    asyncio.run(log_in_as(world, "ann"))
    (guarded_app / "mcp.json").write_text(json.dumps(entry(world)))
    with (
        fake_openai(work) as fake,
        serve(
            guarded_app, LOOPWRIGHT_MCP="mcp.json", OPENAI_BASE_URL=fake.url,
            OPENAI_API_KEY="sk-test", LOOPWRIGHT_MODEL="openai:gpt-4o",
        ) as server,
    ):  # fmt: skip
        for _ in range(2):  # also where the other has a session already
            ann, shown = ask_server(server.url, "ann")
            assert "ann with …masked…" in shown
            assert ann["status"] == "complete"
            bob, also_shown = ask_server(server.url, "bob")
            assert bob["answer"] == "I was told 0 names.", "no tool of the server was there"
            assert not any(token in shown + also_shown for token in world.given)
            (warning,) = [one for one in bob["warnings"] if "search" in one]
            assert warning == (
                "MCP server 'search' is left out: nobody has logged in to it; "
                "run `loopwright login search --user bob`. Its tools are missing."
            )
        assert not any(token in server.said() for token in world.given)
