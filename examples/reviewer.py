"""Add a role: a template, a context and a node beside the loop. Runs offline without a key."""

from typing import Any

from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.graph import START, MessagesState, StateGraph

from loopwright import PromptManager, ScriptedModel, build_plan_execute_verify

prompts = PromptManager()
prompts.set_core_template(
    "reviewer", "You are the reviewer.\n{{businessContext}}\nMay this go out?"
)
prompts.set_business_context("reviewer", "Nothing leaves the house with a delivery date in it.")
model = ScriptedModel(["It may go out."])  # any chat model


def reviewer(state: MessagesState) -> dict[str, Any]:
    """Judge the answer of the loop."""
    asked = [
        SystemMessage(prompts.get_prompt("reviewer")),
        HumanMessage(state["messages"][-1].text),
    ]
    return {"messages": [model.invoke(asked, {"metadata": {"loopwright_role": "reviewer"}})]}


def stock(article: str) -> str:
    """Look up how many pieces of an article are in stock."""
    return f"{({'Juno': 12, 'Alba': 3})[article]} pieces"


question = 'How many pieces of the article "Juno" are in stock?'
builder = StateGraph(MessagesState)
builder.add_node("loop", build_plan_execute_verify(tools=[stock], prompts=prompts))
builder.add_node("reviewer", reviewer)
builder.add_edge(START, "loop")
builder.add_edge("loop", "reviewer")
answer = builder.compile().invoke({"messages": [HumanMessage(question)]})
print(answer["messages"][-1].text)  # noqa: T201 - shows its result
