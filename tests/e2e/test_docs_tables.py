"""Tables and guides of README and manual say what the code does, and links lead somewhere."""

import ast
import json
import re
import tomllib
from typing import get_args

import pytest
from langchain_core.tools import tool

import loopwright
from loopwright import (
    Context,
    ScriptedModel,
    build_plan_execute_verify,
    build_prompt_flow,
)
from loopwright.cli.terminal import Code, choose_exit_code
from loopwright.flow.execution_plan import ExecutionPlan, PlanStep
from loopwright.flow.references import MissingValue, find_malformed, resolve_references
from loopwright.models.choice import OPENAI_TIERS
from loopwright.nodes.flow.recover import strategies_left
from loopwright.state.calls import TRANSITIONS, Evidence
from loopwright.state.flow import Strategy
from loopwright.state.outcome import Outcome, OutcomeStatus, Reason, TaskOutcome
from loopwright.state.roles import ROLES
from loopwright.store.journal.intents import describe_uncertain_call
from loopwright.store.journal.port import Row
from loopwright.tools.python_tools import read_tools
from support.command_parts import commands
from support.docs_parts import parts, read_events, renewed
from support.docs_text import (
    MANUAL,
    PAGES,
    README,
    ROOT,
    anchors,
    blocks,
    entries,
    line_with,
    names,
    section,
    table,
)
from support.reference_parts import read_fields
from support.scripts import call, passed, plan, report, todo

# Parts of programs that measure, and what measures the code itself.
PARTS = {
    "ledger_server.py", "killing.py", "flow_plans.py", "house.py", "walk.py",
    "bench.py", "contestants.py", "costs.py", "fleet.py", "growth.py", "model_server.py",
    "report.py", "worker.py", "bank_server.py", "side_environment.py",
    # Their results stand on the front page.
    "compare.py", "picture.py",
}  # fmt: skip
VARIABLES = entries("docs/command-line.md", "Which environment variables are there?")
BENCHMARKS = sorted(p for p in (ROOT / "benchmarks").glob("*.py") if p.name not in PARTS)


def test_every_benchmark_is_named_with_its_figures():
    listed = section("docs/costs.md", "What was measured, by which script?")
    named = re.findall(r"^- (.+) \(`(.+?)`\)$", listed, re.MULTILINE)
    assert {script for _, script in named} == {f"benchmarks/{p.name}" for p in BENCHMARKS}
    assert all(re.search(r"\d", figures) for figures, _ in named)


def test_generated_parts_are_those_of_the_code():
    assert all(f"<!-- generated: {name} -->" in MANUAL for name in parts())
    assert renewed(MANUAL) == MANUAL, "run `make docs`"


def test_exit_codes_are_those_of_the_command():
    listed = entries("docs/command-line.md", "Which exit codes are there?")
    rows = {int(coded(code)): meaning for code, meaning in listed}
    assert set(rows) == {code.value for code in Code}
    for status in get_args(OutcomeStatus):
        assert status in rows[choose_exit_code(status)]


def test_commands_and_options_are_those_of_the_command():
    """The tables are generated; the prose names no option that is not there."""
    every = commands()
    flags = {o for one in every.values() for p in one.params for o in p.opts} | {"--help"}
    told = set(re.findall(r"`(--[a-z-]+)", PAGES["docs/command-line.md"]))
    assert told <= flags
    pruning = {o for p in every["prune"].params for o in p.opts if o.startswith("--")}
    assert (
        set(
            re.findall(
                r"--[a-z-]+", str(entries("docs/durability.md", "How do I delete old checkpoints?"))
            )
        )
        < pruning
    )


def test_environment_variables_are_those_the_code_reads():
    rooms = [d for d in ROOT.iterdir() if (d / "__init__.py").exists()]
    code = "\n".join(p.read_text(encoding="utf-8") for d in rooms for p in d.rglob("*.py"))
    read = set(re.findall(r'environ(?:\.get\(|\[|, )"(\w+)"', code)) - {"TERM"}
    assert set(names(row[0] for row in VARIABLES)) == read
    by_key = next(row[1] for row in VARIABLES if "OPENAI_API_KEY" in row[0])
    assert names_of_models(by_key) == [
        OPENAI_TIERS[tier] for tier in ("powerful", "balanced", "fast")
    ]


def names_of_models(text):
    return re.findall(r"`(\w+:[\w.-]+)`", text)


def test_what_the_manual_says_of_an_outcome_is_what_the_code_gives():
    """The keys themselves are generated; each has a docstring."""
    told = read_fields(Outcome)
    assert all(told.values())
    assert names([told["tasks"]]) == list(TaskOutcome.__annotations__)
    listed = entries("docs/settings-and-outcome.md", "What does a run return?")
    statuses = [names([one]) for one, _ in listed if " (" in one]
    assert [status for status, *_ in statuses] == list(get_args(OutcomeStatus))
    assert {reason for _, *some in statuses for reason in some} <= set(get_args(Reason))


def test_states_of_a_call_and_its_evidence_are_those_of_the_code():
    line = line_with("A tool call is `validating`")
    states, _, reasons = line.partition("`reason`")
    assert set(names([states])) == set(TRANSITIONS)
    assert set(names([reasons])) == {
        "denied", "rejected", "not_interactive", "expired", "superseded", "stopped", "uncertain",
        "gave_up",
    }  # fmt: skip
    assert all(read_fields(Evidence).values())
    doubted = Row(
        name="n", place="", turn="1", task="1", call="1.1.0", tool="pay", server="till",
        arguments={}, content="", key="k",
    )  # fmt: skip
    told = describe_uncertain_call(doubted)
    assert set(names([read_fields(Outcome)["uncertain_calls"]])) == set(told)


# What events are sent with: the dict, or its type and the rest by name.
TELLS = {"emit", "tell", "_tell"}


def test_events_are_those_the_code_sends():
    # The command's own view has events that no stream has.
    rooms = [p.parent for p in ROOT.glob("*/__init__.py") if p.parent.name != "cli"]
    texts = (f.read_text(encoding="utf-8") for r in rooms for f in r.rglob("*.py"))
    trees = [ast.parse(text) for text in texts if re.search(r'"type"|emit\(|tell\(', text)]
    told = set(read_events())
    assert told <= {kind for tree in trees for kind in types_in(tree)}
    assert {kind for tree in trees for kind in events_of(tree)} <= told


def events_of(tree):
    """The types of the events that are sent where they are spelled out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node) in TELLS and node.args:
            yield from filter(None, [_text(node.args[0])])
            yield from types_in(node.args[0])


def types_in(tree):
    """The value of `type` in dicts, and in calls, of this piece of code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            yield from (_text(v) for k, v in pairs if _text(k) == "type" and _text(v))
        if isinstance(node, ast.Call):
            yield from (
                _text(arg) for arg in node.args[:1] if _called(node) in TELLS and _text(arg)
            )
            yield from (_text(k.value) for k in node.keywords if k.arg == "type" and _text(k.value))


def _called(call):
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _text(node):
    """The text that a node of the syntax tree spells out; "" where it does not."""
    constant = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return node.value if constant else ""


def test_what_a_tool_may_say_about_itself_is_what_is_read():
    named = names(one for one, _ in entries("docs/embedding.md", "How do I write a tool?"))
    about = {"cacheable": False, "timeout": 7, "outputSchema": {"type": "object"}}

    @tool
    def pay(amount: int) -> str:
        """Pay an amount in EUR."""
        return f"paid {amount} EUR"

    def read(metadata):
        pay.metadata = metadata
        return read_tools([pay])[0]

    for name in named:
        assert read({name: about.get(name, True)}) != read({}), name
    told = read(dict.fromkeys(named, True) | about | {"readOnlyHint": False})
    assert (told.destructive, told.idempotent, told.polls) == (True, True, True)
    assert (told.timeout, told.output, told.cacheable) == (7, {"type": "object"}, False)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_a_file_and_a_heading(page):
    links = re.findall(r"\]\(([^)\s]+)\)", PAGES[page])
    for link in links:
        path, _, anchor = link.partition("#")
        if path.startswith("https://"):
            continue
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.resolve().relative_to(ROOT).as_posix()), link


def test_files_and_names_in_contributing_are_there():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = set(re.findall(r"`([\w/]+(?:/|\.(?:py|md|json|toml)))`", text))
    assert len(paths) > 20
    assert not [path for path in paths if not (ROOT / path).exists()]
    code = "\n".join(
        file.read_text(encoding="utf-8")
        for room in ROOT.glob("*/__init__.py")
        for file in room.parent.rglob("*.py")
    )
    adding = text.partition("## Adding")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(_?[A-Za-z]\w+)(?:\(\))?`", adding))
    assert named <= set(re.findall(r"\w+", code))


GUIDE = "| | direct answer | single loop | planned calls |"


@pytest.mark.req("S0-15", "S1-48")
def test_the_guide_says_when_to_use_which_graph():
    rows = {row[0]: row[1:] for row in table(GUIDE)}
    assert {"complexity", "tools", "quality", "latency", "cost", "planning"} <= set(rows)
    assert all(len(cells) == 4 and all(cells[1:]) for cells in rows.values())
    # What the table says of latency is what a run costs.
    assert "at least 3 calls in a row, 4 with one tool call" in rows["latency"][3]
    assert calls_of_a_run([report("42")], "1.report") == 3
    assert calls_of_a_run([[call("answer")], report("42")], "1.1.0") == 4


@pytest.mark.req("S2-49")
@pytest.mark.parametrize("steps", [1, 12])
def test_a_plan_costs_two_calls_as_the_guide_says(steps):
    rows = {row[0]: row[3] for row in table(GUIDE)}
    assert rows["a step is"] == "one call of one tool, its inputs by reference"
    assert rows["latency"].startswith("2 calls, however many steps")

    def answer() -> str:
        """Give an answer."""
        return "42"

    planned = [{"id": f"s{n}", "tool": "answer"} for n in range(steps)]
    model = ScriptedModel({"flow_planner": [{"steps": planned}], "answerer": ["42 [s0]"]})
    outcome = build_prompt_flow(model=model, tools=[answer]).invoke(
        {"messages": [("user", "What is it?")]}
    )["outcome"]
    assert (outcome["status"], len(outcome["tasks"])) == ("complete", steps)
    assert outcome["spend"]["model_calls"] == 2
    for other in ("`react`", "`plan_execute_verify`", "a fixed workflow"):
        assert other in section("docs/graphs.md", "When to use what")
    chosen = section("README.md", "When to use what")
    assert set(re.findall(r"`(build_\w+)`", chosen)) == {
        name for name in loopwright.__all__ if name.startswith("build_")
    }


def test_every_page_is_linked_from_the_front_page():
    assert set(re.findall(r"\]\((docs/[\w-]+\.md)", README)) >= set(PAGES) - {"README.md"}


@pytest.mark.req("S2-08")
def test_the_fields_of_a_plan_are_those_of_the_code():
    rows = table("| field of a step |")
    fields_of_step = {f.alias for f in PlanStep.model_fields.values()}
    assert set(names(row[0] for row in rows)) == fields_of_step
    sentence = line_with("The plan itself has").split("Names in snake_case")[0]
    assert set(names([sentence])) == {f.alias for f in ExecutionPlan.model_fields.values()}


def coded(cell):
    return cell.strip("`")


@pytest.mark.req("S2-20", "S2-21", "S2-23", "S2-45")
def test_references_stand_for_what_the_manual_says():
    said = line_with("Where step `s1` gave")
    given, variables = (json.loads(text) for text in re.findall(r"`(\{.*?\})`", said))
    part = section("docs/prompt-flow.md", "How do I pass a result to a later step?")
    rows = re.findall(r"^- (`.+?`): (`.+`)$", part, re.MULTILINE)
    assert len(rows) == 8
    for written, meant in rows:
        assert resolve_references(coded(written), {"s1": given}, variables) == json.loads(
            coded(meant)
        ), written
        assert not find_malformed(coded(written))


@pytest.mark.req("S2-22")
def test_a_missing_value_is_never_an_empty_text_as_the_manual_says():
    assert "is never an empty text" in section(
        "docs/prompt-flow.md", "How do I pass a result to a later step?"
    )
    with pytest.raises(MissingValue, match="there is no 'c' in the result of step 's1'"):
        resolve_references("{{s1.c}}", {"s1": {"a": 1}}, {})


@pytest.mark.req("S2-28")
def test_strategies_and_their_bounds_are_those_of_the_code():
    listed = entries("docs/prompt-flow.md", "What happens if a step fails?")
    assert {coded(name) for name, _ in listed} == set(get_args(Strategy))
    bounds = {
        coded(name): int(n) for name, does in listed for n in re.findall("at most (.) per", does)
    }
    cause = {"failure": "tool_error", "safe_to_repeat": True}
    assert bounds == strategies_left({}, [cause], 99)
    assert f"`max_recoveries` times ({Context().max_recoveries})" in MANUAL


@pytest.mark.req("S1-49")
def test_the_limits_of_the_loop_are_said_where_it_is_introduced():
    limits = section("docs/graphs.md", "react").partition("What `react` does not promise.")[2]
    assert "Only the model checks the answer" in limits
    assert "Open work is recorded only in the messages" in limits
    assert "quality | as good as one look | nobody checks" in MANUAL


CONTEXT_GUIDE = "How do I tell the agents about my business?"


@pytest.mark.req("S1-50")
def test_the_guide_to_prompts_keeps_templates_and_speaks_of_every_phase():
    guide = section("docs/prompts.md", CONTEXT_GUIDE)
    told = names(row[0] for row in entries("docs/prompts.md", CONTEXT_GUIDE))
    assert sorted(told) == sorted(name for name, role in ROLES.items() if role.graph)
    for advice in ("Leave the core templates alone", "one thing at a time", "five requests"):
        assert advice in guide


def calls_of_a_run(executor, evidence):
    def answer() -> str:
        """Give the answer."""
        return "42"

    verdict = passed("It is 42.", t1=[evidence])
    turns = {"planner": [plan(todo("1", "ask"))], "executor": executor, "verifier": [verdict]}
    graph = build_plan_execute_verify(model=ScriptedModel(turns), tools=[answer])
    result = graph.invoke({"messages": [{"role": "user", "content": "What is it?"}]})
    assert result["outcome"]["status"] == "complete"
    return result["outcome"]["spend"]["model_calls"]


@pytest.mark.req("S0-113", "S0-162")
def test_guide_to_a_business_context_names_its_parts_and_its_example_has_them():
    guide = section("docs/prompts.md", CONTEXT_GUIDE)
    named = re.findall(r"^\d\. \*\*(.+?)\*\*", guide, re.MULTILINE)
    assert named == ["Overview", "Concepts", "Functions", "Rules", "Operating guide"]
    [program] = blocks("python", PAGES["docs/prompts.md"])
    assert re.findall(r"^### (.+)$", program, re.MULTILINE) == named


@pytest.mark.req("S0-154")
def test_prompt_for_an_application_has_its_variables():
    [prompt] = blocks("text", PAGES["docs/embedding.md"])
    for variable in (
        "LANGUAGE",
        "PLATFORM",
        "BUSINESS_CONTEXT (required)",
        "AI_PROVIDER (optional",
    ):
        assert variable in prompt
    assert len(re.findall(r"\{\{.+?\}\}", prompt)) == 4
    for name in ("PromptManager", "build_plan_execute_verify", "ScriptedModel"):
        assert name in prompt


@pytest.mark.req("S0-161")
def test_quick_start_names_requirements_variables_commands_and_common_questions():
    start = section("README.md", "Two commands")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"Python {project['requires-python'].removeprefix('>=')} or newer" in start
    commands = re.findall(r"^\$ make (\w+)", start, re.MULTILINE)
    assert commands == ["run", "test"]
    variables = set(names(row[0] for row in VARIABLES))
    assert {"OPENAI_API_KEY", "OPENAI_BASE_URL", "LOOPWRIGHT_MODEL"} <= variables
    faq = PAGES["docs/faq.md"].lower()
    for question in ("add a tool", "change a prompt", "tune the limits", "ollama", "ask me"):
        assert question in faq
    for question in ("`partial`", "resume"):
        assert question in faq
