"""Whole runs of the router on a scripted model and SQLite."""

import pytest
from langchain_core.tools import tool

from loopwright import (
    Hook,
    ScriptedModel,
    ThreadIncompatible,
    build_react,
    build_router,
    open_durability,
)
from support.front_ends import chat_ui_drops
from support.reacting import THREAD, of, roles, said, shelf
from support.routed import TRIVIAL
from support.scripts import call, failed, passed, plan, report, thought, todo

NEEDS = '<agent_meta>{"shouldContinue": true, "reason": "the owner must be looked up"}</agent_meta>'
GOAL = "Look up who owns it"


def writer():
    """A tool that changes the world, and what was called."""
    calls = []

    def jot(text: str) -> str:
        """Jot a text down."""
        calls.append(text)
        return f"noted {text}"

    jot.calls = calls
    return jot


def read_only(function):
    made = tool(function)
    made.metadata = {"readOnlyHint": True}
    return made


def looping(*calls):
    """What a react model says that goes round in circles, after these calls."""
    again = thought("I look again.", more=True, reason="unknown")
    return {
        "thought": [again] * 30,
        "action": [[one] for one in calls] + [[call("look", name="nothing")]] * 30,
        "observation": ["Nothing there."] * 40,
    }


@pytest.mark.req("P-41")
@pytest.mark.parametrize("words", TRIVIAL[::4])
def test_a_trivial_request_asks_one_model_and_plans_nothing(words):
    model = ScriptedModel({"responder": ["A short answer."]})
    result = build_router(model=model, tools=[shelf(), writer()]).invoke(said(words))
    assert result["outcome"]["status"] == "complete", result["outcome"]
    assert roles(model) == ["responder"]
    assert [m.type for m in result["messages"]] == ["human", "ai"]
    (one,) = result["outcome"]["tried"]
    assert (one["graph"], one["status"], one["model_calls"]) == ("direct", "complete", 1)


def test_a_small_request_that_a_tool_fits_is_given_to_react_without_a_choice():
    model = ScriptedModel(
        {
            "thought": [thought("I look.", more=True, reason="unknown"), thought("Ada owns it.")],
            "action": [[call("look", name="owner")]],
            "observation": ["Ada."],
        }
    )
    result = build_router(model=model, tools=[shelf(), writer()]).invoke(said(GOAL))
    assert result["outcome"]["answer"] == "Ada owns it."
    assert roles(model) == ["thought", "action", "thought"]
    (one,) = result["outcome"]["tried"]
    assert (one["graph"], one["why"]) == ("react", "a small request that a tool fits")


def test_who_answers_directly_may_say_that_tools_are_needed():
    model = ScriptedModel(
        {
            "responder": [NEEDS],
            "thought": [thought("I look.", more=True, reason="unknown"), thought("Ada owns it.")],
            "action": [[call("look", name="owner")]],
            "observation": ["Ada."],
        }
    )
    result = build_router(model=model, tools=[shelf()]).invoke(said("Whose is it?"))
    assert [one["graph"] for one in result["outcome"]["tried"]] == ["direct", "react"]
    assert "the owner must be looked up" in result["outcome"]["tried"][1]["why"]
    assert result["outcome"]["status"] == "complete", result["outcome"]
    assert "agent_meta" not in str(result["messages"])
    assert all("shouldContinue" not in str(m.content) for m in of(model, "thought")[0].messages[1:])


@pytest.mark.req("S2-46", "S2-47")
def test_a_stronger_graph_reuses_the_reads_and_repeats_no_write(tmp_path):
    look, note = shelf(), writer()
    model = ScriptedModel(
        looping(call("jot", text="Ada"), call("look", name="owner"))
        | {
            "agent": [
                [call("look", name="owner")],
                [call("jot", text="Ada")],
                [call("complete_task", summary="Ada owns it; noted.")],
            ],
        }
    )
    events = []
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = build_router(model=model, tools=[read_only(look), note], durability=kept)
        for _, event in graph.stream(said(GOAL), THREAD, stream_mode=["custom"]):
            events.append(event)
        result = graph.get_state(THREAD).values
        with pytest.raises(ThreadIncompatible, match="the graph 'react' does not have"):
            build_react(model=model, durability=kept).invoke(said(), THREAD)
    outcome = result["outcome"]
    assert outcome["status"] == "complete", outcome
    assert outcome["answer"] == result["messages"][-1].text == "Ada owns it; noted."
    tried = [(one["graph"], one["reason"]) for one in outcome["tried"]]
    assert tried == [("react", "LOOP_DETECTED"), ("task_agent", "GOAL")]
    assert note.calls == ["Ada"], "the write is answered from the journal"
    assert look.calls.count("owner") == 1, "the read is reused"
    routes = [(e["graph"], e["why"]) for e in events if e.get("type") == "route"]
    assert [graph for graph, _ in routes] == ["react", "task_agent"]
    assert routes[1][1] == "react ended with LOOP_DETECTED"
    told = of(model, "agent")[0].messages[0].text
    assert "worked on this request before you" in told
    assert sum(e.get("type") == "outcome" for e in events) == 1
    assert outcome["spend"]["model_calls"] == len(model.asked)


def test_a_share_of_the_budget_is_the_cheaper_graphs_and_the_total_is_kept(tmp_path):
    model = ScriptedModel(
        looping() | {"agent": [[call("complete_task", summary="Ada owns it.")]] * 3}
    )
    graph = build_router(model=model, tools=[shelf()])
    settings = {"max_model_calls": 12, "loop_repeats": 50, "route_share": 0.5}
    outcome = graph.invoke(said(GOAL), context=settings)["outcome"]
    first = outcome["tried"][0]
    assert (first["graph"], first["reason"]) == ("react", "BUDGET")
    assert first["model_calls"] <= 7, "its share, and the call it may end with"
    assert outcome["tried"][1]["graph"] == "task_agent"
    assert len(model.asked) <= 12
    spent = build_router(model=ScriptedModel(looping()), tools=[shelf()]).invoke(
        said(GOAL), context={"max_model_calls": 3, "route_share": 1.0}
    )["outcome"]
    assert [o["graph"] for o in spent["tried"]] == ["react"], "nothing is left for a stronger one"
    assert spent["reason"] == "BUDGET"


def test_what_a_human_denied_is_not_tried_by_a_stronger_graph(tmp_path):
    note = writer()
    model = ScriptedModel(
        {
            "thought": [thought("I note it.", more=True, reason="r"), thought("It was denied.")],
            "action": [[call("jot", text="Ada")]],
            "observation": ["denied"],
        }
    )
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = build_router(model=model, tools=[note], policy="deny", durability=kept)
        outcome = graph.invoke(said("Jot Ada down"), THREAD)["outcome"]
    assert [o["graph"] for o in outcome["tried"]] == ["react"]
    assert (outcome["status"], note.calls) == ("blocked", [])


@pytest.mark.parametrize(
    "answers",
    [
        ["no idea", "still none"],
        [{"graph": "customer_service"}, {"graph": "../../etc"}],
    ],
)
def test_a_dispatcher_that_answers_garbage_costs_two_calls_and_decides_nothing(answers):
    model = ScriptedModel({"dispatcher": answers, "thought": [thought("Done: Ada owns it.")]})
    words = "Find who owns it. Note it. Then tell Bob."
    outcome = build_router(model=model, tools=[shelf()]).invoke(said(words))["outcome"]
    assert outcome["tried"][0]["graph"] == "react"
    assert len(of(model, "dispatcher")) == 2
    assert outcome["status"] == "complete", outcome


def test_hooks_of_the_turn_run_once_and_a_rejected_answer_is_made_anew():
    fired = []

    def before(event):
        fired.append("before")

    def after(event):
        fired.append("after")
        if len([one for one in fired if one == "after"]) == 1:
            return {"decision": "block", "reason": "say the year"}
        return None

    model = ScriptedModel(
        {
            "thought": [
                thought("I look.", more=True, reason="unknown"),
                thought("Ada owns it."),
                thought("Ada owns it since 1843."),
            ],
            "action": [[call("look", name="owner")]],
            "observation": ["Ada."],
            "responder": ['{"owner": "Ada"}'],
        }
    )
    hooks = [Hook(event="BeforeAgent", run=before), Hook(event="AfterAgent", run=after)]
    schema = {"type": "object", "properties": {"owner": {"type": "string"}},
              "required": ["owner"]}  # fmt: skip
    graph = build_router(model=model, tools=[shelf()], hooks=hooks, result_schema=schema)
    outcome = graph.invoke(said(GOAL))["outcome"]
    assert fired == ["before", "after", "after"]
    assert outcome["answer"] == "Ada owns it since 1843."
    assert "say the year" in str([m.text for m in of(model, "thought")[-1].messages])
    assert outcome["result"] == {"owner": "Ada"}
    assert [o["graph"] for o in outcome["tried"]] == ["react", "react"]
    assert roles(model).count("responder") == 1, "the typed result is made once"


def test_a_resume_goes_on_in_the_graph_that_had_the_work(tmp_path):
    note = writer()
    model = ScriptedModel(
        {
            "dispatcher": [{"graph": "plan_execute_verify", "why": "two deliverables"}],
            "planner": [
                plan(todo("1", "note Ada", []), todo("2", "note Bob", ["1"])),
                plan(todo("1", "note Ada", []), todo("2", "note Bob", ["1"])),
            ],
            "executor": [
                [call("jot", text="Ada")], report("noted Ada"),
                [call("jot", text="Bob")], report("noted Bob"),
            ],
            "verifier": [
                failed("note Bob as well", t1=True, t2=False),
                passed("Both are noted.", t1=["1.1.0"], t2=["2.1.0"]),
            ],
        }
    )  # fmt: skip
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = build_router(model=model, tools=[note], durability=kept)
        words = "Note Ada. Then note Bob. Verify both."
        first = graph.invoke(said(words), THREAD, context={"max_tool_calls": 1})["outcome"]
        assert first["status"] == "partial", first
        second = graph.invoke(None, THREAD)["outcome"]
    assert second["status"] == "complete", second
    assert note.calls == ["Ada", "Bob"]
    assert len(of(model, "dispatcher")) == 1
    assert second["tried"][0]["why"] == "it has the work already"


def test_what_no_tool_can_is_passed_on_to_nobody_and_a_part_undone_gives_way_once():
    """Offline nothing is answered by words alone, and no graph does what no tool can."""
    for goal in ("Hello!", "Who is the president?"):
        values = build_router(tools=[shelf()]).invoke(said(goal))
        undone = values["outcome"]
        assert (values["messages"][-1].text, chat_ui_drops(values)) == (undone["answer"], [])
        tried = [(o["graph"], o["reason"], o["model_calls"]) for o in undone["tried"]]
        assert tried == [("direct", "MISSING_INFORMATION", 1)]
    goal = 'Look up "Juno", and tell me who is the president'
    partly = build_router(tools=[shelf()]).invoke(said(goal))["outcome"]
    assert [o["graph"] for o in partly["tried"]] == ["react", "task_agent"]
    assert partly["status"] == "partial"
