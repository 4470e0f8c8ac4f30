"""A run in another language: roles are known without a word of English, and none is told.

What jsonschema says of a value is its own, and so is what a tool says.
"""

import json
import re
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool, ToolException
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import (
    Context,
    PromptManager,
    Rule,
    ScriptedModel,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
)
from loopwright.prompts.prompt import CORE_TEMPLATES, SLOT
from loopwright.text.sentences import SENTENCES
from support.flows import flow, look, step

THREAD: Any = {"configurable": {"thread_id": "t"}}
GOAL: Any = {"messages": [("user", "持ち主を探す。")]}
SLOTS = re.compile(r"\{\{\w+\}\}")
ENGLISH = re.compile(r"(?<![\w'])[A-Za-z]{2,}(?:[ ,;:.!]+[A-Za-z]{2,}){2,}(?![\w'])")
"""Three words in a row: names of fields and tools are one or two."""


@pytest.fixture(autouse=True)
def xx(monkeypatch: pytest.MonkeyPatch) -> None:
    """A language in which every template and sentence is its slots between marks."""
    english, said = CORE_TEMPLATES["en"], SENTENCES["en"]
    templates = {
        role: f"君は此処。 {' '.join(dict.fromkeys([SLOT, *SLOTS.findall(text)]))}"
        for role, text in english.items()
    }
    monkeypatch.setitem(CORE_TEMPLATES, "xx", templates)
    marked = {name: f"⟦{' '.join(SLOTS.findall(text))}⟧" for name, text in said.items()}
    monkeypatch.setitem(SENTENCES, "xx", marked)


def look_up(what: str) -> str:
    """見る。"""
    if what == "悪":
        msg = "不可"
        raise ToolException(msg)
    return f"発見 {what}"


LOOK = StructuredTool.from_function(
    look_up, name="look", metadata={"readOnlyHint": True}, handle_tool_error=True
)


def pay(amount: int) -> str:
    """払う。"""
    msg = "不明"
    raise TimeoutError(msg)


def called(what: str, tool: str = "look") -> list[dict[str, Any]]:
    return [{"name": tool, "args": {"what": what}}]


def thought(text: str, more: bool) -> str:
    return f"{text}\n\n<agent_meta>{json.dumps({'shouldContinue': more})}</agent_meta>"


def told(model: ScriptedModel) -> list[str]:
    """All that the graph itself told its models; what models said is theirs."""
    return [
        message.text
        for asked in model.asked
        for message in asked.messages
        if message.type in ("system", "human", "tool")
    ]


def run(build: Any, script: dict[str, list[Any]], **context: Any) -> ScriptedModel:
    """A run that comes to its end; the roles find their scripts by the metadata alone."""
    model = ScriptedModel(script)
    settings = Context(language="xx", model_retries=0, interactive=False, **context)
    graph = build(model=model, tools=[LOOK], checkpointer=InMemorySaver())
    result = graph.invoke(GOAL, THREAD, context=settings)
    assert result["outcome"]["status"]
    assert {asked.role for asked in model.asked} == set(script)
    return model


TASK = {"id": "1", "description": "探す", "priority": 1, "status": "pending"}
PLAN = {"summary": "計画", "needsMorePlanning": False, "todos": [TASK]}
REPORT = {"summary": "持ち主", "taskCompleted": True, "shouldContinue": False}
PROVEN = {"id": "1", "completed": True, "feedback": "", "evidence": ["1.1.0"]}
VERDICT = {
    "allCompleted": True, "userNeedsSatisfied": True, "overallFeedback": "",
    "tasks": [PROVEN], "summary": "持ち主は花子",
}  # fmt: skip
WRONG = {**VERDICT, "tasks": [{**PROVEN, "evidence": ["9.9.9"]}]}

PLANS = {
    "well": {"planner": [PLAN], "executor": [called("花"), REPORT], "verifier": [VERDICT]},
    "asked again": {
        "planner": ["否", {**PLAN, "todos": []}, PLAN],
        "executor": [called("花"), "否", {"taskCompleted": True}, REPORT],
        "verifier": [WRONG, VERDICT],
    },
    "circles": {
        "planner": [PLAN],
        "executor": [called("花")] * 6,
        "verifier": [{**VERDICT, "allCompleted": False, "tasks": [], "improvements": ["もっと"]}],
    },
    "goes on": {
        "planner": [PLAN],
        "executor": [called("花"), {"summary": "花", "taskCompleted": False}, REPORT],
        "verifier": [VERDICT],
    },
}
THOUGHTS = {
    "well": {
        "thought": [thought("見る", True), thought("持ち主", False)],
        "action": [called("花")],
        "observation": ["発見"],
    },
    "asked again": {
        "thought": ["否", thought("見る", True), thought("持ち主", False)],
        "action": ["否", called("花")],
        "observation": ["", "発見"],
    },
}
FLOWS: dict[str, dict[str, list[Any]]] = {
    "well": {"flow_planner": [flow(look("a", "花"))], "answerer": ["持ち主 [a]."]},
    "recovers": {
        "flow_planner": [flow(look("a", "悪")), flow(look("b", "花"))],
        "recovery": [{"strategy": "否"}, {"strategy": "complete_replan", "reason": "理由"}],
        "answerer": ["持ち主 [b]."],
    },
    "unsound": {
        "flow_planner": [
            flow(
                look("a", "{{b.c}}"),
                look("b b", "{{a.x}} {{!}}"),
                look("a", "{{a}}", ["q"]),
                step("d", "nothing"),
                step("e", "", arguments={"{{a}}": 1}),
            ),
            flow(look("x", "花", ["y"]), look("y", "{{x.of}}"), globalVariables={"n": "{{x}}"}),
            flow(look("a", "花")),
        ],
        "answerer": ["持ち主 [a]."],
    },
    "partly": {
        "flow_planner": [
            flow(look("a", "花"), look("b", "悪", optional=True), leftOut=["海", "none"])
        ],
        "answerer": ["持ち主 [a]."],
    },
    "thinks": {
        "flow_planner": [flow(step("a", "llm_call", arguments={"prompt": "書く"}))],
        "llm_call": ["文"],
        "answerer": ["持ち主 [a]."],
    },
}
RUNS = [
    pytest.param(build, script, id=f"{build.__name__}, {name}")
    for build, scripts in (
        (build_plan_execute_verify, PLANS), (build_react, THOUGHTS), (build_prompt_flow, FLOWS)
    )
    for name, script in scripts.items()
]  # fmt: skip


@pytest.mark.req("W-62", "W-64")
@pytest.mark.parametrize(("build", "script"), RUNS)
def test_no_word_of_english_is_told_and_each_role_is_known(build: Any, script: Any) -> None:
    model = run(build, script)
    english = [found[0] for text in told(model) if (found := ENGLISH.search(text))]
    assert english == []
    assert any("⟦" in text or "君は" in text for text in told(model))


def payment(amount: int) -> list[dict[str, Any]]:
    return [{"name": "pay", "args": {"amount": amount}}]


UNREADABLE = {"name": "look", "args": "[1]", "id": "c", "error": None}
REFUSALS = [
    pytest.param([called("花", "lok")], {}, {}, ["'lok' look"], id="unknown tool"),
    pytest.param(
        [AIMessage("", invalid_tool_calls=[{**UNREADABLE, "type": "invalid_tool_call"}])], {}, {},
        ["⟦list⟧"], id="arguments that are no JSON object",
    ),
    pytest.param(
        [payment(1)], {"policy": [Rule(action="deny", tool="pay")]}, {}, ["⟦⟦pay⟧ ⟦⟧⟧"],
        id="denied by a rule",
    ),
    pytest.param([payment(1)], {}, {"policy": "deny"}, ["⟦⟦deny⟧ ⟦⟧⟧"], id="denied in this run"),
    pytest.param(
        [payment(1)], {}, {"policy": "ask"}, ["⟦⟦⟧ ⟦⟧⟧"], id="nobody to approve"
    ),
    pytest.param(
        [called("花"), called("草")], {}, {"max_tool_calls": 1}, ["⟦⟦⟧⟧"], id="spent allowance"
    ),
    pytest.param([payment(1) + payment(1)], {}, {}, ["不明", " UTC "], id="in doubt"),
]  # fmt: skip


@pytest.mark.req("W-64")
@pytest.mark.parametrize(("calls", "options", "settings", "words"), REFUSALS)
def test_why_a_call_was_not_made_is_told_in_the_runs_language(
    calls: list[Any], options: Any, settings: Any, words: list[str]
) -> None:
    unmet = {**VERDICT, "allCompleted": False, "tasks": [], "improvements": ["もっと"]}
    turns: Any = {
        "planner": [PLAN] * 9, "executor": [*calls, *[REPORT] * 9], "verifier": [unmet] * 9
    }  # fmt: skip
    model = ScriptedModel(turns)
    graph = build_plan_execute_verify(model=model, tools=[LOOK, pay], **options)
    context = Context(language="xx", model_retries=0, interactive=False, **settings)
    graph.invoke(GOAL, context=context)
    texts = told(model)
    assert [found[0] for text in texts if (found := ENGLISH.search(text))] == []
    assert [word for word in words if not any(word in text for text in texts)] == []


@pytest.mark.req("W-64")
@pytest.mark.parametrize(("given", "spoken"), [(None, "xx"), ("en", "en"), ("xx", "xx")])
def test_the_runs_language_wins_over_the_prompt_managers(given: Any, spoken: str) -> None:
    script: Any = PLANS["asked again"]
    model = ScriptedModel(script)
    graph = build_plan_execute_verify(
        model=model, tools=[LOOK], prompts=PromptManager(language="xx")
    )
    graph.invoke(GOAL, context=Context(language=given, interactive=False))
    texts = told(model)
    assert texts[0].startswith("君は") == (spoken == "xx")
    assert any(text.startswith("⟦") for text in texts) == (spoken == "xx")
