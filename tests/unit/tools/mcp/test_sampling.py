"""What a server gets that asks the model in the middle of a call."""

import asyncio
import contextlib
from typing import Any

import pytest
from langchain_core.messages import SystemMessage
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import Context, Hook, ScriptedModel, build_react
from loopwright.models.scripted import Slow
from support.mcp_servers import serving, stdio
from support.reacting import DONE, LOOK, THREAD, one_step, phase_of, said
from support.scripts import call

SECRET = "the owner is Ada"


@pytest.fixture(params=["stdio", "http", "sse"])
def entry(request) -> Any:
    with contextlib.ExitStack() as stack:
        if request.param == "stdio":
            yield stdio("library")
        else:
            more = ("--sse",) if request.param == "sse" else ()
            url = stack.enter_context(serving(None, *more, program="library"))[1]
            yield {"url": url.replace("/mcp", "/sse"), "type": "sse"} if more else {"url": url}


async def run(entry, *calls, context=None, hooks=(), **script) -> Any:
    """The outcome of a run with these calls, its model, its tools' words, and its events."""
    script = {"action": [[one] for one in calls], **script}
    script.setdefault("thought", [LOOK] * len(calls) + [DONE])
    model = one_step(observation=["Read."] * len(calls), **script)
    graph = build_react(
        model=model, mcp={"mcpServers": {"library": entry}}, policy="allow",
        checkpointer=InMemorySaver(), hooks=hooks,
    )  # fmt: skip
    events: list[Any] = []
    config: Any = THREAD
    async for mode, part in graph.astream(
        said(f"Sum up; {SECRET}."), config, context=context, stream_mode=["custom", "values"]
    ):
        events += [part] if mode == "custom" else []
        end = part
    return end, model, [m.text for m in end["messages"] if m.type == "tool"], events


async def test_a_server_asks_the_model_and_the_run_pays(entry):
    asked = call("sum_up", text="Juno is a lamp.", most=50)
    end, model, (told,), events = await run(
        {**entry, "sampling": True}, asked, action=[[asked], "A lamp."]
    )
    assert told == "scripted said A lamp. (endTurn)"
    request = next(one for one in model.asked if "Sum up: " in one.messages[-1].text)
    assert [m.text for m in request.messages] == ["You sum up.", "Sum up: Juno is a lamp."]
    assert isinstance(request.messages[0], SystemMessage)
    assert SECRET not in str(request.messages)
    spend = end["outcome"]["spend"]
    assert spend["model_calls"] == len(model.asked) == 5
    assert [e["role"] for e in events if e["type"] == "model"].count("action") == 2
    assert [m.text for m in end["messages"] if m.type == "ai"].count("A lamp.") == 0


async def test_by_default_the_model_is_not_offered(entry):
    _, model, (told,), _ = await run(entry, call("sum_up", text="Juno"))
    assert told.startswith("refused: Sampling not supported")
    assert len(model.asked) == 4


class Limited(ScriptedModel):
    """A model that can be told how much to write, and notes what it was told."""

    max_tokens: int | None = None

    async def ainvoke(self, input: Any, config: Any = None, **more: Any) -> Any:
        if "Sum up: " in str(input[-1].text):
            LIMITS.append(self.max_tokens)
        return await super().ainvoke(input, config, **more)


LIMITS: list[Any] = []


async def test_what_a_server_may_ask_is_bounded(monkeypatch):
    monkeypatch.setattr("support.reacting.ScriptedModel", Limited)
    LIMITS.clear()
    many = call("sum_up", text="Juno", times=12, most=99_999)
    _, _, (told,), _ = await run(
        {**stdio("library"), "sampling": True}, many, action=[[many], *["A lamp."] * 12],
        context=Context(max_output_tokens=9_000),
    )  # fmt: skip
    assert told.count("scripted said A lamp.") == 10
    assert told.count("refused: Sampling not supported") == 2
    assert LIMITS == [4_096] * 10


async def test_the_budget_of_the_run_is_the_limit():
    many = call("sum_up", text="Juno", times=3)
    end, _, (told,), _ = await run(
        {**stdio("library"), "sampling": True}, many, action=[[many], *["A lamp."] * 3],
        context=Context(max_model_calls=4),
    )  # fmt: skip
    assert told.count("scripted said") == 2
    assert told.count("refused: there is no answer (model_calls)") == 1
    assert end["outcome"]["spend"]["model_calls"] == 5  # one more to say how far it came
    assert end["outcome"]["reason"] == "BUDGET"


async def test_hooks_see_what_a_server_asks_and_may_refuse_it():
    def refuse(event: Any) -> Any:
        if "Sum up: " in event["llm_request"]["messages"][-1]["content"]:
            return {"decision": "deny", "reason": "no strangers"}
        return None

    _, _, (told,), _ = await run(
        {**stdio("library"), "sampling": True}, call("sum_up", text="Juno"),
        hooks=[Hook(event="BeforeModel", run=refuse)],
    )  # fmt: skip
    assert told == "refused: there is no answer (hook)"


async def test_without_a_running_call_it_is_refused(entry):
    _, model, (_, told), _ = await run(
        {**entry, "sampling": True}, call("sum_up_late"), call("said_late"),
        thought=[LOOK, Slow(1.0, LOOK), DONE],
    )  # fmt: skip
    assert "refused: Sampling not supported" in told
    assert len(model.asked) == 7


async def test_a_call_that_ends_early_cuts_what_its_server_asked():
    """The call has its deadline while the model writes; the run goes on, and counts it."""
    slow = call("sum_up", text="Juno")
    end, model, (told,), _ = await run(
        {**stdio("library"), "sampling": True, "timeout": 1}, slow,
        action=[[slow], Slow(60, "never")],
    )  # fmt: skip
    assert "did not answer within 1 s" in told
    assert len(model.asked) == 5
    assert "Ada owns it" in end["outcome"]["answer"]


async def test_each_of_two_threads_at_once_pays_for_what_is_asked_for_it(entry):
    def answer(messages: Any, offered: Any) -> Any:
        shown = str([m.text for m in messages])
        if messages[-1].text.startswith("Sum up: "):
            return f"{messages[-1].text}!"
        role = phase_of(messages, offered)
        if role == "action":
            return [call("sum_up", text="Juno" if "Juno" in shown else "Vesta", times=3)]
        return "Read." if role == "observation" else DONE if "Read." in shown else LOOK

    servers = {"library": {**entry, "sampling": True}}
    graph = build_react(model=ScriptedModel(answer), mcp={"mcpServers": servers}, policy="allow")
    lamps = ("Juno", "Vesta")
    threads: Any = [{"configurable": {"thread_id": lamp}} for lamp in lamps]
    ends = await asyncio.gather(
        *(graph.ainvoke(said(t), on) for t, on in zip(lamps, threads, strict=True))
    )
    for lamp, end in zip(lamps, ends, strict=True):
        (told,) = (m.text for m in end["messages"] if m.type == "tool")
        assert told.splitlines() == [f"scripted said Sum up: {lamp}! (endTurn)"] * 3
        assert end["outcome"]["spend"]["model_calls"] == 7
