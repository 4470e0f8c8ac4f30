"""Graphs whose models write badly at first, in pieces split anywhere."""

import random
from typing import Any

from loopwright import build_plan_execute_verify, build_prompt_flow, build_react, build_task_agent
from support.flows import flow, look
from support.reacting import shelf
from support.replay import Broken, Splitting
from support.scripts import call, failed, passed, plan, report, thought, todo

WORDS = [
    "Ada owns it, 艾达 😀 & co.", "It costs 7 € [s1].", "See `code` or {a} < b.", "\n- one\n- two",
    "```py\nx = {1: 2}\n```\n", "a **bold** word", "<b>html</b>", "[link](http://x.y)",
]  # fmt: skip


def words(rng: random.Random) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 5))) + " That is all [s1]."


def begun_badly(rng: random.Random, good: Any, bad: list[Any]) -> list[Any]:
    """Turns that may begin with a bad one or a broken connection, and end with the good one."""
    first = rng.choice([None, None, *bad])
    if isinstance(good, str) and rng.random() < 0.3:
        return [*([first] if first else []), Broken(content=good), good]
    return [*([first] if first else []), good]


def react(rng: random.Random, hooks: Any = (), **model: Any) -> Any:
    done = thought(words(rng))
    bad = [words(rng), "", "<agent_meta>{}</agent_meta>", f"<agent_meta>x{words(rng)}", "ok"]
    look_up = thought(f"I look it up: {words(rng)}", more=True)
    script = {
        "thought": [*begun_badly(rng, look_up, bad), *begun_badly(rng, done, bad)],
        "action": begun_badly(rng, [call("look", name="owner")], [words(rng)]),
        "observation": begun_badly(rng, words(rng), ["", "<think>only this"]),
    }
    return build_react(model=Splitting(script, **model), tools=[shelf()], hooks=hooks)


def prompt_flow(rng: random.Random, hooks: Any = (), **model: Any) -> Any:
    answer = begun_badly(rng, words(rng), ["", "No citation.", "not enough: the price"])
    if "not enough: the price" in answer:
        answer = [*answer, words(rng)]
    script = {
        "flow_planner": [flow(step_of("s1")), flow(step_of("s1"), step_of("s2"))],
        "answerer": answer,
    }
    return build_prompt_flow(model=Splitting(script, **model), tools=[shelf()], hooks=hooks)


def step_of(name: str) -> Any:
    return {**look(name, "owner"), "arguments": {"name": name}}


def plan_execute_verify(rng: random.Random, hooks: Any = (), **model: Any) -> Any:
    good = passed(words(rng), t1=["1.report"])
    bad = ["no JSON", {**passed(words(rng), t1=["9.9.9"])}, {**good, "summary": ""}]
    script = {
        "planner": [plan(todo("1", "find out"))] * 3,
        "executor": [report("Ada owns it.")] * 3,
        "verifier": [*begun_badly(rng, good, [*bad, failed("look again", t1=False)]), good],
    }
    return build_plan_execute_verify(model=Splitting(script, **model), hooks=hooks)


def task_agent(rng: random.Random, hooks: Any = (), **model: Any) -> Any:
    done = [call("complete_task", summary=words(rng))]
    bad = [words(rng), "<think>only this"]
    script = [*begun_badly(rng, [call("look", name="owner")], bad), *begun_badly(rng, done, bad)]
    return build_task_agent(model=Splitting(script, **model), tools=[shelf()], hooks=hooks)


BUILD = {
    "task_agent": task_agent,
    "react": react,
    "prompt_flow": prompt_flow,
    "plan_execute_verify": plan_execute_verify,
}
INPUT = {"messages": [{"role": "user", "content": "Who owns it, and what does it cost?"}]}
