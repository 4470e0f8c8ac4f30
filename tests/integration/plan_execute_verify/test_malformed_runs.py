"""Every way a model is known to spoil its answer, through the whole graph."""

import logging
from collections import defaultdict

import pytest

from loopwright import Context, ScriptedModel, build_plan_execute_verify
from loopwright.prompts.prompt import read_json
from support.malformed import MENDED, REJECTED
from support.scripts import call, failed, passed, plan, report, todo

ENDS = {"complete", "partial", "blocked", "exhausted", "stuck"}


def look(name: str) -> str:
    """Look up a fact."""
    return {"owner": "Mara"}[name]


def sound(role, messages):
    """What a healthy model answers, by what it is shown."""
    human = next(m.text for m in messages if m.type == "human")
    if role == "planner":
        return plan(todo("1", "Name the owner"))
    if role == "executor":
        found = [m for m in messages if m.type == "tool" and m.status == "success"]
        return report(f"It is {found[-1].text}.") if found else [call("look", name="owner")]
    shown = read_json(human, "evidence") or []
    proof = {f"t{e['task']}": [e["id"]] for e in shown if e["status"] == "success"}
    tasks = read_json(human, "tasks")
    if all(f"t{t['id']}" in proof for t in tasks) and "Mara" in human:
        return passed("Mara owns it.", **proof)
    return failed("name the owner", **{f"t{t['id']}": False for t in tasks})


def spoiled(turns, *, always=False):
    """A healthy model each of whose roles named gives its turn first, or for ever."""
    spent = set()

    def answer(messages, offered):
        role = messages[0].text.split()[3].rstrip(".")
        if role in turns and (always or role not in spent):
            spent.add(role)
            return turns[role]
        return sound(role, messages)

    return ScriptedModel(answer)


def run(model, **settings):
    graph = build_plan_execute_verify(model=model, tools=[look])
    context = Context(interactive=False, model_retries=0, **settings)
    goal = {"messages": [{"role": "user", "content": "Who owns it?"}]}
    return graph.invoke(goal, context=context)["outcome"]


def most_repairs(model):
    """The most requests to mend an answer that came in a row: one step's, as tasks run in turn."""
    rows = [0]
    for asked in model.asked:
        rows.append(rows[-1] + 1 if any(map(_repairs, asked.messages)) else 0)
    return max(rows)


def _repairs(message):
    return message.type == "human" and message.text.startswith("Your answer cannot be used:")


def check_honest(outcome, model):
    assert outcome["status"] in ENDS
    assert outcome["answer"]
    for task in outcome["tasks"]:
        if outcome["status"] == "complete":
            assert task["status"] in {"completed", "skipped"}
            assert task["evidence"]
    if outcome["status"] != "complete":
        assert outcome["unmet"]
    assert outcome["spend"]["model_calls"] == len(model.asked)


def by_label(cases):
    """Each way to spoil an answer, with the turn of every role whose answer can be so spoiled."""
    ways = defaultdict(dict)
    for role, label, turn in cases:
        ways[label][role] = turn
    return dict(ways)


def ids(cases):
    return [f"{role}: {label}" for role, label, _ in cases]


def asks_of_a_run_that_ends_well(turns, caplog):
    """Run a model that gives each of these turns once; what it was asked."""
    model = spoiled(turns)
    with caplog.at_level(logging.ERROR):
        outcome = run(model)
    check_honest(outcome, model)
    ended = (outcome["status"], outcome["reason"], outcome["answer"])
    assert ended == ("complete", "GOAL", "Mara owns it.")
    assert not caplog.records
    assert most_repairs(model) <= 2
    assert len(model.asked) <= 4 + 10
    assert {a.role for a in model.asked} >= turns.keys()
    return model.asked


@pytest.mark.req("P-11")
@pytest.mark.parametrize("turns", by_label(MENDED).values(), ids=by_label(MENDED))
def test_what_can_be_read_after_all_costs_the_roles_no_repair(turns, caplog):
    asked = asks_of_a_run_that_ends_well(turns, caplog)
    assert not any(_repairs(m) for a in asked for m in a.messages)


@pytest.mark.req("P-11")
@pytest.mark.parametrize(("label", "turns"), by_label(REJECTED).items(), ids=by_label(REJECTED))
def test_one_spoiled_answer_of_each_role_costs_asks_not_the_run(label, turns, caplog):
    asked = asks_of_a_run_that_ends_well(turns, caplog)
    repaired = {a.role for a in asked if any(map(_repairs, a.messages))}
    # An executor may call tools: what it is told of an unknown one is that call's result.
    answered = {"executor"} if label == "a tool nobody offered" else set()
    assert repaired == turns.keys() - answered


@pytest.mark.req("P-11")
@pytest.mark.parametrize(("role", "label", "turn"), REJECTED[::4], ids=ids(REJECTED[::4]))
def test_a_role_that_never_answers_well_ends_honestly_within_the_limits(role, label, turn):
    model = spoiled({role: turn}, always=True)
    outcome = run(model, max_executor_rounds=3)
    check_honest(outcome, model)
    if role != "planner":
        assert outcome["status"] != "complete"
    of = {r: len([a for a in model.asked if a.role == r]) for r in ("planner", "executor")}
    verdicts = len([a for a in model.asked if a.role == "verifier"])
    assert of["planner"] <= 3 * 3 * 3
    assert of["executor"] <= 3 * 3 * 3
    assert verdicts <= 3 * 3
    assert most_repairs(model) == 2, "three asks a step, then its fallback"
