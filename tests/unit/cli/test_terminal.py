"""Foreign text on a terminal."""

import pytest

from loopwright.cli.terminal import clean


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
