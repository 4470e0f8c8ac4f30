import asyncio
import inspect
import logging
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables.config import set_config_context
from langgraph.runtime import Runtime

import loopwright
from loopwright import ScriptedModel, build_plan_execute_verify
from loopwright.graphs.plan_execute_verify import graph
from loopwright.nodes.parts import Parts
from loopwright.state.context import Context
from loopwright.state.outcome import Spend
from loopwright.turn.scope import RunScope, make_scope, share_scope
from support.scripts import passed, plan, report, todo

ROOT = Path(loopwright.__file__).parent


async def scoped(state: Any, stream: list[Any]) -> RunScope:
    runtime: Any = Runtime(context=Context(max_model_calls=5), stream_writer=stream.append)
    with set_config_context({"configurable": {"thread_id": "t", "user_id": 7}}) as inside:
        return await inside.run(asyncio.create_task, make_scope(state, runtime, Parts(name="g")))


def spent(calls: int, path: str = "") -> Any:
    return SimpleNamespace(
        turn_id="1-a", spend=Spend(model_calls=calls), path=path, known_in=""
    )  # fmt: skip


async def test_inside_a_task_budget_and_stream_are_those_of_the_run_around_it():
    streams: tuple[list[Any], list[Any]] = ([], [])
    outer = await scoped(spent(1), streams[0])
    with share_scope(outer):
        for _ in range(2):  # a resumed task is counted once
            inner = await scoped(spent(2, "task"), streams[1])
    assert inner.budget is outer.budget
    assert outer.budget.usage["model_calls"] == 3
    inner.emit({"type": "warning", "text": "slow"})
    outer.emit({"type": "phase"})
    assert streams == ([{"type": "warning", "text": "slow"}, {"type": "phase"}], [])
    assert inner.notes == outer.notes == ["slow"]
    alone = await scoped(spent(2), streams[1])
    assert alone.budget.usage["model_calls"] == 2


@pytest.mark.req("S0-160")
def test_key_steps_are_logged_nodes_are_async_and_types_are_strict(caplog):
    model = ScriptedModel(
        {
            "planner": ["no plan at all", plan(todo("1", "Do it"))],
            "executor": [report("Done: 7.")],
            "verifier": [passed("It is 7.", t1=["1.report"])],
        }
    )
    with caplog.at_level(logging.INFO, logger="loopwright"):
        build_plan_execute_verify(model=model).invoke({"messages": [HumanMessage("go")]})
    told = [r.getMessage() for r in caplog.records if r.name == "loopwright.turn.event_emitter"]
    for step in ("'planner'", "'plan'", "'executor'", "'task'", "'verifier'", "'outcome'"):
        assert any(step in line for line in told), step
    for name, node in graph.builder.nodes.items():
        assert inspect.iscoroutinefunction(
            inspect.unwrap(getattr(node.runnable.afunc, "func", node.runnable.afunc))
        ), name
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert settings["mypy"]["strict"] is True
    assert "error" in settings["pytest"]["ini_options"]["filterwarnings"]
