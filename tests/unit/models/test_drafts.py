"""Drafts of structured answers, and what is known of the model that writes them."""

import json
import random
from typing import Any

import pytest
from hypothesis import given, strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk

from loopwright.models.drafts import Draft, drop_thoughts, reasoning_of
from loopwright.models.refusals import Quirks
from support.scripts import passed


class Seen:
    """What a draft shows, step by step."""

    def __init__(self) -> None:
        self.texts, self.thoughts = list[str](), list[str]()

    def show(self, text: str, reasoning: str = "") -> None:
        self.texts.append(text)
        self.thoughts.append(reasoning)


def written(text: str, seed: int, quirks: Quirks | None = None, **how: Any) -> Seen:
    seen, rng, place = Seen(), random.Random(seed), 0
    draft = Draft(seen, **how)
    draft.begin(quirks or Quirks())
    while place < len(text):
        end = place + rng.choice([1, 2, 3, 7, 40])
        draft.hear(AIMessageChunk(content=text[place:end]))
        place = end
    return seen


TEXTS = st.text(st.sampled_from('ab "\\\n\t{}[]:,é艾😀/u0'), max_size=30)


@pytest.mark.req("S0-79")
@given(TEXTS, st.booleans(), st.integers(0, 1_000), st.sampled_from(["", "Here: ", "```json\n"]))
def test_a_field_is_shown_as_it_is_written_however_it_is_spelled(text, ascii_, seed, before):
    verdict = passed(text, t1=["1.1.0"]) | {"tasks": [{"id": 'a "summary": "no"', "feedback": ""}]}
    answer = before + json.dumps(verdict, ensure_ascii=ascii_, indent=seed % 3 or None)
    shown = written(answer, seed, field="summary").texts
    assert all(text.startswith(one) for one in shown)
    assert (shown or [""])[-1] == text


@pytest.mark.req("S0-81")
@pytest.mark.parametrize(
    ("content", "extra", "provider"),
    [
        ([{"type": "thinking", "thinking": "so", "signature": "x"}], {}, "anthropic"),
        (
            [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "so"}]}],
            {},
            "openai",
        ),
        ([{"type": "reasoning", "reasoning": "so"}], {}, ""),
        ([], {"reasoning_content": "so"}, "deepseek"),
        ("<think>so</think>", {}, ""),
    ],
)
def test_thoughts_are_found_wherever_a_provider_puts_them(content, extra, provider):
    told = [{"type": "text", "text": "It is Ada."}]
    words = f"{content}It is Ada." if isinstance(content, str) else [*content, *told]
    meta = {"model_provider": provider} if provider else {}
    message = AIMessage(words, additional_kwargs=extra, response_metadata=meta)
    assert reasoning_of(message) == "so"
    if isinstance(words, list):
        bare = drop_thoughts(message)
        assert (bare.content, bare.additional_kwargs) == ("It is Ada.", {})
