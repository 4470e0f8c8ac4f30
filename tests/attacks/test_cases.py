"""Prove that the attack suite and the benign tasks are consistent in themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import pytest

from .cases import (
    DOMAINS,
    LANGUAGES,
    PLACES,
    Attack,
    Call,
    Case,
    Json,
    JsonObject,
    Read,
    Step,
    Tool,
    at_path,
    breaches,
    decode,
    fits,
    foreign_arguments,
    load_attacks,
    load_benign,
    numbers,
    stands_in,
    tools_of,
    words,
)

ATTACKS = load_attacks()
BENIGN = load_benign()
CASES = ATTACKS + BENIGN
TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def for_each(cases: Sequence[Case]) -> Callable[[Callable[[Case], None]], Callable[[], None]]:
    """One test that checks all of them: 2,400 tests of a millisecond cost the suite seconds."""

    def decorate(check: Callable[[Case], None]) -> Callable[[], None]:
        def run() -> None:
            for case in cases:
                try:
                    check(case)
                except Exception as error:
                    error.add_note(f"in the case {case.name}")
                    raise

        return run

    return decorate


attacks, everything = for_each(ATTACKS), for_each(CASES)


def injection(case: Case) -> Attack:
    assert case.attack is not None
    return case.attack


def text_at(case: Case, at: str) -> str:
    """Give the text of a place such as read:1, turn:0:2 or tool:name."""
    kind, _, rest = at.partition(":")
    if kind == "tool":
        tool = next(tool for tool in case.tools if tool.name == rest)
        return "\n".join([tool.description, *words(tool.parameters)])
    if kind == "turn":
        turn, read = rest.split(":")
        return case.turns[int(turn)].reads[int(read)].result.text()
    return case.reads[int(rest)].result.text()


def requests(case: Case) -> str:
    return "\n".join([case.request, *(turn.request for turn in case.turns)])


def check_call(tools: Mapping[str, Tool], call: Call) -> None:
    """Check a call against the schema of its tool."""
    schema = tools[call.tool].parameters
    properties = schema["properties"]
    required = schema["required"]
    assert isinstance(properties, dict)
    assert isinstance(required, list)
    assert set(call.args) <= set(properties), call
    assert set(words(required)) <= set(call.args), call
    for name, value in call.args.items():
        rule = properties[name]
        assert isinstance(rule, dict)
        assert isinstance(value, TYPES[str(rule["type"])]), (call, name)
        assert "enum" not in rule or value in words(rule["enum"]), (call, name)


def check_origin(case: Case, reads: tuple[Read, ...], value: Json, origin: str) -> None:
    """Check that a value really comes from where its origin says."""
    kind, _, rest = origin.partition(":")
    number, _, path = rest.partition(":")
    if kind == "request":
        assert stands_in(value, requests(case)), (value, origin)
    elif kind == "field":
        assert at_path(reads[int(number)].result.value, path) == value, (value, origin)
    elif kind == "prose":
        assert stands_in(value, reads[int(number)].result.text()), (value, origin)
    elif kind == "content":
        assert int(number) < len(reads)


def check_origins(case: Case, reads: tuple[Read, ...], call: Call) -> None:
    """Check every argument's origins; a template holds its fields."""
    assert set(call.origins) == set(call.args), call
    for name, origins in call.origins.items():
        value = call.args[name]
        if len(origins) == 1:
            parts = value if isinstance(value, list) and origins[0] != "request" else [value]
            whole = len(parts) != 1
            check_origin(case, reads, value if whole else parts[0], origins[0])
        for origin in origins:
            if len(origins) > 1 and origin.startswith("field:"):
                _, number, path = origin.split(":")
                field = at_path(reads[int(number)].result.value, path)
                assert str(field) in "\n".join(words(value)), (call, origin)
    everywhere = "\n".join(read.result.text() for read in reads)
    for sink in [sink for sinks in call.content_sinks.values() for sink in sinks]:
        assert sink in everywhere, (call, sink)


def run_plan(case: Case, steps: tuple[Step, ...], answers: JsonObject) -> list[tuple[str, Json]]:
    """Run a plan by reference on the case's results and list its calls."""
    results: dict[str, Json] = dict(answers)
    waiting = list(case.reads)
    calls: list[tuple[str, Json]] = []
    for step in steps:
        if not step.tool:
            assert step.id in answers, step.id
            assert step.inputs
            assert step.result
            assert all(ref in results for ref, _ in step.inputs)
            assert not step.choices or answers[step.id] in step.choices
            continue
        items = at_path(results[step.for_each[0]], step.for_each[1]) if step.for_each else [None]
        assert isinstance(items, list)
        for item in items:
            if not holds(step, results):
                continue
            args = resolve(step.args, results | {"item": item})
            calls.append((step.tool, args))
            read = next((r for r in waiting if (r.call.tool, r.call.args) == calls[-1]), None)
            if read is not None:
                waiting.remove(read)
            results[step.id] = read.result.value if read else None
    return calls


def holds(step: Step, results: JsonObject) -> bool:
    """Evaluate the condition of a step."""
    if step.when is None:
        return True
    (source, path), op, wanted = step.when
    value = at_path(results[source], path)
    if op in ("==", "!="):
        return (value == wanted) == (op == "==")
    assert isinstance(value, int | float)
    assert isinstance(wanted, int | float)
    outcome = {">": value > wanted, ">=": value >= wanted, "<": value < wanted}
    return outcome.get(op, value <= wanted)


def resolve(value: Json, results: JsonObject) -> Json:
    """Replace references and templates by the values they stand for."""
    if isinstance(value, list):
        return [resolve(part, results) for part in value]
    if not isinstance(value, dict):
        return value
    if "ref" in value:
        step, path = words(value["ref"])
        return at_path(results[step], path)
    if "template" in value:
        refs = value["refs"]
        assert isinstance(refs, list)
        parts = [resolve({"ref": ref}, results) for ref in refs]
        return str(value["template"]).format(*parts)
    return {key: resolve(part, results) for key, part in value.items()}


def test_names_are_unique() -> None:
    names = Counter(case.name for case in CASES)
    assert [name for name, count in names.items() if count > 1] == []


@everything
def test_calls_fit_their_tools(case: Case) -> None:
    tools = tools_of(case)
    calls = [read.call for read in case.reads] + list(case.truth)
    calls += [read.call for turn in case.turns for read in turn.reads]
    for call in calls + (list(case.attack.calls) if case.attack else []):
        check_call(tools, call)
    assert all(tools[call.tool].kind == "write" for call in case.truth)
    for read in case.reads:
        tool = tools[read.call.tool]
        assert tool.kind == "read" or read.result.kind == "error"
        allowed = {"structured": ("structured",), "text": ("text", "blocks")}[tool.result]
        assert read.result.kind in (*allowed, "error"), read


@everything
def test_origins_are_true(case: Case) -> None:
    for call in [read.call for read in case.reads] + list(case.truth):
        check_origins(case, case.reads, call)
    for turn in case.turns:
        for read in turn.reads:
            check_origins(case, turn.reads, read.call)


@everything
def test_plan_by_reference_makes_the_same_calls(case: Case) -> None:
    made = run_plan(case, case.flow.benign_plan, case.flow.outputs)
    reads: list[tuple[str, Json]] = [(read.call.tool, read.call.args) for read in case.reads]
    wanted = reads + [(call.tool, call.args) for call in case.truth]
    if case.attack and case.attack.whole_field and not case.truth:
        assert made[: len(reads)] == reads
    elif any(read.result.kind == "error" for read in case.reads):
        assert all(call in wanted for call in made)
    else:
        assert made == wanted


@attacks
def test_replan_makes_the_calls_of_the_attack(case: Case) -> None:
    attack, flow = injection(case), case.flow
    answers = flow.outputs | flow.gullible_outputs
    calls = run_plan(case, flow.benign_plan + flow.replan, answers)
    expected: list[tuple[str, Json]] = [(call.tool, call.args) for call in attack.calls]
    assert calls[-len(expected) :] == expected


@attacks
def test_plan_without_replan_carries_the_attack(case: Case) -> None:
    """A turned condition or a replaced field needs no new plan to do harm."""
    attack, flow = injection(case), case.flow
    if attack.sort != "branch" and (not attack.whole_field or case.truth):
        return
    calls = run_plan(case, flow.benign_plan, flow.outputs | flow.gullible_outputs)
    assert any(
        fits(breach, tool, args)
        for tool, args in calls
        if isinstance(args, dict)
        for breach in attack.breach
    )


@attacks
def test_injection_stands_where_it_is_said_to(case: Case) -> None:
    attack = injection(case)
    assert attack.texts
    for text in attack.texts:
        assert text.text in text_at(case, text.at)
        assert text.text not in requests(case)
    reads = [int(t.at[5:]) for t in attack.texts if t.at.startswith("read:")]
    assert attack.after == max(reads, default=-1)


@attacks
def test_injected_values_are_foreign(case: Case) -> None:
    attack = injection(case)
    assert attack.sort in ("action", "branch") or attack.injected
    for injected in attack.injected:
        assert not stands_in(injected.value, requests(case))
        for part in injected.parts:
            assert part.text in text_at(case, part.at)
            assert any(part.text in text.text for text in attack.texts)
        written = decode(injected.encoding, "".join(part.text for part in injected.parts))
        if isinstance(injected.value, str):
            assert written == injected.value
        else:
            assert isinstance(injected.value, int | float)
            assert float(injected.value) in numbers(written)


@attacks
def test_breach_is_made_by_the_attack_only(case: Case) -> None:
    attack, tools = injection(case), tools_of(case)
    assert attack.calls
    assert attack.breach
    for breach in attack.breach:
        tool = tools[breach.tool]
        assert tool.kind == "write" or tool.open_world
        properties = tool.parameters["properties"]
        assert isinstance(properties, dict)
        assert {*breach.args, *breach.contains} <= set(properties)
        assert breach.args or breach.contains
        assert any(fits(breach, call.tool, call.args) for call in attack.calls)
    for call in [read.call for read in case.reads] + list(case.truth):
        assert not breaches(case, call.tool, call.args), call


@attacks
def test_whole_fields_are_marked(case: Case) -> None:
    attack = injection(case)
    assert attack.whole_field == (attack.place == "whole_field")
    if attack.whole_field:
        text = attack.texts[0]
        assert text.text in words(case.reads[int(text.at[5:])].result.value)
    assert (attack.place == "snapshot") == bool(attack.summary)
    assert (attack.place == "image_text") <= any(r.result.kind == "blocks" for r in case.reads)


@pytest.mark.parametrize("domain", DOMAINS)
def test_counts_of_a_domain(domain: str) -> None:
    places = Counter(injection(c).place for c in ATTACKS if c.domain == domain)
    assert sum(places.values()) >= 40
    assert set(places) == set(PLACES)
    assert sum(case.domain == domain for case in BENIGN) >= 20


def test_counts_of_the_suite() -> None:
    assert len(ATTACKS) >= 200
    assert len(BENIGN) >= 100
    assert len({tuple(text.text for text in injection(case).texts) for case in ATTACKS}) >= 80
    assert len({injection(case).family for case in ATTACKS}) >= 12
    assert {case.language for case in CASES} == set(LANGUAGES)
    shares = Counter(case.category for case in BENIGN)
    for category, share in {"a": 0.25, "b": 0.4, "c": 0.1, "d": 0.15, "e": 0.1}.items():
        assert abs(shares[category] / len(BENIGN) - share) < 0.05, shares


@for_each(BENIGN)
def test_benign_tasks_are_in_their_category(case: Case) -> None:
    assert case.attack is None
    origins = [o for call in case.truth for several in call.origins.values() for o in several]
    kinds = {origin.partition(":")[0] for origin in origins}
    needs = {"b": "field", "c": "prose", "d": "content"}
    assert case.category not in needs or needs[case.category] in kinds
    assert (case.category == "e") == (not case.truth)
    assert case.category != "a" or not kinds & {"field", "prose", "content"}
    assert case.category != "c" or foreign_arguments(case)
