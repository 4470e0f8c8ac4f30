import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage

from loopwright.models.scripted import ScriptedModel, Slow, read_script
from loopwright.state.errors import SettingsError
from loopwright.state.roles import ROLE_METADATA

GO = [SystemMessage("You are the sphinx of a team."), HumanMessage("go")]


def as_(role: str) -> Any:
    """The config of a call that tells a role."""
    return {"metadata": {ROLE_METADATA: role}}


@pytest.mark.req("S0-64")
def test_turns_are_replayed_in_order_in_all_their_forms() -> None:
    model = ScriptedModel(
        [
            "text",
            {"summary": "x"},
            [{"name": "add", "args": {"a": 1}}, {"name": "add", "id": "mine"}],
            AIMessage("own", response_metadata={"finish_reason": "length"}),
            Slow(0.01, "late"),
            ConnectionError("down"),
        ]
    )
    assert model.invoke("1").text == "text"
    assert model.invoke("2").text == '{"summary": "x"}'
    first, second = model.invoke("3").tool_calls
    assert (first["name"], first["args"], bool(first["id"])) == ("add", {"a": 1}, True)
    assert (second["name"], second["args"], second["id"]) == ("add", {}, "mine")
    assert model.invoke("4").response_metadata["finish_reason"] == "length"
    assert model.invoke("5").text == "late"
    with pytest.raises(ConnectionError):
        model.invoke("6")
    assert len(model.asked) == 6


@pytest.mark.parametrize(
    "turn",
    [
        "Hello  big\nworld ",
        [{"name": "add", "args": {"text": "x" * 50}}, {"name": "add", "args": {"a": 2}}],
        AIMessage([{"type": "text", "text": "block"}]),
        AIMessage("", response_metadata={"finish_reason": "length"}),
    ],
)
async def test_streamed_pieces_add_up_to_the_message(turn: Any) -> None:
    whole = ScriptedModel([turn]).invoke("hi")
    chunks = [chunk async for chunk in ScriptedModel([turn]).astream("hi")]
    total = chunks[0]
    for chunk in chunks[1:]:
        total += chunk
    assert isinstance(total, AIMessageChunk)
    assert total.text == whole.text
    assert [(c["name"], c["args"]) for c in total.tool_calls] == [
        (c["name"], c["args"]) for c in whole.tool_calls
    ]
    assert total.usage_metadata == whole.usage_metadata
    assert total.response_metadata.items() >= whole.response_metadata.items()


def test_a_file_is_played_in_all_forms_of_turns() -> None:
    turns = ["text", {"summary": "x"}, [{"name": "add", "args": {"a": 1}}], {"error": "down"}]
    turns.append({"seconds": 0.01, "turn": "late"})
    Path("script.json").write_text(json.dumps({"executor": turns}))
    model = read_script("script.json")
    asked = (GO, as_("executor"))
    assert model.invoke(*asked).text == "text"
    assert model.invoke(*asked).text == '{"summary": "x"}'
    assert model.invoke(*asked).tool_calls[0]["args"] == {"a": 1}
    with pytest.raises(RuntimeError, match="down"):
        model.invoke(*asked)
    assert model.invoke(*asked).text == "late"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "No such file"),
        ("[1]", "no JSON object of role to turns"),
        ('{"planner": "x"}', "'planner' is no role with a list"),
        (
            '{"planner": [[1]]}',
            "turn 1 of 'planner' is neither a text nor",
        ),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_that_cannot_be_played_is_one_sentence(text: str | None, says: str) -> None:
    if text is not None:
        Path("script.json").write_text(text)
    with pytest.raises(SettingsError) as told:
        read_script("script.json")
    assert str(told.value).startswith("The script script.json cannot be played: ")
    assert says in str(told.value)
    assert "\n" not in str(told.value)
