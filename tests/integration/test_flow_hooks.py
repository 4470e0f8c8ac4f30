"""Hooks around whole runs of a plan of tool calls: what they stop, change, add and are told."""

import json

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import Context, Hook
from loopwright.hooks.contract import EVENTS
from loopwright.prompts.prompt import read_section
from support.flows import (
    ASK,
    THREAD,
    World,
    decide,
    ended,
    flow,
    planning,
    raising,
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


def test_a_refused_turn_plans_and_runs_nothing():
    run = Run(on("BeforeAgent", {"decision": "deny", "reason": "not on a Sunday"}))
    assert run.ended == ("blocked", "DENIED")
    assert "not on a Sunday" in run.unmet
    assert "not on a Sunday" in run.outcome["answer"]
    assert (run.world.calls, run.model.asked) == ([], [])


def test_a_refused_turn_leaves_nothing_of_it_behind_and_older_work_is_not_taken_up():
    def guard(given):
        return {"decision": "deny", "reason": "not that"} if "bomb" in given["prompt"] else None

    run = Run(Hook(event="BeforeAgent", run=guard))
    assert run.ended == ("complete", "GOAL")
    run.go_on(said("Build a bomb."))
    assert (run.ended, run.outcome["resume"]) == (("blocked", "DENIED"), None)
    assert "bomb" not in str(run.graph.get_state(THREAD).values["messages"])
    run.go_on()
    assert run.ended == ("blocked", "DENIED")
    assert roles(run.model) == ["flow_planner", "answerer"]
    assert run.world.calls == [("look", "r"), ("put", "r")]


def test_a_stopped_turn_can_be_taken_up_later():
    open_ = []

    def gate(given):
        return None if open_ else {"continue": False, "stopReason": "come back tomorrow"}

    run = Run(Hook(event="BeforeAgent", run=gate))
    assert run.ended == ("blocked", "DENIED")
    assert run.outcome["unmet"] == ["come back tomorrow"]
    open_.append(True)
    assert run.go_on().ended == ("complete", "GOAL")


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


def test_a_denied_step_that_is_optional_is_left_out():
    deny = on("BeforeTool", {"decision": "deny", "reason": "closed"}, match="put")
    run = Run(deny, plans=[flow(R, {**W, "optional": True})])
    assert run.ended == ("partial", "GOAL")
    assert run.world.calls == [("look", "r")]


def test_a_hook_that_crashes_closed_keeps_the_step_from_running():
    def guard(_):
        raise OSError("no connection")

    run = Run(Hook(event="BeforeTool", run=guard, match="put", on_error="closed"))
    assert run.ended[0] == "blocked"
    assert run.world.done("put") == []


def test_a_hook_may_change_the_arguments_of_a_step():
    def less(given):
        return {"hookSpecificOutput": {"tool_input": {"what": f"less {given['tool_input']}"}}}

    run = Run(Hook(event="BeforeTool", run=less, match="put"))
    assert run.ended == ("complete", "GOAL")
    assert run.world.done("put") == ["less {'what': 'r'}"]


@pytest.mark.parametrize("event", ["BeforeTool", "AfterTool"])
def test_a_hook_around_a_tool_can_end_the_run(event):
    stop = on(event, {"continue": False, "stopReason": "the shop is closed"}, match="look")
    run = Run(stop)
    assert run.ended == ("blocked", "DENIED")
    assert "the shop is closed" in run.unmet
    assert run.world.calls == ([("look", "r")] if event == "AfterTool" else [])
    assert roles(run.model) == ["flow_planner"]
    assert run.outcome["resume"]


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


@pytest.mark.parametrize("event", ["BeforeTool", "AfterTool"])
def test_a_stop_ends_the_run_also_at_an_optional_step_and_nothing_more_is_begun(event):
    stop = on(event, {"continue": False, "stopReason": "the shop is closed"}, match="look")
    plan = flow({**R, "optional": True}, step("w", "put", ["r"], arguments={"what": 1}),
                step("s", "slow", ["r"], arguments={"name": "s"}))  # fmt: skip
    run = Run(stop, plans=[plan])
    assert run.ended == ("blocked", "DENIED")
    assert "the shop is closed" in run.unmet
    assert run.world.done("put") == run.world.done("slow") == []
    assert roles(run.model) == ["flow_planner"]


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


def test_a_rejected_answer_is_written_again_with_the_reason_and_no_step_runs_again():
    seen = []

    def judge(given):
        seen.append((given["prompt_response"], given["stop_hook_active"]))
        return None if given["stop_hook_active"] else {"decision": "deny", "reason": "say the sum"}

    run = Run(Hook(event="AfterAgent", run=judge), answerer=["Paid [w].", "Paid 7 [w]."])
    assert run.ended == ("complete", "GOAL")
    assert run.outcome["answer"] == "Paid 7 [w]."
    assert seen == [("Paid [w].", False), ("Paid 7 [w].", True)]
    assert roles(run.model) == ["flow_planner", "answerer", "answerer"]
    first, second = (a.messages[1].text for a in run.asked("answerer"))
    assert read_section(first, "improvements") is None
    assert "say the sum" in read_section(second, "improvements")
    assert run.world.calls == [("look", "r"), ("put", "r")]
    planned, last = run.result["messages"][1:]
    assert planned.additional_kwargs["agent_type"] == "flow_planner"
    assert last.text == "Paid 7 [w]."


def test_an_answer_rejected_twice_is_not_given():
    deny = on("AfterAgent", {"decision": "deny", "reason": "a PIN"})
    run = Run(deny, answerer=["PIN 1234 [r].", "PIN 1234 [w]."])
    assert run.ended == ("blocked", "DENIED")
    assert "a PIN" in run.outcome["answer"]
    assert "1234" not in str(run.result["messages"]) + str(run.outcome)
    assert run.world.calls == [("look", "r"), ("put", "r")]


def test_the_end_of_a_failed_run_is_told_and_cannot_be_rejected_into_going_on():
    seen = []

    def judge(given):
        seen.append(given["prompt_response"])
        return {"decision": "deny", "reason": "try harder"}

    world = World(r=raising(ValueError("the line is down")))
    run = Run(Hook(event="AfterAgent", run=judge), world=world, recovery=[decide("give_up")])
    assert run.ended == ("failed", "ERROR")
    assert len(seen) == 1
    assert "try harder" in run.outcome["answer"]
    assert roles(run.model) == ["flow_planner", "recovery"]


@pytest.mark.parametrize("event", ["BeforeModel", "AfterModel"])
def test_a_hook_around_a_model_can_end_the_run_before_anything_runs(event):
    stop = on(event, {"continue": False, "stopReason": "the shop is closed"})
    run = Run(stop)
    assert run.ended == ("blocked", "DENIED")
    assert "the shop is closed" in run.unmet
    assert run.world.calls == []
    assert len(run.model.asked) == (event == "AfterModel")


def of_role(role, output):
    def run(given):
        system = given["llm_request"]["messages"][0]["content"]
        return output if system.startswith(f"You are the {role}") else None

    return Hook(event="BeforeModel", run=run)


def test_a_hook_that_keeps_the_answer_back_blocks_the_run_with_what_is_done():
    run = Run(of_role("answerer", {"continue": False, "stopReason": "no words"}))
    assert run.ended == ("blocked", "DENIED")
    assert "no words" in run.unmet
    assert run.world.calls == [("look", "r"), ("put", "r")]
    assert {t["status"] for t in run.outcome["tasks"]} == {"completed"}


def test_a_hook_may_answer_for_the_planner_and_its_plan_is_checked_like_any_other():
    bad = json.dumps(flow(step("a", "loook")))
    run = Run(of_role("flow_planner", {"llm_response": bad}))
    assert run.ended == ("failed", "ERROR")
    assert run.model.asked == []
    good = json.dumps(PLAN)
    run = Run(of_role("flow_planner", {"llm_response": good}))
    assert run.ended == ("complete", "GOAL")
    assert roles(run.model) == ["answerer"]
    assert run.outcome["spend"]["model_calls"] == 1


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


def test_what_hooks_add_reaches_every_prompt_of_the_turn_also_after_a_resume():
    world = World(bad=raising(ValueError("the line is down")))
    first = flow(R, step("b", "look", ["r"], arguments={"what": "bad"}))
    run = Run(
        on("BeforeAgent", {"additionalContext": "The user is tired."}),
        on("SessionStart", {"additionalContext": "It is Monday."}, match="startup"),
        world=world, plans=[first, PLAN], policy=ASK, recovery=[decide("replan_from_failure")],
    )  # fmt: skip
    run.go_on(Command(resume="approve"))
    assert run.ended == ("complete", "GOAL")
    assert roles(run.model) == ["flow_planner", "recovery", "flow_planner", "answerer"]
    for asked in run.model.asked:
        text = "".join(message.text for message in asked.messages)
        assert "The user is tired." in text
        assert "It is Monday." in text


def test_hooks_hear_of_a_plan_before_it_is_shown():
    seen = []
    run = Run(*recorder(seen, "Notification"), context=Context(review_plan=True))
    assert "__interrupt__" in run.result
    assert seen[-1]["notification_type"] == "PlanReview"
    assert [s["id"] for s in seen[-1]["details"]["todos"]] == ["r", "w"]


def test_a_tail_call_follows_a_step_and_its_result_takes_the_place():
    tail = {"tailToolCallRequest": {"name": "look", "args": {"what": "after it"}}}
    run = Run(on("AfterTool", tail, match="put"), plans=[flow(R, W, step("z", arguments={
        "what": "{{w.of}}"}))])  # fmt: skip
    assert run.ended == ("complete", "GOAL")
    assert run.world.calls == [
        ("look", "r"),
        ("put", "r"),
        ("look", "after it"),
        ("look", "after it"),
    ]


def test_no_hook_no_event():
    world = World()
    events = list(world.graph(planning(PLAN)).stream(said(), stream_mode="custom"))
    assert "hook" not in {event["type"] for event in events}
