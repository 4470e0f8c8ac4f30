"""Tools that speak LangGraph's words, and a process that dies after one of them was recorded."""

from typing import Annotated, Any

from langchain.tools import InjectedState, InjectedToolCallId, ToolRuntime
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.types import Command

from loopwright import (
    ScriptedModel,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
    open_durability,
)
from support import flows, killed, reacting
from support.scripts import call, passed, plan, report, thought, todo

THREAD = killed.THREAD


@tool
async def note(text: str, runtime: ToolRuntime[Any, Any]) -> Command[Any]:
    """Note something, for the talk and for whoever goes on."""
    mend = [*runtime.state["improvements"], text]
    answer = ToolMessage(f"noted {text}", tool_call_id=runtime.tool_call_id)
    return Command(
        update={"messages": [answer, HumanMessage(f"P.S. {text}")], "improvements": mend}
    )


@tool
def note_now(
    text: str,
    tool_call_id: Annotated[str, InjectedToolCallId],
    improvements: Annotated[list[str], InjectedState("improvements")],
) -> Command[Any]:
    """Note something, from a thread."""
    answer = ToolMessage(f"noted {text}", tool_call_id=tool_call_id)
    mend = [*improvements, text]
    return Command(
        update={"messages": [answer, HumanMessage(f"P.S. {text}")], "improvements": mend}
    )


def react_of(tools: Any, *calls: Any, **options: Any) -> Any:
    """The loop with these calls, one list for each action."""
    more = [thought("A step.", more=True) for _ in calls]
    model = ScriptedModel({"thought": [*more, thought("The note says a.")], "action": list(calls)})
    return build_react(model=model, tools=tools, observe="direct", **options)


def flow_of(tools: Any, *steps: Any, **options: Any) -> Any:
    return build_prompt_flow(model=flows.planning(flows.flow(*steps)), tools=tools, **options)


def plan_of(tools: Any, *calls: Any, **options: Any) -> Any:
    model = ScriptedModel(
        {
            "planner": [plan(todo("1", "work"))],
            "executor": calls[0] if callable(calls[0]) else [*calls, report("I worked.")],
            "verifier": [passed("All was worked.", t1=["1.1.0"])],
        }
    )
    return build_plan_execute_verify(model=model, tools=tools, **options)


def noting(told: list[Any], name: str, *, ended: bool = False) -> Any:
    def answer(messages: Any, offered: Any) -> Any:
        told.append([message.text for message in messages])
        return report("I worked.") if ended or len(told) > 1 else [call(name, text="a")]

    return answer


GRAPHS = {
    "react": lambda tool_, **o: react_of([tool_], [call(tool_.name, text="a")], **o),
    "prompt_flow": lambda tool_, **o: flow_of(
        [tool_], flows.step("s1", tool_.name, arguments={"text": "a"}), **o
    ),
}
NODE = {"react": "call_tools", "prompt_flow": "run_flow", "plan": "call_tools"}
TOOLS = {"note": note, "note_now": note_now}


def begin(folder: str, graph: str, tool_: str) -> None:
    """The process dies when the call has ended, before the graph's state has heard of it."""
    with open_durability(f"sqlite:///{folder}/t.db") as durability:
        if graph == "plan":
            built = plan_of([TOOLS[tool_]], [call(tool_, text="a")], durability=durability)
        else:
            built = GRAPHS[graph](TOOLS[tool_], durability=durability)
        callbacks = [killed.Killed(node=NODE[graph], at="end")]
        with killed.no_end_is_saved(durability):
            built.invoke(reacting.said(), {**THREAD, "callbacks": callbacks})
