"""What people read of a turn that did not end well: sentences for them, each once, no codes."""

import re
from typing import Any, get_args

import pytest
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import (
    Context,
    PolicyTable,
    ScriptedModel,
    build_customer_service,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
    build_router,
    build_task_agent,
    open_durability,
)
from loopwright.cli.view import list_brief_lines
from loopwright.state.outcome import Reason
from loopwright.stream.components import text_of
from loopwright.text.sentences import say_to
from support.flows import flow, step
from support.guarded import ADA, POLICY, Shop, refund
from support.mcp_servers import stdio
from support.reacting import said
from support.scripts import PROOFREAD, call, failed, plan, report, thought, todo

THREAD: Any = {"configurable": {"thread_id": "t"}}
WORDS = "not into the root folder"
BUILD: Any = {
    "plan": build_plan_execute_verify, "react": build_react, "flow": build_prompt_flow,
    "agent": build_task_agent, "router": build_router,
}  # fmt: skip
ENDS = ("rejected", "stuck", "limit", "failed tool", "dead server", "no server")
DEAD: Any = {"dead server": ("die", stdio("faulty")), "no server": ("die", stdio("failing"))}
"""A tool, and its server: one that dies in the call, and one that does not start."""
FOR_MODELS = re.compile(
    r"(?i)do not send|do without|report (it|that|what)|call it again|send the call|another tool|"
    r"answer with what|correct the arguments|tool message|the model must|go on with the task"
)
"""Words of the sentences that tell a model what to do."""
CODES = [
    *get_args(Reason),
    r"(?!ValueError)\w+(Error|Exception|Group|Failed)",
    "Traceback",
    r"\w+_\w+\.py",
]
"""The outcome's code words, and exceptions by class but for what the tool itself says it raised."""


def write(path: str) -> str:
    """Write a note."""
    msg = f"no room for {path}"
    raise ValueError(msg)


def model(end: str) -> ScriptedModel:
    """Each role makes the same write whenever it is asked; after a rejection it reports."""
    made = call(DEAD[end][0]) if end in DEAD else call("write", path="a")
    script: dict[str, Any] = {
        "dispatcher": {"graph": "react", "why": "a write"},
        "planner": plan(todo("1", "write the note", [])),
        "verifier": failed("the note is missing", t1=False),
        "thought": thought("I write the note.", more=True),
        "action": [made], "observation": "It was not written.",
        "flow_planner": flow(step("s", made["name"], arguments=made["args"])),
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


def run(name: str, end: str, by: Any = None, **more: Any) -> tuple[Any, list[Any]]:
    tool = StructuredTool.from_function(write)
    tool.metadata = {"readOnlyHint": False, "destructiveHint": True}
    graph = BUILD[name](
        model=by or model(end), tools=[tool], policy="ask" if end == "rejected" else "allow",
        checkpointer=InMemorySaver(),
        mcp={"mcpServers": {"faulty": DEAD[end][1]}} if end in DEAD else None,
    )  # fmt: skip
    limits: Any = {"limit": {"max_tool_calls": 1}, "stuck": {}}.get(end, {"max_turns": 1})
    limits = {} if end == "rejected" else limits
    context = Context(interactive=end == "rejected", **limits, **more)
    read: list[Any] = []
    given: Any = {"messages": [("user", "Write a.md")]}
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
    assert not [code for code in CODES if re.search(rf"\b{code}\b", read)], read
    assert outcome["reason"] in get_args(Reason)  # `--json` and programs have the code
    assert not FOR_MODELS.search(read), FOR_MODELS.search(read)
    assert len({*outcome["unmet"]}) == len(outcome["unmet"])
    if end == "rejected":
        assert outcome["headline"] == "Blocked: you rejected a call."
        assert f'You rejected this call: "{WORDS}".' in read
    # Told once: what the answer says stands in no list behind it.
    brief = list_brief_lines(outcome)
    assert not [t for t in outcome["unmet"] if t in outcome["answer"] and f"  - {t}" in brief]


@pytest.mark.req("W-144")
@pytest.mark.parametrize("name", BUILD)
def test_the_built_in_model_tells_people_what_happened_and_not_what_models_are_told(name):
    outcome, parts = run(name, "rejected", by="offline")
    assert (outcome["status"], outcome["spend"]["tool_calls"]) == ("blocked", 0)
    read = list_read(outcome, parts)
    assert WORDS in "\n".join(read)
    assert not FOR_MODELS.search("\n".join(read)), read
    if name == "plan":
        assert len(outcome["unmet"]) == 1, "the task and what the verifier says of it are one"


@pytest.mark.req("W-144")
def test_people_read_it_in_the_language_of_the_run():
    outcome, _ = run("react", "rejected", language="zh")
    assert outcome["headline"] == "受阻：你拒绝了一个调用。"
    assert "DENIED" not in outcome["answer"]


CUSTOMER: Any = {"answered_by": "customer"}
DESKS: Any = {
    "asks a colleague": (refund(), "receipt_colleague"),
    "refused": (refund("A-3"), "receipt_refused"),
    "limit": (refund(), "desk_handed_off"),
    "dead server": (call("die"), "receipt_uncertain"),
    "no server": (call("die"), "receipt_nothing"),
}
"""What the model calls, and what the customer hears of it, once."""


@pytest.mark.req("W-144")
@pytest.mark.parametrize("end", DESKS)
def test_a_customer_reads_one_sentence_and_no_code(tmp_path, end):
    """After the customer's yes the order turns out to be one that a colleague decides on."""
    (made, sentence), shop = DESKS[end], Shop(tmp_path)
    turns = iter([[made]] if end in DEAD else [[ADA], [made]])
    listened = {"intent": "refund", "mood": "calm", "score": 0, "language": "de"}
    model = ScriptedModel({
        **PROOFREAD, "listener": [listened] * 9,
        "support": lambda *_: next(turns, "Tut mir leid."),
    })  # fmt: skip
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = build_customer_service(
            model=model, tools=shop.tools(), durability=kept,
            policy="allow" if end in DEAD else PolicyTable.read(POLICY),
            mcp={"mcpServers": {"faulty": DEAD[end][1]}} if end in DEAD else None,
        )  # fmt: skip
        context = Context(**({"max_model_calls": 2} if end == "limit" else {}))
        graph.invoke(said("Refund it"), THREAD, context=context, **CUSTOMER)
        shop.sql("UPDATE orders SET kind = 'sofa'")
        if end in ("asks a colleague", "dead server"):
            graph.invoke(said("yes"), THREAD, context=context, **CUSTOMER)
        seen, asked = graph.get_state(THREAD, **CUSTOMER).values, graph.get_state(THREAD).interrupts
        heard = "\n".join(m.text for m in seen["messages"] if m.type == "ai")
        read = "\n".join([heard, *(text_of(u["name"], u["props"]) for u in seen["ui"])])
        names = [n for n in (*graph.get_graph().nodes, "request_refund") if "_" in n]
        assert not [n for n in (*CODES, *names) if re.search(rf"\b{n}\b", read)], read
        assert not FOR_MODELS.search(read)
        assert not [n for n in CODES if re.search(rf"\b{n}\b", repr(asked))], "a colleague reads it"
        assert heard.count(say_to("de", sentence, what="", ids="")) == 1, heard
        assert shop.refunds == []
