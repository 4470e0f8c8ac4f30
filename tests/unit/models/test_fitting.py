"""Random conversations in little room: what is left is valid, fits, and grows by its end alone."""

import random

import pytest
from hypothesis import settings
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from loopwright.models.fitting import fit_messages
from loopwright.prompts.prompt import read_section, render_sections
from loopwright.state.messages import ENDS
from loopwright.state.snapshot import estimate_message_tokens
from support.strict_messages import problems

ROOM = 1_500
CONVERSATIONS = 2 * settings().max_examples


def converse(chance):
    """A random conversation: what is asked before each answer, from the first one on."""
    system = SystemMessage("Work on it. " * chance.randint(1, 40))
    messages, asked = [system], []

    def text():
        words = chance.choice(["shelf ", "货架 ", "estante ", "x"])
        return words * int(2 ** chance.uniform(0, 9))

    def wide():
        return chance.choice([*[""] * 40, text() * 20, '"' * 9_000])

    for turn in range(chance.randint(1, 8)):
        words = f"Request {turn}. {text()}"
        blocks = [{"type": "text", "text": words}]
        messages.append(HumanMessage(chance.choice([words, blocks]), id=f"u{turn}"))
        for step in range(chance.randint(0, 4)):
            asked.append([*messages])
            name = f"a{turn}.{step}"
            calls = [
                {"name": "look", "args": {"n": n, "t": wide()}, "id": f"{name}.{n}"}
                for n in range(chance.randint(1, 4))
            ]
            messages.append(AIMessage("", tool_calls=calls, id=name))
            messages += [
                ToolMessage(text(), tool_call_id=c["id"], name="look", id=f"r{c['id']}")
                for c in calls
            ]
        asked.append([*messages])
        ended = {ENDS: True}
        messages.append(AIMessage(f"Answer {turn}.", id=f"e{turn}", additional_kwargs=ended))
    return asked


@pytest.mark.req("W-100")
def test_random_conversations_fit_stay_valid_and_grow_by_their_end():
    grown = cuts = 0
    for seed in range(CONVERSATIONS):
        before: list = []
        for messages in converse(random.Random(seed)):
            fit = fit_messages(messages, ROOM)
            shown = [*fit.messages]
            assert estimate_message_tokens(shown) <= ROOM, seed
            assert problems(shown) == [], seed
            newest = messages[-1].text
            kept = shown[-1].text
            assert kept == newest or (kept[:100] == newest[:100] and kept[-100:] == newest[-100:])
            cuts, grown = cuts + fit.is_new, grown + (shown[: len(before)] == before)
            assert fit.is_new or shown[: len(before)] == before, seed
            before = shown
    assert cuts > CONVERSATIONS / 5
    assert grown > 2 * cuts


def test_data_that_has_no_room_keeps_its_sections_and_prompts_stay_whole():
    data = {"request": "Sum up.", "evidence": "shelf " * 9_000, "tasks": "row " * 300}
    system = SystemMessage("Judge. " * 200)
    fit = fit_messages([system, HumanMessage(render_sections(data))], 2_000)
    assert estimate_message_tokens(fit.messages) <= 2_000
    assert fit.messages[0] == system
    text = fit.messages[1].text
    assert read_section(text, "request") == "Sum up."
    assert read_section(text, "tasks") == data["tasks"]
    short = read_section(text, "evidence")
    assert short.startswith("shelf shelf")
    assert "characters left out" in short


def test_words_beside_pictures_that_take_all_of_the_room_stay_as_they_are():
    seen = [{"type": "text", "text": "Which is broken?"}, *[{"type": "image_url"}] * 8]
    messages = [SystemMessage("Look."), HumanMessage(seen, id="u1")]
    fit = fit_messages(messages, 8_000)
    assert list(fit.messages) == messages
