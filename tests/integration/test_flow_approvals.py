"""Questions about single steps of a plan: who waits for the answer, and what comes of it."""

import time
from itertools import product

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import AnswerRejected, Context, Hook, build_prompt_flow
from support.flows import (
    THREAD,
    World,
    decide,
    declared,
    flow,
    of_type,
    planning,
    raising,
    roles,
    said,
    step,
    steps_by_id,
)
from support.front_ends import chat_ui_sends, chat_ui_shows, inbox_sends, inbox_shows
from support.mcp_servers import stdio

ASK = [{"tool": "put", "action": "ask"}]
ASK_READS = [{"tool": "look", "action": "ask"}]


def put(id_, what, after=None, **more):
    return step(id_, "put", after, arguments={"what": what}, **more)


def look(id_, what, after=None, **more):
    return step(id_, "look", after, arguments={"what": what}, **more)


def asking(world, model, policy=ASK, **more):
    return world.graph(model, policy=policy, checkpointer=InMemorySaver(), **more)


def asked(result):
    (question,) = [one.value for one in result["__interrupt__"]]
    assert chat_ui_shows(question)
    assert inbox_shows(question)
    return question


def answer(graph, value="approve", **settings):
    context = Context(**settings)
    return graph.invoke(Command(resume=value), THREAD, context=context)


def ended(outcome):
    return outcome["status"], outcome["reason"]


@pytest.mark.req("P-02")
def test_writes_are_asked_about_one_at_a_time_and_each_runs_before_the_next_question():
    world = World()
    model = planning(flow(put("w1", 1), put("w2", 2), put("w3", "{{w2.put}}")))
    graph = asking(world, model)
    question = asked(graph.invoke(said(), THREAD))
    for place, name in enumerate(["w1", "w2", "w3"]):
        assert (question["task"], question["tool_call_id"]) == (name, f"call_{name}_1_0")
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


@pytest.mark.req("P-35")
@pytest.mark.parametrize(
    "sends",
    [lambda q: chat_ui_sends(q, "reject", "not today"), lambda q: "reject: not today"],
    ids=["chat ui", "text"],
)
def test_a_rejection_ends_the_run_as_blocked_and_names_what_is_done(sends):
    world = World()
    model = planning(flow(look("r", "r"), put("w1", 1), put("w2", 2), put("w3", 3)))
    graph = asking(world, model)
    graph.invoke(said(), THREAD)
    outcome = answer(graph, sends(asked(answer(graph))))["outcome"]
    assert ended(outcome) == ("blocked", "DENIED")
    assert world.done("put") == [1]
    assert {i: t["status"] for i, t in steps_by_id(outcome).items()} == {
        "r": "completed", "w1": "completed", "w2": "failed", "w3": "pending",
    }  # fmt: skip
    assert "not today" in " ".join(outcome["unmet"])
    assert any("w3" in line for line in outcome["unmet"])
    assert "[w1]" in outcome["answer"], "what is done is told"
    assert roles(model) == ["flow_planner"], "no model can lift a rejection"


@pytest.mark.req("P-35")
@pytest.mark.parametrize(
    "sends",
    [
        lambda q: {"type": "edit", "args": {"what": "less"}},
        lambda q: chat_ui_sends(q, "edit", {"what": "less"}),
        lambda q: inbox_sends(q, "edit", {"what": "less"}),
    ],
    ids=["bare", "chat ui", "inbox"],
)
def test_an_edit_runs_with_other_arguments_and_what_follows_gets_their_result(sends):
    world = World()
    graph = asking(world, planning(flow(put("w", "a lot"), look("r", "{{w.put}}?"))))
    result = answer(graph, sends(asked(graph.invoke(said(), THREAD))))
    assert ended(result["outcome"]) == ("complete", "GOAL")
    assert world.done("put") == ["less"]
    assert world.done("look") == ["less?"]
    (record,) = [e for e in graph.get_state(THREAD).values["evidence"] if e["task"] == "w"]
    assert record["arguments"] == {"what": "less"}


def test_an_edit_that_cannot_run_is_asked_about_again():
    world = World()
    graph = asking(world, planning(flow(put("w", 1))))
    graph.invoke(said(), THREAD)
    again = asked(answer(graph, {"type": "edit", "args": {"whta": 2}}))
    assert "The edit cannot run." in again["description"]
    assert world.done("put") == []
    assert ended(answer(graph)["outcome"]) == ("complete", "GOAL")
    assert world.done("put") == [1]


@pytest.mark.req("P-35")
def test_words_take_the_place_of_a_step():
    world = World()
    graph = asking(world, planning(flow(put("w", 1), look("r", "{{w}}; {{w.sum}}"))))
    graph.invoke(said(), THREAD)
    outcome = answer(graph, 'respond: {"sum": 7}')["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("put") == []
    assert world.done("look") == ['{"sum": 7}; 7']
    assert outcome["spend"]["tool_calls"] == 1


@pytest.mark.req("P-42")
@pytest.mark.parametrize(
    ("remember", "questions"),
    [
        ("session", ["w1"]),
        ("tool", ["w1"]),
        ("call", ["w1", "w3"]),
        ({"what": "^[ab]$"}, ["w1"]),
        ("", ["w1", "w2", "w3"]),
    ],
    ids=str,
)
def test_what_is_approved_for_the_session_is_not_asked_about_again(remember, questions):
    world, seen = World(), []
    graph = asking(world, planning(flow(put("w1", "a"), put("w2", "a"), put("w3", "b"))))
    result = graph.invoke(said(), THREAD)
    while "__interrupt__" in result:
        seen.append(asked(result)["task"])
        more = {"remember": remember} if len(seen) == 1 else {}
        result = answer(graph, {"type": "approve", **more})
    assert ended(result["outcome"]) == ("complete", "GOAL")
    assert seen == questions
    assert world.done("put") == ["a", "a", "b"]


@pytest.mark.req("P-42")
def test_an_approval_for_the_session_answers_the_other_questions_that_wait():
    world = World()
    graph = asking(world, planning(flow(look("a", "a"), look("b", "b"))), ASK_READS)
    graph.invoke(said(), THREAD)
    outcome = answer(graph, {"type": "approve", "remember": "session"})["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert sorted(world.done("look")) == ["a", "b"]


@pytest.mark.req("P-01")
def test_twelve_approvals_cost_no_model_call():
    world = World()
    model = planning(flow(*(put(f"w{n}", n) for n in range(12))))
    graph = asking(world, model)
    result = graph.invoke(said(), THREAD)
    for n in range(12):
        assert asked(result)["task"] == f"w{n}"
        assert world.done("put") == list(range(n))
        result = answer(graph)
    assert ended(result["outcome"]) == ("complete", "GOAL")
    assert roles(model) == ["flow_planner", "answerer"]
    assert result["outcome"]["spend"]["model_calls"] == 2
    assert result["outcome"]["spend"]["tool_calls"] == 12


@pytest.mark.parametrize(
    "answers", list(product(["approve", "respond: told", "edit"], repeat=2)), ids="-".join
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


@pytest.mark.req("P-02")
def test_an_answer_for_the_other_of_two_questions_is_not_taken_for_this_one():
    world = World()
    graph = asking(world, planning(flow(look("a", "a"), look("b", "b"))), ASK_READS)
    graph.invoke(said(), THREAD)
    again = asked(answer(graph, {"type": "approve", "tool_call_id": "call_b_1_0"}))
    assert again["task"] == "a"
    assert "'call_b_1_0'" in again["description"]
    assert world.done("look") == []


def test_of_two_questions_a_rejection_ends_the_run_and_the_other_call_is_never_made():
    world = World()
    graph = asking(world, planning(flow(look("a", "a"), look("b", "b"))), ASK_READS)
    graph.invoke(said(), THREAD)
    outcome = answer(graph, "reject")["outcome"]
    assert ended(outcome) == ("blocked", "DENIED")
    assert world.done("look") == []
    assert graph.get_state(THREAD).next == ()


@pytest.mark.req("P-05")
def test_a_new_message_while_a_question_waits_makes_a_new_plan_and_the_old_call_is_never_made():
    world = World()
    model = planning(flow(look("r", "r"), put("w", "old")), flow(put("w", "new")))
    graph = asking(world, model)
    graph.invoke(said(), THREAD)
    question = asked(graph.invoke(said("Put the new one instead."), THREAD))
    assert question["action_request"]["args"] == {"what": "new"}
    assert world.done("put") == []
    assert ended(answer(graph)["outcome"]) == ("complete", "GOAL")
    assert world.calls == [("look", "r"), ("put", "new")]


@pytest.mark.req("P-05")
def test_an_approval_of_an_old_question_does_not_approve_the_new_one():
    world = World()
    model = planning(flow(look("a", "a"), put("w", "old")), flow(put("x", "new")))
    graph = asking(world, model)
    old = asked(graph.invoke(said(), THREAD))
    graph.invoke(said("Put the new one instead."), THREAD)
    again = asked(answer(graph, {"type": "approve", "tool_call_id": old["tool_call_id"]}))
    assert again["task"] == "x"
    assert world.done("put") == []


def test_a_rejected_step_that_is_optional_is_left_out():
    world = World()
    plan = flow(put("w", 1, optional=True), look("needs", "{{w.put}}"), look("r", "r", ["w"]))
    graph = asking(world, planning(plan))
    graph.invoke(said(), THREAD)
    outcome = answer(graph, "reject: no need")["outcome"]
    assert ended(outcome) == ("partial", "GOAL")
    assert {i: t["status"] for i, t in steps_by_id(outcome).items()} == {
        "w": "failed", "needs": "skipped", "r": "completed",
    }  # fmt: skip
    assert world.calls == [("look", "r")]


def test_a_step_that_is_asked_about_may_fail_and_the_next_try_is_asked_about_too():
    """An approval is good for one call, however often the plan would repeat it."""
    world, tries = World(), []

    def send(text: str) -> str:
        """Send something that may be sent twice."""
        tries.append(text)
        if len(tries) == 1:
            raise ValueError("the line is down")
        return "sent"

    tool = declared(send, idempotentHint=True)
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


def test_a_step_that_recovery_has_tried_again_is_asked_about_again():
    world, tries = World(), []

    def send(text: str) -> str:
        """Send something that may be sent twice."""
        tries.append(text)
        if len(tries) == 1:
            raise ValueError("the line is down")
        return "sent"

    tool = declared(send, idempotentHint=True)
    model = planning(
        flow(step("s", "send", arguments={"text": "hi"})), recovery=[decide("retry_step")]
    )
    graph = asking(world, model, [{"tool": "send", "action": "ask"}], tools=[tool])
    graph.invoke(said(), THREAD)
    asked(answer(graph))
    assert tries == ["hi"]
    assert ended(answer(graph)["outcome"]) == ("complete", "GOAL")
    assert tries == ["hi", "hi"]


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


@pytest.mark.req("P-37")
@pytest.mark.parametrize("wrong", ["oops", [], {}, {"type": "edit"}, 7, None], ids=repr)
def test_an_answer_of_the_wrong_shape_leaves_the_question_open(wrong):
    world = World()
    model = planning(flow(put("w", 1)))
    graph = asking(world, model)
    question = asked(graph.invoke(said(), THREAD))
    with pytest.raises(AnswerRejected):
        answer(graph, wrong)
    assert graph.get_state(THREAD).interrupts[0].value == question
    assert world.done("put") == []
    assert asked(graph.invoke(None, THREAD)) == question, "going on decides nothing either"
    assert ended(answer(graph)["outcome"]) == ("complete", "GOAL")
    assert world.done("put") == [1]
    assert roles(model) == ["flow_planner", "answerer"]


def test_an_approval_that_comes_too_late_runs_nothing():
    world = World()
    graph = asking(world, planning(flow(put("w", 1))))
    context = Context(question_expires_in=0.01)
    assert asked(graph.invoke(said(), THREAD, context=context))["expires_at"]
    time.sleep(0.05)
    assert ended(answer(graph)["outcome"]) == ("blocked", "DENIED")
    assert world.done("put") == []


@pytest.mark.parametrize("how", ["setting", "no saver"])
def test_with_nobody_to_ask_the_run_is_blocked_and_the_step_does_not_run(how):
    world = World()
    model = planning(flow(look("r", "r"), put("w", 1), put("w2", 2)))
    if how == "setting":
        graph = asking(world, model)
        outcome = graph.invoke(said(), THREAD, context=Context(interactive=False))["outcome"]
    else:
        outcome = world.graph(model, policy=ASK).invoke(said())["outcome"]
    assert ended(outcome) == ("blocked", "NOT_INTERACTIVE")
    assert world.calls == [("look", "r")]
    assert roles(model) == ["flow_planner"]
    assert "w (do w)" in " ".join(outcome["unmet"])


def test_somebody_takes_up_what_nobody_could_be_asked_about():
    world = World()
    plan = flow(look("r", "r"), put("w", "{{r.of}}"))
    model = planning(plan, plan)
    graph = asking(world, model)
    graph.invoke(said(), THREAD, context=Context(interactive=False))
    assert asked(graph.invoke(None, THREAD))["task"] == "w"
    assert ended(answer(graph)["outcome"]) == ("complete", "GOAL")
    assert world.calls == [("look", "r"), ("put", "r")], "the finished read is not made again"


def test_a_hook_may_have_a_human_asked():
    world = World()
    hook = Hook(event="BeforeTool", match="put", run=lambda _: {"decision": "ask", "reason": "big"})
    graph = asking(world, planning(flow(put("w", 1))), None, hooks=[hook])
    assert "big" in asked(graph.invoke(said(), THREAD))["reason"]
    assert ended(answer(graph)["outcome"]) == ("complete", "GOAL")
    assert world.done("put") == [1]


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


def test_each_state_of_a_call_and_of_its_step_is_told_in_order():
    world = World()
    graph = asking(world, planning(flow(put("w", 1), look("r", "{{w.put}}"))))
    events = list(graph.stream(said(), THREAD, stream_mode="custom"))
    events += graph.stream(Command(resume="approve"), THREAD, stream_mode="custom")
    told = [
        (e.get("step_id") or e["task"], e.get("status") or "start")
        for e in of_type(events, "tool_call", "prompt_flow_step_start", "prompt_flow_step_result")
    ]
    assert told == [
        ("w", "start"), ("w", "validating"), ("w", "awaiting_approval"),
        ("w", "scheduled"), ("w", "executing"), ("w", "success"), ("w", "completed"),
        ("r", "start"), ("r", "validating"), ("r", "scheduled"), ("r", "executing"),
        ("r", "success"), ("r", "completed"),
    ]  # fmt: skip
