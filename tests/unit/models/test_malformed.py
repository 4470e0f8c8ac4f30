"""The corpus of spoiled answers through the whole path, never a traceback, never a fourth ask."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from loopwright.models.ask import Answer, ask
from loopwright.models.choice import Models
from loopwright.models.scripted import ScriptedModel
from loopwright.state.contracts import Contract, PlannerResponse
from loopwright.state.plan import find_problems
from support.contracts import CONTRACTS
from support.malformed import CONTRACT_NAMES, GOOD, MALFORMED, MENDED, REJECTED
from support.scope import scope_with

OF_ROLE = CONTRACTS


def find_plan_problems(plan: Contract) -> list[str]:
    return find_problems(plan.todos, 20) if isinstance(plan, PlannerResponse) else []


async def answered(role: str, turns: list[Any]) -> tuple[Answer[Contract], ScriptedModel]:
    model = ScriptedModel(turns)
    system = f"You are the {role}. Answer with {CONTRACT_NAMES[role]}."
    answer = await ask(
        scope_with(),
        Models(model),
        role,
        [SystemMessage(system), HumanMessage("Who owns it?")],
        contract=OF_ROLE[role],
        check=find_plan_problems,
    )
    return answer, model


def named(cases: list[tuple[str, str, Any]]) -> list[Any]:
    return [pytest.param(role, turn, id=f"{role}-{name}") for role, name, turn in cases]


@pytest.mark.req("P-11")
def test_the_corpus_is_large_enough_and_names_each_case_once() -> None:
    names = [(role, name) for role, name, _ in MALFORMED]
    assert len(set(names)) == len(names)
    assert len(names) >= 40


@pytest.mark.req("P-11", "S0-12")
@pytest.mark.parametrize(("role", "turn"), named(MENDED))
async def test_what_can_be_read_is_read_at_once(role: str, turn: Any) -> None:
    answer, _ = await answered(role, [turn])
    assert answer.problems == []
    assert isinstance(answer.parsed, OF_ROLE[role])
    assert answer.asks == 1
    assert answer.message.tool_calls == []
    assert answer.message.invalid_tool_calls == []


@pytest.mark.req("P-11", "S0-128")
@pytest.mark.parametrize(("role", "turn"), named(REJECTED))
async def test_what_cannot_is_asked_again_with_the_problem_named(role: str, turn: Any) -> None:
    answer, model = await answered(role, [turn, GOOD[role]])
    assert isinstance(answer.parsed, OF_ROLE[role])
    assert answer.asks == 2
    *_, spoilt, repair = model.asked[1].messages
    assert isinstance(spoilt, AIMessage)
    assert spoilt.text
    assert isinstance(repair, HumanMessage)
    assert "\n- " in repair.text
    assert CONTRACT_NAMES[role] in repair.text


@pytest.mark.req("P-11")
@pytest.mark.parametrize(("role", "turn"), named(REJECTED[::10]))
async def test_a_model_that_never_learns_is_asked_three_times(role: str, turn: Any) -> None:
    answer, model = await answered(role, [turn] * 3)
    assert answer.parsed is None
    assert answer.problems
    assert all(problem.strip() for problem in answer.problems)
    assert answer.asks == len(model.asked) == answer.spend["model_calls"] == 3
    assert answer.message.tool_calls == []
