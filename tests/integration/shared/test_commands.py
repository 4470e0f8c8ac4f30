"""Tools in LangGraph's words: what they see of the graph, and the commands they answer with."""

from typing import Annotated, Any

import pytest
from langchain.tools import InjectedState, InjectedStore, ToolRuntime
from langchain_core.messages import (
    ToolMessage,
)
from langchain_core.tools import (
    InjectedToolArg,
    tool,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from pydantic import BaseModel

from loopwright import Context, open_durability
from loopwright.state.channels import unpack_fields
from support import killed
from support.commanding import (
    GRAPHS,
    THREAD,
    TOOLS,
    begin,
    flow_of,
    note,
    noting,
    plan_of,
    react_of,
)
from support.flows import step
from support.reacting import said
from support.scripts import call

DO_IT = said("Do it.")


def result_of(outcome_of: Any) -> str:
    """The text of the first call."""
    return str(outcome_of["evidence"][0]["result"])


def values(graph: Any, **options: Any) -> dict[str, Any]:
    graph.invoke(DO_IT, THREAD, **options)
    return unpack_fields(graph.get_state(THREAD).values)


@pytest.mark.req("W-13")
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("tool_", TOOLS.values(), ids=TOOLS)
def test_the_messages_and_the_values_of_a_command_are_applied(name, tool_):
    state = values(GRAPHS[name](tool_, checkpointer=InMemorySaver()))
    record = state["evidence"][0]
    assert (record["status"], record["result"]) == ("success", "noted a")
    assert state["improvements"] == ["a"]
    assert [m.text for m in state["messages"] if m.type == "human"] == ["Do it.", "P.S. a"]
    assert state["outcome"]["status"] == "complete"


@pytest.mark.req("W-13")
@pytest.mark.parametrize("tool_", TOOLS.values(), ids=TOOLS)
def test_a_task_takes_messages_and_says_what_of_a_command_it_leaves(tool_):
    told: list[Any] = []
    graph = plan_of([tool_], noting(told, tool_.name), checkpointer=InMemorySaver())
    state = values(graph)
    assert state["outcome"]["status"] == "complete"
    assert result_of(state).startswith("noted a\n")
    assert "not applied: improvements." in result_of(state)
    assert told[-1][-2:] == [result_of(state), "P.S. a"]
    assert [m.text for m in state["messages"] if m.type == "human"] == ["Do it."]


@pytest.mark.req("W-13")
def test_messages_follow_all_answers_also_where_one_call_waits_for_a_human():
    calls = [call("note", "x", text="a"), call("note", "y", text="b")]
    options = {"checkpointer": InMemorySaver(), "policy": [{"tool": "note", "action": "ask"}]}
    graph = react_of([note], calls, **options)
    graph.invoke(DO_IT, THREAD)
    graph.invoke(Command(resume="approve"), THREAD)
    graph.invoke(Command(resume="approve"), THREAD)
    state = graph.get_state(THREAD).values
    kinds = [m.type for m in state["messages"]]
    assert kinds == ["human", "ai", "ai", "tool", "tool", "human", "human", "ai"]
    assert state["outcome"]["status"] == "complete"


@pytest.mark.req("W-13")
@pytest.mark.parametrize(("name", "tool_"), [*zip(GRAPHS, TOOLS, strict=True)])
def test_after_a_kill_a_command_is_applied_once(name, tool_, tmp_path):
    process = killed.spawn(begin, str(tmp_path), name, tool_)
    process.join(300)
    assert process.exitcode == -9
    with open_durability(f"sqlite:///{tmp_path}/t.db") as durability:
        # What the model has said before the kill it does not say again.
        left = react_of([TOOLS[tool_]], durability=durability)
        graph = left if name == "react" else GRAPHS[name](TOOLS[tool_], durability=durability)
        before = graph.get_state(THREAD)
        assert before.values.get("improvements", []) == []
        graph.invoke(None, THREAD)
        state = graph.get_state(THREAD).values
    assert state["improvements"] == ["a"]
    assert [m.text for m in state["messages"] if m.type == "human"] == ["Who owns it?", "P.S. a"]
    assert state["outcome"]["status"] == "complete"


@pytest.mark.req("W-13")
def test_a_tool_may_end_the_loop():
    @tool
    def stop(runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        """Stop."""
        answer = ToolMessage("stopped", tool_call_id=runtime.tool_call_id)
        ends = {"should_continue": False, "task_completed": True, "messages": answer}
        return Command(update=ends)

    state = values(react_of([stop], [call("stop")], checkpointer=InMemorySaver()))
    assert state["outcome"]["status"] == "complete"
    assert "stopped" in state["outcome"]["answer"]


class Seen(BaseModel):
    """What a tool saw."""

    state: Any = None
    messages: Any = None
    store: Any = None
    runtime: Any = None


def spying(seen: Seen) -> Any:
    @tool
    def look(
        what: str,
        state: Annotated[dict[str, Any], InjectedState],
        messages: Annotated[list[Any], InjectedState("messages")],
        store: Annotated[BaseStore, InjectedStore()],
        runtime: ToolRuntime[Context, Any],
        level: Annotated[int, InjectedToolArg] = 3,
    ) -> str:
        """Look."""
        seen.state, seen.messages, seen.store, seen.runtime = state, messages, store, runtime
        runtime.stream_writer({"seen": what})
        return f"{what} {level}"

    return look


@pytest.mark.req("W-13")
@pytest.mark.parametrize(
    ("build", "keys"),
    [
        (lambda t, **o: react_of([t], [call("look", "c", what="a", state={"x": 1})], **o),
         {"messages", "improvements", "task_completed", "should_continue"}),
        (lambda t, **o: plan_of([t], [call("look", "c", what="a", level=9)], **o),
         {"messages", "todos", "improvements", "task_completed", "should_continue"}),
        (lambda t, **o: flow_of([t], step("s1", "look", arguments={"what": "a"}), **o),
         {"messages", "todos", "improvements", "task_completed", "should_continue"}),
    ],
    ids=["react", "plan_execute_verify", "prompt_flow"],
)  # fmt: skip
def test_a_tool_sees_the_state_the_store_and_the_run(build, keys):
    seen, store = Seen(), InMemoryStore()
    graph = build(spying(seen), checkpointer=InMemorySaver(), store=store)
    told = list(graph.stream(DO_IT, THREAD, stream_mode="custom", context=Context(task_id="t9")))
    state = graph.get_state(THREAD).values
    assert (state["evidence"][0]["status"], result_of(state)) == ("success", "a 3")
    assert set(seen.state) == set(seen.runtime.state) == keys
    assert seen.messages[0].text == "Do it."
    assert seen.store is seen.runtime.store is not None
    assert seen.runtime.context.task_id == "t9"
    assert seen.runtime.tool_call_id
    assert [t.name for t in seen.runtime.tools if t.name != "llm_call"] == ["look"]
    assert [e["value"] for e in told if e["type"] == "tool_output"] == [{"seen": "a"}]
    if "todos" in keys:
        assert len(seen.state["todos"]) == 1
        seen.state["todos"][0]["status"] = "gone"
        assert graph.get_state(THREAD).values["todos"][0]["status"] == "completed"
