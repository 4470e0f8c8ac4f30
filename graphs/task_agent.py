"""task_agent: one agent works in a loop until it says with complete_task how its work ended."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from typing_extensions import Unpack

from ..nodes.agent.shared.agent import Agent, select_team, team_of
from ..nodes.agent.todos import write_todos
from ..nodes.agent.turn import END, adopt_state
from ..nodes.parts import Parts
from ..nodes.turns import finish, intake
from ..prompts.agents import load_agent
from ..run.graph import LoopBuilder, LoopGraph
from ..state.agent import AgentDefinition, TaskAgentState
from ..state.context import Context
from ..state.loop import LoopInput, LoopOutput
from .agent_loop import Due, build_runs, list_phases, route_to_foreground
from .build import assemble_served_parts, build_graph, draw_graph, make_outer_builder
from .options import BuildOptions, ModelOption, ToolsOption, document_options

NAME = "task_agent"

TaskAgentGraph = LoopGraph[TaskAgentState, Context, LoopInput, LoopOutput]


def route_after_intake(state: TaskAgentState) -> Literal[Due, "finish"]:
    """Nothing is asked of a model where nothing was asked by the user."""
    return "finish" if state.halt else route_to_foreground(state)


def route_after_finish(state: TaskAgentState) -> Literal["agent_turn", "__end__"]:
    """End with the outcome; where there is none a hook rejected the answer, so go on."""
    return "agent_turn" if state.outcome is None else "__end__"


def task_agent_builder(
    parts: Parts, definition: AgentDefinition | None = None, agents: Sequence[AgentDefinition] = ()
) -> LoopBuilder[TaskAgentState, Context, LoopInput, LoopOutput]:
    """Draw the graph."""
    definition, team = definition or AgentDefinition(), team_of(agents)
    if parts.about:  # the prompt of this agent, not of those that it delegates to
        prompt = "\n\n".join(filter(None, [parts.about, definition.prompt]))
        definition = definition.model_copy(update={"prompt": prompt})
        parts = replace(parts, about="")
    known = select_team(definition, team, all_of=True)
    agent = Agent.of(definition, parts, lambda: [write_todos()], team=known)
    builder = make_outer_builder(NAME, TaskAgentState, agent.parts, LoopInput)
    builder.scratch = ("delegate",)
    builder.borders = ("agent_turn", "approve", "review_plan")
    adopt = partial(adopt_state, agent=agent)
    ends = (partial(finish, parts=agent.parts, end=END), route_after_finish)
    return draw_graph(
        builder,
        intake=(partial(intake, parts=agent.parts, adopt=adopt), route_after_intake),
        **list_phases(agent, build_runs(team, parts)) | {"finish": ends},
    )


@document_options
def build_task_agent(
    model: ModelOption = None,
    tools: ToolsOption = None,
    *,
    definition: AgentDefinition | str | Path | None = None,
    agents: Sequence[AgentDefinition | str | Path] = (),
    **options: Unpack[BuildOptions],
) -> TaskAgentGraph:
    """Build the graph, ready to be invoked, streamed or embedded, sync or async.

    `definition` says what the agent is: its prompt, tools, limits and output; without one it has
    all tools. `agents` are those it may delegate to. Each may be the path of a Markdown file.
    """
    mine = None if definition is None else load_agent(definition)
    draw = partial(task_agent_builder, definition=mine, agents=[*map(load_agent, agents)])
    return build_graph(NAME, draw, options, model, tools)


builder = task_agent_builder(assemble_served_parts(NAME))
graph = builder.compile(name=NAME)
