"""The table of roles: all that is known of a role follows from its row."""

import pytest

from loopwright.graphs.registry import REGISTRY
from loopwright.models.choice import OPENAI_TIERS, Models
from loopwright.prompts.prompt import CORE_TEMPLATES, SLOT
from loopwright.state.context import Context
from loopwright.state.contracts import Contract
from loopwright.state.roles import GRAPHS, ROLES, find_template, roles_of
from support.contracts import CONTRACTS

OURS = sorted(name for name, role in ROLES.items() if role.graph)


def test_every_graph_that_can_be_run_has_its_roles():
    assert set(GRAPHS) == set(REGISTRY)
    assert {role for graph in GRAPHS for role in roles_of(graph)} == set(OURS)
    ways = {"plan_execute_verify", "react", "prompt_flow", "task_agent"}
    inside = {role for graph in ways for role in roles_of(graph)}
    assert {*roles_of("router")} == inside | {"dispatcher", "responder"}


@pytest.mark.req("S0-143")
@pytest.mark.parametrize("role", OURS)
def test_a_role_has_a_template_a_tier_a_label_and_the_contract_it_is_told_of(role):
    row, text = ROLES[role], CORE_TEMPLATES["en"][find_template(role)]
    assert text.startswith("You work on" if row.shares else f"You are the {role}")
    assert text.count(SLOT) == 1
    assert row.label
    if row.contract:
        assert issubclass(CONTRACTS[role], Contract)
        assert row.contract in text
    chosen = Models(environ={"OPENAI_API_KEY": "k"}).choose(role, Context())
    assert (chosen.name, chosen.tier) == (OPENAI_TIERS[row.tier], row.tier)
