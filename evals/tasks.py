"""The tasks that ship, in a small shop, and any other task with our graphs as its solver.

Inspect loads this module to find all that is `loopwright/<name>`, also solver and scorers.
"""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

import yaml  # type: ignore[import-untyped]  # stubs are a package of their own
from inspect_ai import Task, task, task_with
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, accuracy, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, chain, solver, use_tools
from inspect_ai.tool import ToolDef, ToolError, ToolParams
from inspect_ai.util import StoreModel, registry_create, store_as
from pydantic import Field

from .agents import loop
from .runs import LoopRecord
from .scorers import effects_once, honest_outcome, spend

SHOP: Final[dict[str, Any]] = yaml.safe_load(
    files(__package__).joinpath("shop.yaml").read_text(encoding="utf-8")
)


class Office(StoreModel):
    """What the calls of a sample changed."""

    effects: list[dict[str, Any]] = Field(default_factory=list)


@task
def goals() -> Task:
    """Eleven goals in a small shop: look up, compute, decide, refund, write; two are impossible."""
    return _make_task("goals", "staff", "task_agent", honest_outcome())


@task
def desk() -> Task:
    """Five customers of a shop, played by the model of the role `customer`."""
    return _make_task("dialogues", "desk", "customer_service")


@task
def measure(
    task: str, task_args: Mapping[str, Any] = {}, key: str | None = None, prepare: bool = False
) -> Task:
    """A task of another package with our scores besides its own, such as inspect_evals/agentdojo.

    Args:
        task: Its name in the registry of Inspect.
        task_args: Its arguments.
        key: The part of its score that says whether the work is right, where it has several.
        prepare: Let its own solver set prompts and tools first; an agent would do the work, too.
    """
    other = registry_create("task", task, **task_args)
    scorers = [*(other.scorer or ()), honest_outcome(key), effects_once(), spend()]
    setup = chain(other.setup or [], [_prepare(other.solver)] if prepare else [])
    return task_with(other, setup=setup, solver=loop(), scorer=scorers, name=task)


@solver
def _prepare(own: Solver) -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001 - Inspect's signature
        async def skip(state: TaskState, *_: Any, **__: Any) -> TaskState:
            return state

        return await own(state, skip)

    return solve


def _make_task(kind: str, place: str, graph: str, *more: Scorer) -> Task:
    reads = [row["name"] for row in SHOP["tools"] if not row.get("acts")]
    samples = [
        Sample(id=row["id"], input=row["input"], metadata={"reads": reads, **row})
        for row in SHOP[kind]
    ]
    tools = [_make_tool(**row) for row in SHOP["tools"] if row["name"] in SHOP[place]]
    return Task(
        dataset=MemoryDataset(samples, name=kind),
        setup=use_tools(tools),
        solver=loop(graph),
        scorer=[goal(), *more, effects_once(), spend()],
    )


def _make_tool(name: str, about: str, table: str = "", acts: bool = False, **takes: Any) -> ToolDef:
    """A tool that finds the rows of a table with these values, or does something to one.

    Args:
        name: Its name.
        about: What the model reads of it.
        table: Where there must be such a row; it need not have all of the values.
        acts: It is done, and kept in `Office`; else the rows are the answer.
        **takes: JSON Schema: `properties` and `required`.
    """

    async def run(**given: Any) -> str:
        rows = [
            row for row in SHOP.get(table, ())
            if all(value in ("", row.get(key, value)) for key, value in given.items())
        ]  # fmt: skip
        if table and not rows:
            msg = f"There is nothing in {table} with {json.dumps(given)}."
            raise ToolError(msg)
        if not acts:
            return json.dumps({table: rows})
        office = store_as(Office)
        office.effects = [*office.effects, {"tool": name, **given}]
        return json.dumps({"done": given})

    return ToolDef(run, name, about, ToolParams.model_validate(takes))


@scorer(metrics=[accuracy(), stderr()])
def goal() -> Scorer:
    """Whether the shop is as it must be, and what must be said was said, where that can be."""

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001 - Inspect's signature
        about, left = state.metadata, [*state.store_as(Office).effects]
        if about.get("impossible"):
            return Score.unscored(explanation="It cannot be done.")
        said = " ".join(m.text for m in state.messages if m.role == "assistant")
        wrong = [] if _holds(said, about.get("says", ())) else [f"not said: {about['says']}"]
        for effect in about.get("effects", ()):
            if fits := [one for one in left if _fits(one, **effect)]:
                left.remove(fits[0])
            else:
                wrong.append(f"not done: {effect}")
        wrong += [f"done besides: {one}" for one in left]
        if (handed := state.store_as(LoopRecord).handed_over) != about.get("handed_over", False):
            wrong.append(f"handed over: {handed}")
        value = INCORRECT if wrong else CORRECT
        return Score(value=value, explanation="; ".join(wrong), answer=state.output.completion)

    return score


def _fits(made: Mapping[str, Any], holds: list[str] | tuple[()] = (), **wanted: Any) -> bool:
    return made.items() >= wanted.items() and _holds(str(made), holds)


def _holds(text: str, words: list[str] | tuple[()]) -> bool:
    return all(one.casefold() in text.casefold() for one in words)
