"""Whole runs of the router on a scripted model and SQLite."""

import asyncio

import pytest
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import (
    Hook,
    ScriptedModel,
    ThreadIncompatible,
    build_react,
    build_router,
    hook,
    open_durability,
)
from loopwright.text.sentences import say
from support.front_ends import chat_ui_drops
from support.oracle import GOALS, REACT_CALLS, RIGHT, run_goal
from support.reacting import THREAD, of, roles, said, shelf
from support.routed import chosen
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
    return chosen() | {
        "thought": [again] * 30,
        "action": [[one] for one in calls] + [[call("look", name="nothing")]] * 30,
        "observation": ["Nothing there."] * 40,
    }


@pytest.mark.req("W-117")
def test_fresh_goals_cost_seven_tenths_of_react_and_none_goes_without_its_tool():
    tried = [(goal, run_goal(goal, build_router)) for goal in GOALS]
    for goal, one in tried:
        assert (one.outcome["status"], one.missed) == ("complete", {}), goal
        assert [way["graph"] for way in one.outcome["tried"]] == [RIGHT[goal["needs"]]], goal
    assert len(tried) == 60
    assert sum(one.calls for _, one in tried) <= 0.7 * REACT_CALLS


@pytest.mark.req("P-41")
@pytest.mark.parametrize("words", ["Hello!", "法国的首都是哪里？"])
def test_the_dispatcher_may_answer_in_the_call_that_chooses(words):
    model = ScriptedModel(chosen("direct", answer="A short answer."))
    graph = build_router(model=model, tools=[shelf(), writer()])
    streamed = [*graph.stream(said(words), stream_mode=["messages", "values"])]
    result = [part for mode, part in streamed if mode == "values"][-1]
    assert result["outcome"]["status"] == "complete", result["outcome"]
    assert roles(model) == ["dispatcher"]
    assert [m.type for m in result["messages"]] == ["human", "ai"]
    assert result["messages"][-1].text == result["outcome"]["answer"] == "A short answer."
    pieces = [part[0] for mode, part in streamed if mode == "messages"]
    answers = [piece.text for piece in pieces if piece.id == result["messages"][-1].id]
    assert (len(answers) > 1, "".join(answers)) == (True, "A short answer.")
    (one,) = result["outcome"]["tried"]
    assert (one["graph"], one["status"], one["model_calls"]) == ("direct", "complete", 1)


def test_a_graph_wins_over_an_answer_and_the_step_is_its_first_thought():
    step, guess = "I look up the owner with look.", "Bob, I guess."
    model = ScriptedModel(
        chosen(step=step, answer=guess)
        | {"action": [[call("look", name="owner")]], "thought": [thought("Ada owns it.")]}
    )
    result = build_router(model=model, tools=[shelf(), writer()]).invoke(said(GOAL))
    assert result["outcome"]["answer"] == "Ada owns it."
    assert roles(model) == ["dispatcher", "action", "thought"]
    assert [m.text for m in of(model, "action")[0].messages[-2:]] == [step, say("take_this_step")]
    assert guess not in str([m.text for m in result["messages"]])
    (one,) = result["outcome"]["tried"]
    assert (one["graph"], one["why"]) == ("react", "it fits")


def test_without_tools_nobody_is_asked_for_a_choice():
    model = ScriptedModel({"responder": ["A short answer."]})
    outcome = build_router(model=model).invoke(said("Plan and prove all of it."))["outcome"]
    assert (outcome["status"], roles(model)) == ("complete", ["responder"])
    assert outcome["tried"][0]["why"] == "there are no tools"


@pytest.mark.parametrize(
    ("words", "answer"), [("Whose is it?", ""), ("Whose is it? " + "x" * 6_000, "It is x.")]
)
def test_who_answers_directly_may_say_that_tools_are_needed(words, answer):
    """A request that the dispatcher has not read to its end is not answered by it."""
    model = ScriptedModel(
        chosen("direct", answer=answer)
        | {
            "responder": [NEEDS],
            "thought": [thought("I look.", more=True, reason="unknown"), thought("Ada owns it.")],
            "action": [[call("look", name="owner")]],
        }
    )
    result = build_router(model=model, tools=[shelf()]).invoke(said(words))
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
        chosen(step="I note it.")
        | {"action": [[call("jot", text="Ada")]], "thought": [thought("It was denied.")]}
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


@pytest.mark.parametrize("way", ["react", "direct"])
def test_hooks_of_the_turn_run_once_and_a_rejected_answer_is_made_anew(way):
    fired, direct = [], way == "direct"

    def before(event):
        fired.append("before")

    def after(event):
        fired.append("after")
        if len([one for one in fired if one == "after"]) == 1:
            return {"decision": "block", "reason": "say the year"}
        return None

    again = "Ada owns it since 1843."
    model = ScriptedModel(
        chosen(way, step="I look.", answer="Ada owns it.")
        | {
            "action": [[call("look", name="owner")]],
            "thought": [thought("Ada owns it."), thought(again)],
            "responder": [again] * direct + ['{"owner": "Ada"}'],
        }
    )
    hooks = [Hook(event="BeforeAgent", run=before), Hook(event="AfterAgent", run=after)]
    schema = {"type": "object", "properties": {"owner": {"type": "string"}},
              "required": ["owner"]}  # fmt: skip
    graph = build_router(model=model, tools=[shelf()], hooks=hooks, result_schema=schema)
    outcome = graph.invoke(said(GOAL))["outcome"]
    assert fired == ["before", "after", "after"]
    assert outcome["answer"] == again
    asked = of(model, "responder" if direct else "thought")[0 if direct else -1]
    assert "say the year" in str([m.text for m in asked.messages])
    assert outcome["result"] == {"owner": "Ada"}
    assert [o["graph"] for o in outcome["tried"]] == [way, way]
    assert roles(model).count("responder") == 1 + direct, "the typed result is made once"


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
        assert (undone["reason"], undone["tried"]) == ("MISSING_INFORMATION", [])
        assert undone["spend"]["model_calls"] == 1
    goal = 'Look up "Juno", and tell me who is the president'
    partly = build_router(tools=[shelf()]).invoke(said(goal))["outcome"]
    assert [o["graph"] for o in partly["tried"]] == ["react", "task_agent"]
    assert partly["status"] == "partial"


def test_a_stop_behind_the_dispatchers_answer_ends_as_cancelled():
    built = []

    @hook("AfterModel")
    async def stop(_):
        await built[0].astop(THREAD)

    answers = [{"graph": "direct", "why": "known", "answer": "Ada owns the lamp."}]
    model = ScriptedModel({"dispatcher": answers})
    built.append(
        build_router(model=model, tools=[shelf()], hooks=[stop], checkpointer=InMemorySaver())
    )
    outcome = asyncio.run(built[0].ainvoke(said(), THREAD))["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("cancelled", "ABORTED")
