"""Events and components of whole runs: numbered, kept, drawn, and rebuilt by a client in chaos."""

import json
import random
from itertools import count
from operator import itemgetter
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import (
    Context,
    Replay,
    ScriptedModel,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
)
from loopwright.state.channels import merge_components, merge_events
from loopwright.stream.components import COMPONENTS
from loopwright.stream.views import components_of
from support import killed
from support.docs_parts import read_events
from support.flows import ASK, DOWN, World, declared, flow, look, planning, put
from support.reacting import one_step
from support.scripts import call, passed, plan, report, thought, todo
from support.told import GO, THREAD, drive_told, graph_told, state_of

DOCUMENTED = read_events()


def problems_of(event: dict[str, Any]) -> list[str]:
    """The fields that an event lacks, or has besides those in docs/events.md."""
    _, fields = DOCUMENTED[event["type"]]
    known = {name.rstrip("?") for name in fields}
    always = {name for name in fields if not name.endswith("?")}
    found = event.keys() - {"type", "seq", "turn", "message_id"}
    return [*sorted(always - found), *sorted(found - known)]


class Recording:
    """What a server told in some runs of one thread, and its state at each moment."""

    def __init__(self, graph):
        self.graph, self.moments = graph, []
        self.state = {"events": {}, "ui": []}

    def run(self, given, cut: int = 0, **options):
        """Run; with `cut` the run is cut off after so many chunks, as a kill would do."""
        heard, self.state = count(1), state_of(self.graph)
        self.moments.append(("begin", self.state))
        stream = self.graph.stream(given, THREAD, stream_mode=["custom", "updates"], **options)
        for mode, chunk in stream:
            if mode == "custom":
                self.moments.append(("chunk", chunk))
                if next(heard) == cut:
                    stream.close()
                    break
            else:
                for update in chunk.values():
                    self._fold(update)
        else:
            found = state_of(self.graph)
            if not self.graph.get_state(THREAD).interrupts:
                assert self.state == found
            self.state = found
        self.moments.append(("end", self.state))
        return self

    def _fold(self, update):
        if isinstance(update, dict) and "events" in update:
            self.state = {
                "events": merge_events(self.state["events"], [update["events"]]),
                "ui": merge_components(self.state["ui"], [update.get("ui", [])]),
            }
            self.moments.append(("state", self.state))

    @property
    def chunks(self):
        return [one for kind, one in self.moments if kind == "chunk"]


def to_the_end(recording, context):
    """Answer every question until the turn has ended."""
    graph = recording.graph
    while (state := graph.get_state(THREAD)).next:
        given = None
        if state.interrupts:
            question = state.interrupts[0]
            name = question.value["action_requests"][0]["name"]
            given = Command(resume={question.id: killed.answer_to(name)})
        recording.run(given, context=context)
    return recording


def planned(folder):
    world = killed.World(folder)
    return build_plan_execute_verify(
        model=killed.model_of(world, {}), tools=killed.tools_of(world, {}),
        policy=[{"tool": "save", "action": "ask"}], checkpointer=InMemorySaver(),
    )  # fmt: skip


def flowed(_):
    def drawn() -> dict[str, Any]:
        """Draw what there is."""
        orders = [{"name": "one", "noise": 1}, {"name": "two"}]
        shown = {"type": "component", "name": "resource-list", "props": {"resources": orders}}
        return {"items": [{"type": "text", "value": "Two."}, shown]}

    world = World(x=[DOWN, 1], y=2)
    steps = [look("a", "x"), look("b", "y"), look("d", ["y", "x"], forEach=["y", "x"])]
    drawing = {"id": "e", "description": "draw", "tool": "drawn", "dependencies": []}
    return build_prompt_flow(
        model=planning(flow(*steps, drawing, put("c", "{{a.result}}", ["a", "b"]))),
        tools=[*world.tools(), declared(drawn, readOnlyHint=True)], policy=ASK,
        checkpointer=InMemorySaver(),
    )  # fmt: skip


def reacted(_):
    def send(text: str) -> str:
        """Send a text."""
        return f"sent {text}"

    def answer(messages, offered):
        made = sum(m.type == "tool" for m in messages)
        return thought("Done.") if made == 3 else thought(f"I send {made}.", more=True)

    def act(messages, offered):
        made = sum(m.type == "tool" for m in messages)
        return [call("send", f"c{made}", text=str(made))]

    return build_react(
        model=ScriptedModel({"thought": answer, "action": act, "observation": lambda *_: "Good."}),
        tools=[declared(send, destructiveHint=True)], policy=[{"tool": "send", "action": "ask"}],
        checkpointer=InMemorySaver(),
    )  # fmt: skip


GRAPHS = {"plan": planned, "flow": flowed, "react": reacted}
CONTEXT = Context(review_plan=True, model_retries=0)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """By graph: a run to its end, and runs that were cut off somewhere and went on."""
    found = {}
    for name, build in GRAPHS.items():
        for cut in (0, 12, 30):
            recording = Recording(build(tmp_path_factory.mktemp(name)))
            recording.run(GO, cut=cut, context=CONTEXT)
            found[name, cut] = to_the_end(recording, CONTEXT)
    return found


@pytest.mark.parametrize("name", GRAPHS)
def test_what_runs_tell_is_as_the_table_says_and_numbered(recordings, name):
    recording = recordings[name, 0]
    events = [one for one in recording.chunks if one["type"] not in ("ui", "remove-ui")]
    assert [problem for event in events for problem in problems_of(event)] == []
    assert [event["seq"] for event in events] == [*range(1, len(events) + 1)]
    assert recording.state["events"]["upto"] == len(events)
    shown = [one for one in recording.chunks if one["type"] == "ui"]
    for one in shown:
        assert set(one) == {"type", "id", "name", "props", "metadata"}
        COMPONENTS[one["name"]].model_validate(one["props"])


@pytest.mark.parametrize("cut", [0, 12, 30])
@pytest.mark.parametrize("name", GRAPHS)
def test_components_are_views_of_events_each_once(recordings, name, cut):
    recording = recordings[name, cut]
    ids = [one["id"] for one in recording.state["ui"]]
    assert len(ids) == len(set(ids))
    ui = {one["id"]: one for one in recording.state["ui"]}
    kept = recording.state["events"]["kept"]
    views = {one["id"]: one for event in sorted(kept.values(), key=itemgetter("seq"))
             for one in components_of(kept, event)}  # fmt: skip
    assert {name: ui[name] for name in views} == views
    assert [one for one in ui.values() if one["props"].get("streaming")] == []
    assert [one for one in ui.values() if one["props"].get("answered") == ""
            and one["name"] == "approval"] == []  # fmt: skip
    under = {one["metadata"]["message_id"] for one in recording.state["ui"]}
    known = {m.id for m in recording.graph.get_state(THREAD).values["messages"]}
    assert under <= known


@pytest.mark.parametrize("name", GRAPHS)
def test_a_run_that_was_cut_off_ends_with_the_components_of_one_that_was_not(recordings, name):
    def told(recording):
        turn = recording.state["events"]["turn"]
        shown = [[one["name"], one["id"], _steady(one["props"])] for one in recording.state["ui"]]
        return sorted(json.dumps(one).replace(turn, "turn") for one in shown)

    whole = told(recordings[name, 0])
    assert told(recordings[name, 12]) == whole
    assert told(recordings[name, 30]) == whole


def _steady(props):
    timed = {"seconds", "summary"}
    if isinstance(props, dict):
        return {key: _steady(one) for key, one in props.items() if key not in timed}
    return [_steady(one) for one in props] if isinstance(props, list) else props


def wild(moments, chance):
    """A client behind a line that loses, repeats, delays and breaks."""
    client, late, server, so_far = Replay(), [], {}, []
    for kind, what in moments:
        if kind == "chunk":
            so_far.append(what)
            late += [what] * chance.choice((0, 1, 1, 1, 2))
        else:
            server = what
        if kind == "begin":  # the line was broken, and what was under way on it is lost
            late, so_far = [], []
            client.take(server)
        elif chance.random() < 0.03:  # a new line, on which the server begins somewhere earlier
            client.take(server)
            late = [*so_far[chance.randrange(len(so_far) + 1) :]]
        while late and chance.random() < 0.7:
            client.hear(late.pop(chance.randrange(min(4, len(late)))))
        assert _no_twins(client.ui.values()) if chance.random() < 0.01 else True
    client.take(server)
    for chunk in [*late, *chance.sample(so_far, min(5, len(so_far)))]:
        client.hear(chunk)
    return client


def _no_twins(ui):
    calls = [(one["name"], one["props"]["id"], one["id"].partition(".")[0]) for one in ui
             if one["name"] in ("tool-call", "approval")]  # fmt: skip
    return len(calls) == len(set(calls))


@pytest.mark.parametrize("name", GRAPHS)
def test_a_client_in_chaos_ends_at_the_state_of_the_server(recordings, name):
    for seed in range(99):
        cut = (0, 12, 30)[seed % 3]
        recording = recordings[name, cut]
        client = wild(recording.moments, random.Random(seed))
        assert client.events == recording.state["events"]
        assert client.ui == {one["id"]: one for one in recording.state["ui"]}
        assert _no_twins(client.ui.values())


# Processes that are killed


@pytest.mark.parametrize("places", [[{"model": "executor price"}, {"node": "verifier"}]])
def test_a_client_in_chaos_whose_server_is_killed(tmp_path, places):
    for kill in [*places, {}]:
        process = killed.spawn(killed.run_in_files, str(tmp_path), kill, {}, graph_told, drive_told)
        assert (killed.finish(process, tmp_path) is None) == bool(kill)
    lines = (tmp_path / "stream").read_text().splitlines()
    moments = [json.loads(line) for line in lines]
    state = moments[-1][1]
    assert [kind for kind, _ in moments].count("begin") > len(places)
    for seed in range(100):
        client = wild(moments, random.Random(seed))
        assert client.events == state["events"]
        assert client.ui == {one["id"]: one for one in state["ui"]}
    kept = state["events"]["kept"]
    tasks = {one["id"]: one["status"] for one in kept.values() if one["type"] == "task"}
    assert set(tasks.values()) == {"completed"}
    (todos,) = [one["props"]["todos"] for one in state["ui"] if one["name"] == "todo-list"]
    assert {one["id"]: one["status"] for one in todos} == tasks


# What it costs, and where it stands


# Drafts and questions


@pytest.mark.req("S0-84", "S0-92")
def test_a_plan_is_drawn_while_it_is_written_under_its_message():
    todos = [todo(str(n), f"Find fact {n}") for n in range(4)]
    verdict = passed("All found.", **{f"t{n}": [f"{n}.report"] for n in range(4)})
    script = {"planner": [plan(*todos)], "executor": [report("found")] * 4, "verifier": [verdict]}
    graph = build_plan_execute_verify(model=ScriptedModel(script), checkpointer=InMemorySaver())
    drawn, texts = [], {}
    for mode, chunk in graph.stream(GO, THREAD, stream_mode=["custom", "messages"]):
        if mode == "messages" and isinstance(chunk[0], AIMessageChunk):
            texts.setdefault(chunk[0].id, []).append(chunk[0].text)
        elif chunk_name(mode, chunk) == "planner-response":
            drawn.append((chunk["props"], chunk["metadata"]["message_id"]))
    finished = [len(props["todos"]) for props, _ in drawn]
    assert finished == sorted(finished)
    assert set(finished) >= {1, 2, 3, 4}
    assert [props["streaming"] for props, _ in drawn] == [True] * (len(drawn) - 1) + [False]
    (under,) = {under for _, under in drawn}
    said = next(m for m in graph.get_state(THREAD).values["messages"] if m.id == under)
    assert texts[under][0] == "0. Find fact 0"
    assert "".join(texts[under]) == said.text


def chunk_name(mode, chunk):
    return chunk.get("name") if mode == "custom" else None


@pytest.mark.req("S0-85", "S0-91")
def test_components_of_a_tool_are_drawn_and_models_are_told_their_text():
    def handed(reason: str) -> dict[str, Any]:
        """Hand over."""
        props = {"target": "a human", "reason": reason, "noise": "left out"}
        items = [{"type": "text", "value": "Handed over."},
                 {"type": "component", "name": "handoff", "props": props},
                 {"type": "webcomponent", "value": "<script>alert(1)</script>"}]  # fmt: skip
        return {"items": items}

    act = [[call("handed", reason="too hard")]]
    model = one_step(action=act)
    graph = build_react(model=model, tools=[handed], checkpointer=InMemorySaver())
    graph.invoke(GO, THREAD)
    values = graph.get_state(THREAD).values
    (shown,) = [one for one in values["ui"] if one["name"] == "handoff"]
    assert shown["props"]["target"] == "a human"
    (result,) = [m for m in values["messages"] if m.type == "tool"]
    assert result.text.startswith("Handed over.\n\n")
    assert "noise" not in result.text
    assert shown["metadata"]["text"] in result.text
    (made,) = [m for m in values["messages"] if getattr(m, "tool_calls", None)]
    assert shown["metadata"]["message_id"] == made.id
    assert "<script>" not in json.dumps([one for one in values["ui"] if one["name"] != "tool-call"])
