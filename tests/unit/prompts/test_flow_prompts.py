"""What recovery, answerer and llm_call, three roles of prompt_flow, are told."""

import json
from typing import get_args

import pytest

from loopwright.prompts.core_templates import SLOT, core_template
from loopwright.prompts.prompt_manager import PromptManager
from loopwright.state.flow_contracts import RecoveryDecision, Strategy

ROLES = ("recovery", "answerer", "llm_call")


@pytest.mark.parametrize("role", ROLES)
def test_a_core_template_says_who_it_is_for_and_has_its_parts(role):
    text = core_template(role)
    assert text.startswith(f"You are the {role} ")
    assert text.count(SLOT) == 1
    for heading in ("## Business context", "## Duties", "## Output", "## Constraints"):
        assert heading in text
    assert "Never invent data" in text or role == "recovery"
    assert "Prices are in euro." in PromptManager().get_prompt(
        role, business_context="Prices are in euro."
    )


@pytest.mark.req("S2-28")
def test_recovery_is_told_what_each_strategy_is_for_and_how_to_answer():
    text = core_template("recovery")
    for strategy in get_args(Strategy):
        assert f"- {strategy}:" in text
    example = next(line for line in text.splitlines() if line.startswith('{"'))
    assert RecoveryDecision.model_validate(json.loads(example)).reason


@pytest.mark.req("S2-18")
def test_the_answerer_is_told_to_cite_by_the_ids_of_steps():
    text = core_template("answerer")
    assert "such as [s1]" in text
    assert "checked by code" in text
    assert "failures lists what was not done" in text
