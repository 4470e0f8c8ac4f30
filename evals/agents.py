"""The graphs as agents and solvers of Inspect: `--solver loopwright/loop -S graph=react`."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from inspect_ai.agent import Agent, AgentState, agent
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import Tool
from inspect_ai.util import registry_create

from ..graphs.registry import find_builder
from ..prompts.prompt import PromptManager
from ..state.context import Context
from ..state.errors import SettingsError
from .runs import PERSONS, Build, Person, open_runs

_OF_INSPECT: Final = {"model_deadline": 3_600, "tool_deadline": 3_600, "max_parallel_models": 256}
"""What Inspect limits by its own options; ours would cut its retries and its queue short."""


@agent
def loop_agent(
    graph: str = "task_agent",
    tools: Sequence[Tool] = (),
    reads: str | Sequence[str] = (),
    person: Person = "approve",
    **options: Any,
) -> Agent:
    """One of our graphs as an agent.

    Args:
        graph: Its name.
        tools: What it may call.
        reads: Names or globs of tools that change nothing; Inspect's tools do not say it.
        person: Who answers its questions: `approve`, `reject`, `unmarked` (approves what is not
            marked as a stranger's), or a function from a question to an answer.
        **options: Of `build_<graph>`, such as policy, foreign, company, definition; fields of
            `Context`; and `prompts`: a language, or a path with a folder named as one.

    Raises:
        SettingsError, ValueError, TypeError: There is no such graph, person, folder or option.
    """
    settings = {name: options.pop(name) for name in Context.model_fields.keys() & options.keys()}
    if not callable(person) and person not in PERSONS:
        msg = f"person={person!r}: an eval's person is {', '.join(PERSONS)}, or a function."
        raise SettingsError(msg)
    build, context = _make_builder(graph, options), Context(**{**_OF_INSPECT, **settings})
    build()  # what is wrong is said before the first sample
    known = [reads] if isinstance(reads, str) else [*reads]

    async def execute(state: AgentState, customer: str = "") -> AgentState:
        """Work on the last message, then on those of a simulated customer, if it is said who."""
        about = "\n\n".join(m.text for m in state.messages if m.role == "system")
        made = partial(build, system_prompt=about)
        async with open_runs(made, tools, known, person, context) as runs:
            runs.record.graph = graph
            try:
                words = await runs.take_turn(state.messages)
                if customer:
                    await runs.talk(customer, state.messages, words)
            finally:
                state.messages = [*state.messages, *runs.tools.trace]
        return state

    return execute


def _make_builder(graph: str, options: Mapping[str, Any]) -> Build:
    builder, given = find_builder(graph), {k: v for k, v in options.items() if v is not None}
    if isinstance(folder := given.get("prompts"), str):
        known = folder if folder == Path(folder).name else Path(folder)
        given["prompts"] = PromptManager(language=known)
    return lambda **more: builder(**{**given, **{k: v for k, v in more.items() if v}})


@solver
def loop(
    graph: str = "task_agent",
    reads: str | Sequence[str] = (),
    person: Person = "approve",
    tools: str | Sequence[str] = (),
    **options: Any,
) -> Solver:
    """One of our graphs as a solver, with the tools of the task; see `loop_agent`.

    The metadata of a sample may name the `reads` of its task, and a `customer` who is talked with.
    `tools` are names of Inspect's, such as bash, for a task whose own agent brings them.
    """
    more = [registry_create("tool", one) for one in ([tools] if isinstance(tools, str) else tools)]
    loop_agent(graph, more, reads, person, **options)

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001 - Inspect's signature
        known = reads or state.metadata.get("reads", ())
        run = loop_agent(graph, [*state.tools, *more], known, person, **options)
        given = AgentState(messages=state.messages)
        try:
            await run(given, customer=state.metadata.get("customer", ""))
        finally:
            state.messages, state.output = given.messages, given.output
        return state

    return solve
