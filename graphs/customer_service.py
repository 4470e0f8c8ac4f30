"""customer_service: understand → strategy → act ⇄ call_tools → check, then an end or a human."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from typing_extensions import Unpack

from ..calls.approval import route_calls
from ..nodes.agent.shared.agent import team_of
from ..nodes.approve import approve
from ..nodes.call_tools import abort_turn_after_calls, call_tools
from ..nodes.desk.act import act, run_or_hand_off
from ..nodes.desk.check import check, confirm
from ..nodes.desk.consult import consult
from ..nodes.desk.desk import Desk
from ..nodes.desk.hand_off import hand_off
from ..nodes.desk.strategy import close, strategy
from ..nodes.desk.turn import adopt_state, finish_turn
from ..nodes.desk.understand import understand
from ..nodes.desk.with_human import with_human
from ..nodes.parts import Parts
from ..nodes.turns import intake
from ..policy.desk.company import Company
from ..policy.table import PolicyTable
from ..prompts.agents import load_agent
from ..prompts.company import read_company
from ..run.graph import LoopBuilder, LoopGraph
from ..state.agent import AgentDefinition
from ..state.context import Context
from ..state.desk import HANDED_OVER, DeskState
from ..state.errors import SettingsError, read_variable
from ..state.loop import LoopInput, LoopOutput
from .agent_loop import build_runs
from .build import (
    assemble_served_parts,
    build_graph,
    draw_graph,
    make_outer_builder,
    make_unusable_parts,
    route_after_approve,
)  # fmt: skip
from .options import BuildOptions, ModelOption, ToolsOption, document_options

NAME = "customer_service"

CustomerServiceGraph = LoopGraph[DeskState, Context, LoopInput, LoopOutput]


def route_after_intake(state: DeskState) -> Literal["understand", "with_human", "finish"]:
    """While a human owns the thread no model is asked."""
    if state.halt:
        return "finish"
    return "with_human" if state.owner == "human" else "understand"


def route_after_understand(state: DeskState) -> Literal["strategy", "hand_off", "finish"]:
    """On; a human takes over where a limit is reached."""
    return _route_halted(state) if state.halt else "strategy"


def _route_halted(state: DeskState) -> Literal["hand_off", "finish"]:
    """A desk that cannot go on hands over, unless somebody wanted its turn to end."""
    return "hand_off" if state.halt in HANDED_OVER else "finish"


def route_after_strategy(state: DeskState) -> Literal["act", "close", "hand_off", "finish"]:
    """As the strategy says; a question back is the answer of the turn."""
    if state.strategy in ("clarify", "say"):
        return "finish"
    if state.strategy == "close" or state.strategy == "hand_off":
        return state.strategy
    return "act"


def route_after_act(
    state: DeskState,
) -> Literal["approve", "call_tools", "delegate", "check", "hand_off", "finish"]:
    """To the calls; words are checked."""
    if state.halt:
        return _route_halted(state)
    step = route_calls(state.calls, state.decisions)
    if step != "done":
        return step
    return "delegate" if state.delegations else "check"


def route_after_calls(
    state: DeskState,
) -> Literal["approve", "call_tools", "delegate", "act", "check", "hand_off", "finish"]:
    """On with the calls that are left; a change that waits for a yes ends the turn."""
    if state.halt == "ABORTED" or (state.strategy != "hand_off" and not state.should_continue):
        return "finish"
    step = route_calls(state.calls, state.decisions)
    if state.strategy == "hand_off" and step == "done":
        return "hand_off"
    if state.halt:
        return _route_halted(state)
    if step != "done":
        return step
    return "delegate" if state.delegations else route_after_delegate(state)


def route_after_delegate(state: DeskState) -> Literal["act", "check"]:
    """On with what was found out, unless a change waits for a yes."""
    return "check" if state.new_proposal is not None else "act"


def route_after_check(state: DeskState) -> Literal["act", "hand_off", "confirm", "finish"]:
    """An answer that holds ends the turn; another try, then a human."""
    if state.strategy == "hand_off":
        return "hand_off"
    if state.has_settled_issue:
        return "confirm"
    return "finish" if state.task_completed else "act"


def route_after_hand_off(
    state: DeskState,
) -> Literal["approve", "call_tools", "with_human", "finish"]:
    """To the call that hands over, then to the human; a ticket ends the turn."""
    step = route_calls(state.calls, state.decisions)
    if step != "done":
        return step
    return "with_human" if state.owner == "human" else "finish"


def route_after_human(state: DeskState) -> Literal["with_human", "understand", "act", "finish"]:
    """Until the human gives the thread back it is theirs; then what is open is answered."""
    if state.owner == "human":
        return "with_human"
    if state.strategy == "carry_out":
        return "act"
    return "finish" if state.task_completed else "understand"


def route_after_finish(state: DeskState) -> Literal["act", "__end__"]:
    """End with the outcome; where there is none a hook rejected the answer."""
    return "act" if state.outcome is None else "__end__"


def _add_verification(company: Company, table: PolicyTable | None) -> Company:
    """The company, with what its policy says of how customers are verified."""
    if table is None or table.identity is None:
        return company
    known = table.identity
    by = {"verified_by": " ".join(name.rpartition("/")[2] for name in known.tools)}
    return company.model_copy(
        update=by | {"verified_if": known.confirmed, "verified_as": known.customer}
    )


def customer_service_builder(
    parts: Parts, company: Company | None = None, agents: Sequence[AgentDefinition] = ()
) -> LoopBuilder[DeskState, Context, LoopInput, LoopOutput]:
    """Draw the graph."""
    toolbox, team = parts.toolbox, team_of(agents)
    whose = _add_verification(company or Company(), toolbox.policy.table)
    ours = (whose.tickets_by, whose.handed_over_by)
    toolbox.policy = replace(toolbox.policy, records_of=whose.records, to_operator=ours)
    about = "\n\n".join(filter(None, [whose.render_profile(), parts.about]))
    desk = Desk.of(replace(parts, about=about), whose, team)
    builder = make_outer_builder(NAME, DeskState, desk.parts, LoopInput)
    builder.scratch, builder.for_customers = ("delegate",), True
    builder.borders = ("understand", "act", "approve", "with_human")
    call = partial(call_tools, parts=desk.parts, role="support", ended=abort_turn_after_calls)
    ask, runs = partial(run_or_hand_off, desk=desk), build_runs(team, parts)
    return draw_graph(
        builder,
        intake=(partial(intake, parts=desk.parts, adopt=adopt_state), route_after_intake),
        understand=(partial(ask, phase=understand), route_after_understand),
        strategy=(partial(strategy, desk=desk), route_after_strategy),
        act=(partial(ask, phase=act), route_after_act),
        check=(partial(check, desk=desk), route_after_check),
        confirm=(partial(confirm, desk=desk), "finish"),
        close=(partial(close, desk=desk), "finish"),
        hand_off=(partial(hand_off, desk=desk), route_after_hand_off),
        finish=(partial(finish_turn, desk=desk), route_after_finish),
        delegate=(partial(consult, runs=runs, desk=desk), route_after_delegate),
        with_human=(with_human, route_after_human),
        approve=(partial(approve, parts=desk.parts), route_after_approve),
        call_tools=(call, route_after_calls),
    )


@document_options
def build_customer_service(
    model: ModelOption = None,
    tools: ToolsOption = None,
    *,
    company: Company | str | Path | None = None,
    agents: Sequence[AgentDefinition | str | Path] = (),
    **options: Unpack[BuildOptions],
) -> CustomerServiceGraph:
    """Build the graph, ready to be invoked, streamed or embedded, sync or async.

    `company` says whose desk it is, as a folder or as what was read from it: its words, what is
    sensitive, and the policy that holds where no other is given. `agents` are those its model may
    ask where one search does not settle a question, such as `desk_agents()`.
    """
    whose = read_company(company) if isinstance(company, str | Path) else company
    if whose and whose.policy and options.get("policy") is None:
        options["policy"] = whose.policy
    draw = partial(customer_service_builder, company=whose, agents=[*map(load_agent, agents)])
    return build_graph(NAME, draw, options, model, tools)


def _assemble_served() -> tuple[Parts, Company | None]:
    """What a server loads: the company is that of LOOPWRIGHT_COMPANY."""
    try:
        folder = read_variable(os.environ, "LOOPWRIGHT_COMPANY")
        company = None if folder is None else read_company(folder)
    except SettingsError as error:
        return make_unusable_parts(assemble_served_parts(NAME), error), None
    return assemble_served_parts(NAME, policy=company.policy if company else ""), company


builder = customer_service_builder(*_assemble_served())
graph = builder.compile(name=NAME)
