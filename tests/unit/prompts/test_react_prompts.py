"""The prompts of the three phases of the ReAct loop."""

import re

import pytest
from langchain_core.messages import AIMessage

from loopwright.models.hidden_tags import read_thought
from loopwright.prompts.prompt import CORE_TEMPLATES, SLOT, PromptManager, read_json
from loopwright.text.sentences import say

ENGLISH = CORE_TEMPLATES["en"]

SHARED = ENGLISH["react"]
PHASES = ("thought", "action", "observation")
TOOLS = [{"name": "look", "description": "Look up a fact. {{taskId}}"}]


def part(phase):
    return SHARED.partition(f"## {phase}\n")[2].partition("\n## ")[0]


def built(prompts, phase, *args, **more):
    return getattr(prompts, f"get_{phase}_prompt")(*args, **more)


@pytest.mark.req("S1-39")
def test_the_phases_share_one_core_template_with_a_part_for_each():
    assert not {*PHASES} & {*ENGLISH}
    assert SHARED.count(SLOT) == 1
    for heading in ("## Business context", "## Thought", "## Action", "## Observation"):
        assert heading in SHARED
    assert {PromptManager().get_prompt(phase) for phase in PHASES} == {
        PromptManager().get_prompt("react")
    }


@pytest.mark.req("S1-47")
def test_a_core_template_names_no_trade():
    assert not re.search(r"transcri|subtitle|order|customer|file\b", SHARED, re.I)


@pytest.mark.req("S1-09", "S1-11", "S1-34", "S1-33", "S1-31", "S1-32", "S1-29")
def test_thought_is_told_its_duties():
    text = part("Thought")
    for words in (
        "Look at the messages first",
        "data is missing or may be out of date, or the user asks to refresh it",
        "suggestions of the last observation",
        "the complete answer for the user",
        "Never the tag alone. It is confidential: do not mention it.",
        "You call no tool yet",
        "Only these two fields",
        "the text is the complete answer",
    ):
        assert words in text
    tag = next(line for line in text.splitlines() if line.startswith("<agent_meta>"))
    assert read_thought(AIMessage(f"Text. {tag}")).problems == []


@pytest.mark.req("S1-36", "S1-37")
def test_action_is_told_its_duties():
    text = part("Action")
    for words in (
        "If the thought asks for a tool, call it",
        "at most one short sentence on what you are doing. No description of results",
    ):
        assert words in text


@pytest.mark.req("S1-38", "S1-10")
def test_observation_is_told_its_duties():
    text = part("Observation")
    for words in (
        "One short sentence",
        "suggests the next step",
        "do not answer the user",
        "no tool",
    ):
        assert words in text


@pytest.mark.req("S1-41", "S1-35", "S1-16", "S1-06", "S1-08")
def test_a_prompt_holds_the_ids_and_only_a_thought_with_its_own_template_lists_tools():
    prompts, own = PromptManager(), PromptManager()
    own.set_core_template("thought", f"Think. {SHARED}\n{{{{tools}}}}")
    for phase in PHASES:
        text = built(prompts, phase, "res-7", "task-9", TOOLS)
        assert "Current resource: res-7\n" in text
        assert "Current task: task-9" in text
        assert read_json(text, "tools") is None
        empty = built(prompts, phase)
        assert re.search(r"Current resource: *\nCurrent task: *(\n|$)", empty)
        listing = built(own, phase, "res-7", "task-9", TOOLS)
        assert (read_json(listing, "tools") == TOOLS) is (phase == "thought")
        assert (say("no_tools") in built(own, phase)) is (phase == "thought")
        assert own.is_shared(phase) is (phase != "thought")


@pytest.mark.req("S1-40", "S1-39")
def test_contexts_for_all_phases_and_for_one():
    prompts = PromptManager()
    prompts.set_system_context("We sell lamps.")
    prompts.set_business_context("thought", "Think {{tools}} twice.")
    both = {"action": "Only now.", "planner": "Not here."}
    shared = "We sell lamps.\n\nFor the phase thought:\nThink {{tools}} twice."
    for phase in PHASES:
        assert f"{shared}\n\nCurrent" in built(prompts, phase)
        told = built(prompts, phase, business_context=both)
        assert f"{shared}\n\nFor the phase action:\nOnly now.\n\nCurrent" in told
    prompts.set_core_template("thought", f"Think. {SHARED}\n{{{{tools}}}}")
    assert "lamps.\n\nThink {{tools}} twice.\n\nCurrent" in built(prompts, "thought")
    assert "twice" not in built(prompts, "action")
    assert "Only now." in prompts.get_action_prompt(business_context="Only now.")
