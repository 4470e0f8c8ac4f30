import inspect
import logging
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from langchain_core.messages import HumanMessage

import loopwright
from loopwright import ScriptedModel, build_plan_execute_verify
from loopwright.graphs.plan_execute_verify import graph
from loopwright.turn.events import emitter, events_to
from support.scripts import passed, plan, report, todo

ROOT = Path(loopwright.__file__).parent


def test_events_inside_a_task_reach_the_outer_stream_once():
    outer, inner = [], []
    with events_to(emitter(SimpleNamespace(stream_writer=outer.append))):
        emitter(SimpleNamespace(stream_writer=inner.append))({"type": "task"})
    emitter(SimpleNamespace(stream_writer=inner.append))({"type": "phase"})
    assert outer == [{"type": "task"}]
    assert inner == [{"type": "phase"}]


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
    told = [r.getMessage() for r in caplog.records if r.name == "loopwright.turn.events"]
    for step in ("'planner'", "'plan'", "'executor'", "'task'", "'verifier'", "'outcome'"):
        assert any(step in line for line in told), step
    for name, node in graph.builder.nodes.items():
        assert inspect.iscoroutinefunction(
            inspect.unwrap(getattr(node.runnable.afunc, "func", node.runnable.afunc))
        ), name
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert settings["mypy"]["strict"] is True
    assert "error" in settings["pytest"]["ini_options"]["filterwarnings"]
