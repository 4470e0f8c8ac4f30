"""Every way a model is known to spoil its answer, through the whole graph."""

import logging

import pytest

from loopwright import Context, ScriptedModel, build_plan_execute_verify
from loopwright.prompts.sections import read_json
from support.malformed import MALFORMED, MENDED, REJECTED
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


def spoiled(role, turn, *, always):
    """A healthy model whose one role gives this turn first, or for ever."""
    spent = []

    def answer(messages, offered):
        asked = messages[0].text.split()[3].rstrip(".")
        if asked == role and (always or not spent):
            spent.append(asked)
            return turn
        return sound(asked, messages)

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


def ids(cases):
    return [f"{role}: {label}" for role, label, _ in cases]


@pytest.mark.req("P-11")
@pytest.mark.parametrize(("role", "label", "turn"), MALFORMED, ids=ids(MALFORMED))
def test_one_spoiled_answer_costs_asks_not_the_run(role, label, turn, caplog):
    model = spoiled(role, turn, always=False)
    with caplog.at_level(logging.ERROR):
        outcome = run(model)
    check_honest(outcome, model)
    ended = (outcome["status"], outcome["reason"], outcome["answer"])
    assert ended == ("complete", "GOAL", "Mara owns it.")
    assert not caplog.records
    repaired = any(_repairs(m) for a in model.asked for m in a.messages)
    if (role, label) in {(r, n) for r, n, _ in MENDED}:
        assert not repaired
    assert most_repairs(model) <= 2
    assert len(model.asked) <= 4 + 10


@pytest.mark.req("P-11")
@pytest.mark.parametrize(("role", "label", "turn"), REJECTED, ids=ids(REJECTED))
def test_a_role_that_never_answers_well_ends_honestly_within_the_limits(role, label, turn):
    model = spoiled(role, turn, always=True)
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


@pytest.mark.req("P-11")
def test_the_corpus_is_worth_its_name():
    assert len({label for _, label, _ in MALFORMED}) >= 40
    assert {role for role, _, _ in REJECTED} == {"planner", "executor", "verifier"}
