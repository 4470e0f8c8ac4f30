"""Threads of the six graphs as clients of a real server have them, each held to the contract."""

from itertools import pairwise
from pathlib import Path

from support.front_desks import DESKS
from support.front_ends import chat_ui_sends, find_faults, read_ag_ui

FRONTS = [f"{name}{way}" for name in DESKS for way in ("", "_no")]
"""The graphs of `chat_pages.DOORS`; in a thread of a name with `_no` each write is rejected."""


def texts_of(front):
    """What is said to a graph: all of it, or until there is a write to reject."""
    texts = DESKS[front.removesuffix("_no")][0](Path())[1]
    return texts if not front.endswith("_no") else texts[: 2 if "service" in front else 1]


def stream_turn(client, thread, front, before, **given):
    """A run to its rest: what a page was shown on the way stays, and a reload shows the same."""
    modes = ["values", "messages-tuple"]
    context = {"review_plan": True} if front.partition("_")[0] in ("plan", "flow", "agent") else {}
    parts = [*client.runs.stream(
        thread, f"front_{front}", stream_mode=modes, context=context, **given
    )]  # fmt: skip
    assert not [part for part in parts if part.event == "error"], parts[-1]
    seen = [part.data for part in parts if part.event == "values"]
    state = client.threads.get_state(thread)
    ids = [
        [m["id"] for m in values.get("messages", ()) if not m["id"].startswith("do-not-render-")]
        for values in [*seen, state["values"]]
    ]
    for earlier, later in pairwise(ids):
        assert [one for one in later if one in earlier] == earlier, "what was shown is gone"
    assert client.threads.get_history(thread)[0]["values"] == state["values"]
    assert find_faults(state["values"], state["interrupts"], before) == []
    return state


def go_by_sdk(client, front):
    """A thread of the LangGraph SDK; its questions are answered one at a time, as a page's are."""
    thread, values, kind = client.threads.create()["thread_id"], {}, "approve"
    for text in texts_of(front):
        state = stream_turn(
            client, thread, front, values, input={"messages": [{"role": "user", "content": text}]}
        )
        while state["interrupts"]:
            values, asked = state["values"], state["interrupts"][0]
            is_call = asked["value"].get("type") == "tool_approval"
            kind = "reject" if front.endswith("_no") and is_call else "approve"
            answer = {asked["id"]: chat_ui_sends(asked["value"], kind, "not now")}
            state = stream_turn(client, thread, front, values, command={"resume": answer})
        values = state["values"]
    return values


def check_end(front, values, outcome):
    """How a thread ended in which every write was approved, or rejected."""
    calls = [one["props"] for one in values["ui"] if one["name"] == "tool-call"]
    ran = [
        one for one in calls if one["tool"] in ("save", "put", "pay") if one["status"] == "success"
    ]
    assert bool(ran) != front.endswith("_no"), (front, calls)
    if ran:
        assert outcome["status"] == "complete", (front, outcome)


def check_client(front, told):
    """What `fixtures/ag_ui_client.mjs` printed of one thread."""
    before = None
    for rest in told["rests"]:
        assert rest["failed"] == []
        values = read_ag_ui(rest["messages"])
        asked = [{"id": one["id"], "value": one["metadata"]["value"]} for one in rest["asked"]]
        assert find_faults(values, asked, before) == [], front
        before = values
    # The client keeps a component, or a result, where it came first; after a reload it stands
    # behind what it is about.
    live, reloaded = rest["messages"], told["reloaded"]
    spoken = [[m for m in one if m["role"] in ("user", "assistant")] for one in (live, reloaded)]
    assert spoken[0] == spoken[1], front
    assert {m["id"]: m for m in live} == {m["id"]: m for m in reloaded}, front
    stands = {(m["id"], m["content"]) for m in live if m["role"] == "assistant"}
    for earlier, later in pairwise({*map(tuple, one)} & stands for one in told["seen"]):
        assert earlier <= later, "a draft that stands is retracted"
    check_end(front, values, rest["state"]["outcome"])
