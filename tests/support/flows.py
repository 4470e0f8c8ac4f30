"""Scripts and a small world for runs of prompt_flow."""

import asyncio
import re
from collections.abc import Mapping
from types import CodeType
from typing import Any

from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import Context, ScriptedModel, build_prompt_flow
from loopwright.prompts.prompt import read_json
from support.front_ends import chat_ui_shows, inbox_shows

THREAD = {"configurable": {"thread_id": "t"}}
GOAL = "Tell me what the parts come to."
ASK = [{"tool": "put", "action": "ask"}]
"""Every change of the small world is asked about."""


def step(id_: str, tool: str = "look", /, after: list[str] | None = None, **more: Any) -> Any:
    """A step as a model writes it; `arguments` and the plan's own keys come by name."""
    return {
        "id": id_,
        "description": f"do {id_}",
        "tool": tool,
        "dependencies": after or [],
        **more,
    }


def put(id_: str, what: Any, after: list[str] | None = None, **more: Any) -> Any:
    """A step that changes the small world."""
    return step(id_, "put", after, arguments={"what": what}, **more)


def look(id_: str, what: Any, after: list[str] | None = None, **more: Any) -> Any:
    """A step that reads."""
    return step(id_, "look", after, arguments={"what": what}, **more)


def flow(*steps: Any, **more: Any) -> dict[str, Any]:
    return {"goal": GOAL, "planId": "p", "steps": list(steps), **more}


def decide(strategy: str, reason: str = "the cause") -> dict[str, Any]:
    return {"strategy": strategy, "reason": reason}


def citing(messages: Any, offered: Any) -> str:
    """An answer that cites every finished step."""
    shown = next(m.text for m in messages if m.type == "human")
    done = [s["id"] for s in read_json(shown, "steps") if s["status"] == "completed"]
    return "It comes to this: " + " ".join(f"[{i}]" for i in done)


def planning(*plans: Any, **scripts: Any) -> ScriptedModel:
    """A model with these plans in turn; it answers by citing what is there."""
    return ScriptedModel({"flow_planner": list(plans), "answerer": citing, **scripts})


def said(text: str = GOAL) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def roles(model: ScriptedModel) -> list[str]:
    return [asked.role for asked in model.asked]


def told_to(model: ScriptedModel, role: str, ask: int = 0) -> str:
    """The last message of what a role was asked, by the number of its ask, from 0."""
    return str([asked for asked in model.asked if asked.role == role][ask].messages[-1].text)


def failing_once(book: list[str], error: Exception) -> Any:
    """A tool's function that notes what it sends, and fails the first time."""

    def send(text: str) -> str:
        """Send something."""
        book.append(text)
        if len(book) == 1:
            raise error
        return "sent"

    return send


_SCHEMAS: dict[tuple[CodeType, str, str], Any] = {}


def declared(function: Any, *, name: str = "", **hints: Any) -> StructuredTool:
    """A tool that says of itself what it does to the world.

    Every world makes its functions anew; what they take is read off the first.
    """
    which = {"coroutine" if asyncio.iscoroutinefunction(function) else "func": function}
    key = (function.__code__, str(function.__defaults__), str(function.__annotations__))
    made = StructuredTool.from_function(
        **which, name=name or function.__name__, description=function.__doc__, metadata=hints,
        args_schema=_SCHEMAS.get(key),
    )  # fmt: skip
    _SCHEMAS.setdefault(key, made.args_schema)
    return made


class World:
    """Tools that note what they did: `look` and `slow` read, `put` writes."""

    def __init__(self, **answers: Any) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.spans: dict[str, tuple[float, float]] = {}
        self.answers = answers

    def done(self, tool: str) -> list[Any]:
        return [what for name, what in self.calls if name == tool]

    def tools(self) -> list[Any]:
        async def look(what: Any = "") -> Any:
            """Look something up."""
            self.calls.append(("look", what))
            answer = self.answers.get(str(what), {"of": what, "n": len(str(what))})
            if isinstance(answer, list) and answer and callable(answer[0]):
                answer = answer.pop(0) if len(answer) > 1 else answer[0]
            if callable(answer):
                answer = await asyncio.to_thread(answer)
            return await answer if asyncio.iscoroutine(answer) else answer

        async def slow(name: str, seconds: float = 0.05) -> dict[str, Any]:
            """Look something up slowly."""
            loop = asyncio.get_running_loop()
            began = loop.time()
            await asyncio.sleep(seconds)
            self.spans[name] = (began, loop.time())
            self.calls.append(("slow", name))
            return {"name": name}

        async def put(what: Any) -> dict[str, Any]:
            """Put something into the world."""
            loop = asyncio.get_running_loop()
            began = loop.time()
            await asyncio.sleep(0.01)
            self.calls.append(("put", what))
            self.spans[f"put {what}"] = (began, loop.time())
            return {"put": what}

        return [declared(look, readOnlyHint=True), declared(slow, readOnlyHint=True), declared(put)]

    def graph(self, model: ScriptedModel, **more: Any) -> Any:
        tools = more.pop("tools", [])
        return build_prompt_flow(model=model, tools=[*self.tools(), *tools], **more)


def raising(error: Exception) -> Any:
    def fail() -> Any:
        raise error

    return fail


DOWN = raising(ValueError("the line is down"))
REPLAN = [decide("replan_from_failure")]


def asking(world: World, model: ScriptedModel, policy: Any = ASK, **more: Any) -> Any:
    """A graph that can ask somebody."""
    return world.graph(model, policy=policy, checkpointer=InMemorySaver(), **more)


def asked(result: dict[str, Any]) -> Any:
    """The one question that waits; both front ends can show it."""
    (question,) = [one.value for one in result["__interrupt__"]]
    assert chat_ui_shows(question)
    assert inbox_shows(question)
    return question


def waiting(result: dict[str, Any]) -> list[str]:
    """The steps whose questions wait."""
    return [question.value["task"] for question in result["__interrupt__"]]


def answer(graph: Any, value: Any = "approve", **settings: Any) -> Any:
    """What the run comes to after an answer to the question that waits."""
    return graph.invoke(Command(resume=value), THREAD, context=Context(**settings))


def steps_by_id(outcome: dict[str, Any]) -> dict[str, Any]:
    return {task["id"]: task for task in outcome["tasks"]}


def ended(outcome: Mapping[str, Any]) -> tuple[str, str]:
    """How a turn ended, and why."""
    return outcome["status"], outcome["reason"]


def of_type(events: list[Any], *kinds: str) -> list[Any]:
    return [event for event in events if event.get("type") in kinds]


def cited(text: str) -> list[str]:
    return re.findall(r"\[(\w+)\]", text)
