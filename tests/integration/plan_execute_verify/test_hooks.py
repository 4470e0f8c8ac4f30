"""Hooks around whole runs of plan → execute → verify."""

import json

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import Context, Hook, ScriptedModel, build_plan_execute_verify
from loopwright.hooks.contract import EVENTS
from support.scripts import call, failed, passed, plan, report, todo

THREAD = {"configurable": {"thread_id": "t"}}
PAY = [{"tool": "pay", "action": "ask"}]


class Till:
    """Two tools and what they did."""

    def __init__(self):
        self.paid = []

    @property
    def tools(self):
        def pay(to: str, amount: int = 1) -> str:
            """Pay somebody."""
            self.paid.append((to, amount))
            return f"paid {amount} to {to}"

        def look(name: str) -> str:
            """Look something up."""
            return f"{name} is Ada, PIN opqr"

        return [pay, look]


def model(*executor, **scripts):
    """One task, by default with one call of `pay`."""
    return ScriptedModel(
        {
            "planner": [plan(todo("1", "Pay Ada"))],
            "executor": [*(executor or [[call("pay", to="ada")]]), report("Paid ada.")],
            "verifier": [passed("Ada is paid.", t1=["1.1.0"])],
        }
        | scripts
    )


def build(scripted, *hooks, till=None, **options):
    tools = (till or Till()).tools
    options = {"checkpointer": InMemorySaver()} | options
    return build_plan_execute_verify(model=scripted, tools=tools, hooks=hooks, **options)


def start(graph, goal="Pay Ada", **options):
    return graph.invoke({"messages": [{"role": "user", "content": goal}]}, THREAD, **options)


def on(event, output, **options):
    return Hook(event=event, run=lambda _: output, **options)


def recorder(seen, *events):
    return [Hook(event=event, run=seen.append) for event in events or EVENTS]


def names(seen):
    return [given["hook_event_name"] for given in seen]


@pytest.mark.req("S4-36", "S4-37", "S4-38")
def test_every_hook_has_its_place_in_a_run():
    seen, scripted = [], model()
    graph = build(scripted, *recorder(seen), policy=PAY)
    start(graph)
    asked = ["BeforeModel", "AfterModel"]
    assert names(seen) == [
        "SessionStart", "BeforeAgent", *asked,
        "BeforeModel", "BeforeToolSelection", "AfterModel", "BeforeTool", "Notification",
        "SessionEnd",
    ]  # fmt: skip
    assert seen[-2]["notification_type"] == "ToolPermission"
    assert {given["session_id"] for given in seen} == {"t"}
    seen.clear()
    result = graph.invoke(Command(resume={"type": "approve"}), THREAD)
    assert result["outcome"]["status"] == "complete"
    assert names(seen) == [
        "SessionStart", "AfterTool", "BeforeModel", "BeforeToolSelection", "AfterModel",
        *asked, "AfterAgent", "SessionEnd",
    ]  # fmt: skip
    assert (seen[0]["source"], seen[-1]["reason"]) == ("resume", "exit")
    assert seen[1]["tool_response"]["llmContent"] == "paid 1 to ada"
    end = seen[-2]
    assert (end["prompt"], end["prompt_response"]) == ("Pay Ada", "Ada is paid.")
    assert end["stop_hook_active"] is False


def test_a_guard_that_crashes_keeps_the_tool_from_running():
    def guard(_):
        msg = "no connection"
        raise OSError(msg)

    till = Till()
    hook = Hook(event="BeforeTool", run=guard, match="pay", on_error="closed")
    graph = build(model(verifier=[failed("pay Ada")]), hook, till=till)
    outcome = start(graph, context=Context(max_verify_cycles=1))["outcome"]
    assert till.paid == []
    assert outcome["status"] != "complete"
    assert "'guard' failed (OSError)" in graph.get_state(THREAD).values["turn_state"]["warnings"][0]


def test_the_human_sees_and_approves_what_a_hook_made_of_a_call():
    till = Till()
    change = on("BeforeTool", {"tool_input": {"to": "ada", "amount": 2}})
    graph = build(model(), change, till=till, policy=PAY)
    start(graph)
    question = graph.get_state(THREAD).interrupts[0].value
    assert question["action_requests"][0]["args"] == {"to": "ada", "amount": 2}
    graph.invoke(Command(resume={"type": "approve"}), THREAD)
    assert till.paid == [("ada", 2)]


def test_what_a_hook_changed_is_checked_and_judged_again():
    till = Till()
    rules = [{"tool": "pay", "arguments": {"to": "^eve$"}, "action": "deny"}]
    for changed in ({"to": "eve"}, {"nobody": 1}):
        hook = on("BeforeTool", {"tool_input": changed})
        graph = build(model(verifier=[failed("pay")]), hook, till=till, policy=rules)
        start(graph, context=Context(max_verify_cycles=1))
    assert till.paid == []


def test_a_hook_may_want_a_human_and_with_nobody_there_the_call_does_not_run():
    till = Till()
    ask = on("BeforeTool", {"decision": "ask", "reason": "large sum"})
    graph = build(model(), ask, till=till)
    start(graph)
    assert graph.get_state(THREAD).interrupts[0].value["reason"] == "large sum"
    scripted = model(verifier=[failed("pay")])
    start(build(scripted, ask, till=till), context=Context(interactive=False, max_verify_cycles=1))
    assert "nobody can be asked" in str(scripted.asked)
    assert till.paid == []


def test_an_edit_by_the_human_cannot_get_around_a_hook():
    def limit(given):
        return (
            {"decision": "deny", "reason": "too much"} if given["tool_input"]["amount"] > 5 else {}
        )

    till = Till()
    graph = build(
        model([call("pay", to="ada", amount=1)], verifier=[failed("pay")]),
        Hook(event="BeforeTool", run=limit), till=till, policy=PAY,
    )  # fmt: skip
    start(graph, context=Context(max_verify_cycles=1))
    edit = {"type": "edit", "args": {"to": "ada", "amount": 99}}
    graph.invoke(Command(resume=edit), THREAD, context=Context(max_verify_cycles=1))
    assert till.paid == []


@pytest.mark.parametrize("event", ["BeforeTool", "AfterTool", "BeforeModel", "AfterModel"])
def test_a_hook_can_end_the_run(event):
    stop = on(event, {"continue": False, "stopReason": "the shop is closed"})
    scripted = model(verifier=[failed("pay")])
    outcome = start(build(scripted, stop))["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("blocked", "DENIED")
    assert outcome["resume"]
    assert sum(asked.role == "executor" for asked in scripted.asked) <= 1


def test_a_result_can_be_withheld_replaced_or_extended():
    def after(given):
        text = given["tool_response"]["llmContent"]
        return {"toolResponse": text.replace("opqr", "****"), "additionalContext": "Be discreet."}

    scripted = model([call("look", name="owner")], verifier=[passed("Ada.", t1=["1.1.0"])])
    assert start(build(scripted, Hook(event="AfterTool", run=after)))["outcome"]["status"]
    shown = next(a for a in scripted.asked[::-1] if a.role == "executor").messages[-1].text
    assert "PIN ****" in shown
    assert "Be discreet." in shown
    assert "opqr" not in str(scripted.asked)

    scripted = model([call("look", name="owner")], verifier=[failed("look")])
    deny = on("AfterTool", {"decision": "deny", "reason": "it holds a PIN"})
    start(build(scripted, deny), context=Context(max_verify_cycles=1))
    assert "it holds a PIN" in str(scripted.asked)
    assert "opqr" not in str(scripted.asked)


def test_a_tail_call_follows_where_policy_allows_it():
    tail = {"tailToolCallRequest": {"name": "pay", "args": {"to": "bob"}}}
    for policy, paid in ((None, [("bob", 1)]), ([{"tool": "pay", "action": "deny"}], [])):
        till = Till()
        scripted = model([call("look", name="owner")], verifier=[failed("look")])
        graph = build(scripted, on("AfterTool", tail, match="look"), till=till, policy=policy)
        start(graph, context=Context(max_verify_cycles=1))
        assert till.paid == paid
        shown = str(next(a for a in scripted.asked[::-1] if a.role == "executor").messages)
        assert ("paid 1 to bob" in shown) is bool(paid)


def test_a_tail_call_meets_the_hooks_before_tools_too():
    till = Till()
    tail = {"tailToolCallRequest": {"name": "pay", "args": {"to": "bob"}}}
    deny = on("BeforeTool", {"decision": "deny", "reason": "no"}, match="pay")
    scripted = model([call("look", name="owner")], verifier=[failed("look")])
    graph = build(scripted, on("AfterTool", tail, match="look"), deny, till=till)
    start(graph, context=Context(max_verify_cycles=1))
    assert till.paid == []


def test_a_synthetic_answer_is_no_model_call():
    def cached(given):
        system = given["llm_request"]["messages"][0]["content"]
        mine = system.startswith("You are the executor")
        return {"llm_response": json.dumps(report("Cached."))} if mine else None

    scripted = model(verifier=[passed("Ada is paid.", t1=["1.report"])])
    result = start(build(scripted, Hook(event="BeforeModel", run=cached)))["outcome"]
    assert result["status"] == "complete"
    assert [asked.role for asked in scripted.asked] == ["planner", "verifier"]
    assert result["spend"]["model_calls"] == 2


def test_a_request_and_an_answer_can_be_changed():
    def redact(given):
        messages = [
            {**one, "content": one["content"].replace("opqr", "****")}
            for one in given["llm_request"]["messages"]
        ]
        return {"llm_request": {"messages": messages, "config": {"temperature": 0}}}

    def polish(given):
        text = given["llm_response"]["content"]
        return {"llm_response": text.replace("Ada is paid.", "Ada has her money.")}

    scripted = model(executor=[[call("look", name="owner")], report("Paid ada.")])
    hooks = [
        Hook(event="BeforeModel", run=redact),
        Hook(
            event="AfterModel",
            run=lambda g: None if g["llm_response"].get("tool_calls") else polish(g),
        ),
    ]
    outcome = start(build(scripted, *hooks), "Look, opqr")["outcome"]
    assert outcome["answer"] == "Ada has her money."
    assert "opqr" not in str([a.messages for a in scripted.asked])


def test_a_hook_that_answers_with_nonsense_does_not_let_the_request_through():
    bad = on("BeforeModel", {"llm_request": {"messages": [{"no": "role"}]}})
    scripted = model()
    outcome = start(build(scripted, bad))["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("blocked", "DENIED")
    assert scripted.asked == []


@pytest.mark.req("S4-05")
def test_hooks_choose_the_tools_and_a_call_of_another_one_does_not_run():
    till = Till()
    only = on("BeforeToolSelection", {"toolConfig": {"allowedFunctionNames": ["look"]}})
    scripted = model([call("pay", to="ada")], [call("look", name="owner")])
    assert start(build(scripted, only, till=till))["outcome"]["status"] == "complete"
    offered = [asked.tools for asked in scripted.asked if asked.role == "executor"]
    assert offered == [["look"]] * 3
    assert till.paid == []


def test_what_hooks_add_reaches_every_prompt_of_the_turn_also_after_a_resume():
    scripted = model()
    graph = build(
        scripted,
        on("BeforeAgent", {"additionalContext": "The user is tired."}),
        on("SessionStart", {"additionalContext": "It is Monday."}, match="startup"),
        on("SessionStart", {"additionalContext": "It is Friday."}, match="resume"),
        policy=PAY,
    )
    start(graph)
    graph.invoke(Command(resume={"type": "approve"}), THREAD)
    assert len(scripted.asked) == 4
    for number, asked in enumerate(scripted.asked):
        text = "".join(message.text for message in asked.messages)
        assert "The user is tired." in text
        assert "It is Monday." in text
        assert ("It is Friday." in text) is (number >= 2)


def test_a_dropped_prompt_leaves_nothing_behind_and_an_older_one_is_not_done_in_its_place():
    def guard(given):
        return {"decision": "deny", "reason": "not that"} if "bomb" in given["prompt"] else None

    scripted, till = model(), Till()
    graph = build(scripted, Hook(event="BeforeAgent", run=guard), till=till)
    assert start(graph)["outcome"]["status"] == "complete"
    asked = len(scripted.asked)
    outcome = start(graph, "Build a bomb")["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("blocked", "DENIED")
    assert outcome["unmet"] == ["not that"]
    assert outcome["resume"] is None
    assert "bomb" not in str(graph.get_state(THREAD).values["messages"])
    again = graph.invoke(None, THREAD)["outcome"]
    assert (again["status"], again["tasks"]) == ("blocked", [])
    assert len(scripted.asked) == asked
    assert till.paid == [("ada", 1)]


def test_a_rejected_answer_is_made_once_more():
    seen = []

    def judge(given):
        seen.append((given["prompt_response"], given["stop_hook_active"]))
        if not given["stop_hook_active"]:
            return {"decision": "deny", "reason": "say the sum"}
        return None

    scripted = model(
        planner=[plan(todo("1", "Pay Ada")), plan(todo("1", "Pay Ada"))],
        verifier=[passed("Paid.", t1=["1.1.0"]), passed("Paid 1 euro.", t1=["1.1.0"])],
    )
    graph = build(scripted, Hook(event="AfterAgent", run=judge))
    result = start(graph)
    assert result["outcome"]["answer"] == "Paid 1 euro."
    assert seen == [("Paid.", False), ("Paid 1 euro.", True)]
    planner = [asked for asked in scripted.asked if asked.role == "planner"]
    assert "say the sum" in str(planner[1].messages)
    said = [m.text for m in result["messages"]]
    assert "Paid." not in said
    assert (said[0], said[-1]) == ("Pay Ada", "Paid 1 euro.")


def test_an_answer_rejected_twice_is_not_given():
    scripted = model(
        planner=[plan(todo("1", "Pay Ada"))] * 2,
        executor=[[call("pay", to="ada")], report("Paid ada.")] * 2,
        verifier=[passed("PIN opqr.", t1=["1.1.0"]), passed("PIN opqr.", t1=["1.1.0"])],
    )
    deny = on("AfterAgent", {"decision": "deny", "reason": "a PIN", "clearContext": True})
    result = start(build(scripted, deny))
    outcome = result["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("blocked", "DENIED")
    assert "a PIN" in outcome["answer"]
    assert "opqr" not in str(result["messages"]) + str(outcome)
