"""A node of prompt_flow on a turn whose steps have ended: what it is shown, changes and tells."""

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.messages import HumanMessage

from loopwright import ScriptedModel
from loopwright.graphs.assembly import assemble
from loopwright.prompts.sections import read_json, read_section
from loopwright.state.flow import FlowState, FlowStep
from support.flow_nodes import Turn

GOAL = "What do the parts cost?"


def flow_step(id_: str, status: str = "completed", /, **more: Any) -> FlowStep:
    """A step in state, as run_flow leaves it; every field can be given."""
    result = f"result of {id_}" if status == "completed" else ""
    step: Any = {
        "id": id_, "description": f"do {id_}", "status": status, "depends_on": [], "result": result,
        "feedback": "", "evidence": [], "attempts": 1, "rounds": 1, "rounds_this_turn": 0,
        "seconds": 0.5, "denied": "", "tool": "look", "arguments": {"what": id_}, "optional": False,
        "retries": 0, "expect": None, "timeout": None, "expected_output": "", "failure": "",
        "shape": "", "value": None, "stored": "", "made_of": "",
    }  # fmt: skip
    ended: FlowStep = step | more
    return ended


def broken(id_: str, why: str = "no such part", /, **more: Any) -> FlowStep:
    """A step that failed."""
    return flow_step(id_, "failed", **{"failure": "tool_error", "feedback": why, **more})


class Ran:
    """One run of a node: the state after it, its events, what the model was asked."""

    def __init__(self, turn: Turn, model: ScriptedModel | None) -> None:
        self.state = FlowState(**turn.state)
        self.events = turn.events
        self.asked = model.asked if model else []

    def of_type(self, kind: str) -> list[Any]:
        return [event for event in self.events if event["type"] == kind]

    def shown(self, name: str) -> Any:
        """A section of what the model was asked first: JSON where it is that, else its text."""
        text = next(m.text for m in self.asked[0].messages if m.type == "human")
        found = read_json(text, name)
        return read_section(text, name) if found is None else found


async def run_node(
    node: Callable[..., Any],
    *steps: FlowStep,
    model: ScriptedModel | None = None,
    tools: Any = (),
    hooks: Any = (),
    settings: Mapping[str, Any] | None = None,
    saved: bool = False,
    **fields: Any,
) -> Ran:
    """Run a node once on a turn with these steps; `fields` are further fields of the state."""
    parts = assemble(model=model, tools=tools, hooks=hooks)
    turn = Turn(node, parts, saved=saved, **settings or {})
    given = {"messages": [HumanMessage(GOAL, id="m1")], "request_id": "r", "todos": list(steps)}
    return Ran(await turn.enter(**{**given, **fields}), model)
