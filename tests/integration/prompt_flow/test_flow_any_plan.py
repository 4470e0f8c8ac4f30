"""Any plan, any answers, any failures, drained at any call: what always holds of a run."""

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest
from langchain_core.tools import ToolException
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from langgraph.types import Command

from loopwright import Context, build_prompt_flow
from loopwright.flow.execution_plan import ExecutionPlan
from loopwright.flow.order import build_steps, list_needs, sort_steps
from loopwright.state.calls import step_of
from support.flows import THREAD, decide, declared, flow, planning, said, step, steps_by_id

END = decide("give_up")
ANSWERS = [["approve"], ["approve", "approve", "approve", "respond: said", "reject"]]


class AnyRun:
    """One random run, driven to its end, and what was called on the way."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.calls: list[tuple[str, str]] = []
        self.answers: dict[str, list[str]] = {}
        self.control = RunControl()
        self.temper = self.random.choice(ANSWERS)
        number = self.random.randint(2, 9)
        self.plan = flow(*self._shuffled([self._step(n) for n in range(number)]))
        self.steps = {s["id"]: s for s in build_steps(ExecutionPlan.model_validate(self.plan))}
        self.failing, self.asked = (self._some(share) for share in (0.12, 0.4))
        self.outcome = self._driven()

    def _chance(self, share: float) -> bool:
        return self.random.random() < share

    def _shuffled(self, things: list[Any]) -> list[Any]:
        self.random.shuffle(things)
        return things

    def _some(self, share: float) -> set[str]:
        return {name for name in sorted(self.steps) if self._chance(share)}

    def _step(self, number: int) -> Any:
        name, before = f"s{number}", [f"s{n}" for n in range(number)]
        refers = " ".join(f"{{{{{name}}}}}" for name in before if self._chance(0.2))
        more: dict[str, Any] = {}
        if self._chance(0.25):  # equal items among them
            more["forEach"] = [self.random.randint(0, 1) for _ in range(self.random.randint(0, 4))]
            refers += "|{{item}}"
        if before and self._chance(0.2):
            how = self.random.choice(["exists", "is missing"])
            more["when"] = f"{self.random.choice(before)} {how}"
        return step(
            name,
            self.random.choice(["look", "look", "put"]),
            [other for other in before if self._chance(0.25)],
            arguments={"what": f"{name}|{refers}"},
            optional=self._chance(0.2),
            **more,
        )

    def _tool(self, name: str, **hints: Any) -> Any:
        async def run(what: str) -> str:
            """Do it."""
            own = what.split("|")[0]
            self.calls.append((name, own))
            if self._chance(0.1):
                self.control.request_drain("signal")
            await asyncio.sleep(self.random.random() * 0.005)
            if own in self.failing:
                raise ToolException(f"{own} is down")
            return f"r {own}"

        return declared(run, name=name, **hints)

    def _graph(self) -> Any:
        names = "|".join(sorted(self.asked)) or "nobody"
        asks = {"arguments": {"what": f"^({names})[|]"}, "action": "ask"}
        ways = [decide("retry_step")] * 2  # as often as that may be
        return build_prompt_flow(
            model=planning(
                self.plan, recovery=lambda *_: ways.pop() if ways and self._chance(0.5) else END
            ),
            tools=[self._tool("look", readOnlyHint=True), self._tool("put")],
            policy=[{"tool": tool, **asks} for tool in ("look", "put")],
            checkpointer=InMemorySaver(),
        )

    def _driven(self) -> Any:
        graph = self._graph()
        given: Any = said()
        while True:
            context = Context(max_parallel_tasks=self.random.randint(1, 4))
            try:
                result = graph.invoke(given, THREAD, context=context, control=self.control)
            except GraphDrained:
                self.control, given = RunControl(), None
                continue
            if "__interrupt__" not in result:
                return result["outcome"]
            (question,) = result["__interrupt__"]
            given = Command(resume=self._answer(step_of(question.value["task"])))

    def _answer(self, task: str) -> str:
        chosen = self.random.choice(self.temper)
        self.answers.setdefault(task, []).append(chosen)
        return chosen


@pytest.mark.req("S2-11", "P-41")
@pytest.mark.parametrize("first", [150, 200, 390, 510])
def test_what_holds_of_every_run(first):
    """Among these are plans whose writes once changed places at a question."""
    for seed in range(first, first + 6):
        run = AnyRun(seed)
        assert set(steps_by_id(run.outcome)) == set(run.steps), f"seed {seed}"
        holds_of_calls(run, f"seed {seed}: {run.calls}")
        holds_of_outcome(run, f"seed {seed}: {run.outcome}")


def holds_of_calls(run, about):
    ended = steps_by_id(run.outcome)
    plan_order = [s["id"] for s in sort_steps([*run.steps.values()]) if s["tool"] == "put"]
    writes = [name for tool, name in run.calls if tool == "put"]
    first = list(dict.fromkeys(writes))
    assert first == [name for name in plan_order if name in first], f"order of writes, {about}"
    for name, times in Counter(writes).items():
        most = len(run.steps[name]["for_each"] or [1])
        assert times <= most or name in run.failing, f"{name} was made {times} times, {about}"
    for _, name in run.calls:
        for needed in run.steps[name]["depends_on"]:
            assert ended[needed]["status"] != "pending", f"{name} ran before {needed}, {about}"
        if name in run.asked:
            assert "approve" in run.answers[name], f"{name} ran unasked, {about}"


def unwanted(run, ended):
    """The steps that the plan itself wanted to be left out."""
    found = set()
    for name, one in ((s["id"], s) for s in sort_steps([*run.steps.values()])):
        how = (one["when"] or "").partition(" ")[2]
        lost = [i for i in list_needs(one)
                if ended[i]["status"] != "completed"]  # fmt: skip
        not_so = how == "is missing" and not lost
        if ended[name]["status"] == "skipped" and (not_so or (lost and found.issuperset(lost))):
            found.add(name)
    return found


def holds_of_outcome(run, about):
    ended = steps_by_id(run.outcome)
    completed, open_ = (
        {name for name, task in ended.items() if task["status"] == status}
        for status in ("completed", "pending")
    )
    empty = {name for name, one in run.steps.items() if one["for_each"] == []}
    said_so = {name for name, given in run.answers.items() if "respond: said" in given}
    assert not (completed & run.failing) - said_so - empty, f"a failure counts, {about}"
    called = {name for _, name in run.calls}
    called |= empty
    assert completed <= called | said_so, f"completed without a call, {about}"
    for name in completed - said_so:
        each = run.steps[name]["for_each"]
        times = [one for _, one in run.calls].count(name)
        assert each is None or times >= len(each), f"items of {name} are missing, {about}"
    everything = completed | unwanted(run, ended) == set(ended)
    assert (run.outcome["status"] == "complete") == everything, about
    if run.outcome["reason"] == "GOAL":
        assert not open_, f"the goal is met with open steps, {about}"
    if not everything:
        assert run.outcome["unmet"], f"nobody says what is missing, {about}"
