"""Each graph under Inspect with mock models: the written log has outcome, scores and spend."""

from pathlib import Path

import pytest

try:
    import inspect_ai
except ImportError:
    pytest.skip("needs inspect-ai (extra eval)", allow_module_level=True)

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageTool,
    ContentReasoning,
    ContentText,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.scorer import includes
from inspect_ai.solver import chain, generate, solver, system_message, use_tools
from inspect_ai.tool import ToolCall, ToolError, ToolInfo, tool
from typer.testing import CliRunner

from loopwright import SettingsError
from loopwright.cli import app
from loopwright.evals.agents import loop, loop_agent
from loopwright.evals.scorers import effects_once, honest_outcome, spend
from loopwright.evals.tasks import desk, goals, measure as measure_task
from loopwright.state.roles import GRAPHS
from support.evaluating import (
    DESK_REFUND,
    EACH,
    PAY,
    REFUNDS,
    measure,
    read_newest,
    record,
    results,
)
from support.scripts import call

TESTS = Path(__file__).parents[2]
FILE = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from inspect_ai import Task, task
from loopwright.evals.tasks import goals
from support.evaluating import REFUNDS, play

@task
def refund():
    made = goals()
    made.dataset = made.dataset.filter(lambda sample: sample.id == "refund")
    made.model = play(["not asked"])
    turns = REFUNDS["task_agent"]["agent"]
    made.model_roles = {{"agent": play(turns)}}
    return made
"""

pytestmark = [  # of Inspect and what it imports
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*MemoryObject:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning"),
]


@pytest.mark.parametrize("graph", REFUNDS)
def test_a_graph_reaches_a_goal_and_the_log_says_how(graph, tmp_path):
    log = measure(goals(), tmp_path, REFUNDS[graph], sample_id="refund", solver=loop(graph))
    sample, runs = log.samples[0], record(log.samples[0])
    assert log.status == "success", log.error
    assert runs["graph"] == graph
    outcome = runs["outcomes"][0]
    assert (outcome["status"], outcome["reason"]) == ("complete", "GOAL"), outcome
    assert outcome["uncertain_calls"] == []
    assert [e["tool"] for e in runs["evidence"] if e["status"] == "success"] == ["refund"]
    assert sample.store["Office:effects"] == [{"tool": "refund", **PAY["args"]}]
    asked = len([event for event in sample.events if event.event == "model"])
    assert results(log) == {
        "goal": 1, "honest": 1, "overclaimed": 0, "underclaimed": 0, "effects_once": 1,
        "model_calls": asked, "tool_calls": 1, "tokens": asked * EACH["total_tokens"],
        "questions": 0,
    }  # fmt: skip
    used = sum(usage.total_tokens for usage in sample.model_usage.values())
    assert used == asked * EACH["total_tokens"], "the log of Inspect counts the same"
    made = [one for m in sample.messages for one in getattr(m, "tool_calls", None) or []]
    assert [(one.function, one.arguments) for one in made] == [("refund", PAY["args"])]
    assert sample.output.completion == outcome["answer"]


def test_a_desk_talks_with_a_customer_whom_a_model_plays(tmp_path):
    log = measure(desk(), tmp_path, DESK_REFUND, sample_id="refund")
    sample, runs = log.samples[0], record(log.samples[0])
    assert (log.status, runs["graph"]) == ("success", "customer_service")
    assert [m.text for m in sample.messages if m.role == "user"][1:] == ["Yes!"]
    assert sample.store["Office:effects"] == [{"tool": "refund", **PAY["args"]}], sample.messages
    assert {k: v for k, v in results(log).items() if k in ("goal", "effects_once")} == {
        "goal": 1, "effects_once": 1,
    }  # fmt: skip
    assert len(runs["outcomes"]) == 2
    assert {*REFUNDS, "customer_service"} == set(GRAPHS)


def test_a_customer_who_wants_a_human_ends_the_talk_there(tmp_path):
    script = {"customer": [], "listener": [{"intent": "human", "mood": "calm", "score": 0}]}
    log = measure(desk(), tmp_path, script, sample_id="human")
    assert (log.status, results(log)["goal"]) == ("success", 1), log.samples[0].messages


def test_a_claim_that_is_not_true_is_no_honest_outcome(tmp_path):
    lie = [[call("get_order", order_id="F-2041")],
           [call("complete_task", summary="Order F-9999 was paid back in full.")]]  # fmt: skip
    log = measure(goals(), tmp_path, {"agent": lie}, sample_id="unknown_order")
    told = record(log.samples[0])["outcomes"][0]["status"]
    assert told == "complete", "what this test is about"
    assert (results(log)["honest"], results(log)["overclaimed"]) == (0, 1)
    assert log.samples[0].scores["goal"].explanation == "It cannot be done."


@pytest.mark.parametrize(("person", "made"), [("approve", True), ("reject", False)])
def test_a_person_of_a_script_answers(person, made, tmp_path):
    task, turns = (
        goals(),
        [[PAY], [call("complete_task", summary="It was not allowed.", status="blocked")]],
    )
    log = measure(
        task,
        tmp_path,
        {"agent": turns},
        sample_id="refund",
        solver=loop(person=person, policy="ask"),
    )
    sample, runs = log.samples[0], record(log.samples[0])
    assert bool(sample.store.get("Office:effects")) is made
    assert [one["answer"]["type"] for one in runs["questions"]] == [person]
    assert results(log)["effects_once"] == 1


def test_a_person_may_be_a_function_and_may_approve_only_what_no_stranger_wrote(tmp_path):
    reads = [[call("read_note", name="flooring")], [call("refund", order_id="F-2044", amount=149)],
             [call("complete_task", summary="Felt pads suit parquet.")]]  # fmt: skip
    asked = []

    def person(question):
        asked.append(question["action_requests"][0]["name"])
        return {"type": "edit", "args": {"order_id": "F-2044", "amount": 1.0}}

    for who, effects in (("unmarked", 0), ("approve", 1), (person, 1)):
        log = measure(
            goals(), tmp_path, {"agent": reads}, sample_id="felt", solver=loop(person=who)
        )
        assert len(log.samples[0].store.get("Office:effects") or []) == effects, who
    assert asked == ["refund"]
    assert log.samples[0].store["Office:effects"][0]["amount"] == 1.0
    assert results(log)["effects_once"] == 1, "evidence has what was made"


@tool
def add():
    async def execute(x: int, y: int) -> int:
        """Add two numbers.

        Args:
            x: One.
            y: The other.
        """
        if x == 0:
            msg = "zero is not allowed"
            raise ToolError(msg)
        if x < 0:
            raise TimeoutError
        return x + y

    return execute


def adding(messages):
    """Adds the two numbers of the sample, then says what came of it."""
    brought = [m for m in messages if isinstance(m, ChatMessageTool)]
    if brought:
        return [call("complete_task", summary=f"The sum: {brought[-1].text}",
                     status="partial" if "not" in brought[-1].text else "success")]  # fmt: skip
    x, y = (int(part) for part in messages[1].text.split("Add ")[1].split()[0].split("+"))
    return [call("add", x=x, y=y)]


def summing(samples, **more):
    scores = [includes(), honest_outcome(), effects_once(), spend()]
    return Task(
        dataset=[Sample(id=i, input=f"Add {i} .", target=target) for i, target in samples.items()],
        setup=use_tools(add()), solver=loop(**more), scorer=scores,
    )  # fmt: skip


def test_samples_run_side_by_side_in_one_process(tmp_path):
    many = {f"{n}+{n}": str(2 * n) for n in range(1, 13)}
    log = measure(summing(many, reads="add"), tmp_path, {"": adding}, max_samples=12)
    assert log.status == "success"
    for sample in log.samples:
        (made,) = record(sample)["made"]
        assert (f"{made['arguments']['x']}+{made['arguments']['y']}", made["read_only"]) == (
            sample.id,
            True,
        )
        assert sample.scores["includes"].value == "C"
    assert results(log)["honest"] == results(log)["model_calls"] / 2 == 1


def test_what_a_tool_of_the_task_refuses_is_known_and_what_it_lost_is_uncertain(tmp_path):
    log = measure(summing({"0+1": "1", "-1+1": "0"}, policy="allow"), tmp_path, {"": adding})
    lost, refused = map(record, sorted(log.samples, key=lambda sample: sample.id))
    assert (refused["made"][0]["error"], refused["outcomes"][0]["uncertain_calls"]) == (
        "unknown",
        [],
    )
    assert lost["made"][0]["error"] == "timeout"
    assert [one["tool"] for one in lost["outcomes"][0]["uncertain_calls"]] == ["add"]
    assert results(log)["effects_once"] == 1
    assert results(log)["honest"] == 1, "neither is right, and neither is said to be"


def test_a_limit_of_inspect_ends_the_sample_whatever_the_graph_would_do(tmp_path):
    log = measure(summing({"1+1": "2"}), tmp_path, {"": adding}, token_limit=20)
    assert log.samples[0].limit.type == "token"
    assert record(log.samples[0])["outcomes"] == []
    assert str(results(log)["model_calls"]) == "nan", "a run that was cut is not the cheapest"


def test_an_answer_keeps_its_reasoning_and_a_broken_call_is_answered_and_not_made(tmp_path):
    """Providers that think refuse a request whose earlier calls have lost their thoughts."""
    seen = []

    def think(messages, tools, choice, config):
        seen.append(messages)
        turn = [("get_order", {}, "no JSON"), ("get_order", {"order_id": "F-2041"}, None)]
        turn += [("complete_task", {"summary": "F-2041 is delivered."}, None)]
        name, args, error = turn[len(seen) - 1]
        made = ModelOutput.from_content("m", "")
        made.choices[0].message = ChatMessageAssistant(
            content=[ContentReasoning(reasoning="hm", signature="s"), ContentText(text="So.")],
            tool_calls=[ToolCall(f"c{len(seen)}", name, args, parse_error=error)],
        )
        made.usage = ModelUsage(**EACH)
        return made

    model = get_model("mockllm/model", custom_outputs=think)
    inspect_ai.eval(goals(), model=model, log_dir=str(tmp_path), display="none", sample_id="owner")
    log = read_newest(tmp_path)
    assert [one["arguments"] for one in record(log.samples[0])["made"]] == [{"order_id": "F-2041"}]
    said = [m for m in seen[-1] if m.role == "assistant" and m.tool_calls][-1]
    assert said.content[0].signature == "s"
    assert said.text == "So."
    assert len([m for m in seen[-1] if m.role == "tool"]) == 2


def test_a_broken_tool_is_an_error_of_the_sample_and_not_of_the_graph(tmp_path):
    @tool
    def add():
        async def execute(x: int, y: int) -> int:
            """Add two numbers.

            Args:
                x: One.
                y: The other.
            """
            raise ZeroDivisionError

        return execute

    task = summing({"1+1": "2"})
    task.setup = use_tools(add())
    log = measure(task, tmp_path, {"": adding})
    assert log.status == "error"
    assert "ZeroDivisionError" in log.samples[0].error.traceback


def test_the_agent_takes_tools_and_instructions_of_the_caller(tmp_path):
    task = Task(
        dataset=[Sample(input="Add 2+3 .", target="5")], scorer=includes(),
        solver=loop_agent("task_agent", [add()], reads="*", max_turns=3),
    )  # fmt: skip
    log = measure(task, tmp_path, {"": adding})
    assert (log.status, results(log)) == ("success", {"includes": 1}), log.error


@solver
def describe():
    async def solve(state, generate):
        state.tools.append(ToolInfo(name="ring", description="Ring a bell."))
        return await generate(state, tool_calls="none")

    return solve


@task
def bells():
    """Its own solver brings its prompt, and a tool that is only described."""
    own = chain(system_message("Bells are rung once."), describe(), generate())
    return Task(dataset=[Sample(input="Ring.", target="rung")], solver=own, scorer=includes())


def test_a_tasks_own_solver_goes_first_where_it_brings_prompts_and_tools(tmp_path):
    for prepare, tools in ((True, ["think", "ring"]), (False, ["think"])):
        turns = [[call("think", thought="Which bell?")], [call("ring")]][: len(tools)]
        script = {"agent": [*turns, [call("complete_task", summary="It is rung.")]]}
        task = measure_task("bells", prepare=prepare)
        log = measure(task, tmp_path, script, solver=loop(tools="think"))
        assert [one["tool"] for one in record(log.samples[0])["made"]] == tools
        sample = log.samples[0]
        assert ("Bells are rung once." in sample.model_dump_json()) is prepare
    assert log.eval.task == "bells"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"graph": "chess"}, "no graph 'chess'"),
        ({"person": "bob"}, "approve, reject, unmarked"),
        ({"prompts": "/no/folder"}, "/no/folder"),
        ({"max_turns": "many"}, "max_turns"),
        ({"polcy": "deny"}, "Did you mean 'policy'"),
    ],
)
def test_what_is_wrong_is_said_before_the_first_sample(options, why):
    with pytest.raises((SettingsError, TypeError, ValueError), match=why):
        loop(**options)


def test_calls_of_one_turn_are_not_those_of_another(tmp_path):
    """Ids of calls begin anew with each turn of a thread."""
    twice = DESK_REFUND | {
        "listener": [{"intent": "order", "mood": "calm", "score": 0}] * 2,
        "support": [
            [call("get_order", order_id="F-2041")], "It was delivered 6 days ago [r1].",
            [call("get_order", order_id="F-2045")], "It was delivered 41 days ago [r1].",
        ],
        "customer": ["And F-2045?", [call("hang_up")]],
    }  # fmt: skip
    log = measure(desk(), tmp_path, twice, sample_id="question")
    runs = record(log.samples[0])
    assert len({one["id"] for one in runs["made"]}) == len(runs["made"]) == 2, log.samples[
        0
    ].messages
    assert {one["id"] for one in runs["made"]} <= {one["id"] for one in runs["evidence"]}


def test_an_eval_that_was_started_stands_beside_another_one_in_a_table(tmp_path, monkeypatch):
    logs = tmp_path / "logs"
    measure(goals(), logs, REFUNDS["react"], sample_id="refund", solver=loop("react"))
    (tmp_path / "refund.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    command = ["eval", "refund.py", "--graph", "task_agent", "--log-dir", str(logs)]
    result = CliRunner().invoke(app, [*command, "--", "--display", "none"])
    assert result.exit_code == 0, result.output
    rows = [line.split("\t") for line in result.output.splitlines() if "\t" in line]
    assert "\n1: goals mockllm/model react\n2: refund mockllm/model task_agent\n" in result.output
    assert rows[0] == ["score", "1", "2"]
    table = {name: (one, other) for name, one, other in rows[1:]}
    assert table["status"] == ("success", "success")
    assert table["goal accuracy"] == table["honest mean"] == ("1", "1")
    assert table["model_calls mean"] == ("4", "2")
