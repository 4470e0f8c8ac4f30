"""The parts of the manual that are made from the code; `make docs` refreshes them."""

import re
import sys
from pathlib import Path
from typing import Any

from loopwright import (
    AgentDefinition,
    Context,
    build_customer_service,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
    build_router,
    build_task_agent,
)
from loopwright.flow.execution_plan import ExecutionPlan
from loopwright.flow.order import build_steps
from loopwright.graphs.agent_loop import agent_builder
from loopwright.graphs.task_execution import task_builder
from loopwright.nodes.agent.shared.agent import Agent
from loopwright.nodes.parts import Parts
from loopwright.run import client_access
from loopwright.state.limits import LIMITS
from loopwright.stream.components import COMPONENTS
from support.command_parts import chat_list, commands_list, options_list
from support.docs_text import section
from support.flow_examples import module
from support.reference_parts import (
    list_errors,
    list_evidence,
    list_outcome,
    list_settings,
    plain,
)

_PART = re.compile(r"(<!-- generated: ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def graphs() -> dict[str, Any]:
    """The drawings of the graphs by name, as LangGraph draws them."""
    return {
        "agent_loop": agent_builder(Agent.of(AgentDefinition(), Parts()), {}).compile().get_graph(),
        "plan_execute_verify": build_plan_execute_verify().get_graph(),
        "prompt_flow": build_prompt_flow().get_graph(),
        "react": build_react().get_graph(),
        "task_agent": build_task_agent().get_graph(),
        "customer_service": build_customer_service().get_graph(),
        "router": build_router().get_graph(),
        "task_execution": task_builder(Parts()).compile().get_graph(),
    }


def drawing(name: str) -> str:
    """A graph as a Mermaid drawing: a line for each node, dotted where a router chooses."""
    drawn = graphs()[name]
    order = list(drawn.nodes)
    ways: dict[tuple[int, bool], list[str]] = {}
    for edge in drawn.edges:
        ways.setdefault((order.index(edge.source), edge.conditional), []).append(edge.target)
    lines = [
        f"\t{order[node]}{'-.->' if chosen else '-->'}{' & '.join(sorted(to, key=order.index))};"
        for (node, chosen), to in sorted(ways.items())
    ]
    return "\n".join(["```mermaid", "graph TD;", *lines, "```"])


def plan_picture() -> str:
    """The plan of the sales example as a Mermaid drawing: an arrow for each step it waits for."""
    steps = build_steps(ExecutionPlan.model_validate(module("sales", "analyst").PLAN))
    after: dict[str, list[str]] = {}
    for step in steps:
        if step["depends_on"]:
            after.setdefault(" & ".join(step["depends_on"]), []).append(step["id"])
    arrows = [f"\t{needed}-->{' & '.join(names)};" for needed, names in after.items()]
    return "\n".join(["```mermaid", "graph TD;", *arrows, "```"])


def rule(name: str) -> tuple[str, str]:
    """What the operator's ceiling is for a field of Context, and what a client may do."""
    if name in client_access.FREE:
        return "the default", "sets it"
    if name in client_access.MODELS:
        return "the default", "names a model that is offered"
    if name == client_access.SHARED:
        return "keys that stay", "adds keys"
    if order := client_access.STRICTEST_FIRST.get(name):
        words = " < ".join(f"`{plain(word).strip(chr(34))}`" for word in order)
        return f"the loosest: {words}", "makes it stricter"
    if type(getattr(Context(), name)) in (int, float) or name in client_access.ENDLESS:
        return "the highest", "lowers it"
    return "the value", "does not set it"


def who_table() -> str:
    """What a client and the operator's ceiling may say of the fields of Context."""
    fields: dict[tuple[str, str], list[str]] = {}
    for name in Context.model_fields:
        fields.setdefault(rule(name), []).append(f"`{name}`")
    rows = [
        f"| {client} | {most} | {', '.join(names)} |" for (most, client), names in fields.items()
    ]
    head = "| a client of a server | `LOOPWRIGHT_CEILING` says | field of `Context` |"
    return "\n".join([head, "|---|---|---|", *rows])


def limits_table() -> str:
    """What each door takes at most."""
    rows = ["| door | bytes | values | levels | seconds |", "|---|---|---|---|---|"]
    for limit in LIMITS.values():
        named = isinstance(limit.seconds, str)
        counts = [f"{count:,}" if count else "" for count in limit[1:4]]
        seconds = f"`{limit.seconds}`" if named else str(limit.seconds or "")
        rows.append(f"| {limit.what} | {' | '.join([*counts, seconds]).rstrip(' |')} |")
    return "\n".join(rows)


def read_events() -> dict[str, tuple[str, list[str]]]:
    """Of each event in docs/events.md: what one is kept for each of, and its fields."""
    listed = section("docs/events.md", "How do I follow a run?")
    rows = re.findall(r"^- `(\w+)`(?: \((.+?)\))?: .+ \((.+?)\)$", listed, re.MULTILINE)
    return {name: (kept, re.findall(r"`([\w?]+)`", fields)) for name, kept, fields in rows}


def components_list() -> str:
    """Every component with its props."""
    rows = []
    for name, model in COMPONENTS.items():
        says = " ".join((model.__doc__ or "").partition("\n\n")[0].split()).rstrip(".")
        rows.append(f"- `{name}`: {says} ({', '.join(f'`{p}`' for p in model.model_fields)})")
    return "\n".join(rows)


def parts() -> dict[str, str]:
    """The generated parts by the name in their comment."""
    return {
        # The loop inside task_agent looks like it: no page draws it.
        **{f"drawing of {name}": drawing(name) for name in graphs() if name != "agent_loop"},
        "plan of the sales example": plan_picture(),
        "settings": list_settings(),
        "outcome": list_outcome(),
        "evidence": list_evidence(),
        "errors": list_errors(),
        "who sets what": who_table(),
        "limits of doors": limits_table(),
        "components": components_list(),
        "commands": commands_list(),
        "options of commands": options_list(),
        "commands of a chat": chat_list(),
    }


def renewed(text: str) -> str:
    """The text with every generated part as the code has it now."""
    made = parts()
    return _PART.sub(lambda found: f"{found[1]}{made[found[2]]}\n{found[3]}", text)


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]):
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")
