"""Components as views of events."""

import pytest

from loopwright.stream.views import components_of


@pytest.mark.parametrize("todos", [None, 5, "x", {"id": 1}, ["x", None, [1]], [
    {"id": [1], "description": {}, "depends_on": "1", "items": 1.5, "done": float("inf")}
]])  # fmt: skip
@pytest.mark.parametrize("role", ["planner", "flow_planner", "verifier"])
def test_a_draft_is_drawn_whatever_a_model_writes(role, todos):
    fields = {"todos": todos, "tasks": todos, "missing_information": todos, "summary": todos}
    draft = {"type": "draft", "seq": 1, "turn": "1", "round": 1, "role": role, "fields": fields}
    (drawn,) = components_of({}, draft)
    assert drawn["props"]["streaming"]
