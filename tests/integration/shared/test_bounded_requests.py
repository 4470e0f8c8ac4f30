"""No request outgrows what its model takes, in whatever role and graph; nothing is lost by it."""

import json
import re
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import PrivateAttr

from loopwright import (
    AgentDefinition,
    AgentLimits,
    Context,
    ScriptedModel,
    build_customer_service,
    build_plan_execute_verify,
    build_react,
    build_router,
    build_task_agent,
)
from loopwright.state.snapshot import estimate_message_tokens
from loopwright.text.canonical import canonical, estimate_tokens
from support.reacting import THREAD
from support.scripts import call, plan, report, thought, todo
from support.strict_messages import problems

BUDGET = 8_000
SMALL = Context(
    context_budget=BUDGET, context_target=int(BUDGET * 0.8), loop_check_after=9_999,
    max_iterations=500, max_executor_rounds=500,
)  # fmt: skip
NEVER = "Never delete ledger_7.db."


def page(number: int) -> str:
    """Read a page."""
    return f"The code of page {number} is KX-{number * 37}. " + "shelf row crate " * 125


class Reader:
    """Reads `most` pages a turn, then asks for a page again by words, and ends."""

    def __init__(self, most, *, recalls=False):
        self.most, self.recalls, self.done, self.read = most, recalls, 0, 0

    def steps(self, messages):
        """The next calls; none where the turn is to end."""
        if self.done < self.most:
            self.done, self.read = self.done + 1, self.read + 1
            return [call("page", f"c{self.read}", number=self.read)]
        if self.recalls and self.done == self.most:
            self.done += 1
            return [call("recall", "r1", words="page 2 code")]
        self.done = 0
        return []

    def thought(self, messages, offered):
        more = self.done < self.most + self.recalls
        return thought("On." if more else "All pages are read: KX.", more=more, reason="r" * more)

    def action(self, messages, offered):
        return self.steps(messages)

    def agent(self, messages, offered):
        ended = [call("complete_task", f"e{self.read}", summary="All pages are read: KX.")]
        return self.steps(messages) or ended

    def executor(self, messages, offered):
        return self.steps(messages) or report("All pages are read: KX.")

    def verifier(self, messages, offered):
        first = re.search(r'"id": "(1\.[\d.]+)"', messages[-1].text)[1]
        tasks = [{"id": "1", "completed": True, "feedback": "ok", "evidence": [first]}]
        about = {"allCompleted": True, "userNeedsSatisfied": True, "overallFeedback": "fine"}
        return {**about, "tasks": tasks, "summary": "All pages are read: KX."}

    def script(self):
        """By role; react's last thought begins the next turn anew."""

        def think(messages, offered):
            said = self.thought(messages, offered)
            if self.done >= self.most + self.recalls:
                self.done = 0
            return said

        return {
            "thought": think, "action": self.action, "agent": self.agent,
            "executor": self.executor, "verifier": self.verifier,
            "planner": lambda *_: plan(todo("1", "read pages")),
            "summariser": lambda *_: {"keyKnowledge": [], "taskState": []},
        }  # fmt: skip


ANY: Any = {"foreign": "allow"}
"""Which pages are read stands in the script alone."""
BUILT = {
    "react": partial(build_react, observe="direct", **ANY),
    "task_agent": partial(build_task_agent, **ANY),
    "plan_execute_verify": partial(build_plan_execute_verify, **ANY),
}


class MeasuredModel(ScriptedModel):
    """A scripted model that notes the tokens of each request, its tools' definitions included."""

    _sizes: list[int] = PrivateAttr(default_factory=list)

    def _next(self, messages, kwargs):
        tools = kwargs.get("tools")
        size = estimate_message_tokens(messages)
        self._sizes.append(size + (estimate_tokens(canonical(tools)) if tools else 0))
        return super()._next(messages, kwargs)


def sizes_of(model):
    """Tokens of each request, its tools included."""
    return model._sizes


def spell(asked):
    """What is sent of the messages, as one text."""
    told = [[m.type, m.text, getattr(m, "tool_calls", [])] for m in asked.messages]
    return json.dumps(told)[:-1]


def count_breaks(asked):
    """How often a request does not begin with the one before it."""
    return sum(not after.startswith(before) for before, after in pairwise(map(spell, asked)))


@pytest.mark.req("W-100")
@pytest.mark.parametrize("name", BUILT)
def test_one_turn_of_many_calls_stays_within_the_budget_and_recalls_what_it_left_out(name):
    model = MeasuredModel(Reader(80, recalls=True).script())
    graph = BUILT[name](model=model, tools=[page], checkpointer=InMemorySaver())
    asked = {"messages": [("user", f"Read each page. {NEVER}")]}
    result = graph.invoke(asked, THREAD, context=SMALL)
    assert result["outcome"]["status"] == "complete"
    assert max(sizes_of(model)) <= BUDGET
    assert [p for asked in model.asked if (p := problems(asked.messages))] == []
    worker = {"react": ("thought", "action"), "task_agent": ("agent",)}.get(name, ("executor",))
    chain = [asked for asked in model.asked if asked.role in worker]
    assert count_breaks(chain) <= 12, "80 results of 2 kB, in a room of 8,000 tokens"
    assert all(NEVER in spell(asked) for asked in chain)
    assert "KX-74." in spell(chain[-1]), "the last request has what was recalled"


@pytest.mark.req("W-100")
@pytest.mark.parametrize("name", BUILT)
def test_a_thread_of_many_turns_stays_within_the_budget(name):
    model = MeasuredModel(Reader(1).script())
    graph = BUILT[name](model=model, tools=[page], checkpointer=InMemorySaver())
    for turn in range(40):
        asked = {"messages": [("user", f"Read on, and mind shelf {turn}. {NEVER}")]}
        assert graph.invoke(asked, THREAD, context=SMALL)["outcome"]["status"] == "complete"
    assert max(sizes_of(model)) <= BUDGET
    assert [p for asked in model.asked if (p := problems(asked.messages))] == []
    assert f"mind shelf {turn}" in spell(model.asked[-1])


class TooLong(Exception):
    """As a provider's client raises it."""

    status_code = 400


def refusing(script, takes):
    """The script of models that take no more tokens than this, though nobody knows."""

    def limit(answer):
        def say(messages, offered):
            if estimate_message_tokens(messages) > takes:
                return TooLong("This model's maximum context length is exceeded.")
            return answer(messages, offered)

        return say

    return {role: limit(answer) for role, answer in script.items()}


@pytest.mark.req("W-100")
@pytest.mark.parametrize("name", BUILT)
def test_what_a_model_refuses_as_too_long_is_asked_shorter_and_the_thread_goes_on(name):
    model = ScriptedModel(refusing(Reader(20).script(), takes=5_000))
    graph = BUILT[name](model=model, tools=[page], checkpointer=InMemorySaver())
    for words in ("Read each page.", "Read on."):
        result = graph.invoke({"messages": [("user", words)]}, THREAD)
        assert result["outcome"]["status"] == "complete"
    sizes = [estimate_message_tokens(asked.messages) for asked in model.asked]
    assert 1 <= sum(size > 5_000 for size in sizes) <= 2
    assert [p for asked in model.asked if (p := problems(asked.messages))] == []


def test_a_request_that_no_shortening_helps_ends_with_one_sentence_in_every_graph():
    def refuse(*_):
        return TooLong("This model's maximum context length is exceeded.")

    long = {"messages": [("user", "Sum this up: " + "word " * 100_000)]}
    for name, build in {**BUILT, "router": build_router}.items():
        graph = build(model=ScriptedModel(refuse), tools=[page], checkpointer=InMemorySaver())
        outcome = graph.invoke(long, THREAD)["outcome"]
        assert (outcome["status"], outcome["reason"]) == ("failed", "ERROR"), name
        assert "lower context_budget" in " ".join(outcome["unmet"]), name
    desk = build_customer_service(model=ScriptedModel(refuse), checkpointer=InMemorySaver())
    assert desk.invoke(long, THREAD)["__interrupt__"], "a colleague takes over"


def test_a_budget_below_prompt_and_tools_is_said_and_nobody_is_asked():
    for name, build in BUILT.items():
        model = ScriptedModel(Reader(1).script())
        graph = build(model=model, tools=[page], checkpointer=InMemorySaver())
        small = Context(context_budget=1_000, context_target=1_000)
        outcome = graph.invoke({"messages": [("user", "Read.")]}, THREAD, context=small)["outcome"]
        assert outcome["status"] == "failed", name
        assert "raise context_budget" in " ".join(outcome["unmet"]), name
        assert [asked for asked in model.asked if asked.role != "planner"] == []


@pytest.mark.parametrize("name", BUILT)
def test_a_call_of_300_kb_and_a_request_of_blocks_stay_within_the_budget(name):
    def write(text: str) -> str:
        """Write."""
        return f"{len(text)} characters are written."

    reader = Reader(1)
    reader.steps = lambda _: (
        []
        if reader.done
        else [call("write", f"w{setattr(reader, 'done', 1)}", text="line " * 60_000)]
    )
    model = MeasuredModel(reader.script())
    graph = BUILT[name](model=model, tools=[write], checkpointer=InMemorySaver())
    blocks = [{"type": "text", "text": "Write it. " + "word " * 100_000}]
    asked = {"messages": [{"role": "user", "content": blocks}]}
    assert graph.invoke(asked, THREAD, context=SMALL)["outcome"]["status"] == "complete"
    assert max(sizes_of(model)) <= BUDGET
    assert [p for asked in model.asked if (p := problems(asked.messages))] == []


def test_an_agents_own_limit_bounds_each_of_its_requests():
    model = MeasuredModel(Reader(20).script())
    definition = AgentDefinition(prompt="Read.", limits=AgentLimits(context=4_000))
    graph = build_task_agent(
        model=model, tools=[page], definition=definition, checkpointer=InMemorySaver(), **ANY
    )
    asked = {"messages": [("user", "Read each page. " + "word " * 50_000)]}
    assert graph.invoke(asked, THREAD)["outcome"]["status"] == "complete"
    assert max(sizes_of(model)) <= 4_000
