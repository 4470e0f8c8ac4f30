"""`langgraph dev` with authentication: what is remembered of its users is kept apart."""

import json

import httpx
import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.errors import PermissionDeniedError

from support.fake_openai import Reply, call, fake_openai


def answer(request):
    """Keep or recall as the user's message says, then report."""
    last = request["messages"][-1]
    if last["role"] == "tool":
        return Reply(tool_calls=[call("complete_task", '{"summary": "The memory is dealt with."}')])
    (said,) = [m["content"] for m in request["messages"] if m["role"] == "user"][-1:]
    text = said if isinstance(said, str) else said[-1]["text"]
    name, _, given = text.partition(" ")
    args = {"text": given} if name == "remember" else {}
    return Reply(tool_calls=[call(name, json.dumps(args))])


def says(url, user, text, **config):
    """What the tool told the model in a new thread of a user."""
    with get_sync_client(url=url, headers={"Authorization": f"Bearer {user}"}) as client:
        thread = client.threads.create()["thread_id"]
        ended = client.runs.wait(
            thread, "task_agent", input={"messages": [{"role": "user", "content": text}]}, **config
        )
        (told,) = [m["content"] for m in ended["messages"] if m.get("name") == text.split()[0]]
        return told


def known(told):
    return [(one["text"], one["origin"]) for one in json.loads(told)["memories"]]


def test_two_users_with_two_threads_each_are_told_what_they_said_themselves(serve, guarded_app):
    with (
        fake_openai(answer) as fake,
        serve(
            guarded_app, LOOPWRIGHT_MEMORY="1", OPENAI_BASE_URL=fake.url, OPENAI_API_KEY="sk-test",
            LOOPWRIGHT_MODEL="openai:gpt-4o",
        ) as server,
    ):  # fmt: skip
        url = server.url
        for user in ("ada", "bob"):
            assert "It is kept" in says(url, user, f"remember I am {user}.")
        for user in ("ada", "bob"):
            assert known(says(url, user, "recall_memories")) == [(f"I am {user}.", "own")]
        claims = {"user_id": "ada", "langgraph_auth_user_id": "ada"}
        for config in (claims, {"langgraph_auth_user": {"identity": "ada"}}):
            told = says(url, "bob", "recall_memories", config={"configurable": config})
            assert known(told) == [("I am bob.", "own")]
        assert known(says(url, "ad", "recall_memories")) == []
        assert httpx.post(f"{url}/threads", json={}, trust_env=False).status_code == 401
        with (
            get_sync_client(url=url, headers={"Authorization": "Bearer bob"}) as bob,
            pytest.raises(PermissionDeniedError),
        ):
            bob.store.search_items(("loopwright", "memory"))
        assert server.stop() == 0
