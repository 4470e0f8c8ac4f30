"""The executor graph: one task, model turn by model turn, until it reports.

executor → [approve] → call_tools → executor …
"""

from functools import partial
from typing import Literal

from langgraph.graph import START

from ..doors.graph import LoopBuilder
from ..nodes.approve import approve
from ..nodes.call_tools import call_tools
from ..nodes.executor import executor
from ..nodes.parts import Parts
from ..state.context import Context
from ..state.loop import TaskInput, TaskState
from ..tools.planning import undecided
from .assembly import served_parts

NAME = "task_execution"


def route_after_executor(
    state: TaskState,
) -> Literal["approve", "call_tools", "executor", "__end__"]:
    """Go where the model turn points: a question, its calls, another turn, or the end."""
    if state.status != "in_progress":
        return "__end__"
    if not state.calls:
        return "executor"
    return "approve" if undecided(state.calls, state.decisions) else "call_tools"


def route_after_approve(state: TaskState) -> Literal["approve", "call_tools"]:
    """Ask about the next undecided call, one question at a time."""
    return "approve" if undecided(state.calls, state.decisions) else "call_tools"


def task_builder(parts: Parts) -> LoopBuilder[TaskState, Context, TaskInput, TaskState]:
    """Draw the graph that carries out one task."""
    builder = LoopBuilder(TaskState, Context, input_schema=TaskInput)
    builder.add_node("executor", partial(executor, parts=parts))
    builder.add_node("approve", partial(approve, parts=parts))
    builder.add_node("call_tools", partial(call_tools, parts=parts))
    builder.add_edge(START, "executor")
    builder.add_conditional_edges("executor", route_after_executor)
    builder.add_conditional_edges("approve", route_after_approve)
    builder.add_edge("call_tools", "executor")
    return builder


builder = task_builder(served_parts())
graph = builder.compile(name=NAME)
