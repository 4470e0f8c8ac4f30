"""What the manual says of limits, of who may set what, and of languages is what the code does."""

import re

import pytest

from loopwright import (
    Context,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
    build_task_agent,
)
from loopwright.prompts.prompt import CORE_TEMPLATES
from loopwright.run.client_access import (
    ENDLESS,
    apply_ceiling,
    check_keys,
    is_server_call,
    resolve_identity,
)
from loopwright.state.context import DEFAULTS
from loopwright.state.errors import SettingsError
from loopwright.text.sentences import FILES
from support.budget import MANY
from support.docs_text import entries, names, section, table
from support.in_a_row import SETTINGS, in_a_row

FIELDS = Context.model_json_schema()["properties"]
LIMITS = {
    name
    for name in Context.model_fields
    if type(getattr(DEFAULTS, name)) in (int, float) or name in ENDLESS
}
ROWS = {
    name: (shown, meaning)
    for name, shown, meaning in re.findall(
        r"^- `(\w+)`(?: \((.+?)\))?: (.+)$",
        section("docs/settings-and-outcome.md", "Which settings are there?"),
        re.MULTILINE,
    )
}
BUILDS = {
    build.__name__.removeprefix("build_"): build
    for build in (build_react, build_plan_execute_verify, build_prompt_flow, build_task_agent)
}


def number(text):
    return float(text.replace("_", ""))


@pytest.mark.req("W-20")
def test_every_limit_is_listed_with_its_default_its_range_and_its_meaning():
    assert list(ROWS) == list(Context.model_fields)
    for name in LIMITS:
        shown, meaning = ROWS[name]
        usual, field = getattr(DEFAULTS, name), FIELDS[name]
        default, _, span = shown.partition(", ")
        assert usual == (None if default == "none" else number(coded(default))), name
        field = next((kind for kind in field.get("anyOf", ()) if "type" in kind), field)
        low = field.get("minimum", field.get("exclusiveMinimum"))
        told = [number(found) for found in re.findall(r"[\d_]+", span)]
        assert told == [low, *([field["maximum"]] if "maximum" in field else [])], name
        assert ("above" in span) == ("exclusiveMinimum" in field), name
        assert len(meaning) > 15, name


def coded(cell):
    return cell.strip("`")


@pytest.mark.req("W-20")
@pytest.mark.parametrize(
    ("graph", "count"),
    # Many calls of react: tests/integration/react/test_react.py.
    [*((graph, 50) for graph in BUILDS), ("plan_execute_verify", MANY), ("prompt_flow", MANY)],
)
def test_calls_in_a_row_work_as_the_manual_says(graph, count):
    """With results of some 150 tokens each; many take the one setting that the manual names."""
    model, look = in_a_row(graph, count)
    settings = {} if count == 50 else {SETTINGS[graph]: count}
    built = BUILDS[graph](model=model, tools=[look], foreign="allow")
    asks = {"messages": [("user", "Who owns them?")]}
    outcome = built.invoke(asks, context=Context(**settings))["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("complete", "GOAL"), outcome["unmet"]
    assert len(look.calls) == outcome["spend"]["tool_calls"] == count


# ---- who may set what

WHO = {
    field: (most, client)
    for client, most, fields in table("| a client of a server |")
    for field in names([fields])
}
WORST = {
    "model": "openai:dear", "models": {"planner": "openai:dear"},
    "fallback_models": ["openai:dear"], "system_context": "Obey me.",
    "business_context": {"planner": "Skip."}, "policy": "allow", "dedupe": "all",
    "tiers": {"planner": "powerful"}, "language": "zh", "observe": "direct",
    "resource_id": "r", "task_id": "t", "tool_context": {"tenant": "other"},
    "prices": {"m": {"input": 0, "output": 0}}, "question_expires_in": 31_000_000,
    "max_output_tokens": 900_000, "max_cost": 10**9,
}  # fmt: skip
"""A value that a client may wish for; of a number, the most."""


def worst(name):
    if name in WORST:
        return WORST[name]
    if name in LIMITS:
        return FIELDS[name].get("maximum", 10**9)
    return not getattr(DEFAULTS, name)


@pytest.mark.req("W-43")
def test_every_field_has_a_row():
    assert set(WHO) == set(Context.model_fields)
    assert {client for _, client in WHO.values()} == set(SAID)


def refused(given, ceiling=DEFAULTS, offered=()):
    try:
        apply_ceiling(given, ceiling, offered)
    except SettingsError:
        return True
    return False


STRICT = Context(
    question_expires_in=60, max_cost=1, max_output_tokens=99, tool_context={"tenant": "ours"},
    interactive=False,
)  # fmt: skip


def lowers(name, value, mine, most):
    ceiling = STRICT if name in ENDLESS else DEFAULTS
    assert refused({name: value}, ceiling)
    assert not refused({name: getattr(ceiling, name)}, ceiling)
    assert most == "the highest"
    assert getattr(apply_ceiling({name: value}, mine, ()), name) == value


def makes_stricter(name, value, mine, most):
    spelled = {"true": True, "false": False}
    words = [spelled.get(word, word) for word in re.findall(r"`(\w+)`", most)]
    for place, loosest in enumerate(words):
        ceiling = Context(**{name: loosest})
        for wanted in words[: place + 1]:
            assert not refused({name: wanted}, ceiling)
        for wanted in words[place + 1 :]:  # what is the default anyway is brought under in silence
            given = {name: wanted}
            assert refused(given, ceiling) or apply_ceiling(given, ceiling, ()) == ceiling


def names_a_model(name, value, mine, most):
    assert refused({name: value})
    assert not refused({name: value}, offered={"openai:dear"})
    assert getattr(apply_ceiling(None, mine, ()), name) == value, most


def does_not_set(name, value, mine, most):
    assert refused({name: value})
    assert getattr(apply_ceiling(None, mine, ()), name) == value, most


def adds_keys(name, value, mine, most):
    assert refused({name: value}, STRICT)
    added = apply_ceiling({name: {"shelf": 7}}, STRICT, ())
    assert added.tool_context == {"tenant": "ours", "shelf": 7}, most


def sets(name, value, mine, most):
    assert getattr(apply_ceiling({name: value}, STRICT, ()), name) == value
    assert getattr(apply_ceiling(None, mine, ()), name) == value, most


SAID = {
    "lowers it": lowers, "makes it stricter": makes_stricter, "does not set it": does_not_set,
    "names a model that is offered": names_a_model, "adds keys": adds_keys, "sets it": sets,
}  # fmt: skip


@pytest.mark.req("W-43")
@pytest.mark.parametrize("name", Context.model_fields)
def test_a_client_may_do_with_a_field_what_its_row_says(name):
    most, client = WHO[name]
    SAID[client](name, worst(name), Context(**{name: worst(name)}), most)


KEYS = {
    tuple(re.findall("`(.+?)`", row[0])) or ("tenant",): row[1:]
    for row in table("| key of `configurable` |")
}


@pytest.mark.req("W-40", "W-43")
def test_keys_of_configurable_do_what_their_rows_say():
    assert len(KEYS) == 6
    for keys, (program, _) in KEYS.items():
        for key in keys:
            given = {key.replace("…", "x"): "v"}
            if program.startswith("are refused"):
                with pytest.raises(SettingsError, match="which only LangGraph sets"):
                    check_keys(given, runs=True)
                continue
            check_keys(given, runs=True)
            assert is_server_call(given) == ("counts as a client" in program), key
    ada = {"user_id": "ada"}
    assert (resolve_identity(ada), resolve_identity(ada, served=True)) == ("ada", None)
    assert resolve_identity({**ada, "assistant_id": "a"}) is None


# ---- languages


@pytest.mark.req("W-64")
def test_the_guide_to_languages_names_what_a_folder_holds_and_what_ships():
    rows = [coded(row[0]) for row in entries("docs/prompts.md", "How do I change the language?")]
    assert set(rows) == {"<role>.md", *FILES}
    text = section("docs/prompts.md", "How do I change the language?")
    assert "English and in Chinese" in text
    assert set(CORE_TEMPLATES) == {"en", "zh"}
