"""How the work of an agent ends: by complete_task, by a limit, by words alone, by somebody."""

import json
import time

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel

from loopwright import (
    AgentDefinition,
    AgentLimits,
    Context,
    Hook,
    ScriptedModel,
    SettingsError,
    build_task_agent,
    open_durability,
)
from support.reacting import THREAD, said, shelf
from support.scripts import call

LOOK = [call("look", name="owner")]
LENIENT = AgentDefinition(lenient=True)
HELPER = AgentDefinition(name="helper", description="Helps.")


def done(summary="Ada owns it.", **more):
    return [call("complete_task", summary=summary, **more)]


def ended(turns, context=None, tools=None, **options):
    """The outcome of a run, its messages, and the model that was asked."""
    model = turns if isinstance(turns, ScriptedModel) else ScriptedModel(turns)
    graph = build_task_agent(model=model, tools=[shelf()] if tools is None else tools, **options)
    values = graph.invoke(said(), THREAD, context=context or Context())
    return values["outcome"], values["messages"], model


def endless(last=None):
    """A model that looks at something new each turn; its last words, where it has one turn left."""
    number = iter(range(1_000))

    def answer(messages, offered):
        if offered == ["complete_task"]:
            return last or done("So far: some facts.", unmet=["the rest"])
        return [call("look", name=f"f{next(number)}")]

    return ScriptedModel(answer)


NOTHING = [call("look", name="nothing")]
ENDS = {
    "success": ([LOOK, done()], None, "complete", "GOAL"),
    "success without a call": ([done()], None, "complete", "GOAL"),
    "partial": ([LOOK, done(status="partial", unmet=["the price"])], None, "partial", "GOAL"),
    "partial alone": ([done("Half of it.", status="partial")], None, "partial", "GOAL"),
    "blocked": ([LOOK, done("I need a key.", status="blocked")], None, "blocked",
                "MISSING_INFORMATION"),
    "success in vain": ([NOTHING, done()], None, "stuck", "SAME_BLOCKERS"),
    "lenient": ([LOOK, "Ada owns it."], LENIENT, "complete", "GOAL"),
    "lenient with complete_task": ([done()], LENIENT, "complete", "GOAL"),
    "words once": ([LOOK, "Ada.", done()], None, "complete", "GOAL"),
    "words twice, saved": (["Ada.", "Ada!", done()], None, "partial",
                           "ERROR_NO_COMPLETE_TASK_CALL"),
    "words thrice": (["Ada.", "Ada!", "Ada it is."], None, "failed",
                     "ERROR_NO_COMPLETE_TASK_CALL"),
    "words, a call, words": (["Hm.", LOOK, "Hm!", done()], None, "complete", "GOAL"),
}  # fmt: skip


@pytest.mark.req("S3-01", "S3-07", "S3-41", "S3-42", "S4-11", "S4-12", "S4-65")
@pytest.mark.parametrize("name", ENDS)
def test_the_end_is_what_the_agent_says_and_nothing_else(name):
    turns, definition, status, reason = ENDS[name]
    outcome, messages, model = ended(turns, definition=definition)
    assert (outcome["status"], outcome["reason"]) == (status, reason)
    assert outcome["answer"] == messages[-1].text
    assert bool(outcome["unmet"]) == (status not in ("complete", "failed")) or "words" in name
    assert outcome["resume"] is None if status == "complete" else outcome["resume"]
    assert len(model.asked) == len(turns)
    if "twice" in name or "thrice" in name:
        assert model.asked[-1].tools == ["complete_task"]
        assert "last turn" in model.asked[-1].messages[-1].text
        assert model.asked[1].messages[-1].text.startswith("You called no tool")
    calls = [c["id"] for m in messages if m.type == "ai" for c in m.tool_calls]
    assert sorted(calls) == sorted(m.tool_call_id for m in messages if m.type == "tool")


@pytest.mark.req("S3-04")
def test_neither_silence_nor_results_nor_repetition_of_words_end_the_work():
    """60 turns without anything new to say, files written: only complete_task ends it."""
    look = shelf()
    turns = [[call("look", name=f"f{n}")] for n in range(60)]
    model = ScriptedModel({"agent": [*turns, done()], "loop_judge": [{"confidence": 0}] * 9})
    outcome, _, _ = ended(model, tools=[look])
    assert outcome["status"] == "complete"
    assert len(look.calls) == 60


LIMITS = {
    "turns": (AgentLimits(turns=3), Context(), "MAX_TURNS", 3),
    "turns of the run": (AgentLimits(turns=30), Context(max_turns=4), "MAX_TURNS", 4),
    "tool calls": (AgentLimits(tool_calls=2), Context(), "BUDGET", 2),
    "tool calls of the run": (AgentLimits(tool_calls=20), Context(max_tool_calls=3), "BUDGET", 3),
    "model calls of the run": (AgentLimits(), Context(max_model_calls=3), "BUDGET", 3),
}


@pytest.mark.req("S3-14", "S3-26", "S4-02", "S4-06", "S4-46", "S4-65", "P-01", "P-24")
@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_leaves_one_turn_in_which_only_complete_task_can_be_called(name):
    limits, context, reason, calls = LIMITS[name]
    look, model = shelf(), endless()
    definition = AgentDefinition(limits=limits)
    outcome, messages, _ = ended(model, context, [look], definition=definition)
    assert (outcome["status"], outcome["reason"]) == ("partial", reason)
    assert outcome["answer"] == messages[-1].text == "So far: some facts."
    assert "the rest" in outcome["unmet"]
    assert len(outcome["unmet"]) >= 2, "and the limit itself"
    assert len(look.calls) == calls
    assert [asked.tools == ["complete_task"] for asked in model.asked].index(True) == (
        len(model.asked) - 1
    )


def slow():
    def look(name: str) -> str:
        """Look up a fact."""
        time.sleep(0.3)
        return f"fact {name}"

    return StructuredTool.from_function(look, metadata={"readOnlyHint": True})


@pytest.mark.req("S4-10", "S4-65")
def test_time_is_up_while_work_goes_on_and_stands_still_while_a_human_decides(tmp_path):
    limits = AgentDefinition(limits=AgentLimits(seconds=0.2))
    outcome, _, _ = ended(endless(), tools=[slow()], definition=limits)
    assert (outcome["status"], outcome["reason"]) == ("partial", "TIMEOUT")
    model = ScriptedModel([LOOK, done()])
    began, waited = time.monotonic(), 0.0
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = build_task_agent(model=model, tools=[shelf()], durability=kept, policy="ask")
        assert "__interrupt__" in graph.invoke(said(), THREAD)
        waited -= time.monotonic()
        time.sleep(0.4)
        waited += time.monotonic()
        outcome = graph.invoke(Command(resume="approve"), THREAD)["outcome"]
    assert outcome["status"] == "complete"
    assert outcome["spend"]["seconds"] <= time.monotonic() - began - waited


@pytest.mark.req("S3-14", "P-01", "P-24")
def test_limits_hold_across_questions_and_resumes(tmp_path):
    """Four turns, three of which ask: each resume goes on counting where the run rested."""
    look, model = shelf(), endless()
    definition = AgentDefinition(limits=AgentLimits(turns=4))
    for _ in range(4):
        with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
            graph = build_task_agent(
                model=model, tools=[look], durability=kept, policy="ask", definition=definition
            )
            asked = graph.get_state(THREAD).interrupts
            values = graph.invoke(Command(resume="approve") if asked else said(), THREAD)
    assert "__interrupt__" in values
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = build_task_agent(
            model=model, tools=[look], durability=kept, policy="ask", definition=definition
        )
        outcome = graph.invoke(Command(resume="approve"), THREAD)["outcome"]
        assert (outcome["status"], outcome["reason"]) == ("partial", "MAX_TURNS")
        assert (len(look.calls), outcome["spend"]["model_calls"]) == (4, 5)
        again = graph.invoke(None, THREAD)  # taken up again: a fresh allowance, the old words
        assert "__interrupt__" in again
        assert graph.get_state(THREAD).values["turn_state"]["allowance"] == 2
        assert len([m for m in model.asked[-1].messages if m.type == "tool"]) >= 5


class Owner(BaseModel):
    name: str
    since: int


@pytest.mark.req("S4-18", "S4-20", "S4-46")
def test_an_output_that_does_not_fit_is_sent_back_and_the_loop_goes_on():
    definition = AgentDefinition(output=Owner, output_name="the owner")
    turns = [
        done(),
        done(output={"name": "Ada"}),
        done(output={"name": "Ada", "since": "1843"}),
    ]
    outcome, messages, _ = ended(turns, definition=definition)
    assert outcome["result"] == {"name": "Ada", "since": 1843}
    refused = [m for m in messages if m.type == "tool" and m.status == "error"]
    assert len(refused) == 2
    assert "output" in refused[0].text
    assert "since" in refused[1].text
    outcome, _, _ = ended([done("No owner.", status="blocked")], definition=definition)
    assert (outcome["status"], outcome["result"]) == ("blocked", None)


def test_an_output_that_is_no_schema_is_refused_when_the_graph_is_built():
    with pytest.raises(SettingsError, match="output= is neither"):
        build_task_agent(definition=AgentDefinition(output=7))


@pytest.mark.req("S3-05", "S3-40", "S4-21")
def test_complete_task_runs_behind_the_calls_of_its_message_and_only_if_they_went_well():
    look = shelf()
    together = [*done(), call("look", "call_1", name="owner")]
    outcome, messages, _ = ended([together], tools=[look])
    assert outcome["status"] == "complete"
    assert look.calls == ["owner"]
    failing = [*done(), call("look", "call_1", name="nothing")]
    outcome, messages, model = ended([failing, LOOK, done("Ada.")])
    assert outcome["answer"] == "Ada."
    (refused,) = [m for m in messages if m.type == "tool" and "not accepted" in m.text]
    assert "look (agent.1.1)" in refused.text
    assert len(model.asked) == 3


@pytest.mark.req("S4-20")
@pytest.mark.parametrize(("word", "turns"), [("approve", 1), ("reject: not today", 2)])
def test_complete_task_waits_for_the_calls_beside_it_that_a_human_decides_on(word, turns):
    model = ScriptedModel([[*done(), call("look", "call_1", name="owner")], done("Nobody knows.")])
    graph = build_task_agent(
        model=model, tools=[shelf()], policy="ask", checkpointer=InMemorySaver()
    )
    (question,) = graph.invoke(said(), THREAD)["__interrupt__"]
    assert question.value["action_requests"][0]["name"] == "look", "nobody is asked about the end"
    graph.invoke(Command(resume=word), THREAD)
    assert len(model.asked) == turns


@pytest.mark.req("S4-19")
def test_a_tool_outside_the_list_is_unauthorized_and_the_loop_goes_on():
    def erase(name: str) -> str:
        """Erase a fact."""
        raise AssertionError(name)

    definition = AgentDefinition(tools=("loo*",))
    turns = [[call("erase", name="owner")], LOOK, done()]
    outcome, messages, model = ended(turns, tools=[shelf(), erase], definition=definition)
    assert outcome["status"] == "complete"
    assert model.asked[0].tools[0] == "look"
    assert model.asked[0].tools[-1] == "complete_task"
    (refused, *_) = [m for m in messages if m.type == "tool"]
    assert refused.text.startswith("Unauthorized")
    assert refused.status == "error"


@pytest.mark.req("S4-19", "S4-20")
def test_a_misspelt_end_is_told_the_name_and_two_ends_are_one():
    twice = [*done("Ada."), call("complete_task", "call_1", summary="Ada it is.")]
    outcome, messages, _ = ended([LOOK, [call("Complete_Task", summary="Ada.")], twice])
    assert (outcome["status"], outcome["answer"]) == ("complete", "Ada it is.")
    assert "complete_task" in [m.text for m in messages if m.type == "tool"][1]


@pytest.mark.req("W-131")
@pytest.mark.parametrize("statuses", [("blocked", "success"), ("success", "blocked")])
def test_two_ends_that_contradict_each_other_end_nothing(statuses):
    both = [call("complete_task", s, summary="So.", status=s, unmet=["x"]) for s in statuses]
    blocked = [call("complete_task", "c", summary="I may not.", status="blocked")]
    outcome, messages, _ = ended([LOOK, both, blocked])
    assert (outcome["status"], outcome["answer"]) == ("blocked", "I may not.")
    told = [m.text for m in messages if m.type == "tool" and m.status == "error"]
    assert len(told) == 2
    assert all("different statuses" in text for text in told)


@pytest.mark.req("S4-22")
def test_a_call_without_an_id_is_given_one():
    bare = AIMessage("", tool_calls=[{"name": "look", "args": {"name": "owner"}, "id": None}])
    outcome, messages, _ = ended([bare, done()])
    assert outcome["status"] == "complete"
    (made, *_) = [c["id"] for m in messages if m.type == "ai" for c in m.tool_calls]
    assert made


@pytest.mark.req("S4-08", "S4-14", "S4-17")
def test_each_model_turn_has_an_id_in_events_messages_and_traces():
    model, seen = ScriptedModel([LOOK, done()]), []
    from langchain_core.callbacks import BaseCallbackHandler  # noqa: PLC0415

    class Tracer(BaseCallbackHandler):
        def on_chat_model_start(self, *_, metadata=None, **__):
            seen.append((metadata or {}).get("loopwright/model_turn"))

        def on_tool_start(self, *_, metadata=None, **__):
            seen.append((metadata or {}).get("loopwright/model_turn"))

    graph = build_task_agent(model=model, tools=[shelf()])
    told, values = [], {}
    for mode, chunk in graph.stream(
        said(), {"callbacks": [Tracer()]}, stream_mode=["custom", "values"]
    ):
        told.append(chunk) if mode == "custom" else (values := chunk)
    assert seen == ["agent#1", "agent#1", "agent#2"]
    named = [(e["type"], e["model_turn"]) for e in told if e["type"] in ("phase", "model")]
    assert named == [(kind, f"agent#{n}") for n in (1, 2) for kind in ("phase", "model")]
    (start,) = [e for e in told if e.get("status") == "executing" and e.get("tool") == "look"]
    assert (start["model_turn"], start["arguments"]) == ("agent#1", {"name": "owner"})
    of_agent = [m for m in values["messages"] if m.type == "ai" and m.tool_calls]
    assert [m.additional_kwargs["model_turn"] for m in of_agent] == ["agent#1", "agent#2"]


@pytest.mark.req("S4-04")
def test_the_tier_is_the_agents_unless_the_run_says_otherwise():
    fast, strong = ScriptedModel([done("fast")]), ScriptedModel([done("strong")])
    build = {"model": {"fast": fast, "powerful": strong, "balanced": strong}}
    graph = build_task_agent(definition=AgentDefinition(tier="fast"), **build)
    assert graph.invoke(said())["outcome"]["answer"] == "fast"
    strict = Context(tiers={"agent": "powerful"})
    assert graph.invoke(said(), context=strict)["outcome"]["answer"] == "strong"


@pytest.mark.req("P-15")
def test_requests_only_grow_also_over_turns_nudges_and_rejections():
    rejected = []

    def judge(given):
        if rejected:
            return {}
        rejected.append(given["prompt_response"])
        return {"decision": "deny", "reason": "say it shorter"}

    turns = [LOOK, "Hm.", done(), done("Ada."), LOOK, done("Still Ada.")]
    model = ScriptedModel(turns)
    graph = build_task_agent(
        model=model, tools=[shelf()], checkpointer=InMemorySaver(),
        hooks=[Hook(event="AfterAgent", run=judge)],
    )  # fmt: skip
    for _ in range(2):
        assert graph.invoke(said(), THREAD)["outcome"]["status"] == "complete"
    assert len(model.asked) == len(turns)

    def bare(asked):
        return [(m.type, m.text, json.dumps(getattr(m, "tool_calls", ""))) for m in asked.messages]

    for before, after in zip(model.asked, model.asked[1:], strict=False):
        assert bare(after)[: len(bare(before))] == bare(before)
        assert after.tools == before.tools
    assert any("say it shorter" in text for _, text, _ in bare(model.asked[3]))


NAMES = [
    "complete_task", "delegate_to_agent", "write_todos", "recall", "note",
    "summarize_and_continue", "find_tools", "read_result",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_tool_of_the_program_named_like_one_of_ours_is_refused(name):
    theirs = StructuredTool.from_function(lambda text: text, name=name, description="Theirs.")
    with pytest.raises(SettingsError, match=f"'{name}'.* rename it"):
        build_task_agent(tools=[theirs], agents=[HELPER])
