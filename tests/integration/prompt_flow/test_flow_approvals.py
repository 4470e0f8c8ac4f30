"""Questions about single steps of a plan: which are asked, when, and who waits for the answer."""

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import build_prompt_flow
from support.flows import (
    THREAD,
    World,
    answer,
    asked,
    asking,
    decide,
    declared,
    ended,
    failing_once,
    flow,
    look,
    planning,
    put,
    raising,
    roles,
    said,
    step,
    steps_by_id,
)
from support.front_ends import chat_ui_sends
from support.mcp_servers import stdio


@pytest.mark.req("P-02")
def test_writes_are_asked_about_one_at_a_time_and_each_runs_before_the_next_question():
    world = World()
    model = planning(flow(put("w1", 1), put("w2", 2), put("w3", "{{w2.put}}")))
    graph = asking(world, model)
    question = asked(graph.invoke(said(), THREAD))
    for place, name in enumerate(["w1", "w2", "w3"]):
        assert question["task"] == name
        assert len(graph.get_state(THREAD).interrupts) == 1
        assert len(world.done("put")) == place
        result = answer(graph)
        question = asked(result) if "__interrupt__" in result else {}
    assert question == {}
    assert ended(result["outcome"]) == ("complete", "GOAL")
    assert world.done("put") == [1, 2, 2]


def test_the_question_shows_the_values_and_not_the_references():
    world = World(a={"sum": 42})
    graph = asking(world, planning(flow(look("a", "a"), put("w", "pay {{a.sum}}"))))
    question = asked(graph.invoke(said(), THREAD))
    assert question["action_request"]["args"] == {"what": "pay 42"}
    assert ended(answer(graph)["outcome"]) == ("complete", "GOAL")
    assert world.done("put") == ["pay 42"]


def test_reads_go_on_while_a_question_waits_and_the_writes_behind_it_wait():
    world = World()
    graph = asking(
        world,
        planning(
            flow(
                put("w1", "ask"),
                step("free", "free", arguments={"what": "not asked about"}),
                look("r1", "on its own"),
                look("r2", "{{r1.of}}, too"),
                look("r3", "{{w1.put}} is done"),
            )
        ),
        tools=[free_write(world)],
    )
    asked(graph.invoke(said(), THREAD))
    assert world.calls == [("look", "on its own"), ("look", "on its own, too")]
    outcome = answer(graph)["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("put") == ["ask"]
    assert world.done("free") == ["not asked about"]
    assert world.done("look")[2:] == ["ask is done"]
    order = [name for name, _ in world.calls]
    assert order.index("put") < order.index("free"), "writes keep the order of the plan"


@pytest.mark.req("S2-11")
@pytest.mark.parametrize("policy", ["allow", [{"tool": "put", "action": "ask"}]], ids=str)
def test_questions_do_not_change_the_order_of_the_writes(policy):
    """What is done when a question is answered must not bring a later write to the front."""
    world = World()
    plan = flow(put("second", 2, ["r"]), put("first", 1), look("r", "r"))
    graph = asking(world, planning(plan), policy)
    result = graph.invoke(said(), THREAD)
    while "__interrupt__" in result:
        result = answer(graph)
    assert ended(result["outcome"]) == ("complete", "GOAL")
    assert world.done("put") == [1, 2]


def free_write(world):
    def free(what: str) -> str:
        """Change something nobody asks about."""
        world.calls.append(("free", what))
        return "done"

    return declared(free)


@pytest.mark.req("P-02")
@pytest.mark.parametrize(
    "answers", [("approve", "edit"), ("respond: told", "approve"), ("edit", "respond: told")]
)
def test_questions_about_reads_that_wait_side_by_side_each_get_their_own_answer(answers):
    world = World()
    plan = flow(look("a", "a"), look("b", "b"), look("c", "{{a}} {{b}}"))
    policy = [{"tool": "look", "arguments": {"what": "^[ab]$"}, "action": "ask"}]
    graph = asking(world, planning(plan), policy)
    result = graph.invoke(said(), THREAD)
    assert world.done("look") == []
    for name, kind in zip("ab", answers, strict=True):
        assert asked(result)["task"] == name
        edit = {"type": "edit", "args": {"what": f"other {name}"}}
        result = answer(graph, edit if kind == "edit" else kind)
    assert ended(result["outcome"]) == ("complete", "GOAL")
    gave = {
        "approve": lambda n: f'{{"of": "{n}", "n": 1}}',
        "edit": lambda n: f'{{"of": "other {n}", "n": 7}}',
        "respond: told": lambda n: "told",
    }
    last = " ".join(gave[kind](name) for name, kind in zip("ab", answers, strict=True))
    assert world.done("look")[-1] == last


def sent_twice(tries):
    """A tool that may be called twice, and has to be."""
    return declared(failing_once(tries, ValueError("the line is down")), idempotentHint=True)


def test_a_step_that_is_asked_about_may_fail_and_the_next_try_is_asked_about_too():
    """An approval is good for one call, however often the plan would repeat it."""
    world, tries = World(), []
    tool = sent_twice(tries)
    plan = flow(step("s", "send", arguments={"text": "hi"}, retryCount=1))
    model = planning(plan)
    graph = asking(world, model, [{"tool": "send", "action": "ask"}], tools=[tool])
    graph.invoke(said(), THREAD)
    again = asked(answer(graph))
    assert (again["id"], tries) == ("s.2.0", ["hi"])
    outcome = answer(graph)["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert tries == ["hi", "hi"]
    assert steps_by_id(outcome)["s"]["attempts"] == 2
    assert roles(model) == ["flow_planner", "answerer"]


def test_a_question_that_waits_does_not_outlive_another_plan():
    """A read fails while a write waits for its approval: the new plan's write is asked about."""
    world = World(bad=raising(ValueError("the line is down")))
    first = flow(put("w", "old"), look("r", "bad"))
    second = flow(put("w", "new"), look("r", "good"))
    model = planning(first, second, recovery=[decide("replan_from_failure")])
    graph = asking(world, model)
    question = asked(graph.invoke(said(), THREAD))
    assert question["action_request"]["args"] == {"what": "new"}
    assert ended(answer(graph)["outcome"]) == ("complete", "GOAL")
    assert world.done("put") == ["new"]


async def test_a_write_of_a_server_is_asked_about_by_default_and_made_once(tmp_path):
    book = tmp_path / "book"
    plan = flow(
        step("s", "search", arguments={"query": "lamp"}),
        step("n", "note", arguments={"path": str(book), "text": "found {{s}}"}),
        step("l", "look", ["n"], arguments={"path": str(book)}),
    )
    model = planning(plan)
    graph = build_prompt_flow(
        model=model, mcp={"mcpServers": {"desk": stdio("desk")}}, checkpointer=InMemorySaver()
    )
    result = await graph.ainvoke(said(), THREAD)
    question = asked(result)
    assert "MCP server 'desk'" in question["description"]
    assert not book.exists()
    result = await graph.ainvoke(Command(resume=chat_ui_sends(question, "approve")), THREAD)
    assert ended(result["outcome"]) == ("complete", "GOAL")
    assert book.read_text() == "found desk:lamp\n"
    assert "desk:lamp" in steps_by_id(result["outcome"])["l"]["result"]
    assert roles(model) == ["flow_planner", "answerer"]
