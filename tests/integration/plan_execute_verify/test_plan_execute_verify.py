"""Whole runs of plan → execute → verify on a scripted model and real Python tools."""

import json

import pytest
from langchain_core.tools import ToolException
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import Context, ScriptedModel, build_plan_execute_verify
from loopwright.prompts.prompt import read_json, read_section
from support.front_ends import chat_ui_drops
from support.scripts import call, failed, passed, plan, report, todo

THREAD = {"configurable": {"thread_id": "t"}}
KEYS = {
    "status", "reason", "headline", "answer", "tasks", "unmet", "uncertain_calls", "spend",
    "models", "warnings", "result", "resume",
}  # fmt: skip


def shelf():
    """Two tools over a small world, and the record of what was called."""
    calls = []

    def look(name: str) -> str:
        """Look up a fact."""
        calls.append(name)
        facts = {"owner": "Ada", "price": "7 euro"}
        if name not in facts:
            msg = f"there is no fact {name!r}"
            raise ToolException(msg)
        return facts[name]

    look.calls = calls
    return look


def ask(graph, goal="Who owns it and what does it cost?", config=THREAD, **options):
    return graph.invoke({"messages": [{"role": "user", "content": goal}]}, config, **options)


def human(asked):
    return next(m for m in asked.messages if m.type == "human").text


def two_tasks(**scripts):
    return ScriptedModel(
        {
            "planner": [plan(todo("1", "Find the owner"), todo("2", "Find the price"))],
            "executor": [
                [call("look", name="owner")],
                report("The owner is Ada."),
                [call("look", name="price")],
                report("It costs 7 euro."),
            ],
            "verifier": [passed("Ada owns it, 7 euro.", t1=["1.1.0"], t2=["2.1.0"])],
        }
        | scripts
    )


@pytest.mark.req("S0-01", "S0-02", "S0-09", "S0-18", "S0-21", "S0-46", "S0-146")
def test_plan_execute_verify_from_goal_to_proven_answer():
    look = shelf()
    model = two_tasks()
    result = ask(build_plan_execute_verify(model=model, tools=[look]))
    outcome = result["outcome"]
    assert set(outcome) == KEYS
    assert (outcome["status"], outcome["reason"]) == ("complete", "GOAL")
    assert outcome["answer"] == result["messages"][-1].text == "Ada owns it, 7 euro."
    assert [t["evidence"] for t in outcome["tasks"]] == [["1.1.0"], ["2.1.0"]]
    assert [t["status"] for t in outcome["tasks"]] == ["completed", "completed"]
    assert look.calls == ["owner", "price"]
    assert [a.role for a in model.asked] == ["planner", *["executor"] * 4, "verifier"]
    assert outcome["spend"]["model_calls"] == 6
    assert outcome["spend"]["tool_calls"] == 2
    assert outcome["spend"]["by_role"]["executor"]["model_calls"] == 4
    assert set(outcome["models"]) == {"planner", "executor", "verifier"}
    assert outcome["resume"] is None


@pytest.mark.req("S0-52", "S0-122", "S0-123", "S0-138")
def test_only_the_executor_gets_tools_and_only_its_own_task():
    model = two_tasks()
    ask(build_plan_execute_verify(model=model, tools=[shelf()]))
    by_role = {
        role: [a for a in model.asked if a.role == role]
        for role in ("planner", "executor", "verifier")
    }
    assert "look" not in by_role["planner"][0].tools
    assert "look" in by_role["executor"][0].tools
    assert "look" not in by_role["verifier"][0].tools
    assert read_json(human(by_role["planner"][0]), "tools") == [
        {"name": "look", "description": "Look up a fact."}
    ]
    second = by_role["executor"][2]
    assert read_json(human(second), "task")["description"] == "Find the price"
    assert read_json(human(second), "results_so_far")[0]["result"] == "The owner is Ada."
    assert len(second.messages) == 2, "nobody else's transcript"
    assert read_section(human(second), "request") == "Who owns it and what does it cost?"


@pytest.mark.req("S0-11", "S0-115", "S0-10")
def test_improvements_go_back_to_the_planner_and_finished_tasks_are_not_run_again():
    look = shelf()
    model = two_tasks(
        planner=[
            plan(todo("1", "Find the owner")),
            plan(todo("1", "Find the owner"), todo("2", "Find the price")),
        ],
        verifier=[
            failed("find the price too", t1=True)
            | {"tasks": [{"id": "1", "completed": True, "evidence": ["1.1.0"]}]},
            passed("Ada owns it, 7 euro.", t1=["1.1.0"], t2=["2.1.0"]),
        ],
    )
    outcome = ask(build_plan_execute_verify(model=model, tools=[look]))["outcome"]
    assert outcome["status"] == "complete"
    assert look.calls == ["owner", "price"]
    again = human([a for a in model.asked if a.role == "planner"][1])
    assert read_json(again, "improvements") == ["find the price too"]
    assert read_json(again, "previous_plan")[0]["result"] == "The owner is Ada."


@pytest.mark.req("S0-08", "S0-132")
def test_tasks_that_are_done_but_not_well_enough_are_sent_back():
    poor = failed("name the currency", t1=True, t2=True) | {"allCompleted": True}
    poor["tasks"] = [
        {"id": "1", "completed": True, "evidence": ["1.1.0"]},
        {"id": "2", "completed": True, "evidence": ["2.1.0"]},
    ]
    model = two_tasks(
        planner=[
            plan(todo("1", "Find the owner"), todo("2", "Find the price")),
            plan(todo("3", "Name the currency")),
        ],
        executor=[
            [call("look", name="owner")], report("Ada"),
            [call("look", name="price")], report("7"),
            report("It is the euro."),
        ],
        verifier=[poor, passed("Ada; 7 euro.", t1=["1.1.0"], t2=["2.1.0"], t3=["3.report"])],
    )  # fmt: skip
    outcome = ask(build_plan_execute_verify(model=model, tools=[shelf()]))["outcome"]
    assert outcome["status"] == "complete"
    assert [t["id"] for t in outcome["tasks"]] == ["1", "2", "3"]
    again = human([a for a in model.asked if a.role == "planner"][1])
    assert read_json(again, "improvements") == ["name the currency"]


@pytest.mark.req("S0-07")
def test_a_task_whose_result_is_known_is_answered_without_a_call():
    """The model here calls a tool only for what it is not shown."""

    def executor(messages, offered):
        known = " ".join(r["result"] for r in read_json(messages[1].text, "results_so_far") or [])
        if messages[-1].type == "tool":
            return report(f"The owner is {messages[-1].text}.")
        return report("Ada, as found before.") if "Ada" in known else [call("look", name="owner")]

    look = shelf()
    model = two_tasks(
        planner=[plan(todo("1", "Find the owner"), todo("2", "Name the owner"))],
        executor=executor,
        verifier=[passed("Ada owns it.", t1=["1.1.0"], t2=["2.report"])],
    )
    outcome = ask(build_plan_execute_verify(model=model, tools=[look]))["outcome"]
    assert outcome["status"] == "complete"
    assert look.calls == ["owner"]
    assert [t["evidence"] for t in outcome["tasks"]] == [["1.1.0"], ["2.report"]]
    assert "look" in [a for a in model.asked if a.role == "executor"][-1].tools


@pytest.mark.req("P-03")
@pytest.mark.parametrize("cited", [[], ["9.9.9"], ["1.1.0"]], ids=["none", "foreign", "failed"])
def test_a_verifier_without_proof_is_not_believed(cited):
    """It cites nothing, another run's evidence, or a call that failed."""
    model = ScriptedModel(
        {
            "planner": [plan(todo("1", "Find the colour"))] * 3,
            "executor": [[call("look", name="colour")], report("It is red.")] * 3,
            "verifier": [passed("It is red.", t1=cited)] * 9,
        }
    )
    outcome = ask(build_plan_execute_verify(model=model, tools=[shelf()]))["outcome"]
    assert outcome["status"] in {"stuck", "partial"}
    assert "It is red." not in outcome["answer"].splitlines()[0]
    assert outcome["unmet"]


@pytest.mark.req("P-22")
def test_the_same_blockers_twice_end_the_run_as_stuck():
    model = two_tasks(
        planner=[plan(todo("1", "Find the colour"))] * 9,
        executor=[report("No tool knows colours.", taskCompleted=False)] * 9,
        verifier=[failed("find the colour", t1=False)] * 9,
    )
    outcome = ask(build_plan_execute_verify(model=model, tools=[shelf()]))["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("stuck", "SAME_BLOCKERS")
    assert any("find the colour" in text for text in outcome["unmet"])
    assert len([a for a in model.asked if a.role == "verifier"]) == 2


@pytest.mark.req("P-22", "S0-25", "S0-103")
def test_verify_cycles_are_bounded_whatever_the_verifier_says():
    wishes = iter(range(100))
    model = ScriptedModel(
        lambda messages, offered: {
            "planner": lambda: plan(todo("1", f"Try {next(wishes)}")),
            "executor": lambda: report("tried"),
            "verifier": lambda: failed(f"wish {next(wishes)}", t1=False),
        }[messages[0].text.split()[3].rstrip(".")]()
    )
    outcome = ask(build_plan_execute_verify(model=model))["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("exhausted", "MAX_ROUNDS")
    assert [a.role for a in model.asked] == ["planner", "executor", "verifier"] * 3


@pytest.mark.req("S0-23", "S0-26", "S0-103")
def test_planning_rounds_are_bounded():
    more = {"needsMorePlanning": True, "todos": [todo("1", "Find the owner")]}
    model = two_tasks(planner=[more] * 9, verifier=[passed("Ada owns it.", t1=["1.1.0"])])
    outcome = ask(build_plan_execute_verify(model=model, tools=[shelf()]))["outcome"]
    assert outcome["status"] == "complete"
    assert len([a for a in model.asked if a.role == "planner"]) == 3
    empty = {"needsMorePlanning": True, "missingInformation": []}
    model = two_tasks(planner=[empty] * 9)
    outcome = ask(build_plan_execute_verify(model=model))["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("blocked", "MISSING_INFORMATION")
    assert len(model.asked) == 3


@pytest.mark.req("S0-24", "S0-103")
def test_executor_rounds_are_bounded_and_the_last_one_has_no_tools():
    look = shelf()
    names = iter(range(100))
    model = two_tasks(
        planner=[plan(todo("1", "Look for ever"))] * 9,
        executor=lambda messages, offered: (
            [call("look", name=f"x{next(names)}")]
            if "look" in offered
            else report("Found nothing.", taskCompleted=False)
        ),
        verifier=[failed("find it", t1=False)] * 9,
    )
    graph = build_plan_execute_verify(model=model, tools=[look], foreign="allow")
    outcome = ask(graph, context=Context(max_executor_rounds=4))["outcome"]
    assert outcome["status"] == "stuck"
    executors = [a for a in model.asked if a.role == "executor"]
    assert [a.may_call for a in executors[:5]] == [True, True, True, True, False]
    assert len(executors) == 6, "a second attempt gets no more rounds, only one last word"


@pytest.mark.req("S0-120")
def test_what_only_the_user_knows_is_asked_once_and_the_answer_reaches_the_planner():
    unclear = {"needsMorePlanning": True, "missingInformation": ["Which lamp?"]}
    model = two_tasks(
        planner=[unclear, plan(todo("1", "Find the owner"))],
        verifier=[passed("Ada owns it.", t1=["1.1.0"])],
    )
    graph = build_plan_execute_verify(model=model, tools=[shelf()], checkpointer=InMemorySaver())
    waiting = ask(graph)["__interrupt__"]
    shown = waiting[0].value["action_requests"][0]["args"]
    assert shown == {"questions": ["Which lamp?"], "answer": ""}
    result = graph.invoke(Command(resume={"type": "respond", "message": "The red one."}), THREAD)
    assert result["outcome"]["status"] == "complete"
    shown = read_json(human(model.asked[1]), "answers")
    assert shown == [{"question": "Which lamp?", "answer": "The red one."}]


def test_nobody_to_ask_means_planning_on_and_then_an_honest_end():
    unclear = {"needsMorePlanning": True, "missingInformation": ["Which lamp?"]}
    graph = build_plan_execute_verify(model=two_tasks(planner=[unclear] * 9))
    outcome = ask(graph, context=Context(interactive=False))["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("blocked", "MISSING_INFORMATION")
    assert "Which lamp?" in outcome["unmet"]


def test_a_plan_under_review_is_approved_edited_or_sent_back():
    model = two_tasks(
        planner=[plan(todo("1", "Find the colour")), plan(todo("1", "Find the owner"))],
        verifier=[passed("Ada owns it.", t1=["1.1.0"])],
    )
    graph = build_plan_execute_verify(model=model, tools=[shelf()], checkpointer=InMemorySaver())
    review = ask(graph, context=Context(review_plan=True))["__interrupt__"][0].value
    assert review["action_requests"][0]["args"]["todos"][0]["description"] == "Find the colour"
    again = graph.invoke(
        Command(resume="reject: the owner, please"), THREAD, context=Context(review_plan=True)
    )
    assert "the owner, please" in read_json(human(model.asked[1]), "improvements")[0]
    assert again["__interrupt__"]
    edited = {"todos": [todo("1", "Find the very owner")]}
    result = graph.invoke(
        Command(resume={"type": "edit", "args": edited}), THREAD, context=Context(review_plan=True)
    )
    assert result["outcome"]["tasks"][0]["description"] == "Find the very owner"
    assert result["outcome"]["status"] == "complete"


def test_a_plan_that_must_be_reviewed_does_not_run_where_nobody_can_review_it():
    look = shelf()
    graph = build_plan_execute_verify(model=two_tasks(), tools=[look])
    outcome = ask(graph, context=Context(review_plan=True))["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("blocked", "NOT_INTERACTIVE")
    assert look.calls == []
    assert [t["status"] for t in outcome["tasks"]] == ["pending", "pending"]


@pytest.mark.req("S0-62", "S0-58", "S0-77", "S0-153")
def test_a_failing_tool_is_data_and_the_run_goes_on():
    look = shelf()
    model = two_tasks(
        planner=[plan(todo("1", "Find the owner"))],
        executor=[
            [call("look", "a", name="colour"), call("look", "b", name="owner")],
            report("Ada; the colour is unknown."),
        ],
        verifier=[passed("Ada owns it.", t1=["1.1.1"])],
    )
    outcome = ask(build_plan_execute_verify(model=model, tools=[look]))["outcome"]
    assert outcome["status"] == "complete"
    assert sorted(look.calls) == ["colour", "owner"]
    tools = [m for m in model.asked[2].messages if m.type == "tool"]
    assert [(m.tool_call_id, m.status) for m in tools] == [("a", "error"), ("b", "success")]
    assert "there is no fact 'colour'" in tools[0].text


def test_skip_and_retry_are_honoured():
    look = shelf()
    model = two_tasks(
        executor=[
            [call("look", name="owner")],
            report("wrong way", taskCompleted=False, nextAction="retry"),
            [call("look", name="owner")],
            report("Ada."),
            report("The price is not needed.", taskCompleted=False, nextAction="skip"),
        ],
        verifier=[passed("Ada owns it.", t1=["1.3.0"], t2=[])],
    )
    outcome = ask(build_plan_execute_verify(model=model, tools=[look]))["outcome"]
    assert [t["status"] for t in outcome["tasks"]] == ["completed", "skipped"]
    assert outcome["status"] == "complete"
    after_retry = [a for a in model.asked if a.role == "executor"][2]
    assert [m.type for m in after_retry.messages] == ["system", "human", "human"]


def test_dependants_of_a_failed_task_do_not_run():
    model = two_tasks(
        planner=[plan(todo("1", "Find the colour", []), todo("2", "Paint", ["1"]))] * 9,
        executor=[report("unknown", taskCompleted=False, shouldContinue=False)] * 9,
        verifier=[failed("find the colour", t1=False, t2=False)] * 9,
    )
    outcome = ask(build_plan_execute_verify(model=model))["outcome"]
    assert [t["status"] for t in outcome["tasks"]] == ["failed", "blocked"]
    assert len([a for a in model.asked if a.role == "executor"]) == 2, "task 1 in two cycles"


@pytest.mark.req("S0-14", "S0-39", "S0-60")
def test_each_phase_task_and_call_can_be_watched():
    graph = build_plan_execute_verify(model=two_tasks(), tools=[shelf()])
    message = {"messages": [{"role": "user", "content": "Who owns it?"}]}
    seen = list(graph.stream(message, THREAD, stream_mode=["updates", "custom"]))
    nodes = [name for mode, data in seen if mode == "updates" for name in data]
    assert [n for n in nodes if n != "task"] == ["intake", "planner", "work", "verifier", "finish"]
    events = [data for mode, data in seen if mode == "custom"]
    phases = [(e["role"], e["action"]) for e in events if e["type"] == "phase"]
    assert phases == [
        ("planner", "planning"), *[("executor", "thinking")] * 4, ("verifier", "verifying"),
    ]  # fmt: skip
    doing = [(e["type"], e.get("action", e.get("status"))) for e in events]
    assert doing.index(("tool_call", "executing")) > doing.index(("phase", "thinking"))
    kinds = {event["type"] for event in events}
    assert {"phase", "plan", "task", "tool_call", "verdict", "outcome"} <= kinds
    tasks = [(e["id"], e["status"]) for e in events if e["type"] == "task"]
    assert tasks == [
        ("1", "in_progress"),
        ("1", "completed"),
        ("2", "in_progress"),
        ("2", "completed"),
    ]
    json.dumps(events)


def test_a_spent_allowance_ends_with_one_verdict_and_is_never_called_complete():
    model = two_tasks(verifier=[passed("Ada owns it.", t1=["1.1.0"])] * 9)
    result = ask(
        build_plan_execute_verify(model=model, tools=[shelf()]), context=Context(max_model_calls=3)
    )
    outcome = result["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("partial", "BUDGET")
    assert outcome["spend"]["model_calls"] <= 6
    assert chat_ui_drops(result) == []
    assert any("Find the price" in text for text in outcome["unmet"])


def test_an_ended_thread_is_taken_up_again_with_its_finished_tasks():
    look = shelf()
    model = two_tasks(
        planner=[plan(todo("1", "Find the owner"), todo("2", "Find the price"))] * 3,
        executor=[
            [call("look", name="owner")], report("Ada."),
            report("no", taskCompleted=False, shouldContinue=False),
            report("no", taskCompleted=False, shouldContinue=False),
            [call("look", name="price")], report("7 euro."),
        ],
        verifier=[
            *[failed("find the price", t2=False)] * 2,
            passed("Ada owns it, 7 euro.", t1=["1.1.0"], t2=["2.3.0"]),
        ],
    )  # fmt: skip
    graph = build_plan_execute_verify(model=model, tools=[look], checkpointer=InMemorySaver())
    assert ask(graph)["outcome"]["status"] == "stuck"
    outcome = graph.invoke(None, THREAD)["outcome"]
    assert outcome["status"] == "complete"
    assert look.calls == ["owner", "price"]
    assert outcome["spend"]["model_calls"] == 4, "the allowance starts afresh"
    assert outcome["spend"]["allowance"] == 2, "and the outcome says so"


@pytest.mark.req("P-28")
def test_braces_and_template_syntax_reach_the_model_unchanged():
    goal = "Use {x} {{businessContext}} %s ${HOME} <b> </request> {% if %}"
    model = two_tasks()
    ask(build_plan_execute_verify(model=model, tools=[shelf()]), goal)
    assert [a.role for a in model.asked] == ["planner", *["executor"] * 4, "verifier"]
    assert all(f"<request>\n{goal}\n</request>" in a.messages[1].text for a in model.asked)


@pytest.mark.req("W-72")
@pytest.mark.parametrize("cited", [["9.report"], ["1.1.0"]])
def test_a_task_whose_only_call_failed_is_not_done_under_another_id(cited):
    """Whatever the new plan calls it: words do not take the place of a call that failed."""
    model = two_tasks(
        planner=[plan(todo("1", "Find the colour")), *[plan(todo("9", "Look once more"))] * 2],
        executor=[
            [call("look", name="colour")],
            report("I cannot.", taskCompleted=False, shouldContinue=False),
            *[report("It is red.")] * 2,
        ],
        verifier=[failed("find it", t1=False), *[passed("It is red.", t9=cited)] * 9],
    )
    outcome = ask(build_plan_execute_verify(model=model, tools=[shelf()]))["outcome"]
    assert outcome["status"] != "complete"
    assert any("Look once more" in text or "prove" in text.lower() for text in outcome["unmet"])


@pytest.mark.req("W-72")
@pytest.mark.parametrize("how", ["unjudged", "refused", "agreed"])
def test_what_an_executor_left_out_is_judged_and_told(how):
    """Skipping is a claim too: only a verdict makes it a reason to be complete."""
    verdicts = {
        "unjudged": [passed("Ada owns it.", t1=["1.1.0"])] * 9,
        "refused": [failed("find the price", t2=False)] * 9,
        "agreed": [passed("Ada owns it.", t1=["1.1.0"], t2=[])],
    }
    skip = report("Nobody needs the price.", taskCompleted=False, nextAction="skip")
    model = two_tasks(
        planner=[plan(todo("1", "Find the owner"), todo("2", "Find the price"))] * 3,
        executor=[[call("look", name="owner")], report("Ada."), *[skip] * 3],
        verifier=verdicts[how],
    )
    graph = build_plan_execute_verify(model=model, tools=[shelf()], checkpointer=InMemorySaver())
    outcome = ask(graph)["outcome"]
    told = graph.get_state(THREAD).values["turn_state"].get("warnings", [])
    if how == "agreed":
        assert (outcome["status"], outcome["unmet"]) == ("complete", [])
        assert [t["status"] for t in outcome["tasks"]] == ["completed", "skipped"]
        assert outcome["tasks"][1]["result"] == "Nobody needs the price."
        assert any("'2' was skipped" in text and "Nobody needs" in text for text in told)
    else:
        assert outcome["status"] == "stuck"
        assert any("Find the price" in text for text in outcome["unmet"])


@pytest.mark.req("W-72")
def test_a_task_whose_call_failed_is_not_done_by_leaving_it_out():
    model = two_tasks(
        planner=[plan(todo("1", "Find the colour"))] * 3,
        executor=[
            [call("look", name="colour")],
            *[report("Needless.", taskCompleted=False, nextAction="skip")] * 3,
        ],
        verifier=[passed("It needs no colour.", t1=[])] * 9,
    )
    outcome = ask(build_plan_execute_verify(model=model, tools=[shelf()]))["outcome"]
    assert outcome["status"] != "complete"
