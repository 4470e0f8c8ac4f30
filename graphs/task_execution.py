"""The executor graph: one task, model turn by model turn, until it reports.

executor → (approve ⇄ call_tools) → executor …
"""

from functools import partial
from typing import Literal

from ..calls.approval import route_calls
from ..nodes.approve import approve
from ..nodes.call_tools import call_tools
from ..nodes.parts import Parts
from ..nodes.plan.executor import end_after_calls, executor
from ..run.graph import LoopBuilder
from ..state.context import Context
from ..state.loop import TaskInput, TaskState
from .build import assemble_served_parts, draw_graph, route_after_approve

NAME = "task_execution"


def route_after_executor(
    state: TaskState,
) -> Literal["approve", "call_tools", "executor", "__end__"]:
    """Go where the model turn points: a question, its calls, another turn, or the end."""
    if state.status != "in_progress":
        return "__end__"
    step = route_calls(state.calls, state.decisions)
    return "executor" if step == "done" else step


def task_builder(parts: Parts) -> LoopBuilder[TaskState, Context, TaskInput, TaskState]:
    """Draw the graph that carries out one task."""
    builder = LoopBuilder[TaskState, Context, TaskInput, TaskState](TaskState, Context)
    builder.ends_itself = True
    call = partial(call_tools, parts=parts, role="executor", ended=end_after_calls)
    return draw_graph(
        builder,
        executor=(partial(executor, parts=parts), route_after_executor),
        approve=(partial(approve, parts=parts), route_after_approve),
        call_tools=(call, route_after_executor),
    )


builder = task_builder(assemble_served_parts())
graph = builder.compile(name=NAME)
