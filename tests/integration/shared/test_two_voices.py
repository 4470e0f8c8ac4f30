"""What people read of a turn that did not end well: sentences for them, each once, no codes."""

import re
from typing import Any, get_args

import pytest
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import (
    Context,
    ScriptedModel,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
    build_router,
    build_task_agent,
)
from loopwright.cli.view import list_brief_lines
from loopwright.state.outcome import Reason
from loopwright.stream.components import text_of
from support.flows import flow, step
from support.scripts import call, failed, plan, report, thought, todo

THREAD: Any = {"configurable": {"thread_id": "t"}}
WORDS = "not into the root folder"
BUILD: Any = {
    "plan": build_plan_execute_verify, "react": build_react, "flow": build_prompt_flow,
    "agent": build_task_agent, "router": build_router,
}  # fmt: skip
ENDS = ("rejected", "stuck", "limit", "failed tool")
FOR_MODELS = re.compile(
    r"(?i)do not send|do without|report (it|that|what)|call it again|send the call|another tool|"
    r"answer with what|correct the arguments|tool message|the model must|go on with the task"
)
"""Words of the sentences that tell a model what to do."""


def write(path: str) -> str:
    """Write a note."""
    msg = f"no room for {path}"
    raise ValueError(msg)


def model(end: str) -> ScriptedModel:
    """Each role makes the same write whenever it is asked; after a rejection it reports."""
    made = call("write", path="a")
    script: dict[str, Any] = {
        "dispatcher": {"graph": "react", "why": "a write"},
        "planner": plan(todo("1", "write the note", [])),
        "verifier": failed("the note is missing", t1=False),
        "thought": thought("I write the note.", more=True),
        "action": [made], "observation": "It was not written.",
        "flow_planner": flow(step("s", "write", arguments={"path": "a"})),
        "recovery": {"strategy": "replan_from_failure", "reason": "once more"},
        "answerer": "Nothing.", "agent": [made],
        "executor": [made],
    }  # fmt: skip
    after: dict[str, Any] = {
        "executor": [[made], report("I could not.", taskCompleted=False)],
        "thought": [thought("I write the note.", more=True), thought("I could not.")],
        "agent": [[made], [call("complete_task", summary="I could not.", status="blocked")]],
    }  # fmt: skip
    if end == "rejected":
        rest: dict[str, Any] = {role: lambda *_, a=answer: a for role, answer in script.items()}
        return ScriptedModel(rest | after)
    return ScriptedModel({role: lambda *_, a=answer: a for role, answer in script.items()})


def run(name: str, end: str, **more: Any) -> tuple[Any, list[Any]]:
    tool = StructuredTool.from_function(write)
    tool.metadata = {"readOnlyHint": False, "destructiveHint": True}
    graph = BUILD[name](
        model=model(end), tools=[tool], policy="ask" if end == "rejected" else "allow",
        checkpointer=InMemorySaver(),
    )  # fmt: skip
    limits: Any = {"limit": {"max_tool_calls": 1}, "failed tool": {"max_turns": 1}}.get(end, {})
    context = Context(interactive=end == "rejected", **limits, **more)
    read: list[Any] = []
    given: Any = {"messages": [("user", "Write the note.")]}
    while given is not None:
        for part in graph.stream(given, THREAD, context=context, stream_mode="custom"):
            read.append(part)
        asked = graph.get_state(THREAD).interrupts
        no = {"decisions": [{"type": "reject", "message": WORDS}]}
        given = Command(resume={one.id: no for one in asked}) if asked else None
    return graph.get_state(THREAD).values["outcome"], read


def list_read(outcome: Any, parts: list[Any]) -> list[str]:
    """All that people read: answer, headline, what is missing, terminal, components."""
    drawn = [p for p in parts if p.get("type") == "ui"]
    shown = [text_of(p["name"], p["props"]) for p in drawn]
    lines = list_brief_lines(outcome)
    return [outcome["headline"], outcome["answer"], *outcome["unmet"], *lines, *shown]


@pytest.mark.req("W-144")
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", BUILD)
def test_people_read_no_code_and_no_sentence_for_a_model(name, end):
    outcome, parts = run(name, end)
    assert outcome["status"] != "complete"
    read = "\n".join(list_read(outcome, parts))
    assert not [code for code in get_args(Reason) if re.search(rf"\b{code}\b", read)]
    assert not FOR_MODELS.search(read), FOR_MODELS.search(read)
    assert len({*outcome["unmet"]}) == len(outcome["unmet"])
    if end == "rejected":
        assert outcome["headline"] == "Blocked: you rejected a call."
        assert f'You rejected this call: "{WORDS}".' in read
    # Told once: what the answer says stands in no list behind it.
    brief = list_brief_lines(outcome)
    assert not [t for t in outcome["unmet"] if t in outcome["answer"] and f"  - {t}" in brief]


@pytest.mark.req("W-144")
def test_people_read_it_in_the_language_of_the_run():
    outcome, _ = run("react", "rejected", language="zh")
    assert outcome["headline"] == "受阻：你拒绝了一个调用。"
    assert "DENIED" not in outcome["answer"]
