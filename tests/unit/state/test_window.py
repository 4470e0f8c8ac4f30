"""How many tokens messages are taken for."""

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from loopwright.state.window import tokens_in, tokens_of

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 90_000}}
PAPER = {"type": "file", "mime_type": "application/pdf", "base64": "A" * 900_000}


def test_words_count_by_their_script_pictures_and_documents_by_their_kind():
    assert tokens_in([HumanMessage("a" * 400)]) == 104
    assert tokens_in([HumanMessage("\u4f60" * 300)]) == 204
    text = {"type": "text", "text": "a" * 400}
    assert tokens_in([HumanMessage([text, PICTURE])]) == 3_104
    assert tokens_in([HumanMessage([PAPER])]) == 25_804


def test_calls_and_their_arguments_count():
    call = {"name": "look", "args": {"name": "a" * 400}, "id": "1"}
    assert tokens_in([AIMessage("", tool_calls=[call])]) > 100
    assert tokens_in([ToolMessage("a" * 400, tool_call_id="1")]) == 104


def test_what_the_provider_counted_goes_before_an_estimate():
    usage = {"input_tokens": 70, "output_tokens": 7, "total_tokens": 77}
    asked = [HumanMessage("a" * 400)]
    assert tokens_of(asked, AIMessage("b", usage_metadata=usage)) == (70, 7)
    assert tokens_of(asked, AIMessage("b" * 40)) == (104, 14)
    assert tokens_of([HumanMessage([PICTURE])], AIMessage("b" * 40)) == (3_004, 14)
