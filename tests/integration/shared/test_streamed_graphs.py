"""A call that was cut never runs: each graph over server-sent events, clients of other makes."""

import json
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI

from loopwright import build_plan_execute_verify, build_prompt_flow, build_react
from support.budget import alongside
from support.fake_openai import Reply, bad_request, call, fake_openai
from support.flows import flow, step
from support.reacting import phase_of
from support.scripts import failed, passed, plan, report, thought, todo

GIVEN = {"messages": [{"role": "user", "content": "Save a and b."}]}
WHOLE = '{"items": ["a", "b"]}'
CUT = ['{"items": ["a"', '{"items": ["a", "b"]', WHOLE + WHOLE]
# The model streams by itself, or because the caller does.
STREAMED: list[Any] = [("values", True), (["custom", "messages"], False)]
BUILD: dict[str, Callable[..., Any]] = {
    "react": build_react, "plan_execute_verify": build_plan_execute_verify,
    "prompt_flow": build_prompt_flow,
}  # fmt: skip


def saving(saved: list[Any]) -> Any:
    def save(items: list[str]) -> str:
        """Save."""
        saved.append(items)
        return "saved"

    return save


def stream(graph: Any, mode: Any) -> dict[str, Any]:
    """Run it as a client does that streams; its outcome."""
    last: Any = {}
    for kind, value in graph.stream(GIVEN, stream_mode=[*_listed(mode), "updates"]):
        if kind == "updates":
            last = value
    return dict(next(iter(last.values()))["outcome"])


def _listed(mode: Any) -> list[str]:
    return mode if isinstance(mode, list) else [mode]


def client(url: str, *, streaming: bool) -> ChatOpenAI:
    about: dict[str, Any] = {"streaming": True} if streaming else {}
    return ChatOpenAI(model="gpt-4o", base_url=url, api_key="none", max_retries=0, **about)  # type: ignore[arg-type]


def role_of(request: dict[str, Any]) -> str:
    return str(request["messages"][0]["content"]).split()[3].rstrip(".")


@pytest.mark.req("W-04")
@pytest.mark.parametrize(
    ("arguments", "mode", "streaming"),
    alongside([(text,) for text in (WHOLE, *CUT)], STREAMED),
    ids=str,
)
def test_a_task_runs_whole_calls_alone(arguments, mode, streaming):
    saved: list[Any] = []

    def answer(request: dict[str, Any]) -> Reply:
        role, said = role_of(request), [m["role"] for m in request["messages"]]
        if role == "executor" and "tool" not in said:
            return Reply(None, [call("save", arguments)], "tool_calls")
        done = passed("Saved a and b.", t1=["1.1.0"]) if saved else failed("not saved", t1=False)
        spoken = {
            "planner": plan(todo("1", "save")),
            "executor": report("It was tried.", taskCompleted=bool(saved)),
            "verifier": done,
        }
        return Reply(json.dumps(spoken[role]))

    with fake_openai(answer) as server:
        graph = build_plan_execute_verify(
            model=client(server.url, streaming=streaming), tools=[saving(saved)]
        )
        outcome = stream(graph, mode)
    assert saved == [["a", "b"]] * (arguments == WHOLE)
    assert (outcome["status"] == "complete") == (arguments == WHOLE)


PLAN = json.dumps(flow(step("s1", "save", arguments={"items": ["a", "b"]})))
PLACES = [PLAN.index('"b"') + 2, len(PLAN) - 2]


@pytest.mark.req("W-04")
@pytest.mark.parametrize(
    ("by_tool", "place", "mode", "streaming"),
    alongside([*product([False, True], [*PLACES, None])], STREAMED),
    ids=str,
)
def test_a_plan_that_was_cut_runs_no_step(place, by_tool, mode, streaming):
    """Said as content or, to servers that know no `response_format`, as the call of a tool."""
    saved: list[Any] = []
    asked: list[int] = []

    def answer(request: dict[str, Any]) -> Reply:
        if role_of(request) == "answerer":
            return Reply("Saved a and b. [s1]")
        if by_tool and "response_format" in request:
            return bad_request("Unknown parameter: 'response_format'.", "response_format")
        assert not saved
        asked.append(1)
        text = PLAN if len(asked) > 1 else PLAN[:place]
        if by_tool:
            return Reply(None, [call("ExecutionPlan", text)], "tool_calls")
        return Reply(text)

    with fake_openai(answer) as server:
        graph = build_prompt_flow(
            model=client(server.url, streaming=streaming), tools=[saving(saved)]
        )
        outcome = stream(graph, mode)
    assert outcome["status"] == "complete"
    assert saved == [["a", "b"]]
    assert len(asked) == (1 if place is None else 2)


class Streaming(BaseChatModel):
    """A client of another make: it streams what a server would have sent it as dicts."""

    deltas: Callable[[str], list[dict[str, Any]]]
    answers: Callable[[str, bool], Any]
    called: list[str]

    @property
    def _llm_type(self) -> str:
        return "streaming"

    def bind_tools(self, tools: Any, *, tool_choice: Any = None, **_: Any) -> Any:
        return self.bind(offered=bool(tools) and tool_choice != "none")

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, *,
        offered: bool = False, **_: Any,
    ) -> Iterator[ChatGenerationChunk]:  # fmt: skip
        role = str(messages[0].text).split()[3].rstrip(".")
        if messages[0].text.startswith("You work on"):  # react: its phases have one prompt
            role = phase_of(messages, ["save"] if offered else [])
        said = self.answers(role, offered and "tool" not in {m.type for m in messages})
        for part in self.deltas(said):
            chunk = ChatGenerationChunk(message=AIMessageChunk(**{"content": "", **part}))
            if run_manager:
                run_manager.on_llm_new_token("", chunk=chunk)
            yield chunk

    def _generate(self, *args: Any, **more: Any) -> ChatResult:
        whole: Any = None
        for chunk in self._stream(*args, **more):
            whole = chunk if whole is None else whole + chunk
        return ChatResult(generations=[ChatGeneration(message=whole.message)])


def pieces(text: str) -> list[dict[str, Any]]:
    """The dicts of chunks, letter by letter."""
    first = tool_call_chunk(name="save", args="", id="c1", index=0)
    more = [tool_call_chunk(name=None, args=letter, id=None, index=0) for letter in text]
    return [{"tool_call_chunks": [one]} for one in (first, *more)]


def extras(text: str) -> list[dict[str, Any]]:
    """As clients do that know no chunks of calls: the provider's own deltas beside the content."""
    first = {"index": 0, "id": "c1", "type": "function"}
    deltas = [{**first, "function": {"name": "save", "arguments": text[:5]}}]
    deltas += [{"index": 0, "function": {"arguments": letter}} for letter in text[5:]]
    return [{"additional_kwargs": {"tool_calls": [one]}} for one in deltas]


def unnumbered(text: str) -> list[dict[str, Any]]:
    """Chunks that say nothing of which call they belong to."""
    halves = [text[:5], text[5:]]
    return [
        {"tool_call_chunks": [tool_call_chunk(name="save", args=one, id="c1", index=None)]}
        for one in halves
    ]


def at_once(text: str) -> list[dict[str, Any]]:
    """A whole call, no chunks of it; what cannot be read is an invalid one."""
    one = {"name": "save", "id": "c1"}
    try:
        read = json.loads(text)
    except ValueError:
        read = None
    if isinstance(read, dict):
        return [{"tool_calls": [{**one, "args": read, "type": "tool_call"}]}]
    broken = {**one, "args": text, "error": None, "type": "invalid_tool_call"}
    return [{"invalid_tool_calls": [broken]}]


@pytest.mark.req("W-04")
@pytest.mark.parametrize("name", ["react", "plan_execute_verify"])
@pytest.mark.parametrize(
    ("arguments", "deltas", "mode"),
    alongside(
        [*product([WHOLE, CUT[0]], [pieces, extras, unnumbered, at_once])],
        [(mode,) for mode, _ in [*STREAMED, STREAMED[0]]],
    ),
)
def test_a_client_of_another_make_runs_whole_calls_alone(arguments, deltas, mode, name):
    saved: list[Any] = []

    def answers(role: str, may_call: bool) -> Any:
        if role in ("action", "executor") and may_call:
            return arguments
        ended = thought("Saved, or not.", more=False)
        spoken = {
            "thought": ended if model.called else thought("I save.", more=True),
            "action": "It could not be saved.", "observation": "It was tried.",
            "planner": json.dumps(plan(todo("1", "save"))),
            "executor": json.dumps(report("It was tried.")),
            "verifier": json.dumps(failed("look at it", t1=False)),
        }  # fmt: skip
        model.called.append(role)
        return spoken[role]

    def told(text: str) -> list[dict[str, Any]]:
        return deltas(text) if text == arguments else [{"content": text}]

    model = Streaming(deltas=told, answers=answers, called=[])
    stream(BUILD[name](model=model, tools=[saving(saved)]), mode)
    # Halves that name no call are two broken ones; whole ones run, each as it came.
    runs = arguments == WHOLE and deltas is not unnumbered
    assert all(items == ["a", "b"] for items in saved)
    assert bool(saved) == runs
