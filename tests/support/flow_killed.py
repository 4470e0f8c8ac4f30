"""A process that runs a plan on a thread in a SQLite file and may kill itself at a chosen place.

The model goes by rules, not by turns, so that whichever process asks gets the same answers. What
tools and models did is appended to files, which survive the process.
"""

import asyncio
from pathlib import Path
from typing import Any

from langgraph.types import Command

from loopwright import Context, ScriptedModel, build_prompt_flow
from loopwright.state.channels import unpack_fields
from support import killed
from support.flows import citing, decide, declared, flow, said, step

THREAD = killed.THREAD
FACTS = killed.FACTS
PLAN = flow(
    step("owner", "look", arguments={"name": "owner"}),
    step("price", "look", arguments={"name": "price"}),
    step("save", "save", arguments={"text": "{{owner}}; {{price}}"}),
    step("year", "look", ["save"], arguments={"name": "year"}),
    step("note", "save", arguments={"text": "{{year}}"}),
)
EACH = flow(
    step("reads", "look", forEach=["owner", "price", "year"], arguments={"name": "{{item}}"}),
    step(
        "saves", "save", forEach=["{{reads[0]}}", "{{reads[1]}}", "{{reads[0]}}"],
        arguments={"text": "{{item}}"}, when="length(reads) == 3",
    ),
    step("never", "save", arguments={"text": "never"}, when="saves is empty"),
    step("note", "save", arguments={"text": "{{saves[2]}} {{reads[2]}}"}),
)  # fmt: skip
"""A plan with calls for items, of which two are equal, and with conditions."""
SAVED = {"save": "Ada; 7 euro", "note": "1843"}
"""What each writing step saves."""


def tools_of(world: killed.World, kill: dict[str, Any]) -> list[Any]:
    """`look` reads and `save` writes; one of them may be where the process dies.

    `fails` names a fact that cannot be looked up the first two times.
    """

    def look(name: str) -> str:
        """Look up a fact."""
        world.tell("calls", name)
        if kill.get("fails") == name and len(world.lines("failed")) < 2:  # it is tried twice anyway
            world.tell("failed", name)
            raise ValueError("the line is down")
        if kill.get("tool") == name:
            world.wait_for_recorded(kill.get("recorded", 0))
            killed.die()
        return FACTS[name]

    def save(text: str) -> str:
        """Save a text."""
        world.tell("calls", f"save {text}")
        made = [line for _, line in world.lines("calls")].count(f"save {text}")
        if kill.get("tool") == f"save {text}" and made >= kill.get("time", 1):
            killed.die()
        return "saved"

    return [declared(look, readOnlyHint=True), declared(save)]


def model_of(world: killed.World, kill: dict[str, Any], plan: Any = None) -> ScriptedModel:
    """Always plans this; answers by citing what is done, and has tried again what failed."""

    def answer(messages: list[Any], offered: list[str]) -> Any:
        role = messages[0].text.split()[3].rstrip(".:")
        world.tell("asks", role)
        if kill.get("model") == role:
            return _last_thought()
        default = EACH if kill.get("plan") == "each" else PLAN
        known = {"flow_planner": plan or default, "recovery": decide("retry_step")}
        return known[role] if role in known else citing(messages, offered)

    return ScriptedModel(answer)


async def _last_thought() -> None:
    await asyncio.sleep(0.1)
    killed.die()


def graph_of(world: killed.World, kill: dict[str, Any], durability: Any, **more: Any) -> Any:
    """The graph of the process; it asks before it saves."""
    options = {"model": model_of(world, kill), "policy": [{"tool": "save", "action": "ask"}]}
    return build_prompt_flow(
        tools=tools_of(world, kill), durability=durability, **{**options, **more}
    )


def about(question: dict[str, Any]) -> str:
    """A question in one line: the text that is saved, behind `uncertain` where that is in doubt."""
    action = question["action_requests"][0]
    if action["name"] != "save":
        return str(action["name"])
    doubt = "uncertain " if question["type"] == "uncertain_call" else ""
    return f"{doubt}save {action['args']['text']}"


def drive(graph: Any, world: killed.World, config: Any, context: Context) -> dict[str, Any]:
    """Begin the thread, or go on with it, approving what it asks, to the outcome."""
    state = graph.get_state(THREAD)
    given: Any = None if state.created_at else said()
    while True:
        if state.interrupts:
            question = state.interrupts[0]
            world.tell("questions", about(question.value))
            given = Command(resume={question.id: {"type": "approve"}})
        result = graph.invoke(given, config, context=context)
        state = graph.get_state(THREAD)
        if not state.interrupts:
            return {"outcome": result["outcome"], "values": plain(unpack_fields(state.values))}


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """What must be the same however often the process died."""
    kept = ("turn", "todos", "evidence", "plan", "prints", "drafts", "unmet")
    return {key: values[key] for key in kept if key in values} | {
        "messages": [m.text for m in values["messages"]]
    }


def run(folder: str, kill: dict[str, Any], settings: dict[str, Any]) -> None:
    """What the process does; its result goes to a file."""
    killed.run_in_files(folder, kill, settings, graph_of, drive)


def start(folder: str | Path, kill: dict[str, Any] | None = None, **settings: Any) -> Any:
    """Start the process."""
    Path(folder).mkdir(exist_ok=True)
    return killed.spawn(run, str(folder), kill or {}, settings)


def die(folder: str | Path, kill: dict[str, Any], **settings: Any) -> killed.World:
    """Let a process begin or go on and be killed at a place; gives the files it leaves behind."""
    ended = killed.finish(start(folder, kill, **settings), folder)
    assert ended is None, f"it was to be killed: {ended}"
    return killed.World(folder)


def end(folder: str | Path, plan: str = "", **settings: Any) -> dict[str, Any]:
    """Let a new process go on to the end."""
    result = killed.finish(start(folder, {"plan": plan}, **settings), folder)
    assert result is not None
    return result
