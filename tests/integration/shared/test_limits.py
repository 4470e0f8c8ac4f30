"""What is too long is refused at the door; what may come is read in time that grows with it."""

import time

import pytest
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import (
    ScriptedModel,
    SettingsError,
    build_customer_service,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
    build_router,
    build_task_agent,
)
from loopwright.prompts.instructions import read_front_matter
from loopwright.tools.arguments import check_arguments
from loopwright.tools.schemas import sanitize
from support.flows import flow, step
from support.reacting import THREAD, said
from support.scripts import PROOFREAD, call, passed, plan, report, thought, todo

BUILDS = [
    build_plan_execute_verify,
    build_react,
    build_prompt_flow,
    build_task_agent,
    build_customer_service,
    build_router,
]


def graph_of(build, text=""):
    """A graph whose model looks once and answers; model and tool repeat a text."""

    def look(name: str) -> dict:
        """Look up who owns it, or search the articles."""
        return {"articles": [{"id": "kb-1", "title": "T", "text": text, "url": "u", "score": 3.0}]}

    script = {
        "planner": [plan(todo("1", f"Look {text}"))],
        "executor": [[call("look", name=text)], report(f"Ada owns it. {text}")],
        "verifier": [passed("It is so.", t1=["1.1.0"])],
        "thought": [thought("I look.", more=True, reason="unknown"), thought(f"Ada does. {text}")],
        "action": [[call("look", name=text)]],
        "observation": [f"Seen. {text}"],
        "flow_planner": [flow(step("a", "look", arguments={"name": text}))],
        "answerer": [f"Ada does [a]. {text}"] * 2,
        "agent": [[call("look", name=text)], [call("complete_task", summary=f"Ada. {text}")]],
        **PROOFREAD,
        "listener": [{"intent": "question", "mood": "calm", "score": 0}],
        "support": [[call("look", name="x")], *[f"Ada owns it [kb-1]. {text}"] * 3],
        "responder": [f"Ada does. {text}"],
        "dispatcher": [{"graph": "react", "why": "it looks"}],
    }
    tool = StructuredTool.from_function(look, metadata={"readOnlyHint": True})
    model = ScriptedModel(script)
    return build(model=model, tools=[tool], policy="allow", checkpointer=InMemorySaver())


@pytest.mark.req("W-102")
@pytest.mark.parametrize("build", BUILDS)
def test_a_message_that_is_too_long_is_refused_and_the_thread_goes_on(build):
    graph = graph_of(build)
    with pytest.raises(SettingsError, match="more than 2,000,000 bytes, which is the limit here"):
        graph.invoke(said("x" * 2_000_001), THREAD)
    many = [("user", "x" * 1_000_000), ("user", "x" * 1_000_001)]
    with pytest.raises(SettingsError, match="The text of the messages among it is not taken"):
        graph.invoke({"messages": many}, THREAD)
    assert graph.invoke(said("Who owns it?"), THREAD)["messages"][-1].type == "ai"


def seconds_for(build, text):
    """Seconds of the processor that a whole turn takes in which everybody says a text."""
    graph, began = graph_of(build, text), time.process_time()
    result = graph.invoke(said(f"Who owns it? {text}"), THREAD)
    assert result["messages"][-1].type == "ai"
    return time.process_time() - began


@pytest.mark.req("W-102")
@pytest.mark.timeout(300)  # the desk alone took 97 seconds for 100,000 letters on an idle machine
@pytest.mark.parametrize("build", BUILDS)
def test_a_text_twice_as_long_takes_twice_as_long(build):
    seconds_for(build, "")
    for sign in ("a", "<", "1,", "a@", "[", "退", "\n"):
        once, twice = (seconds_for(build, f"{sign * (n // len(sign))}.") for n in (20_000, 40_000))
        assert twice < 3 * once + 0.3, (sign, once, twice)


@pytest.mark.req("W-123")
@pytest.mark.timeout(60)  # 38 seconds, and minutes with 200,000 values
def test_long_lists_in_a_definition_cost_no_more_than_their_length():
    names = [f"v{n}" for n in range(200_000)]
    schema = {
        "type": "object",
        "properties": {"v": {"type": "string", "enum": names}} | {n: {} for n in names[:20_000]},
        "required": names[:20_000],
    }
    read = sanitize(schema)
    given = {"v": "v199999"} | dict.fromkeys(names[:20_000], 1)
    assert check_arguments(read, given)[1] == ""
    assert "v199999x" in check_arguments(read, given | {"v": "v199999x"})[1]


@pytest.mark.req("W-123")
def test_front_matter_with_aliases_is_refused_in_one_sentence():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    text = "---\n" + "\n".join(lines) + "\n---\nDo it."
    with pytest.raises(ValueError, match=r"line 2: \*a0 is an alias; write out what it means"):
        read_front_matter(text)
