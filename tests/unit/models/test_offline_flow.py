"""The offline model as planner, recovery and answerer of a plan of tool calls."""

import asyncio
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from loopwright.calls.toolbox import Toolbox
from loopwright.flow.capabilities import capabilities
from loopwright.flow.checks import flaws, plan_flaws
from loopwright.flow.references import resolve
from loopwright.models.offline.model import OfflineModel
from loopwright.prompts.prompt_manager import PromptManager
from loopwright.prompts.sections import sections
from loopwright.state.contracts import Contract
from loopwright.state.flow_contracts import ExecutionPlan, RecoveryDecision
from loopwright.tools.catalog import Catalog
from loopwright.tools.llm_call import with_llm_call
from support.offline_tools import CUSTOMERS, DOCUMENTS, WEATHER, Tools, spec, text

MODEL = OfflineModel()
NO_MODEL = "No language model is configured"
LIMIT = 20

Plan = list[tuple[str, dict[str, Any], list[str]]]
"""Tool, arguments and named dependencies of each step; the ids are s1, s2, …"""


def ask(role: str, shown: Mapping[str, object], *more: BaseMessage) -> str:
    opening = [SystemMessage(f"You are the {role} of a plan."), HumanMessage(sections(shown))]
    return MODEL.invoke([*opening, *more]).text


def planned(
    goal: str, tools: Sequence[Mapping[str, Any]], *more: BaseMessage, **shown: object
) -> ExecutionPlan:
    data = {"request": goal, "tools": tools, "limits": {"steps": LIMIT}, **shown}
    return ExecutionPlan.model_validate_json(ask("flow_planner", data, *more))


def steps_of(plan: ExecutionPlan) -> Plan:
    assert [step.id for step in plan.steps] == [f"s{n + 1}" for n in range(len(plan.steps))]
    return [(step.tool, step.arguments, step.dependencies) for step in plan.steps]


def described(tools: Tools, **more: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Invented tools as a planner is shown them; `more` holds further fields by tool."""
    functions = [offered["function"] for offered, _ in tools.values()]
    return [
        {
            "name": function["name"],
            "description": function["description"],
            "arguments": function["parameters"],
            **more.get(function["name"], {}),
        }
        for function in functions
    ]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    root = str(tmp_path_factory.mktemp("workspace"))
    server = ["-m", "loopwright.servers.workspace", "--root", root]
    config = {"mcpServers": {"workspace": {"command": sys.executable, "args": server}}}
    return asyncio.run(listed(Toolbox(with_llm_call([]), mcp=config)))


async def listed(box: Toolbox) -> Catalog:
    try:
        return await box.catalog()
    finally:
        await box.aclose()


@pytest.mark.parametrize(
    ("goal", "steps"),
    [
        (
            "List the files and write their names into names.txt",
            [
                ("list_files", {}, []),
                ("write_file", {"path": "names.txt", "content": "{{s1}}\n"}, ["s1"]),
            ],
        ),
        (
            "Read a.txt and b.txt",
            [("read_file", {"path": "a.txt"}, []), ("read_file", {"path": "b.txt"}, [])],
        ),
        (
            "Read a.txt. Search for TODO.",
            [("read_file", {"path": "a.txt"}, []), ("search_text", {"query": "TODO"}, [])],
        ),
        (
            "Create notes.txt with the text 'hello' and show it",
            [
                ("write_file", {"path": "notes.txt", "content": "hello"}, []),
                ("read_file", {"path": "notes.txt"}, ["s1"]),
            ],
        ),
        (
            "Read a.txt, read b.txt and write both into c.txt",
            [
                ("read_file", {"path": "a.txt", "full": True}, []),
                ("read_file", {"path": "b.txt", "full": True}, []),
                ("write_file", {"path": "c.txt", "content": "{{s1}}\n\n{{s2}}\n"}, ["s1", "s2"]),
            ],
        ),
        (
            "Search for TODO, list the files and save the matches to todo.txt",
            [
                ("search_text", {"query": "TODO"}, []),
                ("list_files", {}, []),
                ("write_file", {"path": "todo.txt", "content": "{{s1}}\n"}, ["s1", "s2"]),
            ],
        ),
        (
            "Append 'Dear {{name}}' to log.txt, then read log.txt",
            [
                ("append_file", {"path": "log.txt", "content": r"Dear \{{name}}"}, []),
                ("read_file", {"path": "log.txt"}, ["s1"]),
            ],
        ),
    ],
)
def test_a_goal_becomes_a_sound_plan_over_real_tools(
    goal: str, steps: Plan, workspace: Catalog
) -> None:
    plan = planned(goal, capabilities(workspace))
    assert steps_of(plan) == steps
    assert plan_flaws(plan, workspace, limit=LIMIT) == []
    assert "Left out" not in plan.goal
    assert plan.left_out == []


@pytest.mark.parametrize(
    ("goal", "left"),
    [
        ("Read a.txt and write a poem about it into p.txt", "write a poem about it into p.txt"),
        ("Read a.txt and save its summary to p.txt", "save its summary to p.txt"),
        ("Read a.txt, summarise it and write it into p.txt", "write it into p.txt"),
        ("List the files and write the number of files into p.txt", "write the number of files"),
        ("Read a.txt, create p.txt with 'x' and append it to q.txt", "append it to q.txt"),
        ("Read a.txt and delete b.txt", "delete b.txt"),
        ("List the files and read each of them", "read each of them"),
    ],
)
def test_what_would_have_to_be_made_up_is_left_out_and_named(
    goal: str, left: str, workspace: Catalog
) -> None:
    plan = planned(goal, capabilities(workspace))
    assert plan_flaws(plan, workspace, limit=LIMIT) == []
    assert plan.steps
    assert "{{" not in json.dumps([step.arguments for step in plan.steps])
    assert NO_MODEL in plan.goal
    assert f'Left out: "{left}' in plan.goal


@pytest.mark.parametrize("goal", ["Write me a poem", "Delete a.txt", "Hello", "Hi {{s1}}"])
def test_where_nothing_can_be_planned_the_missing_model_is_asked(
    goal: str, workspace: Catalog
) -> None:
    plan = planned(goal, capabilities(workspace))
    [step] = plan.steps
    assert step.tool == "llm_call"
    assert resolve(step.arguments, {}, {}) == {"prompt": goal}
    assert plan_flaws(plan, workspace, limit=LIMIT) == []
    system = SystemMessage(PromptManager().get_prompt("llm_call"))
    answer = MODEL.invoke([system, HumanMessage(goal)])
    assert answer.text.startswith(NO_MODEL)


def test_a_question_about_results_needs_no_step(workspace: Catalog) -> None:
    plan = planned("Read a.txt and tell me who owns the policy", capabilities(workspace))
    assert steps_of(plan) == [("read_file", {"path": "a.txt"}, [])]
    assert "Left out" not in plan.goal


def test_a_field_that_a_result_declares_fills_the_argument_of_its_name() -> None:
    lee = {"type": "object", "properties": {"id": {"type": "string"}}}
    found = {"result": {"type": "array", "items": lee}}
    goal = 'Find the customer "Lee" and list the orders of that customer'
    plan = planned(goal, described(CUSTOMERS, find_customer=found))
    assert [arguments for _, arguments, _ in steps_of(plan)] == [
        {"name": "Lee"},
        {"customer_id": "{{s1[0].id}}"},
    ]
    untold = planned(goal, described(CUSTOMERS))
    assert [step.tool for step in untold.steps] == ["find_customer"]
    assert "list_orders needs 'customer_id'" in untold.goal


def test_a_field_of_another_type_or_owner_is_not_taken() -> None:
    goal = 'Find the customer "Lee" and list the orders of that customer'
    for fields in ({"id": {"type": "array"}}, {"name": {"type": "string"}}):
        found = {"result": {"type": "object", "properties": fields}}
        plan = planned(goal, described(CUSTOMERS, find_customer=found))
        assert [step.tool for step in plan.steps] == ["find_customer"]


def test_a_text_result_is_handed_on_as_it_is() -> None:
    tools = described(DOCUMENTS, open_document={"result": {"type": "string"}})
    plan = planned("Read notes.md and store it in copy.md", tools)
    assert plan.steps[1].arguments == {"path": "copy.md", "content": "{{s1}}"}


def test_what_the_catalog_calls_a_change_waits_for_what_stands_before_it() -> None:
    goal = "Read a.md. Read b.md. Read c.md"
    assert [waits for _, _, waits in steps_of(planned(goal, described(DOCUMENTS)))] == [[], [], []]
    risky = described(DOCUMENTS, open_document={"changes": True})
    assert [waits for _, _, waits in steps_of(planned(goal, risky))] == [[], ["s1"], ["s2"]]


def test_nothing_is_changed_behind_a_part_that_cannot_be_done() -> None:
    tools = described(DOCUMENTS)
    plan = planned("Back up a.md, read a.md and store 'gone' in a.md", tools)
    assert steps_of(plan) == [("open_document", {"path": "a.md"}, [])]
    assert "it would change something, and a part before it cannot be done" in plan.goal
    asked = planned("Who is the king of Spain? Store 'x' in a.md", tools)
    assert [step.tool for step in asked.steps] == ["store_document"]


def test_a_plan_has_no_more_steps_than_the_limits_allow() -> None:
    goal = "Read a.md, read b.md and read c.md and d.md"
    plan = planned(goal, described(DOCUMENTS), limits={"steps": 2})
    assert [step.arguments["path"] for step in plan.steps] == ["a.md", "b.md"]
    assert 'Left out: "read c.md and d.md": the plan has no room' in plan.goal


def test_a_call_that_failed_before_is_not_planned_again() -> None:
    tools = described(DOCUMENTS)
    failed = {"step": "s1", "tool": "open_document", "arguments": {"path": "a.md"}}
    plan = planned("Read a.md and b.md", tools, failures=[failed])
    assert steps_of(plan) == [("open_document", {"path": "b.md"}, [])]


def test_results_of_finished_steps_are_known_to_a_new_plan() -> None:
    listed = {"id": "s1", "description": "List the files in docs/", "tool": "browse_folder"}
    goal = "List the files in docs/ and read notes.md"
    done = {**listed, "status": "completed", "result": "notes.md (70 bytes)"}
    plan = planned(goal, described(DOCUMENTS), steps=[done])
    assert plan.steps[1].arguments == {"path": "docs/notes.md"}


def test_what_the_user_wants_changed_is_planned_as_well() -> None:
    wish = ["The user says: also read b.md", "The user says: please read a.md"]
    plan = planned("Read a.md", described(DOCUMENTS), improvements=wish)
    assert [step.arguments["path"] for step in plan.steps] == ["a.md", "b.md"]


def test_a_repair_drops_the_steps_that_were_refused_and_what_reads_them() -> None:
    goal = "Read a.md, list the files in docs, store them in x.md and read b.md"
    tools = described(DOCUMENTS)
    first = planned(goal, tools)
    assert [(step.tool, step.dependencies) for step in first.steps] == [
        ("open_document", []),
        ("browse_folder", []),
        ("store_document", ["s1", "s2"]),
        ("open_document", ["s3"]),
    ]
    findings = "This cannot run:\n- step 's2' names no tool that 's1' could be\nMend every point."
    repair = [AIMessage(first.model_dump_json()), HumanMessage(findings)]
    second = planned(goal, tools, *repair)
    assert [(step.id, step.dependencies) for step in second.steps] == [("s1", []), ("s4", ["s1"])]
    assert "the check of the plan refused it" in second.goal
    # A finding that names no step leaves nothing to drop: the next answer is the same one.
    repair += [AIMessage(second.model_dump_json()), HumanMessage("- it is not nice")]
    assert planned(goal, tools, *repair) == second


def test_a_repair_changes_nothing_behind_what_was_refused() -> None:
    tools, goal = described(DOCUMENTS), "Read a.md, store 'x' in b.md and read b.md"
    repair = [AIMessage("{}"), HumanMessage("- step 's1' must not run")]
    plan = planned(goal, tools, *repair)
    assert [(step.id, step.tool) for step in plan.steps] == [("s3", "open_document")]


@pytest.mark.parametrize(
    ("failure", "safe", "left", "strategy"),
    [
        ("timeout", True, 2, "retry_step"),
        ("tool_error", True, 1, "retry_step"),
        ("tool_error", True, 0, "give_up"),
        ("tool_error", False, 2, "give_up"),
        ("bad_arguments", True, 2, "give_up"),
        ("uncertain", True, 2, "give_up"),
    ],
)
def test_only_a_passing_failure_of_a_call_safe_to_repeat_is_tried_again(
    failure: str, safe: bool, left: int, strategy: str
) -> None:
    cause = {"step": "s2", "tool": "fetch", "failure": failure, "error": "server is busy"}
    shown = {
        "request": "Fetch it",
        "failures": [{**cause, "safe_to_repeat": safe}],
        "strategies": {"retry_step": left, "complete_replan": 1},
    }
    decision = RecoveryDecision.model_validate_json(ask("recovery", shown))
    assert decision.strategy == strategy
    told = "step s2 (fetch) failed: server is busy"
    assert (told in decision.reason) == (strategy == "retry_step")
    assert (NO_MODEL in decision.reason) == (strategy == "give_up")


def test_one_failure_that_stays_ends_the_turn_for_all() -> None:
    passing = {"step": "s1", "tool": "a", "failure": "timeout", "safe_to_repeat": True}
    lasting = {**passing, "step": "s2", "failure": "bad_arguments"}
    shown = {"failures": [passing, lasting], "strategies": {"retry_step": 2}}
    decision = RecoveryDecision.model_validate_json(ask("recovery", shown))
    assert decision.strategy == "give_up"


LISTING = {
    "id": "s1", "description": "List the files in docs/", "tool": "browse_folder",
    "arguments": {"path": "docs/"}, "status": "completed", "result": "notes.md (70 bytes)",
}  # fmt: skip


def test_what_is_finished_stays_the_same_call_whatever_results_tell_by_now() -> None:
    goal = "List the files in docs/, store 'x' in notes.md and read letter.txt"
    first = planned(goal, described(DOCUMENTS))
    assert first.steps[1].arguments == {"path": "notes.md", "content": "x"}
    made = first.steps[1].model_dump(by_alias=True) | {"status": "completed", "result": "wrote it"}
    second = planned(goal, described(DOCUMENTS), steps=[LISTING, made])
    assert second.steps[1].arguments == first.steps[1].arguments, "else it is written twice"


def test_of_several_calls_for_one_clause_some_may_be_finished() -> None:
    goal = "Store 'x' in a.md and b.md and list the files in docs/"
    first = planned(goal, described(DOCUMENTS))
    assert [step.arguments.get("path") for step in first.steps[:2]] == ["a.md", "b.md"]
    made = first.steps[0].model_dump(by_alias=True) | {
        "status": "completed", "result": "archive/b.md was there before",
    }  # fmt: skip
    assert planned(goal, described(DOCUMENTS), steps=[made]).steps == first.steps


def lost(path: str, **more: object) -> dict[str, object]:
    return {
        "step": "s2", "tool": "open_document", "arguments": {"path": path}, "error": "no such file",
        "failure": "tool_error", "safe_to_repeat": True, **more,
    }  # fmt: skip


def test_a_file_that_results_know_by_another_path_is_looked_for_there() -> None:
    left = {"retry_step": 2, "replan_from_failure": 2}
    shown = {"failures": [lost("notes.md")], "strategies": left, "steps": [LISTING]}
    decision = RecoveryDecision.model_validate_json(ask("recovery", shown))
    assert decision.strategy == "replan_from_failure"
    assert "notes.md is docs/notes.md" in decision.reason
    told = f"s2 failed, {decision.strategy} was chosen: {decision.reason}"
    plan = planned(
        "List the files in docs/ and read notes.md", described(DOCUMENTS), steps=[LISTING],
        failures=shown["failures"], improvements=[told],
    )  # fmt: skip
    assert [(step.tool, step.arguments) for step in plan.steps] == [
        ("browse_folder", {"path": "docs/"}),
        ("open_document", {"path": "docs/notes.md"}),
    ]
    assert plan.left_out == [], "what recovery says is no part of the goal"


@pytest.mark.parametrize(
    ("failure", "left", "strategy"),
    [
        (lost("notes.md"), {"retry_step": 2}, "retry_step"),
        (lost("other.md"), {"retry_step": 2, "replan_from_failure": 2}, "retry_step"),
        (lost("docs/notes.md"), {"replan_from_failure": 2}, "give_up"),
        (lost("notes.md", safe_to_repeat=False), {"replan_from_failure": 2}, "give_up"),
    ],
)
def test_another_path_is_tried_only_where_there_is_one_and_looking_does_no_harm(
    failure: dict[str, object], left: dict[str, int], strategy: str
) -> None:
    shown = {"failures": [failure], "strategies": left, "steps": [LISTING]}
    decision = RecoveryDecision.model_validate_json(ask("recovery", shown))
    assert decision.strategy == strategy


@dataclass
class Run:
    """A goal's plan, the calls that were made for it, and the answer."""

    plan: ExecutionPlan
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    answer: str = ""


def run(goal: str, tools: Tools) -> Run:
    """Plan, call step after step with references resolved, answer: the graph without the graph."""
    done = Run(planned(goal, described(tools)))
    steps: list[dict[str, Any]] = []
    results: dict[str, str] = {}
    for step in done.plan.steps:
        arguments = resolve(step.arguments, results, {})
        shown = {"id": step.id, "description": step.description, "tool": step.tool}
        done.calls.append((step.tool, arguments))
        try:
            results[step.id] = tools[step.tool][1](**arguments)
            shown |= {"status": "completed", "result": results[step.id]}
        except (ValueError, KeyError, TypeError) as error:
            shown |= {"status": "failed", "feedback": str(error)}
        steps.append(shown)
    done.answer = ask("answerer", {"request": goal, "steps": steps})
    return done


def test_the_answer_shows_what_each_step_gave_and_cites_it() -> None:
    done = run("Read docs/notes.md and store it in copy.md", DOCUMENTS)
    notes = "# Notes\nThe returns policy is owned by Maria Schmidt.\nShips on Monday."
    assert done.calls == [
        ("open_document", {"path": "docs/notes.md"}),
        ("store_document", {"path": "copy.md", "content": f"{notes}\n"}),
    ]
    assert "**Read docs/notes.md** [s1]" in done.answer
    assert "**store it in copy.md** [s2]\n\nwrote 71 characters to copy.md" in done.answer
    assert "Not done" not in done.answer
    assert NO_MODEL in done.answer


def test_a_question_is_answered_from_the_step_that_holds_the_answer() -> None:
    done = run("Read docs/notes.md and tell me who owns the returns policy", DOCUMENTS)
    owner = "The returns policy is owned by Maria Schmidt."
    assert f"**tell me who owns the returns policy** [s1]\n\n{owner}" in done.answer


def test_what_failed_and_what_was_left_out_is_named_without_a_citation() -> None:
    done = run("Read docs/notes.md, read lost.md and write a poem into p.md", DOCUMENTS)
    assert "[s1]" in done.answer
    assert "[s2]" not in done.answer
    missing = done.answer.partition("Not done:")[2]
    assert '"read lost.md": lost.md does not exist' in missing
    assert '"write a poem into p.md": no completed step covers it' in missing


def test_the_reason_of_a_failure_is_told_once() -> None:
    done = {"id": "s1", "description": "Read a.md", "status": "completed", "result": "tea"}
    lost = {"id": "s2", "description": "read b.md", "tool": "open_document", "status": "failed"}
    why = ["s2 (read b.md) failed: b.md does not exist"]
    shown = {"request": "Read a.md, read b.md and read c.md", "steps": [done, lost]}
    answer = ask("answerer", {**shown, "failures": why})
    assert answer.partition("Not done:\n")[2].splitlines()[:2] == [
        "- s2 (read b.md) failed: b.md does not exist",
        '- "read c.md": no completed step covers it',
    ]
    left_out = 'Not planned: "read c.md": no tool reads c.md'
    answer = ask("answerer", {**shown, "failures": [*why, left_out]})
    assert answer.count("c.md") == left_out.count("c.md")


def test_brackets_in_a_result_are_no_citation() -> None:
    steps = [{"id": "s1", "description": "Read a.md", "status": "completed", "result": "[s9] tea"}]
    answer = ask("answerer", {"request": "Read a.md", "steps": steps})
    assert "**Read a.md** [s1]\n\n`[s9] tea`" in answer


@pytest.mark.parametrize("result", [f"{NO_MODEL}, so …", "Error: the disk is full"])
def test_a_step_that_gave_only_an_excuse_is_not_cited(result: str) -> None:
    asked = {"id": "s1", "description": "Write me a poem", "tool": "llm_call"}
    shown = {
        "request": "Write me a poem",
        "steps": [{**asked, "status": "completed"} | {"result": result}],
    }
    answer = ask("answerer", shown)
    assert "[s1]" not in answer
    assert f'Not done:\n- "Write me a poem": {result}' in answer


def test_roles_are_found_by_the_shipped_prompts_and_by_the_contracts() -> None:
    prompts = PromptManager()
    data = HumanMessage(sections({"request": "What is the weather in Oslo?"}))
    plan = MODEL.invoke([SystemMessage(prompts.get_prompt("flow_planner")), data])
    assert ExecutionPlan.model_validate_json(plan.text)
    decision = MODEL.invoke([SystemMessage(prompts.get_prompt("recovery")), data])
    assert RecoveryDecision.model_validate_json(decision.text)
    answer = MODEL.invoke([SystemMessage(prompts.get_prompt("answerer")), data])
    assert answer.text.startswith("Not done:")
    for contract in (ExecutionPlan, RecoveryDecision):
        structured = MODEL.with_structured_output(contract)
        system = SystemMessage(f"Answer as {contract.__name__}.")
        assert isinstance(structured.invoke([system, data]), contract)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
WORDS = st.sampled_from(
    ["read", "list the files", "a.md", '"x {{y}}"', "and", "then", "store it in", "b.md", "Paris",
     "weather", "them", "both", "tell me", "{{s1}}", "?", ".", "the results", "find", "in docs"]
)  # fmt: skip
GOALS = st.text(max_size=200) | st.lists(WORDS, max_size=14).map(" ".join)


def everything() -> Iterable[dict[str, Any]]:
    odd = spec(
        "note_down", "Store a list of notes.", "notes", notes={"type": "array", "items": text()}
    )
    return described({**DOCUMENTS, **CUSTOMERS, **WEATHER, "note_down": (odd, lambda notes: "")})


@given(goal=GOALS, result=JSON, failures=JSON, findings=st.text(max_size=60))
def test_any_goal_gives_a_plan_without_structural_flaws(
    goal: str, result: Any, failures: Any, findings: str
) -> None:
    tools = [{**tool, "result": result} for tool in everything()]
    talk = [AIMessage("{}"), HumanMessage(f"- step 's2' is bad\n- {findings}")]
    plan = planned(goal, tools, *talk, failures=failures, steps=result, improvements=failures)
    assert flaws(plan, kept=(), limit=LIMIT) == []
    known: dict[str, str] = {}
    for step in plan.steps:  # in the order of the plan every reference has its value
        resolve(step.arguments, known, {})
        known[step.id] = "given"


@given(role=st.sampled_from(["flow_planner", "recovery", "answerer"]), data=JSON, other=JSON)
def test_sections_of_any_shape_are_answered(role: str, data: Any, other: Any) -> None:
    names = ("tools", "steps", "failures", "strategies", "limits", "improvements")
    shown = {"request": "list the files", **dict(zip(names, (data, other) * 3, strict=True))}
    answer = ask(role, shown)
    contracts: dict[str, type[Contract]] = {
        "flow_planner": ExecutionPlan,
        "recovery": RecoveryDecision,
    }
    assert contracts[role].model_validate_json(answer) if role in contracts else answer
