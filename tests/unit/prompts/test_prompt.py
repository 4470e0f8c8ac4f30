import json

import pytest
from hypothesis import example as tried, given, strategies as st

from loopwright.prompts.prompt import (
    CORE_TEMPLATES,
    SLOT,
    PromptManager,
    read_json,
    read_section,
    render_sections,
)
from loopwright.state.errors import SettingsError
from support.contracts import CONTRACTS, OF_PLAN

ENGLISH = CORE_TEMPLATES["en"]

ROLES = OF_PLAN


@pytest.mark.req("S0-28", "S0-108", "S0-109", "S0-112", "S0-158")
@pytest.mark.parametrize("role", ROLES)
def test_a_core_template_has_its_parts(role):
    text = ENGLISH[role]
    assert text.startswith(f"You are the {role}")
    assert text.count(SLOT) == 1
    for heading in ("## Business context", "## Duties", "## Output", "## Constraints"):
        assert heading in text
    assert f"{role.capitalize()}Response" in text


@pytest.mark.req("S0-117", "S0-127", "S0-136", "S0-128")
@pytest.mark.parametrize("role", ROLES)
def test_the_examples_in_a_template_fit_its_contract(role):
    examples = [line for line in ENGLISH[role].splitlines() if line.startswith('{"')]
    assert examples
    for example in examples:
        CONTRACTS[role].model_validate(json.loads(example))


TOLD = {
    "S0-115": ("planner", "address each of them"),
    "S0-118": ("planner", "concrete, executable"),
    "S0-119": ("planner", "dependsOn"),
    "S0-120": ("planner", "missingInformation"),
    "S0-121": ("planner", "twice"),
    "S0-122": ("planner", "You call no tools and you do not write the final answer"),
    "S0-124": ("executor", "already hold complete, directly usable data", "A call without a "
               "result, incomplete data, or data that still needs processing does not"),
    "S0-126": ("executor", "process, the actual result with its data, problems met"),
    "S0-129": ("executor", "Stay on your task"),
    "S0-131": ("executor", "try another way, or explain"),
    "S0-132": ("verifier", "critically", "nothing left out"),
    "S0-133": ("verifier", "does anything deviate from what was asked"),
    "S0-137": ("verifier", "Completed means:", "Satisfied means:"),
    "S0-138": ("verifier", "You call no tools"),
}  # fmt: skip
"""Requirement to the role whose prompt says it, and the words."""


@pytest.mark.req("S0-115", "S0-118", "S0-119", "S0-120", "S0-121", "S0-122", "S0-124")
@pytest.mark.req("S0-126", "S0-129", "S0-131", "S0-132", "S0-133", "S0-137", "S0-138")
@pytest.mark.parametrize("row", TOLD)
def test_a_role_is_told_its_duties(row):
    role, *words = TOLD[row]
    assert [text for text in words if text not in ENGLISH[role]] == []


@pytest.mark.req("S0-29", "S0-30", "S0-31", "S0-33", "S0-111", "S0-114", "S0-139", "S0-141")
def test_a_prompt_is_the_core_template_with_the_contexts_in_its_slot():
    prompts = PromptManager()
    prompts.set_system_context("We sell lamps.")
    prompts.set_business_context("planner", "Plan small.")
    planner, verifier = prompts.get_prompt("planner"), prompts.get_prompt("verifier")
    assert SLOT not in planner
    assert "We sell lamps.\n\nPlan small." in planner
    assert "We sell lamps." in verifier
    assert "Plan small." not in verifier
    for_this_run = prompts.get_prompt("planner", system_context="Today only.", business_context="x")
    assert "We sell lamps.\n\nToday only.\n\nPlan small.\n\nx" in for_this_run
    assert prompts.get_prompt("planner") == planner


@pytest.mark.req("S0-110", "S0-140", "S0-145")
def test_contexts_come_from_strings_files_or_a_folder(tmp_path):
    (tmp_path / "planner.md").write_text("# Lamps\n\nRules.")
    (tmp_path / "verifier.md").write_text("Be strict.")
    prompts = PromptManager()
    prompts.set_all_business_contexts(tmp_path)
    assert "Rules." in prompts.get_prompt("planner")
    assert "Be strict." in prompts.get_prompt("verifier")
    prompts.set_all_business_contexts({"planner": tmp_path / "planner.md", "executor": "text"})
    assert "Rules." in prompts.get_prompt("planner")
    assert "Be strict." not in prompts.get_prompt("verifier")
    with pytest.raises(SettingsError, match="cannot be read"):
        prompts.set_business_context("planner", tmp_path / "missing.md")
    with pytest.raises(SettingsError, match="no folder"):
        prompts.set_all_business_contexts(tmp_path / "missing")


@pytest.mark.req("S0-32", "S0-142", "S0-143")
def test_a_template_can_be_replaced_and_a_role_added_but_the_slot_must_stay():
    prompts = PromptManager()
    prompts.set_core_template("reviewer", f"You are the reviewer.\n{SLOT}")
    prompts.set_business_context("reviewer", "Look twice.")
    assert prompts.get_prompt("reviewer") == "You are the reviewer.\nLook twice."
    for wrong in ("no slot", f"{SLOT} {SLOT}"):
        with pytest.raises(SettingsError, match="exactly once"):
            prompts.set_core_template("planner", wrong)
    with pytest.raises(SettingsError, match="no core template"):
        prompts.get_prompt("cook")
    with pytest.raises(SettingsError, match="language"):
        PromptManager(language="xx").get_prompt("planner")


@pytest.mark.req("P-28")
@given(
    st.text() | st.sampled_from(["{}", "{{x}}", "%s", "$a", "{{businessContext}}", "</request>"])
)
def test_data_is_never_a_template(text):
    prompts = PromptManager()
    prompts.set_system_context(f"x{text}x")
    assert f"x{text}x" in prompts.get_prompt("planner")


LINES = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]))
    | st.sampled_from(["", "<request>", "</request>", " </task>", "<\\/request> ", "<\\\\task>"])
).map("\n".join)


@pytest.mark.req("P-28", "W-61")
@given(LINES, st.text(max_size=20))
@tried("", "empty")
@tried("<task>\n{}", "")
def test_sections_give_back_what_was_written(text, other):
    shown = render_sections({"request": f"{text}\n{{{{x}}}}", "task": {"id": other}, "steps": []})
    assert read_section(shown, "request") == f"{text}\n{{{{x}}}}"
    assert read_json(shown, "task") == {"id": other}
    assert read_section(shown, "steps") is None, "what is empty is left out"
