"""The loop of one agent: model turn by model turn, until complete_task.

agent_turn → (approve ⇄ call_tools) → (delegate) → agent_turn …, and before a turn what is due:
review_plan, check_limits → final_warning, check_loop, compress. `delegate` runs such a loop for
each sub-agent; `gather` takes in what came of those in the background.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from langgraph.graph import END

from ..calls.approval import route_calls
from ..nodes.agent.agent_turn import agent_turn
from ..nodes.agent.check_loop import check_loop, find_sign
from ..nodes.agent.compress import compress
from ..nodes.agent.final_warning import check_limits, final_warning
from ..nodes.agent.shared.agent import Agent, Team, select_team
from ..nodes.agent.team.background import Runs, gather, run_with_background
from ..nodes.agent.team.delegate import approve_delegation, delegate
from ..nodes.agent.team.sub_agents import RunAgent
from ..nodes.agent.todos import review_todos
from ..nodes.call_tools import abort_turn_after_calls, call_tools
from ..nodes.parts import Parts
from ..run.graph import LoopBuilder
from ..state.agent import (
    WARNED,
    AgentDefinition,
    AgentInput,
    AgentState,
    find_reached_limit,
    is_long,
)
from ..state.context import Context
from .build import Phase, assemble_served_parts, draw_graph

NAME = "agent_loop"

Due = Literal["review_plan", "check_limits", "check_loop", "compress", "agent_turn"]
"""What can come before a model turn, and the turn."""
AnyPhase = Literal["approve", "call_tools", "delegate", "gather", Due, "final_warning", "finish"]


def route_to_turn(state: AgentState) -> Literal["gather", Due]:
    """What comes before the next model turn, the first that has something to do; else the turn."""
    return "gather" if state.background else route_to_foreground(state)


def route_to_foreground(state: AgentState) -> Due:
    """The same, once those in the background have been looked after."""
    if state.planning == "review":
        return "review_plan"
    if find_reached_limit(state):
        return "check_limits"
    if find_sign(state):
        return "check_loop"
    return "compress" if is_long(state) else "agent_turn"


def route_after_turn(state: AgentState) -> AnyPhase:
    """To the calls; without any to the next turn, unless the work has ended."""
    if state.halt or state.report:
        return route_to_end(state)
    step = route_calls(state.calls, state.decisions)
    if step != "done":
        return step
    return "delegate" if state.delegations else route_to_turn(state)


def route_after_approve(state: AgentState) -> Literal["approve", "call_tools", "delegate"]:
    """Run what may run by now, else ask about the next call, one question at a time."""
    step = route_calls(state.calls, state.decisions)
    return "delegate" if step == "done" else step


def route_after_calls(state: AgentState) -> AnyPhase:
    """On with the calls that are left, then to the next turn, unless one ended the work."""
    if not state.should_continue and route_calls(state.calls, state.decisions) == "done":
        return route_to_end(state)
    return route_after_turn(state)


def route_after_check(state: AgentState) -> Literal["gather", "compress", "agent_turn", "finish"]:
    """On, unless it was the second strike."""
    if state.halt:
        return "gather" if state.background else "finish"
    return "compress" if is_long(state) else "agent_turn"


def route_after_gather(state: AgentState) -> Literal[Due, "final_warning", "finish"]:
    """On to what waited for those in the background, else to the next turn."""
    over = state.halt or state.report or not state.should_continue
    return _route_end(state) if over else route_to_foreground(state)


def route_after_limits(state: AgentState) -> Literal["gather", "final_warning"]:
    """The last turn hears what came of those in the background."""
    return "gather" if state.background else "final_warning"


def route_to_end(state: AgentState) -> Literal["gather", "final_warning", "finish"]:
    """Where work that has ended goes: nothing in the background may be lost."""
    return "gather" if state.background else _route_end(state)


def _route_end(state: AgentState) -> Literal["final_warning", "finish"]:
    return "final_warning" if state.halt in WARNED and state.round else "finish"


def list_phases(agent: Agent, runs: Runs) -> dict[str, Phase]:
    """The loop as parts of a graph."""

    def run_accompanied(action: Callable[..., Any]) -> Callable[..., Any]:
        return partial(run_with_background, action=action, agent=agent, runs=runs)

    call = partial(call_tools, parts=agent.parts, role="agent", ended=abort_turn_after_calls)
    return {
        "agent_turn": (run_accompanied(partial(agent_turn, agent=agent)), route_after_turn),
        "approve": (partial(approve_delegation, agent=agent), route_after_approve),
        "call_tools": (run_accompanied(call), route_after_calls),
        "delegate": (partial(delegate, agent=agent, runs=runs), route_to_turn),
        "gather": (partial(gather, agent=agent, runs=runs), route_after_gather),
        "review_plan": (partial(review_todos, agent=agent), "agent_turn"),
        "check_limits": (partial(check_limits, agent=agent), route_after_limits),
        "check_loop": (partial(check_loop, agent=agent), route_after_check),
        "final_warning": (partial(final_warning, agent=agent), "finish"),
        "compress": (partial(compress, agent=agent), "agent_turn"),
    }


def build_runs(team: Team, parts: Parts) -> Runs:
    """What runs each agent, by its name: a graph of its own. They may delegate to each other."""
    runs: dict[str, RunAgent] = {}
    for name, member in team.items():
        agent = Agent.of(member.definition, parts, team=select_team(member.definition, team))
        runs[name] = agent_builder(agent, runs).compile(name=name).run_part
    return runs


def agent_builder(
    agent: Agent, runs: Runs
) -> LoopBuilder[AgentState, Context, AgentInput, AgentState]:
    """Draw the graph of one sub-agent, which ends with its `report` and `halt`."""
    builder = LoopBuilder[AgentState, Context, AgentInput, AgentState](AgentState, Context)
    builder.ends_itself = True
    return draw_graph(builder, END, **list_phases(agent, runs))


builder = agent_builder(Agent.of(AgentDefinition(), assemble_served_parts()), {})
graph = builder.compile(name=NAME)
