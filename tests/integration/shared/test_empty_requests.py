"""A message without words is refused with the same sentence in every graph."""

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import (
    Context,
    ScriptedModel,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
)
from support.flows import THREAD, said

BUILDERS: dict[str, Any] = {
    "plan_execute_verify": build_plan_execute_verify,
    "react": build_react,
    "prompt_flow": build_prompt_flow,
}


def look(what: str) -> str:
    """Look."""
    return what


def see(what: str) -> str:
    """See."""
    return what


@pytest.mark.req("W-68")
@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
@pytest.mark.parametrize(("words", "interactive"), [("", True), (" \n\t ", False)])
def test_an_empty_message_is_refused_also_after_a_change_of_tools(build, words, interactive):
    model, saver = ScriptedModel({}), InMemorySaver()
    for tools in ([look], [look, see], [see]):
        graph = build(model=model, tools=tools, checkpointer=saver)
        result = graph.invoke(said(words), THREAD, context=Context(interactive=interactive))
        assert "__interrupt__" not in result
        outcome = result["outcome"]
        assert (outcome["status"], outcome["reason"]) == ("blocked", "MISSING_INFORMATION")
        assert outcome["unmet"] == ["The request is empty."]
    assert model.asked == []
