"""The answerer says that results are not enough: more is planned, once, and never in a loop."""

import pytest
from hypothesis import given, settings, strategies as st
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import Context, Hook
from support.flows import (
    THREAD,
    World,
    citing,
    ended,
    flow,
    look,
    of_type,
    planning,
    put,
    roles,
    said,
    told_to,
)

LACK = "not enough: the price of b"
MORE = flow(look("b", "{{a.of}}b"))


def lacking_once():
    """Says once that it is not enough, then cites all there is."""
    asked = []

    def answer(*shown):
        asked.append(1)
        return LACK if len(asked) == 1 else citing(*shown)

    return answer


def run(*plans, answers, world=None, **options):
    """How a run over these plans ends, its model, its world and its events."""
    world, settings = world or World(), options.pop("settings", {})
    model = planning(*plans, answerer=answers, recovery=options.pop("recovery", []))
    graph = world.graph(model, checkpointer=InMemorySaver(), **options)
    events = list(graph.stream(said(), THREAD, stream_mode="custom", context=Context(**settings)))
    return graph.get_state(THREAD).values["outcome"], model, world, events


@pytest.mark.parametrize(
    "words",
    [LACK, "**Not enough:** the price of b", "<think>hm</think>not enough:\nthe price of b",
     "not enough\uff1a the price of b"],
)  # fmt: skip
def test_more_is_planned_from_what_is_done(words):
    outcome, model, world, events = run(
        flow(put("w", 1), look("a", "a")), MORE, answers=[words, "Both. [a][b]"]
    )
    assert ended(outcome) == ("complete", "GOAL")
    assert outcome["answer"] == "Both. [a][b]"
    assert (world.done("look"), world.done("put")) == (["a", "ab"], [1]), "nothing is done twice"
    assert roles(model) == ["flow_planner", "answerer"] * 2
    assert "price" in told_to(model, "flow_planner", 1)
    assert '"status": "completed"' in told_to(model, "flow_planner", 1)
    ((missing,),) = [[e["missing"] for e in of_type(events, "not_enough")]]
    assert "price" in missing
    assert '"not_enough": 1' in told_to(model, "answerer")
    assert '"not_enough": 0' in told_to(model, "answerer", 1)


def test_the_words_are_no_answer_in_the_thread():
    world, model = World(), planning(flow(look("a", "a")), MORE, answerer=[LACK, "Both. [b]"])
    result = world.graph(model).invoke(said())
    assert [m.text for m in result["messages"] if m.type == "ai"][-1] == "Both. [b]"
    assert not any("not enough" in m.text for m in result["messages"])


def test_the_second_time_it_is_not_taken():
    outcome, model, world, events = run(flow(look("a", "a")), MORE, answers=lambda *_: LACK)
    assert ended(outcome) == ("partial", "GOAL")
    assert roles(model) == ["flow_planner", "answerer", "flow_planner", "answerer", "answerer"]
    assert "no more steps can be planned" in told_to(model, "answerer", 2)
    assert outcome["unmet"] == ["Still missing: the price of b"]
    assert '{"of": "ab"' in outcome["answer"]
    assert len(of_type(events, "not_enough")) == 1
    assert world.done("look") == ["a", "ab"]


@pytest.mark.parametrize(
    "second",
    [flow(look("x", "a")), "I know no other plan."],
    ids=["renamed", "none"],
)
def test_where_nothing_new_can_be_planned_the_answer_is_given_from_what_there_is(second):
    outcome, model, world, _ = run(flow(look("a", "a")), *[second] * 3, answers=lacking_once())
    assert ended(outcome) == ("partial", "GOAL")
    assert outcome["unmet"] == ["Still missing: the price of b"]
    assert "Still missing" in told_to(model, "answerer", 1)
    assert world.done("look") == ["a"]


@pytest.mark.parametrize("limit", [{"max_recoveries": 0}, {"max_model_calls": 2}])
def test_where_nothing_may_be_repaired_or_asked_it_is_not_offered_or_ends_honestly(limit):
    outcome, model, *_ = run(flow(look("a", "a")), MORE, answers=lambda *_: LACK, settings=limit)
    assert outcome["status"] == "partial"
    assert '{"of": "a"' in outcome["answer"]
    assert roles(model).count("flow_planner") == 1


def test_too_little_of_what_was_asked_for_is_an_answer():
    outcome, *_ = run(flow(look("a", "a")), answers=["Not enough: there are only 3. [a]"])
    assert ended(outcome) == ("complete", "GOAL")
    assert outcome["answer"] == "Not enough: there are only 3. [a]"


@given(
    plans=st.lists(st.integers(0, 3), min_size=1, max_size=8),
    answers=st.lists(st.sampled_from([LACK, "", "It is so.", "It is so. [a]"]), max_size=8),
    rejecting=st.booleans(),
)
@settings(max_examples=15, deadline=None)
def test_whatever_planner_and_answerer_say_every_turn_ends(plans, answers, rejecting):
    def plan(*_):
        n = plans[min(asked.count("flow_planner"), len(plans) - 1)]
        asked.append("flow_planner")
        return "no plan" if n == 0 else flow(*(look(f"s{n}{i}", f"{n}{i}") for i in range(n)))

    def answer(*_):
        asked.append("answerer")
        place = asked.count("answerer") - 1
        return answers[place] if place < len(answers) else LACK

    asked: list[str] = []
    model = planning(answerer=answer, flow_planner=plan)
    hook = Hook(event="AfterAgent", run=lambda _: {"decision": "block", "reason": "no"})
    graph = World().graph(model, hooks=[hook] if rejecting else [])
    outcome = graph.invoke(said())["outcome"]
    assert outcome["status"] in {"complete", "partial", "failed", "stuck", "blocked"}
    assert asked.count("flow_planner") <= 6
    assert asked.count("answerer") <= 6
