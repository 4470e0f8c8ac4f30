"""The graphs as agents and solvers of Inspect: `--solver loopwright/loop -S graph=react`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from inspect_ai.agent import Agent, AgentState, agent
from inspect_ai.solver import Generate, Solver, TaskState, solver
from pydantic import ValidationError

from ..graphs.registry import find_builder
from ..prompts.prompt import PromptManager
from ..state.context import Context
from ..state.errors import SettingsError
from .customer import talk
from .person import Person, check_person
from .runs import Build, Tools, open_runs

CUSTOMER: Final = "customer"
READS: Final = "reads"
"""What a sample's metadata may say: who its customer is, and which tools change nothing."""


@agent
def loop_agent(
    graph: str = "task_agent",
    tools: Tools = (),
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
            `Context`; and `prompts`, a folder of prompts named as its language.

    Raises:
        SettingsError: There is no such graph, person or folder, or a setting is wrong.
        TypeError: There is no such option.
    """
    settings = {name: options.pop(name) for name in Context.model_fields.keys() & options.keys()}
    check_person(person)
    build, context = _make_builder(graph, options), _read_context(settings)
    build()  # what is wrong is said before the first sample
    known = [reads] if isinstance(reads, str) else [*reads]

    async def execute(state: AgentState, customer: str = "", turns: int = 8) -> AgentState:
        """Work on the last message.

        Args:
            state: The conversation so far.
            customer: Who a simulated customer is, and what they want; else there is one turn.
            turns: How often they may write.
        """
        about = "\n\n".join(m.text for m in state.messages if m.role == "system")
        async with open_runs(
            lambda **more: build(system_prompt=about, **more), tools, known
        ) as runs:
            runs.person, runs.context, runs.record.graph = person, context, graph
            try:
                words = await runs.take_turn(state.messages)
                if customer:
                    await talk(runs, customer, [*state.messages], words, turns)
            finally:
                state.messages = [*state.messages, *runs.messages]
        return state

    return execute


def _make_builder(graph: str, options: Mapping[str, Any]) -> Build:
    builder, given = find_builder(graph), {k: v for k, v in options.items() if v is not None}
    if isinstance(folder := given.get("prompts"), str):
        given["prompts"] = PromptManager(language=Path(folder))
    return lambda **more: builder(**{**given, **{k: v for k, v in more.items() if v}})


def _read_context(settings: Mapping[str, Any]) -> Context:
    try:
        return Context(**settings)
    except ValidationError as error:
        why = error.errors()[0]
        msg = f"{'.'.join(map(str, why['loc']))}: {why['msg']}"
        raise SettingsError(msg) from error


@solver
def loop(
    graph: str = "task_agent",
    reads: str | Sequence[str] = (),
    person: Person = "approve",
    **options: Any,
) -> Solver:
    """One of our graphs as a solver, with the tools of the task; see `loop_agent`.

    The metadata of a sample may name the `reads` of its task, and a `customer` who is talked with.
    """
    loop_agent(graph, (), reads, person, **options)

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001 - Inspect's signature
        known = reads or state.metadata.get(READS, ())
        run = loop_agent(graph, state.tools, known, person, **options)
        given = AgentState(messages=state.messages)
        try:
            await run(given, customer=state.metadata.get(CUSTOMER, ""))
        finally:
            state.messages, state.output = given.messages, given.output
        return state

    return solve
