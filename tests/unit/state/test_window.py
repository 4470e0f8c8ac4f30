"""How many tokens messages are taken for."""

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from loopwright.state.snapshot import count_call_tokens, estimate_message_tokens

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 90_000}}
PAPER = {"type": "file", "mime_type": "application/pdf", "base64": "A" * 900_000}


def test_words_count_by_their_script_pictures_and_documents_by_their_kind():
    assert estimate_message_tokens([HumanMessage("a" * 400)]) == 104
    assert estimate_message_tokens([HumanMessage("\u4f60" * 300)]) == 204
    text = {"type": "text", "text": "a" * 400}
    assert estimate_message_tokens([HumanMessage([text, PICTURE])]) == 3_104
    assert estimate_message_tokens([HumanMessage([PAPER])]) == 25_804


def test_calls_and_their_arguments_count():
    call = {"name": "look", "args": {"name": "a" * 400}, "id": "1"}
    assert estimate_message_tokens([AIMessage("", tool_calls=[call])]) > 100
    assert estimate_message_tokens([ToolMessage("a" * 400, tool_call_id="1")]) == 104


def test_what_the_provider_counted_goes_before_an_estimate():
    usage = {"input_tokens": 70, "output_tokens": 7, "total_tokens": 77}
    asked = [HumanMessage("a" * 400)]
    assert count_call_tokens(asked, AIMessage("b", usage_metadata=usage)) == (70, 7)
    assert count_call_tokens(asked, AIMessage("b" * 40)) == (104, 14)
    assert count_call_tokens([HumanMessage([PICTURE])], AIMessage("b" * 40)) == (3_004, 14)
