"""300 tools in every graph: only names are listed, what is needed is found and called."""

import json
from itertools import pairwise
from os.path import commonprefix

import pytest
from langchain.agents import create_agent
from langchain_core.utils.function_calling import convert_to_openai_tool

from loopwright import (
    AgentDefinition,
    Context,
    ScriptedModel,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
    build_task_agent,
    open_durability,
)
from loopwright.prompts.prompt import read_json, read_section
from support.flows import flow, step
from support.public_tools import many
from support.reacting import THREAD, said
from support.scripts import call, passed, plan, report, thought, todo

VAGUE = "Bring my work in."
"""Says nothing of which tool it needs."""
MERGE = "Merge pull request 34."
FOUND = [call("find_tools", query="merge a pull request")]
CALLED = [call("merge_pull_request", owner="octo", repo="hello")]
DONE = [call("complete_task", summary="It is merged.")]


def shown(model):
    return [asked.tools[2:] for asked in model.asked]


def test_an_agent_finds_a_tool_calls_it_by_its_name_and_has_it_after_a_restart(tmp_path):
    record, wrong = [], [call("merge_pull_request", owner="octo")]
    for turns, request in [
        ([FOUND, CALLED, DONE], VAGUE),
        ([wrong, CALLED, DONE], "And hello of octo."),
    ]:
        model = ScriptedModel(turns)
        with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
            graph = build_task_agent(model=model, tools=many(300, record), durability=kept)
            result = graph.invoke(said(request), THREAD)
        assert result["outcome"]["status"] == "complete"
        assert result["outcome"]["spend"]["tool_calls"] == 1
        lists = [asked.tools for asked in model.asked]
        assert all(now[: len(then)] == then for then, now in pairwise(lists))
        assert "merge_pull_request" in lists[1]
        assert len({asked.messages[0].text for asked in model.asked}) == 1
    # Of the turn before.
    assert "merge_pull_request" in model.asked[0].tools
    assert record == [("merge_pull_request", {"owner": "octo", "repo": "hello"})] * 2
    (error,) = (m.text for m in result["messages"] if m.type == "tool" and m.status == "error")
    assert "'repo' is a required property" in error
    assert '"description": "The repo."' in error


@pytest.mark.req("W-110")
@pytest.mark.parametrize(("settings", "shown"), [({}, True), ({"shown_tools": 20}, False)])
def test_a_setting_says_how_many_tools_are_shown_whole(settings, shown):
    looks = [call("find_tools", names=["merge_pull_request", "create_issue"])]
    model = ScriptedModel([*([] if shown else [looks]), CALLED, DONE])
    graph = build_task_agent(model=model, tools=many(60))
    outcome = graph.invoke(said(VAGUE), context=Context(**settings))["outcome"]
    assert outcome["status"] == "complete"
    assert ("create_issue" in model.asked[0].tools) is shown
    assert "create_issue" in model.asked[-1].tools


async def give_a_page(**_):
    return "A line of a result. " * 50


class Weighing(ScriptedModel):
    """Calls each of its tools once, up to a dozen, and counts what is new to a provider's cache."""

    def __init__(self, end, tools):
        super().__init__(self.answer)
        self._end, self._tools, self._sent, self._shown = end, tools[:12], [""], ""

    def bind_tools(self, tools, **more):
        self._shown = json.dumps([convert_to_openai_tool(one) for one in tools])
        return super().bind_tools(tools, **more)

    def answer(self, messages, _):
        said = "".join(m.type + m.text + str(getattr(m, "tool_calls", "")) for m in messages)
        self._sent.append(self._shown + said)
        if len(self._sent) - 2 == len(self._tools):
            return self._end
        one = self._tools[len(self._sent) - 2]
        return [call(one.name, f"c{len(self._sent)}", **dict.fromkeys(one.args, "x"))]

    @property
    def figures(self):
        new = sum(len(now) - len(commonprefix([was, now])) for was, now in pairwise(self._sent))  # noqa: RUF071 - texts
        return len(self._sent) - 1, new


@pytest.mark.req("W-110")
@pytest.mark.parametrize("count", [16, 30, 60])
async def test_up_to_sixty_tools_cost_what_they_cost_create_agent(count):
    tools = many(count)
    for one in tools:
        one.coroutine = give_a_page
    for model, graph in (
        (ours := Weighing(DONE, tools), build_task_agent(model=ours, tools=tools)),
        (theirs := Weighing("It is done.", tools), create_agent(theirs, tools)),
    ):
        await graph.ainvoke(said(VAGUE), {"recursion_limit": 100})
        assert model.figures[0] == 13
    assert ours.figures[1] <= 1.3 * theirs.figures[1]


def test_react_offers_what_the_request_needs_at_once_and_finds_the_rest():
    model = ScriptedModel(
        {
            "thought": [thought("Look for it.", more=True), *[thought("Merged.")] * 2],
            "action": [FOUND],
        }
    )
    graph = build_react(model=model, tools=many(300))
    graph.invoke(said(VAGUE))
    assert [asked.role for asked in model.asked] == ["thought", "action", "thought"]
    assert "merge_pull_request" not in shown(model)[0]
    assert "merge_pull_request" in shown(model)[-1]
    first = len(model.asked)
    graph.invoke(said(MERGE))
    assert "merge_pull_request" in shown(model)[first]
    listed = read_section(model.asked[0].messages[0].text, "more_tools")
    assert listed is not None
    assert "create_issue, create_pull_request" in listed


def test_a_task_finds_its_tools_by_itself_and_its_planner_knows_their_names():
    record = []
    other = [call("merge_pull_request", owner="octo", repo="other")]
    model = ScriptedModel(
        {
            "planner": [plan(todo("1", VAGUE), todo("2", MERGE))],
            "executor": [FOUND, CALLED, report("Merged."), other, report("Merged.")],
            "verifier": [passed("Both.", t1=["1.2.0"], t2=["2.1.0"])],
        }
    )
    graph = build_plan_execute_verify(model=model, tools=many(300, record))
    asked = said(f"{VAGUE} And the other of octo.")
    assert graph.invoke(asked)["outcome"]["status"] == "complete"
    planner, *executors = [a for a in model.asked if a.role in ("planner", "executor")]
    assert "merge_pull_request" in read_section(planner.messages[1].text, "more_tools")
    offered = [a.tools[2:] for a in executors]
    assert ["merge_pull_request" in names for names in offered[:2]] == [False, True]
    assert "merge_pull_request" in offered[-1]
    assert [name for name, _ in record] == ["merge_pull_request"] * 2


@pytest.mark.parametrize("searches", [True, False])
def test_a_planner_is_told_the_definitions_of_what_it_looks_for_or_names(searches):
    record = []
    first = step("s1", "find_tools", arguments={"query": "merge a pull request"})
    if not searches:  # it guesses
        first = step("s1", "merge_pull_request", arguments={"pr": "34"})
    sound = step("s1", "merge_pull_request", arguments={"owner": "octo", "repo": "hello"})
    model = ScriptedModel(
        {"flow_planner": [flow(first), flow(sound)], "answerer": ["It is merged [s1]."]}
    )
    graph = build_prompt_flow(model=model, tools=many(300, record))
    assert graph.invoke(said(VAGUE))["outcome"]["status"] == "complete"
    before, after = [a.messages for a in model.asked if a.role == "flow_planner"]
    assert after[: len(before)] == before
    known = [tool["name"] for tool in read_json(before[1].text, "tools")]
    assert known[0] == "llm_call"
    assert "merge_pull_request" not in known
    assert '"name": "merge_pull_request"' in after[-1].text
    assert ("cannot run" in after[-1].text) is not searches
    assert [name for name, _ in record] == ["merge_pull_request"]


def test_a_planner_that_only_looks_for_tools_ends_with_a_reason():
    looks = [flow(step("s1", "find_tools", arguments={"query": f"q{n}"})) for n in range(9)]
    model = ScriptedModel({"flow_planner": looks, "answerer": ["Nothing [s1]."] * 3})
    graph = build_prompt_flow(model=model, tools=many(300))
    result = graph.invoke(said(VAGUE))
    assert len([a for a in model.asked if a.role == "flow_planner"]) == 6
    assert result["outcome"]["status"] == "failed"
    assert "It looks for tools once more" in str(result["outcome"]["unmet"])


def test_a_sub_agent_has_what_its_objective_needs_and_finds_no_tool_that_is_not_its_own():
    record, find = [], call("find_tools", query="create an issue")
    asked = [call("delegate_to_agent", agent_name="scout", objective=MERGE)]

    def turn(messages, offered):
        if "I am scout." not in messages[0].text:
            return DONE if messages[-1].type == "tool" else asked
        told = [m.text for m in messages if m.type == "tool"]
        return [[find], [call("create_issue", owner="o", repo="r")], CALLED, DONE][len(told)]

    model = ScriptedModel(turn)
    tools = ["*_pull_request*", "*_a", "*_b", "*_c"]
    scout = AgentDefinition(name="scout", description="Scouts.", prompt="I am scout.", tools=tools)
    graph = build_task_agent(model=model, tools=many(300, record), agents=[scout])
    outcome = graph.invoke(said(VAGUE))["outcome"]
    assert (outcome["status"], len(outcome["unmet"])) == ("partial", 1), "it was not its own"
    inner = [a for a in model.asked if "I am scout." in a.messages[0].text]
    assert "merge_pull_request" in inner[0].tools
    assert "create_issue" not in inner[1].tools
    assert "create_issue" not in read_section(inner[0].messages[0].text, "more_tools")
    assert "Unauthorized" in inner[2].messages[-1].text
    assert [name for name, _ in record] == ["merge_pull_request"]
