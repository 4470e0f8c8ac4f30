"""plan_execute_verify: plan → execute → verify, until everything asked is done and proven."""

from functools import partial
from typing import Literal

from langgraph.graph import START
from typing_extensions import Unpack

from ..nodes.parts import Parts
from ..nodes.plan.ask_user import ask_user
from ..nodes.plan.finish import finish
from ..nodes.plan.intake import intake
from ..nodes.plan.planner import planner
from ..nodes.plan.review_plan import review_plan
from ..nodes.plan.verifier import verifier
from ..nodes.plan.work import work
from ..run.graph import LoopBuilder, LoopGraph
from ..state.context import Context
from ..state.loop import LoopInput, LoopOutput, PlanState
from .build import (
    BuildOptions,
    assemble_served_parts,
    build_graph,
    document_options,
    make_outer_builder,
)
from .task_execution import NAME as TASK_EXECUTION, task_builder

NAME = "plan_execute_verify"

PlanGraph = LoopGraph[PlanState, Context, LoopInput, LoopOutput]


def route_after_intake(state: PlanState) -> Literal["planner", "finish"]:
    """Plan, unless a hook refused the request."""
    return "finish" if state.halt else "planner"


def route_after_planner(
    state: PlanState,
) -> Literal["planner", "ask_user", "review_plan", "work", "finish"]:
    """Follow what the planner, the user's answer or the user's review decided."""
    routes: dict[str, Literal["planner", "ask_user", "review_plan", "work", "finish"]] = {
        "again": "planner",
        "ask": "ask_user",
        "review": "review_plan",
        "ready": "work",
    }
    return routes.get(state.planning, "finish")


def route_after_answer(state: PlanState) -> Literal["planner", "work", "finish"]:
    """After a human spoke: plan with the answer, run the approved plan, or stop."""
    if state.planning == "ready":
        return "work"
    return "planner" if state.planning == "again" else "finish"


def route_after_verifier(state: PlanState) -> Literal["planner", "finish"]:
    """Another cycle while something is to mend and may be mended."""
    if state.task_completed or not state.should_continue or not state.improvements:
        return "finish"
    return "planner"


def route_after_finish(state: PlanState) -> Literal["planner", "__end__"]:
    """End with the outcome; where there is none a hook rejected the answer, so plan again."""
    return "planner" if state.outcome is None else "__end__"


def plan_builder(parts: Parts) -> LoopBuilder[PlanState, Context, LoopInput, LoopOutput]:
    """Draw the graph."""
    builder = make_outer_builder(NAME, PlanState, parts, LoopInput)
    builder.scratch = ("work",)
    builder.borders = ("planner", "ask_user", "review_plan", "work", "verifier", "finish")
    builder.add_node("intake", partial(intake, parts=parts))
    builder.add_node("planner", partial(planner, parts=parts))
    builder.add_node("ask_user", ask_user)
    builder.add_node("review_plan", partial(review_plan, parts=parts))
    task_execution = task_builder(parts).compile(name=TASK_EXECUTION)
    builder.add_node("work", partial(work, parts=parts, run_task=task_execution.run_part))
    builder.add_node("verifier", partial(verifier, parts=parts))
    builder.add_node("finish", partial(finish, parts=parts))
    builder.add_edge(START, "intake")
    builder.add_conditional_edges("intake", route_after_intake)
    builder.add_conditional_edges("planner", route_after_planner)
    builder.add_conditional_edges("ask_user", route_after_answer)
    builder.add_conditional_edges("review_plan", route_after_answer)
    builder.add_edge("work", "verifier")
    builder.add_conditional_edges("verifier", route_after_verifier)
    builder.add_conditional_edges("finish", route_after_finish)
    return builder


@document_options
def build_plan_execute_verify(**options: Unpack[BuildOptions]) -> PlanGraph:
    """Build the graph, ready to be invoked, streamed or embedded, sync or async."""
    return build_graph(NAME, plan_builder, options)


builder = plan_builder(assemble_served_parts(NAME))
graph = builder.compile(name=NAME)
