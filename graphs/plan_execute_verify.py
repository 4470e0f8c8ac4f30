"""plan_execute_verify: plan → execute → verify, until everything asked is done and proven."""

from functools import partial
from typing import Literal

from typing_extensions import Unpack

from ..nodes.parts import Parts
from ..nodes.plan.planner import planner
from ..nodes.plan.review_plan import ask_user, review_plan
from ..nodes.plan.turn import END, adopt_state
from ..nodes.plan.verifier import verifier
from ..nodes.plan.work import work
from ..nodes.turns import finish, intake, remember_calls
from ..run.graph import LoopBuilder, LoopGraph
from ..state.context import Context
from ..state.loop import LoopInput, LoopOutput, PlanState
from .build import assemble_served_parts, build_graph, draw_graph, make_outer_builder
from .options import BuildOptions, ModelOption, ToolsOption, document_options
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
    """Plan again while improvements are open and rounds are left."""
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
    task_execution = task_builder(parts).compile(name=TASK_EXECUTION)
    begin = partial(intake, adopt=adopt_state, extend=remember_calls, finds_tools=False)
    return draw_graph(
        builder,
        intake=(partial(begin, parts=parts), route_after_intake),
        planner=(partial(planner, parts=parts), route_after_planner),
        ask_user=(ask_user, route_after_answer),
        review_plan=(partial(review_plan, parts=parts), route_after_answer),
        work=(partial(work, parts=parts, run_task=task_execution.run_part), "verifier"),
        verifier=(partial(verifier, parts=parts), route_after_verifier),
        finish=(partial(finish, parts=parts, end=END), route_after_finish),
    )


@document_options
def build_plan_execute_verify(
    model: ModelOption = None, tools: ToolsOption = None, **options: Unpack[BuildOptions]
) -> PlanGraph:
    """Build the graph, ready to be invoked, streamed or embedded, sync or async."""
    return build_graph(NAME, plan_builder, options, model, tools)


builder = plan_builder(assemble_served_parts(NAME))
graph = builder.compile(name=NAME)
