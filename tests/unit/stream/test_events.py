"""The merge rules of events and components, and what is kept short."""

import json

import pytest
from hypothesis import given, strategies as st
from langchain_core.messages import AIMessageChunk, HumanMessage, RemoveMessage

from loopwright import stream_event
from loopwright.state.channels import MOST_CALLS, KeptEvents, merge_components, merge_events
from loopwright.stream.components import make_component
from loopwright.stream.events import EVENTS, shorten_event, subject_of
from support.docs_parts import read_events

TURNS = st.sampled_from(["1-a", "2-b"])
TOLD = st.one_of(
    st.fixed_dictionaries({"type": st.just("phase"), "role": st.just("thought")}),
    st.fixed_dictionaries({"type": st.just("tool_call"), "id": st.integers(0, 130).map(str)}),
    st.fixed_dictionaries({"type": st.just("task"), "id": st.sampled_from("12")}),
)


@st.composite
def writes(draw):
    """What nodes wrote, one after the other: numbers go up, a resume may repeat some."""
    found, number = [], 0
    for turn in sorted(draw(st.lists(TURNS, max_size=8))):
        number = max(0, number - draw(st.integers(0, 2)))
        kept = {}
        for event in draw(st.lists(TOLD, max_size=40)):
            number += 1
            kept[subject_of(event)] = {**event, "seq": number, "turn": turn}
        found.append(KeptEvents(turn=turn, upto=number, kept=kept))
    return found


@given(writes(), st.data())
def test_events_merge_alike_in_whatever_batches(given_, data):
    whole = merge_events(KeptEvents(), given_)
    cut = data.draw(st.integers(0, len(given_)))
    assert merge_events(merge_events(KeptEvents(), given_[:cut]), given_[cut:]) == whole
    assert merge_events(whole, given_[-1:]) == whole
    events = whole["kept"].values()
    assert {event["turn"] for event in events} <= {whole["turn"]}
    assert all(event["seq"] <= whole["upto"] for event in events)
    assert sum(event["type"] == "tool_call" for event in events) <= max(MOST_CALLS, 100)


MESSAGES = st.one_of(
    st.builds(
        lambda key, seq: make_component({"seq": seq}, "tool-call", key, {"n": seq}, under="m"),
        st.sampled_from("abc"), st.integers(1, 9),
    ),
    st.builds(lambda key: {"type": "remove-ui", "id": f"{key}.tool-call"}, st.sampled_from("abc")),
    st.builds(
        lambda key, merge: {"type": "ui", "id": key, "name": "own", "props": {key: 1},
                            "metadata": {"merge": merge}},
        st.sampled_from("xy"), st.booleans(),
    ),
)  # fmt: skip


@given(st.lists(st.one_of(MESSAGES, st.lists(MESSAGES, max_size=4)), max_size=8), st.data())
def test_components_merge_alike_in_whatever_batches_and_each_is_there_once(given_, data):
    whole = merge_components([], given_)
    cut = data.draw(st.integers(0, len(given_)))
    assert merge_components(merge_components([], given_[:cut]), given_[cut:]) == whole
    ids = [one["id"] for one in whole]
    assert len(ids) == len(set(ids))


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3000),
    lambda inner: st.lists(inner, max_size=300) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=40,
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_an_event_is_bounded_and_what_is_short_stays(event):
    short = shorten_event(event)
    assert len(json.dumps(short)) < 700_000
    assert shorten_event(short).keys() == short.keys() or not short
    if len(json.dumps(event)) < 900:
        assert short == event


def test_the_documented_events_and_their_subjects_are_those_of_the_code():
    documented = read_events()
    assert documented.keys() == EVENTS.keys()
    for name, (kept, fields) in documented.items():
        group, *keys = EVENTS[name] or ("",)
        assert kept == (" and ".join(keys) or ("turn" if group else "")), name
        assert {*keys} <= {field.rstrip("?") for field in fields}, name


CALL = {"type": "tool_call", "id": "1.1.0", "tool": "put", "arguments": {"a": 1}, "task": "1"}


@pytest.mark.req("S0-78", "S0-79", "S0-80", "S0-81", "S0-155")
@pytest.mark.parametrize(
    ("mode", "chunk", "told"),
    [
        (
            "messages",
            AIMessageChunk(content="Hel", id="m"),
            [("content", {"id": "m", "text": "Hel"})],
        ),
        ("messages", RemoveMessage(id="m"), [("content", {"id": "m", "text": "", "again": True})]),
        ("messages", HumanMessage("hi"), []),
        ("custom", {"type": "ui", "id": "a"}, []),
        ("values", {"messages": []}, []),
        ("error", TimeoutError(), [("error", {"message": "TimeoutError"})]),
    ],
)  # fmt: skip
def test_chunks_by_the_six_names(mode, chunk, told):
    assert stream_event(mode, (chunk, {}) if mode == "messages" else chunk) == told


@pytest.mark.req("S0-80", "S0-82")
def test_calls_and_ends_by_the_six_names():
    call = {key: CALL[key] for key in ("id", "tool", "arguments")}
    for status, confirm in (("scheduled", False), ("awaiting_approval", True)):
        (told,) = stream_event("custom", {**CALL, "status": status})
        assert told == ("tool_calls", {"calls": [call], "confirm": confirm})
    ends = {"complete": "done", "partial": "done", "stuck": "done", "cancelled": "stopped",
            "failed": "error"}  # fmt: skip
    for status, name in ends.items():
        outcome = {"type": "outcome", "status": status, "reason": "GOAL", "unmet": ["this"]}
        ((found, about),) = stream_event("custom", outcome)
        assert (found, about["status"]) == (name, status)
