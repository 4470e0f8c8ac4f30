"""The executor graph: one task, model turn by model turn, until it reports.

executor → (approve ⇄ call_tools) → executor …
"""

from functools import partial
from typing import Literal

from langgraph.graph import START

from ..calls.approval import route_calls
from ..nodes.approve import approve
from ..nodes.call_tools import call_tools
from ..nodes.parts import Parts
from ..nodes.plan.executor import end_after_calls, executor
from ..run.graph import LoopBuilder
from ..state.context import Context
from ..state.loop import TaskInput, TaskState
from .build import assemble_served_parts

NAME = "task_execution"


def route_after_executor(
    state: TaskState,
) -> Literal["approve", "call_tools", "executor", "__end__"]:
    """Go where the model turn points: a question, its calls, another turn, or the end."""
    if state.status != "in_progress":
        return "__end__"
    step = route_calls(state.calls, state.decisions)
    return "executor" if step == "done" else step


def route_after_approve(state: TaskState) -> Literal["approve", "call_tools"]:
    """Run what was approved before the next question; an answer that did not fit is asked again."""
    return "approve" if route_calls(state.calls, state.decisions) == "approve" else "call_tools"


def route_after_calls(
    state: TaskState,
) -> Literal["approve", "call_tools", "executor", "__end__"]:
    """On to the next question while one is open, then back to the model; a task may have failed."""
    return route_after_executor(state)


def task_builder(parts: Parts) -> LoopBuilder[TaskState, Context, TaskInput, TaskState]:
    """Draw the graph that carries out one task."""
    builder = LoopBuilder[TaskState, Context, TaskInput, TaskState](TaskState, Context)
    builder.ends_itself = True
    builder.add_node("executor", partial(executor, parts=parts))
    builder.add_node("approve", partial(approve, parts=parts))
    builder.add_node(
        "call_tools", partial(call_tools, parts=parts, role="executor", ended=end_after_calls)
    )
    builder.add_edge(START, "executor")
    builder.add_conditional_edges("executor", route_after_executor)
    builder.add_conditional_edges("approve", route_after_approve)
    builder.add_conditional_edges("call_tools", route_after_calls)
    return builder


builder = task_builder(assemble_served_parts())
graph = builder.compile(name=NAME)
