"""Long texts in a sentence, and long results before somebody who works with them."""

import pytest

from loopwright.state.canonical import beginning_of, shortened


@pytest.mark.parametrize("text", ["", "x", "x" * 100])
def test_what_fits_is_shown_whole(text: str) -> None:
    assert shortened(text) == beginning_of(text, 100) == text


def test_in_a_sentence_a_long_text_takes_no_more_than_its_room() -> None:
    assert shortened("x" * 101) == "x" * 99 + "…"
    assert shortened("abcdef", 3) == "ab…"


def test_of_a_long_result_it_is_said_how_much_is_missing() -> None:
    assert beginning_of("abcdef", 5) == "abcde [… 1 characters left out]"
