"""The tables of README and manual are those of the code, their links lead somewhere."""

# ---- tables


def test_generated_parts_are_those_of_the_code():
    assert all(f"<!-- generated: {name} -->" in README for name in parts())
    assert renewed(README) == README, "run `make readme`"


def test_settings_table_names_every_field_and_default():
    rows = {names([row[0]])[0]: row[1] for row in table("| setting |")}
    assert list(rows) == list(Context.model_fields)
    for name in ("max_planning_rounds", "max_executor_rounds", "max_verify_cycles"):
        assert rows[name] == f"`{getattr(Context(), name)}`"


def test_exit_codes_are_those_of_the_command():
    rows = {int(code): meaning for code, meaning in table("| exit code |")}
    assert set(rows) == {code.value for code in Code}
    for status in get_args(OutcomeStatus):
        assert status in rows[code_of(status)]


def test_commands_and_options_are_those_of_the_command():
    commands: Any = typer.main.get_command(app)
    rows = {row[0].split()[1].strip("`"): " ".join(row) for row in table("| command |")}
    assert set(rows) == set(commands.commands)
    options = {o for p in commands.commands["run"].params for o in p.opts if o.startswith("--")}
    assert set(re.findall(r"--[a-z-]+", rows["run"])) == options
    resume = {o for p in commands.commands["resume"].params for o in p.opts if o.startswith("--")}
    assert options - resume == {"--thread"}


def test_environment_variables_are_those_the_code_reads():
    rooms = [d for d in ROOT.iterdir() if (d / "__init__.py").exists()]
    code = "\n".join(p.read_text(encoding="utf-8") for d in rooms for p in d.rglob("*.py"))
    read = set(re.findall(r'environ(?:\.get\(|\[)"(\w+)"', code)) - {"TERM"}
    assert set(names(row[0] for row in table("| variable |"))) == read
    by_key = next(row[1] for row in table("| variable |") if "OPENAI_API_KEY" in row[0])
    assert names_of_models(by_key) == [
        OPENAI_TIERS[tier] for tier in ("powerful", "balanced", "fast")
    ]


def names_of_models(text):
    return re.findall(r"`(\w+:[\w.-]+)`", text)


def test_outcome_tables_are_those_of_the_code():
    rows = {row[0].strip("`"): row[1] for row in table("| key | holds |")}
    assert list(rows) == list(Outcome.__annotations__)
    assert names([rows["tasks"]]) == list(TaskOutcome.__annotations__)
    statuses = table("| status | when |")
    assert names(row[0] for row in statuses) == list(get_args(OutcomeStatus))
    assert set(names(row[2] for row in statuses)) <= set(get_args(Reason))


def test_state_fields_and_statuses_named_are_there():
    sentence = README[README.index("These you may rely on:") :].split("The state of")[0]
    named = set(names([re.sub(r"\(.*?\)", "", sentence)]))
    assert named <= {field.name for field in fields(PlanState)}
    assert named <= {field.name for field in fields(FlowState)}
    assert {"todos", "improvements", "task_completed", "should_continue"} <= named
    assert named - {"todos"} <= {field.name for field in fields(ReactState)}
    line = README[README.index("A task is `pending`") :].split("\n")[0]
    assert set(names([line])) == STATUSES


def test_states_of_a_call_and_its_evidence_are_those_of_the_code():
    line = README[README.index("A tool call is `validating`") :].split("\n")[0]
    states, _, reasons = line.partition("`reason`")
    assert set(names([states])) == set(TRANSITIONS)
    assert set(names([reasons])) == {
        "denied", "rejected", "not_interactive", "expired", "superseded", "uncertain", "gave_up",
    }  # fmt: skip
    keys = names(row[0] for row in table("| evidence has |"))
    assert sorted(keys) == sorted(Evidence.__annotations__)
    row = next(row[1] for row in table("| key | holds |") if row[0] == "`uncertain_calls`")
    record = Evidence(
        id="1.1.0", task="1", call_id="c", tool="pay", arguments={}, status="error", result="?",
        seconds=1.0, reason=UNCERTAIN, server="till",
    )  # fmt: skip
    [told] = uncertain_calls([record])
    assert set(names([row])) == set(told)


def test_hook_table_is_that_of_the_code():
    rows = {names([row[0]])[0]: row for row in table("| hook event |")}
    assert set(rows) == set(EVENTS)
    promised = str(contract.__doc__).replace("\\\n", "")
    by_contract = re.findall(r"^\| (\w+) \| [^|]*\| [^|]*\| ([^|]*)\|$", promised, re.MULTILINE)
    assert {event for event, _ in by_contract} - {"event"} == set(EVENTS)
    for event, outputs in by_contract[1:]:
        assert "".join(names([rows[event][2]])) == MATCHED.get(event, "")
        assert set(names([rows[event][3]])) == set(re.findall(r"\w+", outputs))


def test_the_hook_shown_guards_what_it_says(beside_mcp_json, capsys):
    program = next(p for p in PYTHON if "@hook(" in p)
    exec(program, {"__name__": "readme"})
    assert "Only files in notes/ may be written" in capsys.readouterr().out
    assert not Path("hello.txt").exists()
    exec(program.replace("hello.txt", "notes/hello.txt"), {"__name__": "readme"})
    assert Path("notes/hello.txt").read_text() == "hello"


def test_the_letters_for_an_uncertain_call_are_those_of_the_terminal():
    line = next(line for line in README.splitlines() if "type `uncertain_call`" in line)
    assert {letter for letter in names([line]) if len(letter) == 1} == {"i", "o", "g"}
    answers = ["respond: its result", "approve", "reject"]
    assert [a for a in re.findall(r"`([^`]+)`", line) if a in answers] == answers
    assert [Answer.model_validate(a).type for a in answers] == ["respond", "approve", "reject"]


def test_errors_are_those_of_the_code():
    raised = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.LoopwrightError)
    }
    assert set(names(row[0] for row in table("| error |"))) == raised


def test_events_are_those_the_code_sends():
    files = [ROOT / "tools" / f"{name}.py" for name in ("calls", "call_records")]
    files += [ROOT / "hooks" / "registry.py", *(ROOT / "nodes").glob("*.py")]
    files += [ROOT / "models" / f"{name}.py" for name in ("ask", "retry", "spend")]
    sent = {kind for file in files for kind in event_types(ast.parse(file.read_text("utf-8")))}
    assert set(names(row[0] for row in table("| event |"))) == sent


def event_types(tree):
    """The value of `type` in dicts, and in calls, that build an event."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            yield from (_text(v) for k, v in pairs if _text(k) == "type" and _text(v))
        if isinstance(node, ast.Call):
            yield from (
                _text(arg) for arg in node.args[:1] if _called(node) == "_tell" and _text(arg)
            )
            yield from (_text(k.value) for k in node.keywords if k.arg == "type" and _text(k.value))


def _called(call):
    return getattr(call.func, "attr", "")


def _text(node):
    """The text that a node of the syntax tree spells out; "" where it does not."""
    constant = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return node.value if constant else ""


def test_what_a_tool_may_say_about_itself_is_what_is_read():
    named = names(row[0] for row in table("| metadata of a tool |"))
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


def test_files_linked_to_are_there():
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert {"LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "examples/embed.py"} <= set(links)
    assert all((ROOT / link).exists() for link in links)
    titles = {
        re.sub(r"\W+", "-", t.lower()) for t in re.findall(r"^#+ (.*)$", README, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", README)) <= titles


# ---- guides


GUIDE = "| | direct answer | single loop | planned calls |"


@pytest.mark.req("S0-15", "S1-48")
def test_readme_says_when_to_use_which_graph():
    rows = {row[0]: row[1:] for row in table(GUIDE)}
    assert {"complexity", "tools", "quality", "latency", "cost", "planning"} <= set(rows)
    assert all(len(cells) == 4 and all(cells[1:]) for cells in rows.values())
    # What the table says of latency is what a run costs.
    assert "at least 3 calls in a row, 4 with one tool call" in rows["latency"][3]
    assert calls_of_a_run([report("42")], "1.report") == 3
    assert calls_of_a_run([[call("answer")], report("42")], "1.1.0") == 4


@pytest.mark.parametrize(
    ("observe", "steps", "calls"),
    [("model", 0, 1), ("model", 1, 4), ("direct", 1, 3), ("model", 2, 7), ("direct", 2, 5)],
)
def test_a_loop_asks_as_often_as_the_guide_says(observe, steps, calls):
    rows = {row[0]: row[2] for row in table(GUIDE)}
    assert rows["latency"] == (
        "1 call without tools; 4 in a row with one tool call, 3 without the observation; "
        "then 3 or 2 a step"
    )
    flag = '{{"shouldContinue": {}}}'
    thoughts = [f"Step {n}.<agent_meta>{flag.format('true')}</agent_meta>" for n in range(steps)]
    model = ScriptedModel(
        {
            "thought": [*thoughts, f"42<agent_meta>{flag.format('false')}</agent_meta>"],
            "action": [[call("answer", number=n)] for n in range(steps)],
            "observation": ["It is 42."] * steps,
        }
    )

    def answer(number: int) -> str:
        """Give an answer."""
        return f"42, {number}"

    graph = build_react(model=model, tools=[answer], observe=observe)
    outcome = graph.invoke({"messages": [("user", "What is it?")]})["outcome"]
    assert outcome["status"] == "complete"
    assert outcome["spend"]["model_calls"] == calls
    assert outcome["tasks"] == []


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
        assert other in section("When to use what")


# ---- prompt_flow


@pytest.mark.req("S2-30")
def test_the_goal_of_the_quick_start_shows_a_repair_as_the_readme_says(checkout, tmp_path):
    [goal] = re.findall(r'^\$ make run GOAL=(".+")$', README, re.MULTILINE)
    run = f"{checkout}/.venv/bin/loopwright run --graph prompt_flow {goal}"
    code, text = on_terminal(run, checkout, environment(tmp_path / "home"))
    assert code == 0, text
    said = "\n".join(plain(text))
    assert "Outcome: complete (GOAL)" in said
    assert "The returns policy is owned by Mara Lindqvist, Customer Care." in said
    assert "Models: offline (flow_planner, recovery, answerer)" in said
    assert "· 3 tool calls ·" in said, "the files are listed once"


@pytest.mark.req("S2-08", "S2-10")
def test_the_fields_of_a_plan_are_those_of_the_code():
    rows = table("| field of a step |")
    fields_of_step = {f.alias for f in PlanStep.model_fields.values()}
    assert set(names(row[0] for row in rows)) == fields_of_step
    sentence = README[README.index("The plan itself has") :].split("Names in snake_case")[0]
    assert set(names([sentence])) == {f.alias for f in ExecutionPlan.model_fields.values()}


def coded(cell):
    return cell.strip("`")


@pytest.mark.req("S2-20", "S2-21", "S2-23", "S2-45")
def test_references_stand_for_what_the_readme_says():
    said = README[README.index("Where step `s1` gave") :].split("\n")[0]
    given, variables = (json.loads(text) for text in re.findall(r"`(\{.*?\})`", said))
    rows = table("| argument | becomes |")
    assert len(rows) == 8
    for written, meant in rows:
        assert resolve(coded(written), {"s1": given}, variables) == json.loads(coded(meant)), (
            written
        )
        assert not malformed_in(coded(written))


@pytest.mark.req("S2-22")
def test_a_missing_value_is_never_an_empty_text_as_the_readme_says():
    assert "is never an empty text" in section("prompt_flow")
    with pytest.raises(MissingValue, match="there is no 'c' in the result of step 's1'"):
        resolve("{{s1.c}}", {"s1": {"a": 1}}, {})


def test_the_checks_shown_are_checks():
    shown = [*re.findall(r"such as `([^`]+)`", section("prompt_flow")), "EUR > 0"]
    assert "row_count > 0 and rows[0].name is not empty" in shown
    assert not any(flawed(check) for check in shown)


@pytest.mark.req("S2-28")
def test_strategies_and_their_bounds_are_those_of_the_code():
    rows = {coded(row[0]): row[2] for row in table("| strategy | does |")}
    assert set(rows) == set(get_args(Strategy))
    bounds = {name: int(bound) for name, bound in rows.items() if bound}
    cause = {"failure": "tool_error", "safe_to_repeat": True}
    assert bounds == strategies_left({}, [cause], 99)
    assert f"`max_recoveries` times ({Context().max_recoveries})" in README


def test_the_timeline_is_one_of_the_plan_beside_it():
    [timeline] = [block for block in blocks("mermaid") if block.startswith("gantt")]
    ran = re.findall(r"^    (\w+) +:(\d+), (\d+)$", timeline, re.MULTILINE)
    spans = {name: (int(begin), int(end)) for name, begin, end in ran}
    plan = steps_of(ExecutionPlan.model_validate(module("sales", "analyst").PLAN))
    assert set(spans) == {step["id"] for step in plan}
    for step in plan:
        assert all(spans[other][1] <= spans[step["id"]][0] for other in step["depends_on"] or [])
    writes = [spans[s["id"]] for s in plan if s["tool"] in {"draw_chart", "write_report"}]
    assert all(first[1] <= second[0] for first, second in pairwise(writes))


@pytest.mark.req("S1-49")
def test_the_limits_of_the_loop_are_said_where_it_is_introduced():
    limits = section("How it works").partition("What `react` does not promise:")[2]
    assert "nobody but the model checks the answer" in limits
    assert "stands nowhere but in the messages" in limits
    assert "quality | as good as one look | nobody checks" in README


@pytest.mark.req("S1-50")
def test_the_guide_to_prompts_keeps_templates_and_speaks_of_every_phase():
    guide = section("Business context")
    for role in ROLES - {"reviewer"}:
        assert f"the {role} " in guide
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
    guide = section("Business context")
    named = re.findall(r"^\d\. \*\*(.+?)\*\*", guide, re.MULTILINE)
    assert named == ["Overview", "Concepts", "Functions", "Rules", "Operating guide"]
    program = next(p for p in PYTHON if "set_all_business_contexts" in p)
    assert re.findall(r"^### (.+)$", program, re.MULTILINE) == named


@pytest.mark.req("S0-113", "S0-162")
def test_example_of_a_business_context_reaches_the_prompt(capsys):
    program = next(p for p in PYTHON if "set_all_business_contexts" in p)
    exec(program, {"__name__": "readme"})
    prompt = capsys.readouterr().out
    assert "Find the order, then the rule" in prompt
    assert "Prices are in EUR" in prompt
    assert prompt.startswith("You are the planner")


@pytest.mark.req("S0-154")
def test_prompt_for_an_application_has_its_variables():
    [prompt] = blocks("text")
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
    start = section("Two commands")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"Python {project['requires-python'].removeprefix('>=')} or newer" in start
    commands = re.findall(r"^\$ make (\w+)", start, re.MULTILINE)
    assert commands == ["run", "test"]
    variables = set(names(row[0] for row in table("| variable |")))
    assert {"OPENAI_API_KEY", "OPENAI_BASE_URL", "LOOPWRIGHT_MODEL"} <= variables
    faq = section("FAQ").lower()
    for question in ("add a tool", "change a prompt", "tune the limits", "ollama", "ask me"):
        assert question in faq
    for question in ("`partial`", "resume"):
        assert question in faq


def test_a_server_of_ones_own_is_asked_as_the_faq_says():
    [block] = [b for b in blocks("sh") if "OPENAI_BASE_URL" in b]
    environ = dict(re.findall(r"export (\w+)=(\S+)", block))
    chosen = Models(environ=environ).choose("planner", Context())
    assert chosen.name == environ["LOOPWRIGHT_MODEL"]
    model: Any = chosen.model
    assert model.openai_api_base == environ["OPENAI_BASE_URL"]


def test_rules_shown_are_rules():
    program = next(p for p in PYTHON if "policy = [" in p)
    found: dict[str, Any] = {}
    exec(program, found)
    assert all(Rule(**rule) for rule in found["policy"])


def test_core_templates_keep_the_words_the_readme_asks_to_keep():
    for role in ROLES - {"reviewer"}:
        assert PromptManager().get_prompt(role).startswith(f"You are the {role}")
