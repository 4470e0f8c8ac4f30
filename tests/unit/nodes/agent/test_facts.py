"""A fact of a summary is a passage of a message, kept with the sentence that it stands in."""

import pytest

from loopwright.nodes.agent.shared.memory import find_passage

BAN = "Look at the ledgers. Do not, under any circumstances, delete ledger_7.db!\nThen write."


@pytest.mark.req("S4-59", "P-14")
@pytest.mark.parametrize(
    ("quote", "text", "passage"),
    [
        ("delete ledger_7.db", BAN, "Do not, under any circumstances, delete ledger_7.db!"),
        ("DELETE  ledger_7.db\n", BAN, "Do not, under any circumstances, delete ledger_7.db!"),
        ("删除账本", "先看库存。请不要删除账本。谢谢。", "请不要删除账本。"),
        ("42", "costs 1.42 EUR, not 420", "costs 1.42 EUR, not 420"),
        ('"phone": "4711"', '{"desk": {"phone": "4711"}}', '{"desk": {"phone": "4711"}}'),
        ("rule (m-0a1b2c3d)", "The rule holds.", "The rule holds."),
        ("ledger_8.db", BAN, ""),
        ("   ", BAN, ""),
        ("Delete the ledger", "Nicht löschen. Delete it.", ""),
    ],
)
def test_a_quotation_is_found_with_its_sentence_or_not_at_all(quote, text, passage):
    assert find_passage(quote, ["Something else.", text]) == passage


def test_of_a_long_line_only_what_is_near_is_kept():
    passage = find_passage("needle", [f"{'hay ' * 9_000}needle {'hay ' * 9_000}"])
    assert "needle" in passage
    assert len(passage) < 420
