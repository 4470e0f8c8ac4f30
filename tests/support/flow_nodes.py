"""One node of prompt_flow on a graph of its own: a state in, what the node made of it out."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START
from langgraph.types import Command

from loopwright import Context, ScriptedModel
from loopwright.graphs.build import assemble
from loopwright.models.scripted import Asked
from loopwright.nodes.parts import Parts
from loopwright.prompts.prompt import read_json, read_section
from loopwright.run.graph import LoopBuilder
from loopwright.state.channels import unpack_fields
from loopwright.state.flow import Draft, FlowState, FlowStep
from loopwright.tools.python_tools import add_llm_call
from support.flows import GOAL, World, of_type, said


def parts_with(*plans: Any, **more: Any) -> Parts:
    """The parts of a graph over a small world whose planner gives these plans."""
    return assemble(
        model=ScriptedModel({"flow_planner": list(plans)}),
        tools=add_llm_call(World().tools()),
        **more,
    )


def asked_of(parts: Parts) -> list[Asked]:
    """What the model was asked."""
    model: Any = parts.models.choose("flow_planner", Context()).model
    return list(model.asked)


def drafts(*told: tuple[str, list[str]]) -> list[Draft]:
    """Answers that are no plan, each with what is wrong with it."""
    return [Draft(text=text, plan=None, findings=findings) for text, findings in told]


def alone(node: Any, parts: Parts, *, saver: Any = None) -> Any:
    """A graph of one node, which asks again as often as its state says."""
    builder: Any = LoopBuilder(FlowState, Context)
    builder.add_node("node", partial(node, parts=parts))
    builder.add_edge(START, "node")
    builder.add_conditional_edges("node", _again, ["node", END])
    return builder.compile(saver)


def _again(state: FlowState) -> str:
    return "node" if state.planning == "review" and state.objection else END


class Turn:
    """Turns at one node, each on a thread of its own.

    Attributes:
        state: After the newest one.
        events: Of all of them.
        asked: The question that waits; None where there is none.
    """

    def __init__(self, node: Any, parts: Parts, *, saved: bool = True, **settings: Any) -> None:
        self.runs = 0
        self.graph = alone(node, parts, saver=InMemorySaver() if saved else None)
        self.context = Context(**settings)
        self.events: list[Any] = []
        self.state: dict[str, Any] = {}
        self.asked: Any = None

    async def enter(self, **state: Any) -> "Turn":
        """Begin with this state; without messages the goal is the request."""
        self.runs += 1
        given = said() | {"turn": 1, "turn_id": "1-a"} | state
        return await self._run(self.graph.own_builder.pack_update(given))

    async def answer(self, answer: Any) -> "Turn":
        """Answer the question it asks."""
        return await self._run(Command(resume=answer))

    async def _run(self, given: Any) -> "Turn":
        self.asked = None
        thread = {"configurable": {"thread_id": "t" * self.runs}}
        async for mode, chunk in self.graph.astream(
            given, thread, context=self.context, stream_mode=["custom", "values"]
        ):
            if mode == "custom":
                self.events.append(chunk)
            elif "__interrupt__" in chunk:
                self.asked = chunk["__interrupt__"][0].value
            else:
                self.state = vars(FlowState(**unpack_fields(chunk)))
        return self


class Ran:
    """One run of a node: the state after it, its events, what the model was asked."""

    def __init__(self, turn: Turn, model: ScriptedModel | None) -> None:
        self.state = FlowState(**turn.state)
        self.events = turn.events
        self.asked = model.asked if model else []

    def of_type(self, kind: str) -> list[Any]:
        return of_type(self.events, kind)

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
