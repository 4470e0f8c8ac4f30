import json

import pytest

from loopwright.models.reading import parse_planner, parse_verifier
from support.malformed import PLAN, VERDICT


@pytest.mark.req("S0-150", "S0-41")
def test_a_planners_answer() -> None:
    plan = parse_planner(f"```json\n{json.dumps(PLAN)}\n```")
    assert [todo.description for todo in plan.todos] == ["Read the notes", "Name the owner"]
    assert plan.needs_more_planning is False
    with pytest.raises(ValueError, match=r"This is no PlannerResponse: .*at least one todo"):
        parse_planner('{"todos": []}')


@pytest.mark.req("S0-150", "S0-43")
def test_a_verifiers_answer() -> None:
    verdict = parse_verifier(json.dumps(VERDICT))
    assert not verdict.is_met
    assert verdict.improvements == ["Name the owner."]
    with pytest.raises(ValueError, match="improvements must name"):
        parse_verifier(json.dumps({**VERDICT, "improvements": []}))
