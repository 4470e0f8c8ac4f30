"""What comes of a call, and what is told of it."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from langchain_core.messages import ToolMessage
from langchain_core.messages.content import create_text_block

from loopwright.calls.results import normalize_result
from loopwright.tools.values import NoJson

PNG = "iVBORw0KGgo="


def answer(*content, **more) -> Any:
    """What a server answers, as the adapter gives it."""
    artifact = (
        {"structured_content": more["structuredContent"]} if "structuredContent" in more else None
    )
    status = "error" if more.get("isError") else "success"
    return ToolMessage(list(content), tool_call_id="1", status=status, artifact=artifact)


def text(words, **more) -> Any:
    return {"type": "text", "text": words, **more}


def message(content, **more) -> Any:
    return ToolMessage(content, tool_call_id="1", **more)


@pytest.mark.req("P-43")
def test_every_shape_of_a_text_reads_the_same():
    shapes = [
        "hello",
        answer(text("hello")),
        answer(text("hello", id="lc_123")),
        message("hello"),
        message([create_text_block("hello")]),
        message([{"type": "text", "text": "hello", "id": "lc_9"}]),
        message(["hello"]),
    ]
    assert {normalize_result(shape).text for shape in shapes} == {"hello"}
    assert {normalize_result(shape).data for shape in shapes} == {None}


@pytest.mark.req("P-43")
def test_data_is_found_wherever_it_is():
    data = {"total": 41, "names": ["a", "b"]}
    shapes = [
        data,
        answer(text(json.dumps(data)), structuredContent=data),
        answer(text(json.dumps(data, indent=2))),
        message(json.dumps(data)),
        message("41 a b", artifact={"structured_content": data}),
        answer(structuredContent=data),
    ]
    assert all(normalize_result(shape).data == data for shape in shapes)
    assert normalize_result(
        answer(text("a"), text("b"), structuredContent={"result": ["a", "b"]})
    ).data == [
        "a",
        "b",
    ]


@pytest.mark.req("P-43")
def test_pictures_are_put_aside_and_named():
    blocks = [
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        {"type": "image", "base64": PNG, "mime_type": "image/png", "id": "lc_1"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "audio", "data": PNG, "mimeType": "audio/wav"},
    ]
    for block in blocks:
        result = normalize_result(answer(text("look"), block))
        (media,) = result.media
        assert media.base64 == PNG
        assert PNG not in result.text
        assert f"kept as {media.id}" in result.text
    assert "image/png, 9 bytes" in normalize_result(answer(blocks[0])).text
    remote = normalize_result(
        answer({"type": "image_url", "image_url": {"url": "https://x/a.png"}})
    )
    assert "https://x/a.png" in remote.text


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text() | st.binary(),
        lambda i: (
            st.lists(i, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["content", "type", "text", "resource", "isError", "data", "image_url"]
                ),
                i | st.sampled_from(["text", "image", "resource", "resource_link", "image_url"]),
            )
        ),
        max_leaves=12,
    )
)
def test_no_result_raises(raw):
    try:
        result = normalize_result(raw)
    except NoJson:  # which `run_once` answers
        return
    assert json.dumps([result.text, result.data, result.artifact], ensure_ascii=False).encode()
    assert isinstance(result.text, str)
