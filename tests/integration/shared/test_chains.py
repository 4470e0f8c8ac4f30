"""One chain of requests per thread and graph: each begins with the bytes of the one before."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import (
    Context,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
)
from loopwright.text.sentences import say
from support.fake_openai import FakeOpenAI, Reply, bad_request, call as openai_call, fake_openai
from support.flows import declared, flow, step
from support.reacting import THREAD, said
from support.scripts import failed, passed, plan, report, thought, todo

LONG = "word " * 400
CONTEXT = Context(result_cap=500, max_executor_rounds=4)


def tell(about: str) -> str:
    """Tell a long story."""
    return f"{about}: {LONG}"


def calling(*about: str) -> Reply:
    calls = [
        openai_call("tell", json.dumps({"about": one}), f"call_{one}_{place}")
        for place, one in enumerate(about)
    ]
    return Reply("", tool_calls=calls, finish_reason="tool_calls")


def role_of(request: dict[str, Any]) -> str:
    """Who asks, as the wire shows it."""
    system = request["messages"][0]["content"]
    if not system.startswith("You work on"):
        return str(system.split()[3].rstrip(".:"))
    if "tool_choice" not in request:
        return "action"
    last = [one["content"] for one in request["messages"][-2:]]
    return "observation" if say("sum_up") in last else "thought"


@contextmanager
def served(**turns: list[Any]) -> Iterator[tuple[FakeOpenAI, ChatOpenAI]]:
    """A provider that gives each role its turns."""
    left = {role: iter(given) for role, given in turns.items()}

    def answer(request: dict[str, Any]) -> Reply:
        turn = next(left[role_of(request)])
        if isinstance(turn, Reply):
            return turn
        return Reply(turn if isinstance(turn, str) else json.dumps(turn))

    with fake_openai(answer) as server:
        yield server, ChatOpenAI(model="m-1", base_url=server.url, api_key="k", max_retries=0)  # type: ignore[arg-type]


def spelled(request: dict[str, Any]) -> str:
    """A request as providers read it: the tools, the system prompt, the messages."""
    given = [request.get("tools"), *request["messages"]]
    return "\n".join(json.dumps(one, ensure_ascii=False) for one in given)


def of(server: FakeOpenAI, role: str, holding: str = "") -> list[dict[str, Any]]:
    """The requests of a role, those with some words in their first two messages."""
    return [
        one for one in server.requests
        if role_of(one) == role and holding in json.dumps(one["messages"][:2])
    ]  # fmt: skip


def shared(before: dict[str, Any], after: dict[str, Any]) -> str:
    """The bytes that a request has in common with the one before."""
    one, other = spelled(before), spelled(after)
    same = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    return one[:same]


@pytest.mark.parametrize("observe", ["model", "direct"])
async def test_all_phases_of_react_are_one_chain_over_calls_long_results_and_turns(observe):
    more = [thought(f"Tell of {one}.", more=True) for one in "abc"]
    with served(
        thought=[more[0], calling("z"), more[1], thought("Both told."), more[2], thought("And c.")],
        action=[calling("a"), calling("b", "b2"), calling("c")],
        observation=["Of a.", "Of b.", "Of c."],
    ) as (server, model):
        saver = InMemorySaver()
        for text in ("Tell of a and b, and of b2.", "And of c?"):
            graph = build_react(model=model, tools=[tell], observe=observe, checkpointer=saver)
            outcome = (await graph.ainvoke(said(text), THREAD, context=CONTEXT))["outcome"]
            assert outcome["status"] == "complete"
    assert [role_of(one) for one in server.requests].count("thought") == 6
    assert "read_result(id=" in spelled(server.requests[-1]), "a result was shortened"
    (again,) = (
        place for place, one in enumerate(server.requests)
        if "Your answer cannot be used" in str(one["messages"][-1]["content"])
    )  # fmt: skip
    assert say("no_tool_here_words") in server.requests[again]["messages"][-1]["content"]
    for before, after in pairwise(server.requests):
        ours = say("words_alone"), say("no_tool_here_words")
        passing = any(words in str(before["messages"][-1]["content"]) for words in ours)
        repaired = 2 if before is server.requests[again] else 1
        kept = before["messages"][:-repaired] if passing else before["messages"]
        assert spelled(after).startswith(spelled(before | {"messages": kept}))


async def test_a_task_is_one_chain_and_planner_and_verifier_repeat_what_does_not_change():
    with served(
        planner=[plan(todo("1", "tell of a"), todo("2", "tell of b")), plan(todo("2", "tell of b")),
                 plan(todo("1", "tell of c"))],
        executor=[calling("a"), calling("a2"), report("Of a."), calling("d"),
                  report("Not found.", taskCompleted=False), calling("b"), calling("b2"),
                  calling("b3"), report("Of b."), calling("c"), report("Of c.")],
        verifier=[failed("tell of b"), passed("Told.", t1=["1.1.0"], t2=["2.3.0"]),
                  passed("Of c.", t1=["1.1.0"])],
    ) as (server, model):  # fmt: skip
        saver = InMemorySaver()
        for text in ("Tell of a and b.", "And of c?"):
            graph = build_plan_execute_verify(
                model=model, tools=[tell], checkpointer=saver, foreign="allow"
            )
            await graph.ainvoke(said(text), THREAD, context=CONTEXT)
    executor = of(server, "executor")
    assert len({json.dumps(one["tools"]) for one in executor}) == 1
    assert [one.get("tool_choice") for one in executor].count("none") == 2, "the last round, twice"
    for chain in (executor[:3], executor[3:5], executor[5:9], executor[9:]):
        for before, after in pairwise(chain):
            assert spelled(after).startswith(spelled(before))
    first, second, _ = of(server, "planner")
    assert "</request>" in shared(first, second)
    assert "tools" not in first
    first, second, _ = of(server, "verifier")
    assert "</request>" in shared(first, second)
    assert '"1.1.0"' in shared(first, second).replace('\\"', '"'), "evidence is only added to"


async def test_a_plan_is_mended_in_one_chain_and_a_further_one_repeats_what_does_not_change():
    bad = flow(step("s1", "tel", arguments={"about": "a"}))
    good = flow(step("s1", "tell", arguments={"about": "a"}))
    wider = flow(good["steps"][0], step("s2", "tell", arguments={"about": "b"}))
    with served(
        flow_planner=[bad, good, wider],
        answerer=["not enough: what is told of b", "It is told [s1][s2]."],
    ) as (server, model):
        graph = build_prompt_flow(
            model=model, tools=[declared(tell, readOnlyHint=True)], checkpointer=InMemorySaver()
        )
        outcome = (await graph.ainvoke(said("Tell of a and b."), THREAD))["outcome"]
    assert outcome["status"] == "complete"
    planner = of(server, "flow_planner")
    assert spelled(planner[1]).startswith(spelled(planner[0]))
    assert "</request>" in shared(planner[0], planner[2])
    first, second = of(server, "answerer")
    assert "</request>" in shared(first, second)


REFUSALS = {
    "its name is looked for": "Tool 'none' not found in provided tools",
    "the parameter is unknown": "Unknown parameter: 'tool_choice'.",
}


@pytest.mark.req("P-47")
@pytest.mark.parametrize(
    ("refusal", "takes"), [*zip(REFUSALS.values(), ([{"type": "none"}], []), strict=True)]
)
async def test_a_provider_that_knows_no_tool_choice_none_is_told_in_words(refusal, takes):
    """Its calls are refused, and it keeps the list, so that the chain holds."""
    steps = iter([thought("Tell of a.", more=True), thought("Told.")])

    def answer(request: dict[str, Any]) -> Reply:
        choice, last = request.get("tool_choice"), str(request["messages"][-1]["content"])
        if choice and choice not in takes:
            return bad_request(refusal)
        if last == say("take_this_step"):
            return calling("a")
        told = choice or say("words_alone") in last or "no tool can be called" in last
        return Reply(next(steps)) if told else calling("never")

    with fake_openai(answer) as server:
        model = ChatOpenAI(model="m-2", base_url=server.url, api_key="k", max_retries=0)
        graph = build_react(model=model, tools=[tell], observe="direct")
        result = await graph.ainvoke(said("Tell of a."), context=CONTEXT)
    assert result["outcome"]["status"] == "complete"
    assert [m.name for m in result["messages"] if m.type == "tool"] == ["tell"]
    assert "never" not in str(result["messages"])
    refused = 1 if takes else 2
    answered = 3 if takes else 4
    assert len(server.requests) == refused + answered, "what is learnt is learnt once"
    assert len({json.dumps(one["tools"]) for one in server.requests}) == 1
