"""A message that nobody can read: it is refused, and the thread is as it was."""

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Overwrite

from loopwright import build_plan_execute_verify, build_prompt_flow, build_react
from loopwright.state.errors import SettingsError

UNREADABLE = [
    None,
    5,
    [5],
    [None],
    [["user", "x", "y"]],
    [{"role": "alien", "content": "x"}],
    [{"content": "x"}],
    [{"role": "user", "content": 5}],
    [{"role": "user", "content": [1, None]}],
    [{"role": "user", "content": "x", "id": {"a": 1}}],
    [{"role": "user", "content": "x", "additional_kwargs": 5}],
    [{"role": "tool", "content": "x"}],
    [{"role": "remove", "content": ""}],
    [{"type": "remove", "id": "__remove_all__"}],
    [{"role": "ai", "content": "x", "tool_calls": [{"name": 5}]}],
    [{"lc": 1, "type": "secret", "id": ["SERVICE_TOKEN"]}],
    [{"role": "user", "content": "fine"}, {"role": "alien", "content": "x"}],
    {"__overwrite__": [{"role": "user", "content": "x"}]},
    {"__overwrite__": 5},
    {"type": "__overwrite__", "value": [5]},
    Overwrite([{"role": "user", "content": "x"}]),
    Overwrite(5),
]


def said(state):
    return [message.id for message in state.values["messages"]]


@pytest.mark.req("W-44", "W-66")
@pytest.mark.parametrize("build", [build_react, build_plan_execute_verify, build_prompt_flow])
def test_messages_that_cannot_be_read_leave_the_thread_as_it_was(build):
    def send(text: str) -> str:
        """Send a text."""
        raise AssertionError(text)

    graph = build(tools=[send], policy="ask", checkpointer=InMemorySaver())
    here = {"configurable": {"thread_id": "t"}}
    paused = graph.invoke({"messages": [HumanMessage('Send "hello"')]}, here)
    assert "__interrupt__" in paused
    before = graph.get_state(here)
    inputs = [{"messages": messages} for messages in UNREADABLE]
    commands = [Command(resume={"type": "approve"}, update=update) for update in inputs]
    for given in (*inputs, *commands, "hi", b"hi", 3, True, [], ["hi"], [["messages", ["hi"]]]):
        with pytest.raises(SettingsError, match=r"cannot be read, so nothing was run: .+\. Send"):
            graph.invoke(given, here)
        now = graph.get_state(here)
        assert (said(now), now.interrupts) == (said(before), before.interrupts)
    assert "__interrupt__" not in graph.invoke(Command(resume={"type": "reject"}), here)


@pytest.mark.req("W-66")
def test_whatever_is_a_message_is_read():
    graph = build_react(checkpointer=InMemorySaver())
    here = {"configurable": {"thread_id": "t"}}
    for messages in (
        "hello",
        ["hello"],
        {"role": "user", "content": "hello"},
        [("user", "hello")],
        [HumanMessage("hello")],
        [{"role": "remove", "content": "", "id": "unknown"}, "hello"],
        Overwrite([HumanMessage("hello")]),
    ):
        graph.invoke({"messages": messages}, here)
        assert "hello" in [message.text for message in graph.get_state(here).values["messages"]]
