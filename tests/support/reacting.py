"""Scripts and a small world for runs of the ReAct loop."""

from langchain_core.tools import ToolException

from loopwright import ScriptedModel
from loopwright.text.sentences import say
from support.scripts import call, thought

THREAD = {"configurable": {"thread_id": "t"}}
GOAL = "Who owns it?"
LOOK = thought("I look up the owner with look.", more=True, reason="it is not known")
DONE = thought("Ada owns it.")


def shelf():
    """A tool over a small world of values, and the record of what was called."""
    calls = []

    def look(name: str) -> str:
        """Look up a fact."""
        calls.append(name)
        if name == "nothing":
            msg = "there is no such fact"
            raise ToolException(msg)
        return {"owner": "Ada", "price": "7 euro"}.get(name, f"fact_{name}")

    look.calls = calls
    return look


def one_step(**scripts):
    return ScriptedModel(
        {
            "thought": [LOOK, DONE],
            "action": [[call("look", name="owner")]],
            "observation": ["The owner is Ada; answer now."],
        }
        | scripts
    )


def said(text=GOAL):
    return {"messages": [{"role": "user", "content": text}]}


def roles(model):
    return [asked.role for asked in model.asked]


def of(model, role):
    return [asked for asked in model.asked if asked.role == role]


def phase_of(messages, offered):
    """Who asks a script that is a function: only an action may call."""
    if offered:
        return "action"
    return "observation" if messages[-1].text == say("sum_up") else "thought"


def endless():
    """A model that always wants another fact; on request it answers."""
    number = iter(range(1_000))

    def answer(messages, offered):
        role = phase_of(messages, offered)
        if role == "thought":
            if "No step is left" in messages[-1].text:
                return thought("So far: some facts.")
            return thought("Another fact with look.", more=True)
        return [call("look", name=f"f{next(number)}")] if role == "action" else "A fact is there."

    return ScriptedModel(answer)
