"""Hooks around whole runs of a plan of tool calls: what they stop, change, add and are told."""

import json

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import Context, Hook
from loopwright.hooks.contract import EVENTS
from support.flows import (
    ASK,
    THREAD,
    World,
    decide,
    ended,
    flow,
    planning,
    roles,
    said,
    step,
    steps_by_id,
)

R = step("r", arguments={"what": "r"})
W = step("w", "put", arguments={"what": "{{r.of}}"})
PLAN = flow(R, W)


def on(event, output, **options):
    return Hook(event=event, run=lambda _: output, **options)


def recorder(seen, *events):
    return [Hook(event=event, run=seen.append) for event in events or EVENTS]


def names(seen):
    return [given["hook_event_name"] for given in seen]


class Run:
    """One run with hooks, and everything that came of it."""

    def __init__(self, *hooks, plans=(PLAN,), world=None, words=None, context=None, **more):
        options = {key: more.pop(key) for key in ("policy", "tools") if key in more}
        self.world = world or World()
        self.model = planning(*plans, **more)
        self.graph = self.world.graph(
            self.model, hooks=hooks, checkpointer=InMemorySaver(), **options
        )
        self.result = self.graph.invoke(
            said(words) if words else said(), THREAD, context=context or Context()
        )

    def go_on(self, given=None):
        self.result = self.graph.invoke(given, THREAD)
        return self

    @property
    def outcome(self):
        return self.result["outcome"]

    @property
    def ended(self):
        return ended(self.outcome)

    @property
    def unmet(self):
        return " ".join(self.outcome["unmet"])

    def asked(self, role):
        return [a for a in self.model.asked if a.role == role]


@pytest.mark.req("S4-38")
def test_every_hook_has_its_place_in_a_run():
    seen = []
    run = Run(*recorder(seen), policy=ASK)
    asked = ["BeforeModel", "AfterModel"]
    assert names(seen) == [
        "SessionStart", "BeforeAgent", *asked, "BeforeTool", "AfterTool", "BeforeTool",
        "Notification", "SessionEnd",
    ]  # fmt: skip
    assert seen[-2]["notification_type"] == "ToolPermission"
    assert [given["tool_name"] for given in seen if "tool_name" in given][:3] == [
        "look", "look", "put",
    ]  # fmt: skip
    seen.clear()
    run.go_on(Command(resume="approve"))
    assert run.ended == ("complete", "GOAL")
    assert names(seen) == ["SessionStart", "AfterTool", *asked, "AfterAgent", "SessionEnd"]
    assert seen[1]["tool_input"] == {"what": "r"}, "hooks see values, not references"
    assert seen[-2]["prompt_response"] == run.outcome["answer"]


def test_a_denied_step_ends_the_run_as_blocked_with_what_is_done():
    deny = on("BeforeTool", {"decision": "deny", "reason": "the shop is closed"}, match="put")
    run = Run(deny)
    assert run.ended == ("blocked", "DENIED")
    assert "the shop is closed" in run.unmet
    assert run.world.calls == [("look", "r")]
    assert roles(run.model) == ["flow_planner"], "no model is asked to get around a hook"
    assert {i: t["status"] for i, t in steps_by_id(run.outcome).items()} == {
        "r": "completed", "w": "failed",
    }  # fmt: skip


def test_a_stop_after_a_write_says_so_and_the_write_is_not_made_again():
    open_ = []

    def gate(given):
        return None if open_ else {"continue": False, "stopReason": "the shop is closed"}

    run = Run(Hook(event="AfterTool", run=gate, match="put"), plans=[PLAN, PLAN])
    assert run.ended == ("blocked", "DENIED")
    assert run.world.done("put") == ["r"]
    assert steps_by_id(run.outcome)["w"]["status"] == "completed"
    open_.append(True)
    assert run.go_on().ended == ("complete", "GOAL")
    assert run.world.calls == [("look", "r"), ("put", "r")]


def test_a_result_can_be_replaced_and_what_refers_to_it_gets_the_replacement():
    def mask(given):
        return {"toolResponse": json.dumps({"of": "****"})}

    run = Run(Hook(event="AfterTool", run=mask, match="look"))
    assert run.ended == ("complete", "GOAL")
    assert run.world.done("put") == ["****"]


def test_a_withheld_result_fails_the_step_and_is_not_shown():
    deny = on("AfterTool", {"decision": "deny", "reason": "it holds a PIN"}, match="look")
    run = Run(deny, world=World(r="PIN 1234"), recovery=[decide("give_up")])
    assert run.ended == ("failed", "ERROR")
    assert "it holds a PIN" in run.unmet
    assert "1234" not in str([a.messages for a in run.model.asked]) + str(run.outcome)
    assert run.world.done("put") == []


def test_a_hook_hears_of_the_model_that_an_llm_call_asks():
    seen = []
    plan = flow(step("a", "llm_call", arguments={"prompt": "Say the PIN 1234."}))

    def redact(given):
        messages = given["llm_request"]["messages"]
        seen.append(messages[0]["content"].split()[3])
        clean = [{**one, "content": one["content"].replace("1234", "****")} for one in messages]
        return {"llm_request": {"messages": clean}}

    run = Run(Hook(event="BeforeModel", run=redact), plans=[plan], llm_call=["It is ****."])
    assert run.ended == ("complete", "GOAL")
    assert [one.strip(":.") for one in seen] == ["flow_planner", "llm_call", "answerer"]
    assert "1234" not in str(run.asked("llm_call")[0].messages)
