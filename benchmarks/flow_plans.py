"""Plans, a tool and a scripted model that the benchmarks of prompt_flow share."""

import asyncio
import random
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from langchain_core.tools import tool

from loopwright import Context, ScriptedModel
from loopwright.models.scripted import Slow
from loopwright.prompts.prompt import read_json

Tasks = dict[str, tuple[float, list[str]]]
"""Task: seconds it takes, and the tasks it needs; dependencies first."""

GOAL: Any = {"messages": [{"role": "user", "content": "Tell me what the steps come to."}]}


_OUTSIDE = ThreadPoolExecutor(64)


async def take_time(name: str, seconds: float, given: list[str]) -> dict[str, str]:
    """Take some time over what other steps gave."""
    # Woken as by a socket: asyncio's own timers are up to a millisecond late.
    await asyncio.get_running_loop().run_in_executor(_OUTSIDE, time.sleep, seconds)
    return {"done": f"{name}, {len(given)} before it"}


work = tool("work")(take_time)
work.metadata = {"readOnlyHint": True}


def thread() -> Any:
    """A new thread."""
    return {"configurable": {"thread_id": uuid.uuid4().hex}, "recursion_limit": 10_000}


def critical_path(tasks: Tasks) -> float:
    """Seconds of the longest way through the plan, which has dependencies first."""
    ends: dict[str, float] = {}
    for name, (seconds, needs) in tasks.items():
        ends[name] = seconds + max((ends[other] for other in needs), default=0.0)
    return max(ends.values())


def step(name: str, tool_: str, needs: Sequence[str] = (), /, **arguments: Any) -> dict[str, Any]:
    """A step as a model writes it."""
    return {
        "id": name,
        "description": f"Do {name}",
        "tool": tool_,
        "arguments": arguments,
        "dependencies": list(needs),
    }


def arguments_of(tasks: Tasks, name: str) -> dict[str, Any]:
    """What `work` is called with for a task: references to the results of those it needs."""
    seconds, needs = tasks[name]
    return {"name": name, "seconds": seconds, "given": [f"{{{{{i}.done}}}}" for i in needs]}


def plan_of(tasks: Tasks) -> dict[str, Any]:
    """A plan with one call of `work` a task."""
    return {"steps": [step(name, "work", **arguments_of(tasks, name)) for name in tasks]}


def planning(plan: dict[str, Any], latency: float = 0.0) -> ScriptedModel:
    """A model that gives this plan and cites every finished step, after so many seconds each."""

    def answer(messages: list[Any], offered: list[str]) -> Slow:  # noqa: ARG001 - the script's signature
        steps = read_json(messages[1].text, "steps")
        done = [s["id"] for s in steps if s["status"] == "completed"]
        return Slow(latency, f"Done: {', '.join(f'[{i}]' for i in done)}.")

    return ScriptedModel({"flow_planner": lambda *_: Slow(latency, plan), "answerer": answer})


def roomy(**settings: Any) -> Context:
    """Settings under which no limit ends a run of a thousand steps."""
    limits = {"max_steps": 1_000, "max_tool_calls": 100_000, "max_model_calls": 100_000}
    return Context.model_validate(limits | settings)


def drawn(draw: random.Random, slowest: float, steps: int = 100) -> Tasks:
    """A random DAG: tasks of a tenth of these seconds up to all, each needs up to three others."""
    tasks: Tasks = {}
    for number in range(steps):
        needs = draw.sample(list(tasks), min(number, draw.randrange(4)))
        tasks[f"s{number}"] = (round(draw.uniform(slowest / 10, slowest), 4), needs)
    return tasks
