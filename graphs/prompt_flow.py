"""prompt_flow: a model plans a DAG of tool calls, which is checked, run, repaired and answered."""

from functools import partial
from typing import Any, Literal

from typing_extensions import Unpack

from ..calls.approval import list_undecided, route_calls
from ..flow.execution_plan import ExecutionPlan
from ..nodes.approve import approve
from ..nodes.flow.answer_flow import answer_flow
from ..nodes.flow.check_flow import check_flow
from ..nodes.flow.plan_flow import plan_flow
from ..nodes.flow.recover import recover
from ..nodes.flow.review_flow import review_flow
from ..nodes.flow.run_flow import asks_next, run_flow
from ..nodes.flow.turn import END, adopt_steps, extend_intake, read_given
from ..nodes.parts import Parts
from ..nodes.turns import finish, intake
from ..run.graph import LoopBuilder, LoopGraph
from ..state.context import Context
from ..state.errors import SettingsError
from ..state.flow import FlowInput, FlowState, select_failed
from ..state.loop import LoopOutput
from ..tools.python_tools import add_llm_call
from .build import assemble_served_parts, build_graph, draw_graph, make_outer_builder
from .options import BuildOptions, ModelOption, ToolsOption, document_options

NAME = "prompt_flow"

FlowGraph = LoopGraph[FlowState, Context, FlowInput, LoopOutput]


def route_after_intake(state: FlowState) -> Literal["plan_flow", "check_flow", "finish"]:
    """Plan, or check the plan that was handed in, unless nothing was asked or a hook refused it."""
    if state.halt:
        return "finish"
    return "check_flow" if state.drafts else "plan_flow"


def route_after_plan(state: FlowState) -> Literal["check_flow", "finish"]:
    """Check every plan, unless the model could not be asked for one."""
    return "finish" if state.halt else "check_flow"


def route_after_check(
    state: FlowState,
) -> Literal["plan_flow", "review_flow", "run_flow", "finish"]:
    """Run a sound plan, perhaps after a review; have an unsound one repaired."""
    routes: dict[str, Literal["plan_flow", "review_flow", "run_flow", "finish"]] = {
        "again": "plan_flow",
        "review": "review_flow",
        "ready": "run_flow",
    }
    return "finish" if state.halt else routes.get(state.planning, "finish")


def route_after_run(
    state: FlowState,
) -> Literal["recover", "approve", "run_flow", "answer_flow", "finish"]:
    """Repair what failed, ask what must be asked; with nothing left to do, answer.

    After a limit an answer is still written; after a hook's stop, or without results, it is not.
    """
    if state.halt:
        return "answer_flow" if state.halt != "DENIED" and _has_results(state) else "finish"
    if asks_next(state.todos, state.calls, state.decisions):
        return "approve"
    step = route_calls(state.calls, state.decisions)
    in_doubt = any(call.get("doubt") for call in list_undecided(state.calls, state.decisions))
    if select_failed(state.todos) and not in_doubt:  # another plan would know nothing of a doubt
        return "recover"
    # A crash may have come before steps began that nothing keeps from running.
    left = any(one["status"] == "pending" for one in state.todos)
    if step == "done" and not left:
        return "answer_flow" if _has_results(state) else "finish"
    return "run_flow"


def _has_results(state: FlowState) -> bool:
    return any(step["status"] == "completed" for step in state.todos)


def route_after_approve(state: FlowState) -> Literal["approve", "run_flow"]:
    """Run what was approved before the next question; an answer that did not fit is asked again."""
    return "approve" if route_calls(state.calls, state.decisions) == "approve" else "run_flow"


def route_after_recover(state: FlowState) -> Literal["run_flow", "plan_flow", "finish"]:
    """Take the way that was chosen; end where there is none."""
    if state.halt:
        return "finish"
    routes: dict[str, Literal["run_flow", "plan_flow", "finish"]] = {
        "retry_step": "run_flow",
        "replan_from_failure": "plan_flow",
        "complete_replan": "plan_flow",
    }
    return routes.get(state.strategy, "finish")


def route_after_answer(state: FlowState) -> Literal["plan_flow", "finish"]:
    """End with the answer; plan more where the results were not enough for one."""
    return "plan_flow" if state.planning == "again" and not state.halt else "finish"


def route_after_finish(state: FlowState) -> Literal["answer_flow", "__end__"]:
    """End with the outcome; where there is none a hook rejected the answer, so answer again."""
    return "answer_flow" if state.outcome is None else "__end__"


def flow_builder(
    parts: Parts, plan: dict[str, Any] | None = None
) -> LoopBuilder[FlowState, Context, FlowInput, LoopOutput]:
    """Draw the graph; `plan` is what it follows where none comes with the input."""
    builder = make_outer_builder(NAME, FlowState, parts, FlowInput)
    builder.borders = (
        "plan_flow", "review_flow", "run_flow", "approve", "recover", "answer_flow", "finish"
    )  # fmt: skip
    begin = partial(intake, adopt=adopt_steps, extend=partial(extend_intake, plan=plan))
    return draw_graph(
        builder,
        intake=(partial(begin, parts=parts), route_after_intake),
        plan_flow=(partial(plan_flow, parts=parts), route_after_plan),
        check_flow=(partial(check_flow, parts=parts), route_after_check),
        review_flow=(partial(review_flow, parts=parts), route_after_check),
        run_flow=(partial(run_flow, parts=parts), route_after_run),
        approve=(partial(approve, parts=parts), route_after_approve),
        recover=(partial(recover, parts=parts), route_after_recover),
        answer_flow=(partial(answer_flow, parts=parts), route_after_answer),
        finish=(partial(finish, parts=parts, end=END), route_after_finish),
    )


@document_options
def build_prompt_flow(
    model: ModelOption = None,
    tools: ToolsOption = None,
    *,
    plan: dict[str, Any] | str | ExecutionPlan | None = None,
    **options: Unpack[BuildOptions],
) -> FlowGraph:
    """Build the graph, ready to be invoked, streamed or embedded, sync or async.

    `plan` is followed in every turn without asking a model for one, unless the input brings
    another: an ExecutionPlan, an object of its fields, or text. Values for its variables come
    with the input.
    """
    read, problems = (None, []) if plan is None else read_given(plan)
    if problems:
        msg = f"plan= cannot be read: {'; '.join(problems)}."
        raise SettingsError(msg)
    return build_graph(
        NAME, partial(flow_builder, plan=read), options, model, add_llm_call(tools or ())
    )


builder = flow_builder(assemble_served_parts(NAME, add_llm_call(())))
graph = builder.compile(name=NAME)
