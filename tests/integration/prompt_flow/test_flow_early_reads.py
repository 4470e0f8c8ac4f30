"""Reads that start while the plan is still being written: which do, and what becomes of them."""

import asyncio
import contextlib
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import PrivateAttr

from loopwright import Context, ScriptedModel
from loopwright.models.scripted import ScriptExhausted
from loopwright.text.secrets import MASK
from support.flows import (
    REPLAN,
    THREAD,
    World,
    citing,
    ended,
    flow,
    look,
    put,
    said,
    step,
)
from support.patience import PATIENCE

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
        ([B, look("a", "x", when="b.n > 0"), look("c", "third")], ["second", "third"]),
        ([step("a", "llm_call", arguments={"prompt": "not early"}), look("c", "{{a}}")], []),
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


def test_a_read_that_policy_asks_about_is_asked_about_when_its_step_runs():
    world, seen = World(), []
    rules = [{"tool": "look", "action": "ask"}]
    model = Writing([LONG], '"end"', lambda: seen.append(list(world.calls)) or True)
    graph = world.graph(model, policy=rules, checkpointer=InMemorySaver())
    list(graph.stream(said(), THREAD, stream_mode="messages"))
    assert (seen, world.calls) == ([[]], [])
    (task,) = graph.get_state(THREAD).tasks
    assert task.interrupts[0].value["task"] == "a"


def test_a_secret_that_was_taken_out_of_a_result_is_not_read_with():
    world = World(known={"token": f"Bearer {MASK}", "of": "known"})
    plan = flow(look("a", "known"), look("b", "{{a.token}}"), look("c", "x"), look("end", "y"))
    model = Writing([plan, plan], '"end"', lambda: len(world.calls) > 1, recovery=REPLAN)
    run(world, model)
    assert not [what for what in world.done("look") if MASK in what]
