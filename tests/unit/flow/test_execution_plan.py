import json

import pytest
from pydantic import ValidationError

from loopwright.flow.execution_plan import ExecutionPlan, RecoveryDecision

CAMEL = {
    "goal": "Report the sales.",
    "planId": "p-7",
    "steps": [
        {
            "id": "s1",
            "description": "Read the file",
            "tool": "file_tool",
            "arguments": {"path": "sales.csv"},
            "dependencies": [],
            "expectedOutput": "rows",
            "retryCount": 2,
            "optional": True,
            "timeout": 5,
            "expect": "rows is not empty",
        },
        {"id": "s2", "tool": "llm_call", "arguments": {}, "dependencies": ["s1"]},
    ],
    "globalVariables": {"year": 2024},
    "metadata": {
        "createdBy": "planner",
        "createdTime": "2024-05-01T08:00:00Z",
        "estimatedSteps": 2,
        "complexity": "low",
    },
}
SNAKE = {
    "goal": "Report the sales.",
    "plan_id": "p-7",
    "steps": [
        {
            "id": "s1",
            "description": "Read the file",
            "tool": "file_tool",
            "params": {"path": "sales.csv"},
            "dependencies": [],
            "expected_output": "rows",
            "retry_count": 2,
            "optional": True,
            "timeout": 5,
            "expect": "rows is not empty",
        },
        {"id": "s2", "tool_name": "llm_call", "depends_on": "s1"},
    ],
    "global_variables": {"year": 2024},
    "metadata": {
        "created_by": "planner",
        "created_time": "2024-05-01T08:00:00Z",
        "estimated_steps": 2,
        "complexity": "low",
    },
}


def read(**more):
    return ExecutionPlan.model_validate({**CAMEL, **more})


def first(**fields):
    return read(steps=[{"id": "s1", "tool": "t", **fields}]).steps[0]


@pytest.mark.req("S2-04", "S2-08")
def test_a_plan_reads_the_same_in_camel_case_and_in_snake_case():
    camel, snake = ExecutionPlan.model_validate(CAMEL), ExecutionPlan.model_validate(SNAKE)
    assert camel == snake
    assert camel.goal == "Report the sales."
    assert camel.plan_id == "p-7"
    assert camel.global_variables == {"year": 2024}
    assert [(s.id, s.tool, s.arguments, s.dependencies) for s in camel.steps] == [
        ("s1", "file_tool", {"path": "sales.csv"}, []),
        ("s2", "llm_call", {}, ["s1"]),
    ]
    assert ExecutionPlan.model_validate(camel.model_dump()) == camel


@pytest.mark.req("S2-04")
def test_the_schema_on_the_wire_is_an_execution_plan_in_camel_case():
    schema = ExecutionPlan.wire_schema()
    assert schema["title"] == "ExecutionPlan"
    named = {"goal", "planId", "steps", "globalVariables", "leftOut", "metadata"}
    assert set(schema["properties"]) == named
    told = schema["$defs"]["PlanStep"]["properties"]
    assert {"id", "tool", "arguments", "dependencies", "expectedOutput", "retryCount"} <= set(told)


@pytest.mark.req("S2-07")
def test_what_a_plan_holds_besides_is_ignored():
    noisy = json.loads(json.dumps(CAMEL))
    noisy["confidence"] = 0.9
    noisy["steps"][0]["thought"] = {"why": "because"}
    noisy["metadata"]["model"] = "x"
    assert ExecutionPlan.model_validate(noisy) == read()


@pytest.mark.req("S2-09")
def test_a_plan_says_who_made_it_when_and_how_large_it_is():
    said = read().metadata
    assert (said.created_by, said.created_time) == ("planner", "2024-05-01T08:00:00Z")
    assert (said.estimated_steps, said.complexity) == (2, "low")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ('{"a": [1, null]}', {"a": [1, None]}),
        ("{}", {}),
        (None, {}),
    ],
)
def test_arguments_may_come_as_text(given, meant):
    assert first(arguments=given).arguments == meant
    assert read(globalVariables=given).global_variables == meant


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"deep": {"x": "a\0b"}}, "NUL"),
        ({"x": 10**30}, "beyond 64 bits"),
        ('{"a":' * 70 + "1" + "}" * 70, "nested deeper than 64"),
    ],
)
def test_arguments_that_no_tool_can_get_are_refused_with_what_is_wrong(given, why):
    for build in (lambda: first(arguments=given), lambda: read(globalVariables=given)):
        with pytest.raises(ValueError, match=why):
            build()
    with pytest.raises(ValueError, match=why):
        first(forEach=[json.loads(given) if isinstance(given, str) else given])


@pytest.mark.parametrize(
    ("field", "given", "meant"),
    [
        ("id", 3, "3"),
        ("dependencies", None, []),
        ("dependencies", "s0", ["s0"]),
        ("dependsOn", [1, "s2"], ["1", "s2"]),
        ("description", None, ""),
        ("retries", "2", 2),
        ("expect", {"type": "object"}, {"type": "object"}),
        ("optional", "true", True),
    ],
)
def test_small_slips_of_a_model_are_read_as_meant(field, given, meant):
    step = first(**{field: given}).model_dump()
    name = {"dependsOn": "dependencies", "retries": "retry_count"}.get(field, field)
    assert step[name] == meant


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"arguments": "no json"}, "arguments"),
        ({"arguments": "[1]"}, "arguments"),
        ({"retryCount": 11}, "retryCount"),
        ({"timeout": 0}, "timeout"),
        ({"id": "x" * 201}, "id"),
        ({"expect": 7.5j}, "expect"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(fields, named):
    with pytest.raises(ValidationError) as caught:
        first(**fields)
    assert named in {str(part) for error in caught.value.errors() for part in error["loc"]}


@pytest.mark.parametrize(
    "answer",
    [
        {"strategy": "try_harder", "reason": "why not"},
        {"strategy": "retry_step"},
        {"strategy": "retry_step", "reason": ""},
    ],
)
def test_a_decision_is_one_of_four_and_gives_its_reason(answer):
    with pytest.raises(ValidationError):
        RecoveryDecision.model_validate(answer)
    said = {"strategy": "give_up", "reason": "the server is gone"}
    assert RecoveryDecision.model_validate(said).reason == "the server is gone"
