"""Reads that start while the plan is still being written: which do, and what becomes of them."""

import asyncio
import contextlib
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import PrivateAttr

from loopwright import Context, Hook, ScriptedModel
from loopwright.flow.execution_plan import ExecutionPlan
from loopwright.models.scripted import ScriptExhausted
from loopwright.text.secrets import MASK
from support.flows import (
    REPLAN,
    THREAD,
    World,
    citing,
    decide,
    declared,
    ended,
    flow,
    look,
    put,
    said,
    step,
    steps_by_id,
)
from support.patience import PATIENCE
from support.short_plans import short_of

pytestmark = pytest.mark.req("S2-18")


class Writing(ScriptedModel):
    """Writes its first answer up to a mark, and goes on only when the world looks as wanted."""

    _until: Any = PrivateAttr()
    _mark: str = PrivateAttr()
    seen: list[Any] = []  # noqa: RUF012 - a pydantic field
    stops: Any = lambda: None

    def __init__(self, plans: list[Any], mark: str, until: Any, **scripts: Any) -> None:
        super().__init__({"flow_planner": plans, "answerer": citing, **scripts})
        self._mark, self._until = mark, until

    async def _astream(self, messages, *_: Any, **kwargs: Any) -> Any:
        written = ""
        async for chunk in super()._astream(messages, **kwargs):
            written += chunk.text
            if self._mark and self._mark in written:
                self._mark = ""
                async with asyncio.timeout(PATIENCE):
                    while not self._until():  # noqa: ASYNC110 - any state of the world is waited for
                        await asyncio.sleep(0.01)
                self.seen.append("waited")
                self.stops()
            yield chunk


def run(world: World, model: ScriptedModel, **more: Any) -> dict[str, Any]:
    """The outcome of a run whose caller streams, so that the model is streamed."""
    graph = world.graph(model, checkpointer=InMemorySaver(), **more.pop("build", {}))
    list(graph.stream(said(), THREAD, stream_mode="messages", **more))
    outcome: dict[str, Any] = graph.get_state(THREAD).values["outcome"]
    return outcome


LONG = flow(
    look("a", "first"),
    look("b", "of {{a.of}}"),
    put("w", "{{b.of}}"),
    look("late", "behind a write"),
    look("end", "the last"),
)


def test_so_do_those_of_a_plan_in_the_short_spelling():
    world, plan = World(), short_of(ExecutionPlan.model_validate(LONG))
    model = Writing([plan], "late =", lambda: world.done("look") == ["first", "of first"])
    assert ended(run(world, model)) == ("complete", "GOAL")
    assert model.seen == ["waited"]
    assert world.done("put") == ["of first"]
    assert len(world.done("look")) == 4


def test_reads_begin_before_the_plan_is_written_and_are_made_once():
    world = World()
    model = Writing([LONG], '"late"', lambda: world.done("look") == ["first", "of first"])
    outcome = run(world, model)
    assert model.seen == ["waited"], "both reads were made while the plan was written"
    assert ended(outcome) == ("complete", "GOAL"), outcome
    assert sorted(world.done("look")) == sorted(["first", "of first", "behind a write", "the last"])
    assert world.done("put") == ["of first"]
    assert outcome["spend"]["tool_calls"] == 5
    assert all(task["evidence"] for task in outcome["tasks"])


B = look("b", "second")


@pytest.mark.parametrize(
    ("steps", "begun"),
    [
        ([B, put("w", "nothing before the whole plan is sound"), look("c", "third")], ["second"]),
        ([step("a", "gone", arguments={"what": "no such tool"}), B], []),
        ([look("a", "{{b.of}}"), B], []),
        ([look("a", "x", colour="red"), B], []),
        ([B, look("a", "x", when="b.n > 0"), look("c", "third")], ["second", "third"]),
        ([step("a", "llm_call", arguments={"prompt": "not early"}), B], ["second"]),
        ([step("a", "llm_call", arguments={"prompt": "not early"}), look("c", "{{a}}")], []),
        ([B, look("c", "{{b.gone}}"), look("d", "third")], ["second", "third"]),
    ],
)
def test_only_sound_reads_with_nothing_but_reads_before_them_begin(steps, begun):
    world, looks = World(), []

    def calm() -> bool:
        """Nothing has changed for a while."""
        looks.append(len(world.calls))
        return len(looks) > 20 and looks[-20] == looks[-1] and looks[-1] >= len(begun)

    before: list[Any] = []
    plans = [flow(*steps, look("end", "the last")), flow(look("z", "sound"))]
    model = Writing(plans, '"end"', calm, llm_call=["hello"], recovery=[])
    model.stops = lambda: before.extend(world.done("look"))
    with contextlib.suppress(ScriptExhausted):  # only the beginning is looked at
        run(world, model)
    assert before == begun


def test_nothing_begins_where_somebody_wants_to_see_the_plan():
    world, seen = World(), []
    model = Writing([LONG], '"end"', lambda: seen.append(list(world.calls)) or True)
    graph = world.graph(model, checkpointer=InMemorySaver())
    context = Context(review_plan=True)
    list(graph.stream(said(), THREAD, stream_mode="messages", context=context))
    assert graph.get_state(THREAD).next == ("review_flow",)
    assert (seen, world.calls) == ([[]], [])


def test_reads_of_a_plan_that_is_refused_are_reads_of_the_turn():
    world = World()
    bad = flow(look("a", "first"), look("b", "second"), step("c", "gone"), look("end", "the last"))
    good = flow(look("x", "second"), look("y", "first"), put("w", "{{x.of}} {{y.of}}"))
    model = Writing([bad, good], '"gone"', lambda: len(world.calls) > 1)
    outcome = run(world, model)
    assert ended(outcome) == ("complete", "GOAL"), outcome
    assert world.done("look") == ["first", "second"], "neither was made again"
    assert world.done("put") == ["second first"]
    assert steps_by_id(outcome)["y"]["result"] == '{"of": "first", "n": 5}'


def test_an_early_read_that_fails_costs_the_plan_nothing():
    tries: list[int] = []

    def shaky() -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("the line is down")
        return {"of": "shaky"}

    world = World(shaky=[shaky])
    plan = flow(look("a", "shaky"), put("w", "{{a.of}}"), look("end", "the last"))
    outcome = run(world, Writing([plan], '"end"', lambda: bool(tries)))
    assert ended(outcome) == ("complete", "GOAL"), outcome
    assert (len(tries), world.done("put")) == (2, ["shaky"])


def test_a_read_that_policy_asks_about_is_asked_about_when_its_step_runs():
    world, seen = World(), []
    rules = [{"tool": "look", "action": "ask"}]
    model = Writing([LONG], '"end"', lambda: seen.append(list(world.calls)) or True)
    graph = world.graph(model, policy=rules, checkpointer=InMemorySaver())
    list(graph.stream(said(), THREAD, stream_mode="messages"))
    assert (seen, world.calls) == ([[]], [])
    (task,) = graph.get_state(THREAD).tasks
    assert task.interrupts[0].value["task"] == "a"


def test_without_a_stream_the_plan_runs_as_it_always_did():
    world = World()
    outcome = world.graph(Writing([LONG], '"late"', lambda: False)).invoke(said())["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert outcome["spend"]["tool_calls"] == 5


def test_what_a_tool_wants_changed_besides_is_changed_though_its_step_is_answered_early():
    world, noted = World(), []

    def note(what: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Read a note."""
        noted.append(what)
        words = [AIMessage("Noted in passing."), ToolMessage("fine", tool_call_id=tool_call_id)]
        return Command(update={"messages": words})

    tools = [declared(note, readOnlyHint=True)]
    plan = flow(step("n", "note", arguments={"what": "x"}), look("end", "the last"))
    graph = world.graph(
        Writing([plan], '"end"', lambda: bool(noted)), tools=tools, checkpointer=InMemorySaver()
    )
    list(graph.stream(said(), THREAD, stream_mode="messages"))
    values = graph.get_state(THREAD).values
    assert ended(values["outcome"]) == ("complete", "GOAL")
    assert noted == ["x"]
    assert [m.text for m in values["messages"]].count("Noted in passing.") == 1


def test_a_hook_that_has_a_write_follow_a_read_sees_none_before_the_plan_is_sound():
    world, seen = World(), []

    def follow(_: Any) -> Any:
        wish = {"name": "put", "args": {"what": "followed"}}
        return {"hookSpecificOutput": {"tailToolCallRequest": wish}}

    def calm() -> bool:
        seen.append(list(world.calls))
        return len(seen) > 20

    hooks = [Hook(event="AfterTool", run=follow, match="look")]
    run(world, Writing([LONG], '"end"', calm, recovery=[decide("give_up")]), build={"hooks": hooks})
    assert seen[-1] == []


def test_an_early_read_takes_no_longer_than_its_step_may():
    world = World(hangs=lambda: asyncio.sleep(PATIENCE))
    plan = flow(look("a", "hangs", timeout=0.2, optional=True), look("b", "x"), look("end", "y"))
    outcome = run(world, Writing([plan], '"end"', lambda: len(world.calls) > 1))
    assert ended(outcome) == ("partial", "GOAL"), outcome
    assert outcome["spend"]["seconds"] < PATIENCE


def test_reads_of_a_plan_that_is_refused_leave_calls_for_the_next_one():
    world = World()
    bad = flow(look("a", "first"), look("b", "second"), step("c", "gone"), look("end", "the last"))
    good = flow(look("x", "third"), put("w", "{{x.of}}"))
    model = Writing([bad, good], '"gone"', lambda: bool(world.calls))
    outcome = run(world, model, context=Context(max_tool_calls=3))
    assert ended(outcome) == ("complete", "GOAL"), outcome
    assert world.calls == [("look", "first"), ("look", "third"), ("put", "third")]


def test_a_secret_that_was_taken_out_of_a_result_is_not_read_with():
    world = World(known={"token": f"Bearer {MASK}", "of": "known"})
    plan = flow(look("a", "known"), look("b", "{{a.token}}"), look("c", "x"), look("end", "y"))
    model = Writing([plan, plan], '"end"', lambda: len(world.calls) > 1, recovery=REPLAN)
    run(world, model)
    assert not [what for what in world.done("look") if MASK in what]
