"""What a graph's form shows is what it reads: a run writes down which settings were read."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from langchain.tools import ToolRuntime
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import AgentDefinition, Context, ScriptedModel
from loopwright.graphs.registry import REGISTRY
from loopwright.run.compiled import GROUPS, READ_BY
from loopwright.state.roles import TIERS, roles_of
from loopwright.state.route import WAYS
from support.flows import flow, step
from support.scripts import PROOFREAD, call, failed, passed, plan, report, thought, todo

READ: set[str] = set()
THREAD: Any = {"configurable": {"thread_id": "t"}}


class Watched(Context):
    """Notes which of its settings are asked for."""

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name in type(self).model_fields:
            READ.add(name)
        return super().__getattribute__(name)


class Hiccup(ConnectionError):
    """A failure after which the same call may be made again at once."""

    response = SimpleNamespace(headers={"retry-after": "0"})


def look(n: int, runtime: ToolRuntime) -> str:
    """Look it up."""
    return f"{n}, {cast(Context, runtime.context).task_id}"


def put(n: int) -> str:
    """Change it."""
    return f"put {n}"


SCOUT = AgentDefinition(name="scout", description="Looks things up.")
TOOLS = [
    StructuredTool.from_function(look, metadata={"readOnlyHint": True}),
    StructuredTool.from_function(put, metadata={"readOnlyHint": False}),
]
LOOKS, PUTS = [call("look", n=1)], [call("put", n=2)]
LISTED = [call("write_todos", todos=[{"description": "Do it", "status": "cancelled"}])]
DELEGATED = [call("delegate_to_agent", agent_name="scout", objective="Look.")]
MORE = report("I look further.", taskCompleted=False, shouldContinue=True)
TASK = plan(todo("1", "Do it"))
SAID = {"messages": [{"role": "user", "content": "What is it?"}]}
DELEGATE = ("task_agent", "customer_service")
HEARD = {"intent": "chat", "mood": "calm", "score": 0}
# What a script lacks, the model without a key says: it is looked for in the settings.
SCRIPTS: dict[str, list[dict[str, Any]]] = {
    "customer_service": [
        {**PROOFREAD, "listener": [Hiccup(), HEARD], "support": [PUTS, "It is put."]},
        {**PROOFREAD, "listener": [HEARD] * 2, "support": [DELEGATED, "Hi.", LOOKS, "Bye."]},
    ],
    "plan_execute_verify": [
        {"planner": [Hiccup(), TASK], "executor": [LOOKS, LOOKS, PUTS, MORE, report("It is 1.")]},
        {
            "planner": [plan(needsMorePlanning=True, missingInformation=[]), TASK, TASK],
            "executor": [LOOKS, report("It is 1."), LOOKS, report("It is 1.")],
            "verifier": [failed("Prove it.", t1=False), passed("It is 1.", t1=["1.1.0"])],
        },
    ],
    "task_agent": [
        {
            "agent": [
                Hiccup(), LISTED, DELEGATED, [call("complete_task", summary="Found.")], LOOKS,
                LOOKS, PUTS, *([call("look", n=n)] for n in range(40)),
                [call("complete_task", summary="It is 1.")],
            ],
            "loop_judge": [{"analysis": "It reads one after the other.", "confidence": 0.1}] * 5,
        }
    ],
    "react": [
        {
            "thought": [
                Hiccup(), *[thought("I go on with the tool.", more=True)] * 3, thought("It is 1."),
            ],
            "action": [LOOKS, LOOKS, PUTS],
        }
    ],
    "prompt_flow": [
        {
            "flow_planner": [
                Hiccup(),
                flow(
                    step("a", arguments={"n": 1}), step("b", arguments={"n": 1}, after=["a"]),
                    step("c", "put", arguments={"n": 2}, after=["b"]),
                    step("d", arguments={"n": [1]}),
                ),
                flow(
                    step("a", arguments={"n": 1}),
                    step("c", "put", arguments={"n": 2}, after=["a"]),
                ),
            ],
            "recovery": [{"strategy": "replan", "reason": "the step asks for a number"}],
        }
    ],
}  # fmt: skip


def run(name: str, script: dict[str, Any]) -> dict[str, Any]:
    """The outcome of a run whose questions are all approved."""
    more: dict[str, Any] = {"agents": [SCOUT]} if name in DELEGATE else {}
    graph = REGISTRY[name].build(
        model=dict.fromkeys(script, ScriptedModel(script)), tools=TOOLS,
        checkpointer=InMemorySaver(), policy=[{"tool": "put", "action": "ask"}], **more,
    )  # fmt: skip
    context = Watched(review_plan=True, task_id="T")
    given: Any = SAID
    for _ in range(6):
        ended: dict[str, Any] = graph.invoke(given, THREAD, context=context)
        if name == "customer_service" and given is SAID:  # its customer is asked in words
            given = {"messages": [{"role": "user", "content": "yes"}]}
            continue
        if not (asked := ended.get("__interrupt__")):
            outcome: dict[str, Any] = ended["outcome"]
            return outcome
        given = Command(resume={one.id: {"decisions": [{"type": "approve"}]} for one in asked})
    raise AssertionError(ended)


@pytest.mark.req("W-65")
@pytest.mark.parametrize("name", [name for name in REGISTRY if name != "router"])
def test_a_form_shows_each_setting_that_is_read_and_none_that_is_not(name):
    READ.clear()
    for outcome in (run(name, script) for script in SCRIPTS[name]):
        assert outcome["status"] == "complete", outcome
    form = REGISTRY[name].graph.get_context_jsonschema()
    assert form is not None
    experts = READ_BY if name == "customer_service" else ()  # loops of their own
    assert name not in DELEGATE or "max_turns" in form["properties"]
    named = {"model"}  # not looked for where the program has one for each role
    assert READ - {*experts} <= set(form["properties"]) <= READ | named


@pytest.mark.req("W-65")
def test_the_form_of_the_router_shows_its_own_settings_and_those_of_the_graphs_inside():
    forms = {name: REGISTRY[name].graph.get_context_jsonschema() for name in (*WAYS[1:], "router")}
    inside = [set(forms[name]["properties"]) for name in WAYS[1:]]
    shown = forms["router"]["properties"]
    assert set(shown) == set().union(GROUPS["Routing"], *inside)
    assert shown["max_iterations"]["langgraph_nodes"] == ["react"]
    assert shown["max_parallel_tasks"]["langgraph_nodes"] == sorted(set(WAYS[1:]) - {"react"})


@pytest.mark.req("W-65")
@pytest.mark.parametrize("name", REGISTRY)
def test_a_form_is_grouped_and_offers_the_names_of_the_graphs_roles(name):
    form = REGISTRY[name].graph.get_context_jsonschema()["properties"]
    in_order = sorted(form.values(), key=lambda field: field["x-order"])
    assert list(form.values()) == in_order
    groups = [field["x-group"] for field in in_order]
    assert groups == sorted(groups, key=[*GROUPS].index)
    roles = roles_of(name)
    assert list(form["models"]["properties"]) == [*roles, *TIERS]
    assert list(form["business_context"]["properties"]) == roles
    assert all(role["enum"] == [*TIERS] for role in form["tiers"]["properties"].values())
    for field in form.values():
        assert set(field.get("langgraph_nodes", [])) <= set(REGISTRY[name].graph.nodes)


def test_the_form_names_every_setting_and_no_node_that_no_graph_has():
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(
        Context.model_fields
    )
    nodes = {node for entry in REGISTRY.values() for node in entry.graph.nodes}
    assert {node for readers in READ_BY.values() for node in readers} <= nodes


@pytest.mark.req("W-65")
@pytest.mark.parametrize("name", REGISTRY)
def test_messages_are_typed_in_what_a_graph_takes_and_gives(name):
    graph = REGISTRY[name].graph
    for schema in (graph.get_input_jsonschema(), graph.get_output_jsonschema()):
        kinds = {
            one["$ref"].split("/")[-1] for one in schema["properties"]["messages"]["items"]["oneOf"]
        }
        assert kinds >= {"HumanMessage", "AIMessage", "ToolMessage", "SystemMessage"}
        assert kinds <= set(schema["$defs"])
