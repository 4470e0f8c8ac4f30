import pytest

from loopwright.state.canonical import estimate_tokens, weigh


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a" * 400, 100),
        ("\u4f60" * 300, 200),  # Chinese
        ("\u3042" * 15, 10),  # Japanese
        ("\ud55c" * 15, 10),  # Korean
        ("a" * 40 + "\u4f60" * 15, 20),
    ],
)
def test_tokens_are_estimated_by_length_and_script(text, tokens):
    assert estimate_tokens(text) == tokens


def test_chinese_weighs_more():
    assert weigh("abcd") == 4
    assert weigh("\u8868\u683c") == pytest.approx(2 * 4 / 1.5)
