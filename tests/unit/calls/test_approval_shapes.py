import pytest

from loopwright.calls.approval import build_call_question, list_undecided
from support.front_ends import chat_ui_sends, chat_ui_shows, inbox_sends, inbox_shows

CALL = {
    "id": "1.1.0", "task": "1", "call_id": "call_0", "name": "save", "server": "disk",
    "about": "Save a text.", "args": {"text": "a"}, "action": "ask", "reason": "it writes",
    "read_only": False,
}  # fmt: skip
DOUBTED = {
    **CALL,
    "doubt": {"why": "the process ended while it ran", "key": "k", "sends": 1, "other": False},
    "doubts": 1,
}
LATE = {**CALL, "expires_at": "2026-01-01T00:00:00+00:00"}


@pytest.mark.req("P-20")
@pytest.mark.parametrize("call", [CALL, DOUBTED, LATE], ids=["proposed", "uncertain", "expiring"])
def test_both_front_ends_show_every_question_about_a_call(call):
    asked = build_call_question(call, "The last answer did not fit.")
    assert chat_ui_shows(asked)
    assert inbox_shows(asked)
    assert asked["tool_call_id"] == asked["action_requests"][0]["tool_call_id"] == "call_0"
    assert asked["description"].startswith("The last answer did not fit.")


@pytest.mark.req("P-20", "P-06")
def test_an_uncertain_call_may_be_run_again_answered_or_given_up_but_not_edited():
    asked = build_call_question(DOUBTED)
    assert asked["type"] == "uncertain_call"
    assert chat_ui_sends(asked, "approve")
    assert chat_ui_sends(asked, "reject", "leave it")
    assert inbox_sends(asked, "accept")
    assert inbox_sends(asked, "response", "it ran")
    for sends in (chat_ui_sends, inbox_sends):
        with pytest.raises(AssertionError, match="not there"):
            sends(asked, "edit", {"text": "b"})


@pytest.mark.req("S1-19")
@pytest.mark.parametrize(
    ("actions", "automatic"),
    [
        ([], True),
        (["allow", "allow"], True),
        (["deny", "error", "allow"], True),
        (["allow", "ask"], False),
        (["ask"], False),
    ],
)
def test_a_message_goes_on_by_itself_only_if_nothing_in_it_is_asked_about(actions, automatic):
    calls = [{**CALL, "id": f"1.1.{at}", "action": action} for at, action in enumerate(actions)]
    assert (list_undecided(calls, {}) == []) == automatic
