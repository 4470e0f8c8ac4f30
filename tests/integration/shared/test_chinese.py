"""Runs in Chinese: shipped prompts, templates of one's own, the offline model, what models answer.

Empty phrases of any language end nothing well, in any graph.
"""

import json
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopwright import (
    Context,
    PromptManager,
    ScriptedModel,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
)
from loopwright.flow.execution_plan import ExecutionPlan, RecoveryDecision
from loopwright.models.reading import read_text
from loopwright.prompts.prompt import list_slots
from loopwright.state.contracts import Contract, ExecutorResponse, PlannerResponse, VerifierResponse
from loopwright.state.roles import ROLES
from support.budget import alongside
from support.flows import flow, look, step
from support.scripts import call, passed, plan, report, thought, todo

BUILDS = [build_plan_execute_verify, build_react, build_prompt_flow]
GOAL: Any = {"messages": [("user", "查一查台灯的负责人是谁。")]}
every_graph = pytest.mark.parametrize("build", BUILDS)


def look_up(what: str) -> dict[str, str]:
    """查询一条信息。"""
    return {"负责人": "花子", "名称": what}


look_up.__name__ = "look"
FOUND = [call("look", what="台灯")]
SCRIPTS: dict[Any, dict[str, list[Any]]] = {
    build_plan_execute_verify: {
        "planner": [plan(todo("一", "查询负责人", acceptanceCriteria=["有姓名"]))],
        "executor": [FOUND, report("负责人是花子。")],
        "verifier": [passed("台灯的负责人是花子。", 一=["一.1.0"])],
    },
    build_react: {
        "thought": [thought("用 look 查询负责人。", more=True), thought("台灯的负责人是花子。")],
        "action": [FOUND],
        "observation": ["负责人是花子，可以作答。"],
    },
    build_prompt_flow: {
        "flow_planner": [
            flow(
                look("查询", "台灯", expect="负责人 is not empty"),
                step("写信", "llm_call", arguments={"prompt": "收件人：{{查询.负责人}}"}),
            )
        ],
        "llm_call": ["花子，您好。"],
        "answerer": ["负责人是花子 [查询、步骤写信]。"],
    },
}
LAST = {
    build_plan_execute_verify: "verifier", build_react: "thought", build_prompt_flow: "answerer"
}  # fmt: skip


def ran(build: Any, script: Any, prompts: PromptManager | None = None, **settings: Any) -> Any:
    model = ScriptedModel(script)
    graph = build(model=model, tools=[look_up], prompts=prompts)
    context = Context(**{"language": "zh", "interactive": False, **settings})
    return model, graph.invoke(GOAL, context=context)["outcome"]


@pytest.mark.req("W-64")
@every_graph
def test_a_run_in_chinese_is_told_everything_in_chinese(build: Any) -> None:
    model, outcome = ran(
        build, SCRIPTS[build], system_context="我们卖台灯。", resource_id="货架 七"
    )
    assert (outcome["status"], outcome["unmet"]) == ("complete", [])
    assert "花子" in outcome["answer"]
    for asked in model.asked:
        system = asked.messages[0].text
        assert system.startswith("你")
        assert "我们卖台灯。" in system
        assert build is not build_react or "当前资源：货架 七" in system
        for message in asked.messages[1:]:
            if message.type == "human":
                words = re.sub(r'"[^"]*"|<\w+>|</\w+>', "", message.text)
                assert not re.search(r"[a-z]+ [a-z]+ [a-z]+ [a-z]+", words), words


@pytest.mark.req("W-64")
@every_graph
def test_what_is_wrong_with_an_answer_is_said_in_chinese(build: Any) -> None:
    script = {role: list(turns) for role, turns in SCRIPTS[build].items()}
    script[LAST[build]].insert(0, "")
    model, outcome = ran(build, script)
    assert outcome["status"] == "complete"
    assert any("请重新回答" in m.text for asked in model.asked for m in asked.messages)


def own_templates() -> PromptManager:
    """Templates as a user writes them who knows no English; the slots alone are as they are."""
    prompts = PromptManager()
    for role in ROLES:
        slots = "".join(f"{{{{{name}}}}}" for name in list_slots(role))
        prompts.set_core_template(role, f"汝は此処にあり。{slots}")
    prompts.set_business_context("planner", "先查再写。")
    return prompts


@pytest.mark.req("W-62", "W-64")
@every_graph
@pytest.mark.parametrize("language", ["en", "zh"])
def test_templates_without_a_word_of_english_run(build: Any, language: str) -> None:
    model, outcome = ran(build, SCRIPTS[build], own_templates(), language=language)
    assert outcome["status"] == "complete"
    assert {asked.role for asked in model.asked} == {*SCRIPTS[build]}
    assert all(asked.messages[0].text.startswith("汝は") for asked in model.asked)


# ---- what models answer

HAN = st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF), min_size=2, max_size=12)
SAID = st.builds("{}，{}：“{}”。（{}）".format, HAN, HAN, HAN, HAN)
STATUS = {
    "待办": "pending", "进行中": "in_progress", "已完成": "completed", "失败": "failed",
    "已跳过": "skipped", "已取消": "cancelled", "受阻": "blocked",
}  # fmt: skip


def spellings(data: dict[str, Any]) -> list[str]:
    """The same object as Chinese keyboards and habits write it."""
    text = json.dumps(data, ensure_ascii=False)
    wide = re.sub(
        r'("(?:[^"\\]|\\.)*")|([:,])', lambda m: m[1] or {":": "：", ",": "，"}[m[2]], text
    )
    return [text, json.dumps(data), wide, f"回答如下：\n```json\n{text}\n```\n以上。"]


def read(contract: type[Contract], data: dict[str, Any]) -> list[Any]:
    parsed = [read_text(text, contract) for text in spellings(data)]
    assert [problems for _, problems in parsed if problems] == []
    return [value for value, _ in parsed]


@pytest.mark.req("W-64")
@given(HAN, SAID, SAID, SAID, st.sampled_from([*STATUS]))
def test_chinese_is_read_in_every_field_of_a_plan_and_a_report(id_, one, two, three, status):
    task = {
        "id": id_, "description": one, "status": status, "inputs": two,
        "acceptanceCriteria": [three, one], "dependsOn": [two],
    }  # fmt: skip
    said = {
        "summary": one, "needsMorePlanning": "否", "missingInformation": [two], "todos": [task]
    }  # fmt: skip
    for plan_ in read(PlannerResponse, said):
        assert plan_.model_dump(by_alias=True)["todos"][0] | {"status": status} == {
            **task, "priority": 1,
        }  # fmt: skip
        assert (plan_.summary, plan_.missing_information) == (one, [two])
        assert plan_.todos[0].status == STATUS[status]
    told = {
        "summary": one, "taskCompleted": "是", "nextAction": "完成",
        "todos": [{"id": id_, "status": status}],
    }  # fmt: skip
    for answer in read(ExecutorResponse, told):
        assert (answer.summary, answer.task_completed, answer.next_action) == (
            one, True, "complete"
        )  # fmt: skip
        assert [(t.id, t.status) for t in answer.todos] == [(id_, STATUS[status])]


@pytest.mark.req("W-64")
@given(HAN, SAID, SAID, st.booleans())
def test_chinese_is_read_in_every_field_of_a_verdict_and_of_planned_steps(id_, one, two, done):
    verdict = {
        "allCompleted": done, "userNeedsSatisfied": done, "overallFeedback": two,
        "tasks": [{"id": id_, "completed": done, "feedback": one, "evidence": [f"{id_}.1.0"]}],
        "summary": one, "improvements": [two],
    }  # fmt: skip
    for judged in read(VerifierResponse, verdict):
        shown = judged.model_dump(by_alias=True)
        assert {key: shown[key] for key in verdict if key != "tasks"} == {
            key: value for key, value in verdict.items() if key != "tasks"
        }
        assert shown["tasks"] == [{**verdict["tasks"][0], "findings": []}]
    steps = {
        "goal": one, "globalVariables": {id_: two}, "leftOut": [two],
        "steps": [{"id": id_, "description": one, "tool": "look", "arguments": {id_: two},
                   "expectedOutput": two}],
    }  # fmt: skip
    for planned in read(ExecutionPlan, steps):
        assert (planned.goal, planned.global_variables, planned.left_out) == (
            one, {id_: two}, [two]
        )  # fmt: skip
        assert planned.steps[0].arguments == {id_: two}
    for chosen in read(RecoveryDecision, {"strategy": "give_up", "reason": one}):
        assert chosen.reason == one


# ---- empty phrases

PHRASES = ["任务已完成", "Done.", "✅"]


@pytest.mark.req("W-10")
@every_graph
@pytest.mark.parametrize(
    ("phrase", "language"),
    alongside([(phrase,) for phrase in PHRASES], [("zh",), ("en",)]),
)
def test_a_phrase_is_no_final_answer_in_any_graph(build: Any, phrase: str, language: str) -> None:
    empty: Any = {
        build_plan_execute_verify: passed(phrase, 一=["一.1.0"]),
        build_react: thought(phrase),
        build_prompt_flow: f"{phrase} [查询]",
    }[build]
    script = {role: list(turns) for role, turns in SCRIPTS[build].items()}
    script[LAST[build]].insert(-1, empty)
    model, outcome = ran(build, script, language=language)
    assert outcome["status"] == "complete"
    assert "花子" in outcome["answer"]
    assert model.asked[-1].messages[-2].type == "ai", "it was asked again"


@pytest.mark.req("W-10")
def test_an_answer_that_stays_empty_gives_way_to_the_results_or_is_named() -> None:
    flows = {**SCRIPTS[build_prompt_flow], "answerer": ["完成 [查询]", "完成了 [查询]"]}
    _, outcome = ran(build_prompt_flow, flows)
    assert outcome["status"] == "complete"
    assert "花子" in outcome["answer"], "the results are shown as they came"
    loops = {**SCRIPTS[build_react], "thought": [thought("查", more=True), *[thought("完成")] * 2]}
    _, outcome = ran(build_react, loops)
    assert outcome["status"] == "partial"
    assert "没有任何实质内容" in outcome["unmet"][0]


@pytest.mark.req("W-10")
@pytest.mark.parametrize("answer", ["42", "是", "花子"])
def test_a_short_answer_ends_every_graph_well(answer: str) -> None:
    for build in BUILDS:
        script = {role: list(turns) for role, turns in SCRIPTS[build].items()}
        if build is build_plan_execute_verify:
            script["executor"][-1] = report(answer)
        script[LAST[build]][-1] = {
            build_plan_execute_verify: passed(answer, 一=["一.1.0"]),
            build_react: thought(answer),
            build_prompt_flow: f"{answer} [查询]",
        }[build]
        _, outcome = ran(build, script)
        assert (outcome["status"], answer in outcome["answer"]) == ("complete", True)


@pytest.mark.req("W-10")
def test_who_asks_for_the_word_done_gets_it() -> None:
    model = ScriptedModel({"thought": [thought("Done.")]})
    asks: Any = {"messages": [("user", 'Say "done".')]}
    assert build_react(model=model).invoke(asks)["outcome"]["status"] == "complete"


shown: list[list[dict[str, Any]]] = []
