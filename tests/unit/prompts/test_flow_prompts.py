"""What the four roles of prompt_flow are told."""

import json
import re
from typing import get_args

import pytest

from loopwright.flow.execution_plan import ExecutionPlan, PlanStep, RecoveryDecision
from loopwright.flow.expectations import find_check_flaw
from loopwright.prompts.prompt import CORE_TEMPLATES, SLOT, PromptManager
from loopwright.state.flow import Cause, Strategy

ENGLISH = CORE_TEMPLATES["en"]

ROLES = ("recovery", "answerer", "llm_call")


@pytest.mark.parametrize("role", ROLES)
def test_a_core_template_says_who_it_is_for_and_has_its_parts(role):
    text = ENGLISH[role]
    assert text.startswith(f"You are the {role} ")
    assert text.count(SLOT) == 1
    for heading in ("## Business context", "## Duties", "## Output", "## Constraints"):
        assert heading in text
    assert "Never invent data" in text or role == "recovery"
    assert "Prices are in euro." in PromptManager().get_prompt(
        role, business_context="Prices are in euro."
    )


@pytest.mark.req("S2-41")
def test_the_planner_is_told_of_every_field_that_it_may_set():
    text = ENGLISH["flow_planner"]
    told = {field.alias for field in PlanStep.model_fields.values()}
    told |= {field.alias for field in ExecutionPlan.model_fields.values()} - {"planId", "metadata"}
    assert [name for name in sorted(told) if not re.search(rf"\b{name}\b", text)] == []
    example = json.loads(next(x for x in text.splitlines() if x.startswith('{"goal"')))
    assert isinstance(example["leftOut"], list)
    assert "one listed again keeps its arguments" in text


def test_the_conditions_of_which_the_planner_is_told_are_conditions():
    text = ENGLISH["flow_planner"]
    [line] = [line for line in text.splitlines() if line.startswith("- A condition is ")]
    told = re.fullmatch(
        r"- A condition is PATH or (length)\(PATH\) and one of (.+) with a value, "
        r"or (.+); several are joined by (and)\.",
        line,
    )
    length, compared, states, joint = told.groups()
    wanted = [f"rows[0].name {word} 1" for word in compared.split(", ")]
    wanted += [f"rows {word}" for word in states.split(", ")]
    assert len(wanted) == 11
    assert not any(find_check_flaw(check) for check in [*wanted, f" {joint} ".join(wanted)])
    assert not find_check_flaw(f"{length}(rows) > 0")
    [shown] = re.findall(r'a condition such as "(.+?)"', text)
    assert not find_check_flaw(shown)


@pytest.mark.req("S2-28")
def test_recovery_is_told_what_each_strategy_is_for_and_how_to_answer():
    text = ENGLISH["recovery"]
    for strategy in get_args(Strategy):
        assert f"- {strategy}:" in text
    example = next(line for line in text.splitlines() if line.startswith('{"'))
    assert RecoveryDecision.model_validate(json.loads(example)).reason


@pytest.mark.parametrize("role", ["flow_planner", "recovery"])
def test_a_prompt_speaks_of_repeating_in_the_words_of_its_data(role):
    assert "safe_to_repeat" in ENGLISH[role]
    assert "repeatable" not in ENGLISH[role], "to a tool that means that it polls"
    assert "safe_to_repeat" in Cause.__annotations__


@pytest.mark.req("S2-18")
def test_the_answerer_is_told_to_cite_by_the_ids_of_steps():
    text = ENGLISH["answerer"]
    assert "such as [s1]" in text
    assert "checked by code" in text
    assert "failures lists what was not done" in text
