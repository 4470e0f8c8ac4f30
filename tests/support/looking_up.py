"""A graph whose model goes by rules: for each goal it looks Ada up, pays her, and ends."""

from typing import Any

from langchain_core.tools import StructuredTool

from loopwright import ScriptedModel, build_react
from support.scripts import call, thought


def look(name: str) -> str:
    """Look up a fact."""
    return f"fact {name}"


def pay(name: str) -> str:
    """Pay somebody."""
    return f"paid {name}"


def tools() -> list[Any]:
    """Both; only looking is harmless."""
    return [StructuredTool.from_function(look, metadata={"readOnlyHint": True}), pay]


def paying(durability: Any, goal: str = "Look Ada up") -> Any:
    """The graph; a goal is a message of the user's that begins with these words."""

    def turn(messages: Any, offered: Any) -> Any:
        done = sum(message.type == "tool" for message in messages)
        if offered:
            return [call("pay" if done % 2 else "look", f"c{done}", name="Ada")]
        goals = sum(m.type == "human" and m.text.startswith(goal) for m in messages)
        if done < 2 * goals:
            return thought("I take the next step.", more=True, reason="open")
        return thought("Ada was looked up and paid.")

    model = ScriptedModel(turn)
    return build_react(model=model, tools=tools(), durability=durability, observe="direct")
