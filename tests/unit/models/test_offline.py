"""The offline model against small invented tools of several kinds, and against any input at all."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from loopwright.models.offline.model import OfflineModel
from loopwright.prompts.sections import sections
from loopwright.state.contracts import (
    ExecutorResponse,
    PlannerResponse,
    VerifierResponse,
)
from support.contracts import CONTRACTS, OF_PLAN
from support.offline_tools import (
    CALENDAR,
    CUSTOMERS,
    DOCUMENTS,
    INVENTORY,
    QUERIES,
    WEATHER,
    Tools,
    spec,
    text,
)

MODEL = OfflineModel()


@dataclass
class Run:
    """A goal's plan, its calls and its verdict."""

    plan: PlannerResponse
    verdict: VerifierResponse | None = None
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return self.verdict is not None and self.verdict.passed

    @property
    def summary(self) -> str:
        return self.verdict.summary if self.verdict else ""


def ask(
    role: str,
    shown: Mapping[str, object],
    scratch: Sequence[BaseMessage] = (),
    tools: Sequence[dict[str, Any]] = (),
) -> AIMessage:
    model = MODEL.bind_tools(tools) if tools else MODEL
    system = SystemMessage(f"You are the {role}.")
    return model.invoke([system, HumanMessage(sections(shown)), *scratch])


def run(goal: str, tools: Tools, **planning: object) -> Run:
    """Plan, execute task after task, verify: the smallest loop around the model."""
    specs = [offered for offered, _ in tools.values()]
    seen = [{key: s["function"][key] for key in ("name", "description")} for s in specs]
    answer = ask("planner", {"request": goal, "tools": seen, **planning})
    done = Run(PlannerResponse.model_validate_json(answer.text))
    if done.plan.needs_more_planning:
        return done
    tasks: list[dict[str, Any]] = []
    evidence: list[dict[str, Any]] = []
    for todo in done.plan.todos:
        task = {"id": todo.id, "description": todo.description, "inputs": todo.inputs}
        report = execute(goal, task, tasks, specs, tools, evidence, done)
        status = "completed" if report.task_completed else "failed"
        tasks.append({**task, "status": status, "result": report.summary})
    verdict = ask("verifier", {"request": goal, "tasks": tasks, "evidence": evidence})
    done.verdict = VerifierResponse.model_validate_json(verdict.text)
    return done


def execute(
    goal: str,
    task: dict[str, Any],
    tasks: Sequence[dict[str, Any]],
    specs: Sequence[dict[str, Any]],
    tools: Tools,
    evidence: list[dict[str, Any]],
    done: Run,
) -> ExecutorResponse:
    scratch: list[BaseMessage] = []
    shown = {"request": goal, "task": task, "results_so_far": list(tasks)}
    for round_ in range(1, 11):
        answer = ask("executor", shown, scratch, specs)
        if not answer.tool_calls:
            break
        scratch.append(answer)
        for index, call in enumerate(answer.tool_calls):
            done.calls.append((call["name"], call["args"]))
            try:
                result, status = tools[call["name"]][1](**call["args"]), "success"
            except (ValueError, KeyError, TypeError) as error:
                result, status = str(error), "error"
            scratch.append(ToolMessage(result, tool_call_id=call["id"], status=status))
            evidence.append(
                {
                    "id": f"{task['id']}.{round_}.{index}",
                    "task": task["id"],
                    "tool": call["name"],
                    "arguments": call["args"],
                    "status": status,
                    "result": result,
                }
            )
    report = ExecutorResponse.model_validate_json(answer.text)
    if not scratch:
        own = {"id": f"{task['id']}.report", "task": task["id"], "tool": None}
        evidence.append({**own, "status": "success", "result": report.summary})
    return report


def descriptions(goal: str) -> list[str]:
    answer = ask("planner", {"request": goal})
    plan = PlannerResponse.model_validate_json(answer.text)
    return [todo.description for todo in plan.todos]


@pytest.mark.parametrize(
    ("goal", "parts"),
    [
        (
            "List the files in docs, read notes.md and tell me who owns it",
            ["List the files in docs", "read notes.md", "tell me who owns it"],
        ),
        ("Show notes and letters", ["Show notes and letters"]),
        ("Read a.md and b.md", ["Read a.md and b.md"]),
        ("1. list files 2. read a.md 3. summarise it", ["list files", "read a.md", "summarise it"]),
        ("- read a.md\n- read b.md", ["read a.md", "read b.md"]),
        ('Write "x, and then read y" to a.txt', ['Write "x, and then read y" to a.txt']),
        ("I work at Foo. Please list the tables!", ["list the tables"]),
        ("If it is 9:00 in Oslo, what time is it in Lima?", None),
        ("Run SELECT a, b FROM t; then list the tables", None),
        ("{a} {{b}}", ["{a} {{b}}"]),
    ],
)
def test_a_goal_is_cut_at_its_verbs_and_never_inside_a_literal(
    goal: str, parts: list[str] | None
) -> None:
    found = descriptions(goal)
    if parts is None:
        assert all(word in " ".join(found) for word in goal.split()[1:3])
        assert len(found) <= 2
    else:
        assert found == parts


@pytest.mark.parametrize("goal", ["", "  \n", "???", "🙂"])
def test_a_goal_that_names_nothing_asks_what_to_do(goal: str) -> None:
    plan = run(goal, WEATHER).plan
    assert plan.needs_more_planning
    assert plan.missing_information


def test_a_plan_has_at_most_twenty_tasks_and_says_what_it_left_out() -> None:
    answer = ask("planner", {"request": "\n".join(f"read file{n}.md" for n in range(50))})
    plan = PlannerResponse.model_validate_json(answer.text)
    assert len(plan.todos) == 20
    assert "50" in plan.summary


def test_a_second_plan_holds_only_what_is_unproven() -> None:
    previous = [
        {"id": "1", "description": "list the tables", "status": "completed", "result": "orders"},
        {"id": "2", "description": "delete the orders", "status": "failed", "result": ""},
    ]
    shown = {
        "request": "list the tables and delete the orders",
        "previous_plan": previous,
        "improvements": ['"delete the orders": No offered tool matches this task.'],
    }
    plan = PlannerResponse.model_validate_json(ask("planner", shown).text)
    assert [(todo.id, todo.description) for todo in plan.todos] == [("2", "delete the orders")]


def test_weather_of_two_cities_is_two_calls_with_the_unit_that_was_asked() -> None:
    done = run("What is the weather in Paris and Oslo in fahrenheit for 3 days?", WEATHER)
    assert [call["city"] for _, call in done.calls] == ["Paris", "Oslo"]
    assert {call["unit"] for _, call in done.calls} == {"fahrenheit"}
    assert {call["days"] for _, call in done.calls} == {3}
    assert done.passed
    assert "Oslo: 7 degrees" in done.summary


def test_a_calendar_is_written_only_with_what_the_goal_gives() -> None:
    done = run('Create an event "Lunch" on 2026-03-04 at 1:30 pm', CALENDAR)
    wanted = {"title": "Lunch", "date": "2026-03-04", "time": "13:30"}
    assert done.calls == [("calendar_create_event", wanted)]
    assert done.passed


def test_a_question_is_answered_from_the_result_with_its_evidence() -> None:
    done = run("List the events of 2026-03-04 and tell me who is in the budget review", CALENDAR)
    assert done.calls == [("calendar_list_events", {"date": "2026-03-04"})]
    assert done.passed
    assert done.summary.index("Priya Nair") < done.summary.index("List the events")
    assert "[1.1.0]" in done.summary


def test_an_error_that_names_the_right_value_leads_to_one_corrected_call() -> None:
    done = run("Check the stock of product A-10O", INVENTORY)
    assert [call["sku"] for _, call in done.calls] == ["A-10O", "A-100"]
    assert done.passed
    assert "12" in done.summary


def test_an_id_comes_from_an_earlier_result() -> None:
    done = run('Find the customer "Lee" and list the orders of that customer', CUSTOMERS)
    assert done.calls == [
        ("find_customer", {"name": "Lee"}),
        ("list_orders", {"customer_id": "C-17"}),
    ]
    assert done.passed


def test_a_file_listed_before_is_read_where_it_was_listed() -> None:
    goal = "List the files in docs/, read notes.md and tell me who owns the returns policy"
    done = run(goal, DOCUMENTS)
    assert ("open_document", {"path": "docs/notes.md"}) in done.calls
    assert done.passed
    assert "Maria Schmidt" in done.summary


def test_text_is_written_only_when_the_goal_gives_it() -> None:
    given_text = run('Write "see you" to bye.txt', DOCUMENTS)
    assert given_text.calls == [("store_document", {"path": "bye.txt", "content": "see you"})]
    assert given_text.passed
    invented = run("Write a poem about the sea to poem.txt", DOCUMENTS)
    assert not invented.calls
    assert not invented.passed
    assert "'content'" in invented.summary
    assert "No language model is configured" in invented.summary


def test_sql_is_passed_on_and_never_made_up() -> None:
    literal = run("Run SELECT count(*) AS total FROM orders", QUERIES)
    assert literal.calls == [("run_query", {"query": "SELECT count(*) AS total FROM orders"})]
    assert literal.passed
    assert not any(name == "run_query" for name, _ in run("Which orders are late?", QUERIES).calls)


def test_each_thing_listed_before_gets_its_own_call() -> None:
    done = run("List all tables, then describe each one", QUERIES)
    tables = [call["table"] for name, call in done.calls if name == "table_info"]
    assert tables == ["customers", "orders"]
    assert done.passed


@pytest.mark.parametrize(
    "goal",
    [
        "Delete everything older than 30 days",
        "Send docs/notes.md to bob@example.com",
        "Revert the last change",
        "Book a flight to Rome",
        "Lösche docs/notes.md",
        "Who is the president of France?",
    ],
)
def test_what_no_tool_can_do_is_named_and_changes_nothing(goal: str) -> None:
    done = run(goal, DOCUMENTS)
    assert not any(name == "store_document" for name, _ in done.calls)
    assert done.verdict is not None
    assert not done.verdict.passed
    assert done.verdict.improvements[0].startswith(f'"{goal.rstrip("?")}')


def test_one_impossible_clause_makes_the_whole_unfinished_and_keeps_the_rest() -> None:
    done = run("List the tables and email them to bob@example.com", QUERIES)
    assert done.verdict is not None
    assert [task.completed for task in done.verdict.tasks] == [True, False]
    assert "customers" in done.summary


def test_no_call_is_made_twice() -> None:
    for goal in (
        "Read missing.md",
        "Read the notes",
        "Check the stock of Z-1",
        "describe each one",
    ):
        done = run(goal, {**DOCUMENTS, **INVENTORY, **QUERIES})
        assert len({json.dumps(call) for call in done.calls}) == len(done.calls)
        assert not done.passed or done.calls


def test_a_task_without_a_fitting_success_is_not_proven() -> None:
    task = {
        "id": "1",
        "description": "delete the orders",
        "status": "completed",
        "result": "Deleted.",
    }
    call = {"id": "1.1.0", "task": "1", "tool": "show_tables", "arguments": {}}
    shown = {
        "request": "delete the orders",
        "tasks": [task],
        "evidence": [{**call, "status": "success", "result": "customers\norders"}],
    }
    verdict = VerifierResponse.model_validate_json(ask("verifier", shown).text)
    assert not verdict.passed
    assert not verdict.tasks[0].completed


def test_a_part_of_the_request_that_no_task_covers_is_named() -> None:
    shown = {"request": "List the tables and email bob@example.com", "tasks": [], "evidence": []}
    verdict = VerifierResponse.model_validate_json(ask("verifier", shown).text)
    assert any("List the tables" in text for text in verdict.improvements)


def test_a_report_that_no_result_supports_is_not_proven() -> None:
    task = {"id": "1", "description": "tell me the owner", "status": "completed", "result": "Bob"}
    report = {
        "id": "1.report",
        "task": "1",
        "tool": None,
        "status": "success",
        "result": "It is Bob.",
    }
    shown = {"request": "tell me the owner", "tasks": [task], "evidence": [report]}
    assert not VerifierResponse.model_validate_json(ask("verifier", shown).text).passed


def test_other_questions_are_told_what_to_configure() -> None:
    answer = MODEL.invoke("Write me a poem")
    assert "OPENAI_API_KEY" in answer.text
    assert "LOOPWRIGHT_MODEL" in answer.text
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["output_tokens"] > 0


@pytest.mark.parametrize("role", OF_PLAN)
def test_structured_output_gives_the_contract_of_the_role(role: str) -> None:
    contract = CONTRACTS[role]
    shown = sections({"request": "list the tables", "task": {"id": "1", "description": "list"}})
    structured = MODEL.with_structured_output(contract)
    answer = structured.invoke(
        [SystemMessage(f"Answer as {contract.__name__}."), HumanMessage(shown)]
    )
    assert isinstance(answer, contract)


def test_the_same_question_has_the_same_answer() -> None:
    first, second = (run("What is the weather in Oslo?", WEATHER) for _ in range(2))
    assert first == second


async def test_it_answers_on_an_event_loop() -> None:
    answer = await MODEL.ainvoke(
        [SystemMessage("You are the planner."), HumanMessage("list files")]
    )
    assert PlannerResponse.model_validate_json(answer.text).todos


@pytest.mark.parametrize("unit", ["a ", '"', "(", "\n", "read x.md and then ", "'a ", "1", "{"])
def test_a_goal_of_a_megabyte_is_no_burden(unit: str) -> None:
    goal = unit * (1_000_000 // len(unit))
    run(goal[: 1_000_000 - 1], DOCUMENTS)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["type", "properties", "required", "enum", "items", "pattern", "anyOf", "$ref", "default"]
)
SCHEMAS = st.dictionaries(KEYS, JSON, max_size=5)
WORDS = st.sampled_from(
    [
        "read",
        "list",
        "a.md",
        '"x"',
        "and",
        "then",
        "SELECT a FROM b",
        "Paris",
        "2026-01-02",
        "{",
        "it",
        "?",
    ]
)
GOALS = st.text(max_size=200) | st.lists(WORDS, max_size=12).map(" ".join)


@given(goal=GOALS, schema=SCHEMAS, result=st.text(max_size=200) | JSON.map(json.dumps))
def test_no_input_makes_it_raise(goal: str, schema: dict[str, Any], result: str) -> None:
    function = {"name": "look_up", "description": goal[:50], "parameters": schema}
    odd = {"look_up": ({"type": "function", "function": function}, lambda **_: result)}
    done = run(goal, {**odd, **CUSTOMERS, **DOCUMENTS})
    assert done.plan.needs_more_planning or done.verdict is not None


@given(role=st.sampled_from(OF_PLAN), task=JSON, results=JSON, evidence=JSON)
def test_sections_of_any_shape_are_answered(
    role: str, task: Any, results: Any, evidence: Any
) -> None:
    names = (
        "task",
        "results_so_far",
        "tasks",
        "evidence",
        "previous_plan",
        "improvements",
        "tools",
    )
    shown = dict(zip(names, (task, results, task, evidence, results, evidence, task), strict=True))
    answer = ask(
        role, {"request": "list the files", **shown}, tools=[DOCUMENTS["browse_folder"][0]]
    )
    assert answer.tool_calls or CONTRACTS[role].model_validate_json(answer.text)


def first_call(goal: str, *offered: dict[str, Any], scratch: Sequence[BaseMessage] = ()) -> Any:
    answer = ask("executor", {"task": {"id": "1", "description": goal}}, scratch, offered)
    return [call["args"] for call in answer.tool_calls]


ZONED = spec(
    "clock_between_zones",
    "Convert a time between timezones.",
    "start_zone",
    "time",
    "target_zone",
    start_zone=text("Source IANA timezone"),
    time=text("Time as HH:MM"),
    target_zone=text("Target IANA timezone"),
)
MAILED = spec("send_note", "Send a mail.", "to", "body", to=text(format="email"), body=text())
PAGES = spec("open_page", "Get a web page.", "url", url=text(format="uri"))
ADDED = spec("sum_up", "Add numbers.", "a", "b", a={"type": "number"}, b={"type": "number"})
FOUND = spec(
    "find_documents",
    "Find files by a glob.",
    "pattern",
    pattern=text("Glob such as *.md"),
    recursive={"type": "boolean", "description": "Also below"},
    since=text("Changed since", format="date"),
)
TAGGED = spec(
    "create_tags",
    "Create several tags.",
    "tags",
    tags={"type": "array", "items": {"type": "string"}},
)
SEARCHED = spec("search_notes", "Search notes for words.", "query", query=text("Words to find"))


@pytest.mark.parametrize(
    ("goal", "offered", "wanted"),
    [
        (
            "Convert 2 pm from Berlin to New York",
            ZONED,
            [
                {
                    "start_zone": "Europe/Berlin",
                    "time": "14:00",
                    "target_zone": "America/New_York",
                }
            ],
        ),
        ('Send "hi" to ann@x.org', MAILED, [{"to": "ann@x.org", "body": "hi"}]),
        ("Open https://a.example/x.", PAGES, [{"url": "https://a.example/x"}]),
        ("Add 2 and 3.5", ADDED, [{"a": 2, "b": 3.5}]),
        (
            "Find all markdown files recursively since 2026-01-02",
            FOUND,
            [{"pattern": "*.md", "recursive": True, "since": "2026-01-02"}],
        ),
        ('Create the tags "red" and "blue"', TAGGED, [{"tags": ["red", "blue"]}]),
        ("Search the notes for late refunds", SEARCHED, [{"query": "late refunds"}]),
    ],
)
def test_arguments_are_filled_by_schema(goal: str, offered: dict[str, Any], wanted: Any) -> None:
    assert first_call(goal, offered) == wanted
