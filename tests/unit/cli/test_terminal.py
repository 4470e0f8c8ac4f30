"""Foreign text on a terminal."""

import pytest
from hypothesis import given, strategies as st

from loopwright.cli.terminal import clean, shorten_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext", "plain\n\ttext"),
        ("red \x1b[31m", "red \ufffd[31m"),
        ("csi \x9b31m", "csi \ufffd31m"),
        ("over\rwrite", "over\ufffdwrite"),
        ("dos\r\nline", "dos\nline"),
        ("abc\u202edcba", "abc\ufffddcba"),
        ("家族 👩\u200d👩", "家族 👩\u200d👩"),
        ("half \ud83d", "half \ufffd"),
    ],
)
def test_what_could_steer_a_terminal_becomes_visible(text, shown):
    assert clean(text) == shown


@given(st.text(), st.integers(2, 50))
def test_short_is_one_line_within_the_limit(text, limit):
    line = shorten_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line
    assert "\x1b" not in line
