"""Agents that are scripted by their own names, and what they say to each other."""

import asyncio
import json

from langchain_core.tools import StructuredTool

from loopwright import AgentDefinition, ScriptedModel, build_task_agent
from support.patience import PATIENCE
from support.scripts import call


def done(summary="Done.", **more):
    return [call("complete_task", summary=summary, **more)]


def give(*names, **more):
    """A message that delegates to these, one after another."""
    return [
        call("delegate_to_agent", f"d{i}", agent_name=name, objective=f"work {i} of {name}", **more)
        for i, name in enumerate(names)
    ]


class Signs:
    """Signs that agents give each other, and a pause: as functions, or as tools that only read."""

    def __init__(self):
        self.seen = {}

    def _of(self, name):
        return self.seen.setdefault(name, asyncio.Event())

    @property
    def functions(self):
        async def wait_for(sign: str) -> str:
            """Wait for a sign."""
            await asyncio.wait_for(self._of(sign).wait(), PATIENCE)
            return f"there was {sign}"

        async def show(sign: str) -> str:
            """Show a sign."""
            self._of(sign).set()
            return f"shown {sign}"

        async def pause() -> str:
            """Wait until the others rest."""
            await asyncio.sleep(0.5)
            return "rested"

        return [wait_for, show, pause]

    @property
    def tools(self):
        hints = {"readOnlyHint": True, "repeatable": True}
        return [StructuredTool.from_function(coroutine=t, metadata=hints) for t in self.functions]


class Office:
    """Agents that are scripted by their own names; the graph's own is `chief`."""

    def __init__(self, **scripts):
        self.scripts = {
            name: script if callable(script) else iter(script) for name, script in scripts.items()
        }
        self.model = ScriptedModel(self.turn)

    def turn(self, messages, offered):
        name = messages[0].text.rpartition("I am ")[2].strip(".") or "chief"
        script = self.scripts[name]
        return script(messages, offered) if callable(script) else next(script)

    def agents(self, **more):
        names = [name for name in self.scripts if name != "chief"]
        return [
            AgentDefinition(
                **{"name": n, "description": f"Does {n}.", "prompt": f"I am {n}."} | more.get(n, {})
            )
            for n in names
        ]

    def graph(self, kept=None, tools=(), agents=None, **more):
        team = self.agents(**agents or {})
        chief = AgentDefinition(prompt="I am chief.")
        return build_task_agent(
            model=self.model, tools=tools, definition=chief, agents=team, durability=kept, **more
        )


def told_to(messages):
    """The results of sub-agents in a request."""
    return [
        json.loads(m.text) for m in messages if m.type == "tool" and m.name == "delegate_to_agent"
    ]


def notebook():
    """A tool that saves, with what it has saved."""
    saved = []

    def save(text: str) -> str:
        """Save a text."""
        saved.append(text)
        return f"saved {text}"

    save.saved = saved
    return save
