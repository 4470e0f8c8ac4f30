"""One node of prompt_flow on a graph of its own: a state in, what the node made of it out."""

from functools import partial
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START
from langgraph.types import Command

from loopwright import Context, ScriptedModel
from loopwright.doors.builder import LoopBuilder
from loopwright.graphs.assembly import assemble
from loopwright.models.scripted import Asked
from loopwright.nodes.parts import Parts
from loopwright.state.flow import Draft, FlowState, FlowStep
from loopwright.state.flow_contracts import ExecutionPlan
from loopwright.state.flow_plan import steps_of
from loopwright.tools.llm_call import with_llm_call
from support.flows import World, said


def parts_with(*plans: Any, **more: Any) -> Parts:
    """The parts of a graph over a small world whose planner gives these plans."""
    return assemble(
        model=ScriptedModel({"flow_planner": list(plans)}),
        tools=with_llm_call(World().tools()),
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
        return await self._run(said() | {"turn": 1, "turn_id": "1-a"} | state)

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
                self.state = vars(FlowState(**chunk))
        return self


def steps(*planned: Any, done: dict[str, str] | None = None) -> list[FlowStep]:
    """The steps of a plan as state keeps them; `done` has the results of finished ones by id."""
    made = steps_of(ExecutionPlan.model_validate({"steps": list(planned)}))
    return [
        {**one, "status": "completed", "result": done[one["id"]], "shape": "text"}
        if done and one["id"] in done
        else one
        for one in made
    ]
