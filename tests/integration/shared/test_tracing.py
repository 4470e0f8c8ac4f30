"""What tracers see of a run: LangSmith's the metadata, OpenTelemetry's spans; nobody a secret."""

import inspect
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.tools import tool
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from loopwright import (
    AnswerRejected,
    ScriptedModel,
    build_plan_execute_verify,
    build_react,
    open_durability,
)
from loopwright.models.choice import Models
from loopwright.state.context import Context
from loopwright.text.secrets import MASK
from loopwright.turn.spans import CALL, TASK, TURN
from support.fake_openai import Reply, call as asked_call, fake_openai
from support.mcp_servers import stdio
from support.places import DOCS
from support.reacting import one_step, said, shelf
from support.scripts import call, passed, plan, report, thought, todo

SECRET = "sk-4711-never-told"
DESK = {"mcpServers": {"desk": stdio("desk")}}


class Recorder(BaseTracer):
    """Keeps every run that ends, as a tracer of LangSmith would send it."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[Run] = []

    def _persist_run(self, run: Run) -> None:
        """Keep nothing twice: `_end_trace` has it."""

    def _end_trace(self, run: Run) -> None:
        super()._end_trace(run)
        self.runs.append(run)

    def of(self, kind: str) -> list[Run]:
        return [run for run in self.runs if run.run_type == kind]


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield exporter
    provider.shutdown()


def about(run: Run) -> dict[str, Any]:
    metadata: dict[str, Any] = (run.extra or {})["metadata"]
    return {key.removeprefix("loopwright").strip("_/"): metadata[key] for key in metadata}


def documented() -> set[str]:
    """The names that the page tells of tracing."""
    page = (DOCS / "embedding.md").read_text(encoding="utf-8")
    return set(
        re.findall(r"`([^`]+)`", page.split("\n## How do I trace runs?\n")[1].split("\n## ")[0])
    )


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == name]


def of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def working() -> Any:
    """A plan of two tasks, one with a Python tool and one with a server's."""
    model = ScriptedModel({
        "planner": [plan(todo("a", "look"), todo("b", "count", dependsOn=["a"]))],
        "executor": [
            [call("look", name="owner")], report("Ada owns it."), [call("search", query="price")],
            report("It was found."),
        ],
        "verifier": [passed("All was found.", ta=["a.1.0"], tb=["b.1.0"])],
    })  # fmt: skip
    return build_plan_execute_verify(model=model, tools=[shelf()], mcp=DESK, policy="allow")


async def test_runs_are_named_by_role_and_task_and_carry_who_what_and_what_was_spent(spans):
    tracer = Recorder()
    await working().ainvoke(said(), {"callbacks": [tracer], "configurable": {"thread_id": "t"}})
    models, tools = tracer.of("chat_model") + tracer.of("llm"), tracer.of("tool")
    assert [run.name for run in models] == [
        "planner", "executor a", "executor a", "executor b", "executor b", "verifier",
    ]  # fmt: skip
    told = [about(run) for run in models]
    assert [one["role"] for one in told] == ["planner", *["executor"] * 4, "verifier"]
    assert [one.get("task") for one in told] == [None, "a", "a", "b", "b", None]
    assert [one["spent_model_calls"] for one in told] == [1, 2, 3, 4, 5, 6]
    assert [one["spent_tool_calls"] for one in told] == [0, 0, 1, 1, 2, 2]
    assert told[0]["spent_tokens"] == 0 < told[1]["spent_tokens"] < told[-1]["spent_tokens"]
    assert len({one["turn"] for one in told}) == 1
    assert {"task a", "task b"} <= {run.name for run in tracer.of("chain")}

    assert [run.name for run in tools] == ["look", "search"]
    seen = [about(run) for run in tools]
    assert [(one["role"], one["task"], one["call"]) for one in seen] == [
        ("executor", "a", "a.1.0"), ("executor", "b", "b.1.0"),
    ]  # fmt: skip
    keys = {key for run in [*models, *tools] for key in run.extra["metadata"] if "spent" in key}
    assert keys == {key for key in documented() if "spent" in key}
    assert {"loopwright_role", TASK, CALL, TURN} <= documented()
    assert tools[1].inputs == {"query": "price"}
    assert "price" in str(tools[1].outputs)


async def test_opentelemetry_has_the_attributes_of_its_conventions(spans):
    await working().ainvoke(said(), {"configurable": {"thread_id": "t"}})
    chats, looks = named(spans, "chat scripted"), named(spans, "execute_tool look")
    assert [of(span)["loopwright.role"] for span in chats] == [
        "planner", *["executor"] * 4, "verifier",
    ]  # fmt: skip
    for span in chats:
        told = of(span)
        assert span.kind is trace.SpanKind.CLIENT
        assert told["gen_ai.operation.name"] == "chat"
        assert told["gen_ai.request.model"] == "scripted"
        assert told["gen_ai.conversation.id"] == "t"
        assert told["gen_ai.agent.name"] == "plan_execute_verify"
        assert told["gen_ai.usage.input_tokens"] > 0 < told["gen_ai.usage.output_tokens"]
    (look,), (search,) = map(of, looks), map(of, named(spans, "execute_tool search"))
    assert look["gen_ai.operation.name"] == search["gen_ai.operation.name"] == "execute_tool"
    assert (look["gen_ai.tool.name"], look["gen_ai.tool.type"]) == ("look", "function")
    assert (search["gen_ai.tool.type"], search["loopwright.server"]) == ("extension", "desk")
    assert (look["loopwright.task"], look["loopwright.call"]) == ("a", "a.1.0")
    assert look["gen_ai.tool.call.id"]
    assert look["loopwright.role"] == "executor"


async def test_a_real_client_tells_which_model_answered_and_spans_nest_in_the_programs_own(spans):
    replies = [
        Reply(tool_calls=[asked_call("look", '{"name": "owner"}')], finish_reason="tool_calls"),
        Reply('Ada owns it.\n<agent_meta>{"shouldContinue": false}</agent_meta>'),
    ]
    with fake_openai(
        lambda body: replies[any(m["role"] == "tool" for m in body["messages"])]
    ) as fake:
        environ = {"OPENAI_BASE_URL": fake.url, "LOOPWRIGHT_MODEL": "openai:small"}
        model = Models(environ=environ).choose("action", Context()).model
        graph = build_react(model={"action": model, "balanced": model, "fast": model},
                            tools=[shelf()], observe="direct")  # fmt: skip
        with trace.get_tracer("program").start_as_current_span("request") as outer:
            await graph.ainvoke(said(), {"configurable": {"thread_id": "t"}})
    chats = named(spans, "chat small")
    assert chats
    keys = {key for span in spans.get_finished_spans() for key in of(span)}
    dotted = {name for name in documented() if re.fullmatch(r"[a-z_.]+\.[a-z_.]+", name)}
    assert keys | {"error.type", "loopwright.server", "loopwright.task"} == dotted
    for span in chats:
        assert of(span)["gen_ai.provider.name"] == "openai"
        assert of(span)["gen_ai.response.model"] == "small"
        assert of(span)["gen_ai.usage.input_tokens"] == 11
        assert of(span)["gen_ai.response.finish_reasons"] in (("stop",), ("tool_calls",))
        assert span.context.trace_id == outer.get_span_context().trace_id


def read_stream(graph: Any, config: Any) -> None:
    """Read a stream, with work of the program's own for each chunk."""
    for _ in graph.stream(said(), config, stream_mode=["updates", "messages"]):
        trace.get_tracer("program").start_span("mine").end()


async def read_astream(graph: Any, config: Any) -> None:
    async for _ in graph.astream(said(), config):
        trace.get_tracer("program").start_span("mine").end()


async def read_events(graph: Any, config: Any) -> None:
    async for _ in graph.astream_events(said(), config, version="v2"):
        trace.get_tracer("program").start_span("mine").end()


DOORS: dict[str, Any] = {
    "invoke": lambda graph, config: graph.invoke(said(), config),
    "ainvoke": lambda graph, config: graph.ainvoke(said(), config),
    "stream": read_stream,
    "astream": read_astream,
    "astream_events": read_events,
    "take": lambda graph, config: graph.take(config, "Who owns it?", id="one"),
}


@pytest.mark.req("W-151")
@pytest.mark.parametrize("door", DOORS)
async def test_a_run_is_one_trace_below_one_span_of_its_own(spans, tmp_path, door):
    model = ScriptedModel({
        "planner": [plan(todo("a", "look"))],
        "executor": [[call("look", name="owner")], report("Ada owns it.")],
        "verifier": [passed("Ada owns it.", ta=["a.1.0"])],
    })  # fmt: skip
    with open_durability(f"sqlite:///{tmp_path}/kept.db") as durability:
        graph = build_plan_execute_verify(
            model=model, tools=[shelf()], durability=durability, name="desk"
        )
        done = DOORS[door](graph, {"configurable": {"thread_id": "t"}})
        if inspect.isawaitable(done):
            await done
        outcome = graph.get_state({"configurable": {"thread_id": "t"}}).values["outcome"]
    assert outcome["status"] == "complete"
    (root,) = named(spans, "invoke_agent desk")
    assert root.kind is trace.SpanKind.INTERNAL
    assert root.parent is None
    assert of(root) == {
        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk",
        "gen_ai.conversation.id": "t",
    }  # fmt: skip
    inside = [s for s in spans.get_finished_spans() if s.name not in (root.name, "mine")]
    assert len(inside) >= 5
    assert {span.parent and span.parent.span_id for span in inside} == {root.context.span_id}
    mine = named(spans, "mine")  # what the program does with a chunk is not the agent's work
    assert bool(mine) is ("stream" in door)
    assert {span.parent for span in mine} <= {None}


@pytest.mark.req("W-151")
async def test_a_span_of_a_run_says_how_it_failed_and_a_question_is_no_failure(spans):
    graph = build_react(
        model=one_step(), tools=[shelf()], policy="ask", checkpointer=InMemorySaver()
    )
    place: Any = {"configurable": {"thread_id": "t"}}
    assert "__interrupt__" in await graph.ainvoke(said(), place)
    with pytest.raises(AnswerRejected):
        await graph.ainvoke(Command(resume={"type": "never"}), place)
    asked, refused = map(of, named(spans, "invoke_agent react"))
    assert "error.type" not in asked
    assert refused["error.type"] == "AnswerRejected"


def test_the_sync_doors_keep_the_programs_span(spans):
    with trace.get_tracer("program").start_as_current_span("request") as outer:
        build_react(model=one_step(), tools=[shelf()]).invoke(said())
    traces = {span.context.trace_id for span in spans.get_finished_spans()}
    assert traces == {outer.get_span_context().trace_id}
    assert named(spans, "execute_tool look")


async def test_no_secret_and_no_words_stand_in_attributes(spans, monkeypatch):
    monkeypatch.setenv("SERVICE_TOKEN", SECRET)

    @tool
    def look(name: str) -> str:
        """Look up a fact."""
        msg = f"{SECRET} was refused for {name}"
        raise RuntimeError(msg)

    look.metadata = {"readOnlyHint": True}
    thoughts = [thought(f"I look with {SECRET}.", more=True), thought("It failed.")]
    script = {
        "thought": [ConnectionError(f"bad key {SECRET}"), *thoughts],
        "action": [[call("look", name="owner")]],
    }
    tracer = Recorder()
    graph = build_react(model=ScriptedModel(script), tools=[look], policy="allow", observe="direct")
    await graph.ainvoke(said(), {"callbacks": [tracer]}, context=Context(model_retries=2))
    exported = [json.loads(span.to_json()) for span in spans.get_finished_spans()]
    told = [[one["attributes"], one["events"], one["status"], one["name"]] for one in exported]
    told += [about(run) for run in tracer.runs]
    assert SECRET not in str(told)
    assert MASK not in str(told)
    assert "owner" not in str(told)
    failed = [
        of(span)["error.type"] for span in spans.get_finished_spans() if "error.type" in of(span)
    ]
    assert failed == ["ConnectionError", "tool_error"]
