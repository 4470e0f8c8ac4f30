"""Facts about the state schemas that a newcomer would otherwise break unnoticed."""

from dataclasses import MISSING, fields
from typing import get_type_hints

import pytest
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import StateGraph
from pydantic import ValidationError

from loopwright.state import loop
from loopwright.state.calls import TurnState
from loopwright.state.context import DEFAULTS, Context
from loopwright.state.errors import ThreadIncompatible
from loopwright.state.loop import (
    MIGRATIONS,
    SCHEMA_VERSION,
    LoopInput,
    LoopOutput,
    PlanState,
    PlanUpdate,
    TaskInput,
    TaskState,
    TaskUpdate,
    migrate,
)
from loopwright.state.react import ReactState, ReactUpdate


@pytest.mark.parametrize(
    "schema", [LoopInput, LoopOutput, PlanState, ReactState, TaskInput, TaskState]
)
def test_every_field_has_a_default_and_a_reducer_fields_default_is_its_empty_value(schema):
    channels = StateGraph(schema).channels
    for field in fields(schema):
        default = field.default_factory() if field.default is MISSING else field.default
        if isinstance(channels[field.name], BinaryOperatorAggregate | DeltaChannel):
            assert not default, f"{field.name}: the channel ignores any other default"


@pytest.mark.parametrize(
    ("state", "update"),
    [(PlanState, PlanUpdate), (ReactState, ReactUpdate), (TaskState, TaskUpdate)],
)
def test_an_update_names_only_fields_of_its_state(state, update):
    known = {field.name for field in fields(state)}
    assert set(get_type_hints(update)) <= known
    given_only = {"request", "task", "results_so_far"} | {field.name for field in fields(TurnState)}
    if state is TaskState:
        assert known - set(get_type_hints(update)) <= given_only
    else:
        assert known == set(get_type_hints(update))


@pytest.mark.req("S0-152")
def test_settings_have_ranges_and_descriptions_and_refuse_what_they_do_not_know():
    schema = Context.model_json_schema()["properties"]
    assert all(field.get("description") for field in schema.values())
    for bad in (
        {"max_verify_cycles": 0},
        {"max_seconds": -1},
        {"surprise": 1},
        {"models": {"cook": "x"}},
        {"max_iterations": 0},
        {"max_iterations": 10_001},
        {"max_executor_rounds": 10_001},
        {"observe": "nobody"},
        {"dedupe": "some"},
        {"dedupe_seconds": 0},
        {"question_expires_in": 0},
    ):
        with pytest.raises(ValidationError):
            Context.model_validate(bad)
    assert (DEFAULTS.max_planning_rounds, DEFAULTS.max_executor_rounds) == (3, 50)
    assert DEFAULTS.interactive
    assert (DEFAULTS.max_iterations, DEFAULTS.observe) == (50, None)
    assert (DEFAULTS.dedupe, DEFAULTS.dedupe_seconds) == ("read_only", 60)


@pytest.mark.req("P-07")
def test_saved_values_are_led_from_version_to_version_or_refused(monkeypatch):
    now = SCHEMA_VERSION + 2
    monkeypatch.setattr(loop, "SCHEMA_VERSION", now)
    assert migrate({"schema_version": now}, thread="t") == migrate({}, thread="t") == {}
    old = {"schema_version": now - 2, "a": 1}
    with pytest.raises(ThreadIncompatible, match=rf"'t' .* \(schema {now - 2}\).* new thread"):
        migrate(old, thread="t")
    monkeypatch.setitem(MIGRATIONS, now - 2, lambda values: {"b": values["a"] + 1})
    with pytest.raises(ThreadIncompatible, match=rf"\(schema {now - 2}\)"):
        migrate(old, thread="t")
    monkeypatch.setitem(MIGRATIONS, now - 1, lambda values: {"c": values["b"] + 1})
    assert migrate(old, thread="t") == {"b": 2, "c": 3, "schema_version": now}
    with pytest.raises(ThreadIncompatible, match="upgrade loopwright"):
        migrate({"schema_version": now + 1}, thread="t")
