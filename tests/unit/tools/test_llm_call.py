"""The step tool that asks a model: whom it asks, what comes back, and what it says of itself."""

import pytest

from loopwright.tools.python_tools import (
    LLM_CALL,
    add_llm_call,
    allow_asking,
    llm_call,
    strip_fence,
)
from support.flows import declared


def answering(text):
    asked = []

    async def answer(prompt, schema):
        asked.append(prompt)
        return text

    return answer, asked


@pytest.mark.req("S2-37")
async def test_it_gives_the_prompt_to_whoever_was_lent_to_it_and_the_answer_back():
    asker, asked = answering("wet")
    with allow_asking(asker):
        assert await llm_call("In one word: rain") == "wet"
    assert asked == ["In one word: rain"]


async def test_without_anybody_to_ask_it_says_where_it_works():
    with allow_asking(answering("wet")[0]):
        pass
    with pytest.raises(RuntimeError, match="it works in the steps of prompt_flow"):
        await llm_call("In one word: rain")


@pytest.mark.req("S2-37")
@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ('```json\n{"word": "wet"}\n```', '{"word": "wet"}'),
        ("```\n[1, 2]\n```", "[1, 2]"),
        ('\n```json \n  {"a": 1}\n```\n', '{"a": 1}'),
        ('{"a": 1}', '{"a": 1}'),
        ("```python\nx = {}\n```", "```python\nx = {}\n```"),
        ("```\nplain words\n```", "```\nplain words\n```"),
        ('Here: ```json\n{"a": 1}\n```', 'Here: ```json\n{"a": 1}\n```'),
        ("```json\n{}\n```\n```json\n{}\n```", "```json\n{}\n```\n```json\n{}\n```"),
        ("", ""),
    ],
)
def test_json_loses_the_fence_around_it_and_nothing_else_does(text, bare):
    assert strip_fence(text) == bare


def test_a_tool_of_the_program_that_has_its_name_takes_its_place():
    def mine(prompt: str) -> str:
        """Ask my own model."""
        return prompt

    own = declared(mine, name=LLM_CALL)
    assert add_llm_call([own]) == [own]
    assert [getattr(t, "name", "") for t in add_llm_call([])] == [LLM_CALL]
    assert len(add_llm_call(add_llm_call([mine]))) == 2
