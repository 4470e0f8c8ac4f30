"""The step tool that asks a model: whom it asks, what comes back, and what it says of itself."""

import pytest

from loopwright.tools.python_tools import (
    allow_asking,
    llm_call,
    strip_fence,
)


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


@pytest.mark.req("S2-37")
@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ('```json\n{"word": "wet"}\n```', '{"word": "wet"}'),
        ('\n```json \n  {"a": 1}\n```\n', '{"a": 1}'),
        ("```python\nx = {}\n```", "```python\nx = {}\n```"),
        ('Here: ```json\n{"a": 1}\n```', 'Here: ```json\n{"a": 1}\n```'),
        ("", ""),
    ],
)
def test_json_loses_the_fence_around_it_and_nothing_else_does(text, bare):
    assert strip_fence(text) == bare
