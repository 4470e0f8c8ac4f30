"""The offline model where single tool calls are planned: a step for each clause. Pure.

What changes something keeps its place among the other steps; what only looks runs side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .answers import NO_MODEL, answer, picked, speaks_of
from .clauses import is_question
from .matching import Match, match, read_tools
from .tasks import Record, Records, parts_of

Texts = Sequence[str]
_LANGUAGE: Final = "llm_call"


def plan_steps(
    request: str, tools: Records, steps: Records, failures: Records, wishes: Texts, most: int
) -> dict[str, Any]:
    """Answer as ExecutionPlan, after a plan before with these steps, failures and wishes."""
    draft = _Draft(tools, steps, failures, most)
    # A failure says by itself what is to mend.
    for number, clause in enumerate(parts_of(request, () if failures else wishes), start=1):
        draft.add(f"s{number}", clause)
    if not draft.steps:  # a plan must have one; there is no model to take it
        prompt = {"prompt": _literal(request[:4_000]) or "Nothing was asked."}
        draft.take("s1", request, _LANGUAGE, prompt)
    goal = f"{NO_MODEL}: a step for each part of the goal that a tool's words match."
    return {"goal": goal, "steps": draft.steps, "leftOut": draft.left}


@dataclass
class _Draft:
    """A plan in the making."""

    specs: Records
    before: Records
    failures: Records
    most: int
    steps: list[dict[str, Any]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    changing: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.change = {spec["name"]: spec["changes"] for spec in self.specs}
        self.tools = [tool for tool in read_tools(self.specs) if tool.name != _LANGUAGE]
        done = [step for step in self.before if step["status"] == "completed"]
        self.results = [str(step.get("result", "")) for step in done]
        self.made = {(s["id"], s["tool"]): s["arguments"] for s in done if s.get("arguments")}

    def add(self, name: str, clause: str) -> None:
        """Plan the calls of one clause, or say why there are none."""
        newest = [f"{_reference(step)}\n" for step in self.steps[-1:]]
        found = match(clause, self.tools, [*self.results, *newest])
        asks = is_question(clause) and _LANGUAGE in self.change
        why = self._against(found)
        if why and not (asks and self.steps and not found.tool):
            self.left.append(f'"{clause[:300]}": {why}')
            return
        for number, call in enumerate(found.calls, start=1):
            own = name if number == 1 else f"{name}_{number}"
            given = {k: v if [v] == newest else _literal(v) for k, v in call.items()}
            made = self.made.get((own, found.tool), given)  # it stays the same call
            self.take(own, clause, found.tool, made)
        if asks and not speaks_of(clause, [*found.told, *map(str, found.calls)]):
            # A question for the results there will be; without its answer they are still of use.
            results = "\n\n".join(map(_reference, self.steps))
            prompt = {"prompt": f"{_literal(clause)}\n\n{results}"}
            self.take(f"{name}_answer" if found.tool else name, clause, _LANGUAGE, prompt)
            self.steps[-1]["optional"] = True

    def _against(self, found: Match) -> str:
        """What speaks against planning the calls of a clause; '' where nothing does."""
        if not found.tool:
            return found.why
        if len(self.steps) + len(found.calls) > self.most:
            return "the plan has no room for more steps"
        if self.left and self.change[found.tool]:  # back it up, then delete it
            return "it would change something, and a part before it cannot be done"
        same = (f for f in self.failures if f["tool"] == found.tool)
        errors = [f["error"] for f in same if f["arguments"] in found.calls]
        return f"it failed before: {errors[0][:300]}" if errors else ""

    def take(self, name: str, clause: str, tool: str, arguments: dict[str, Any]) -> None:
        """Add a step that waits for what must be done before."""
        changes = self.change.get(tool, False)
        waits = [step["id"] for step in self.steps] if changes else self.changing[-1:]
        about = {"id": name, "description": clause[:300], "tool": tool, "arguments": arguments}
        self.steps.append({**about, "dependencies": waits})
        self.changing += [name] if changes else []


def _reference(step: Record) -> str:
    return f"{{{{{step['id']}}}}}"


def _literal(value: Any) -> Any:
    """A value of the goal as a plan spells it: braces in it are no reference."""
    return value.replace("{{", r"\{{") if isinstance(value, str) else value


def recover(failures: Records, left: Record, steps: Records) -> dict[str, str]:
    """Answer as RecoveryDecision: another plan where there are results to make it from."""
    told = "; ".join(failure["error"][:200] for failure in failures[:3])
    if left.get("replan_from_failure") and any(s["status"] == "completed" for s in steps):
        reason = f"With the results there are it goes another way, or is left out: {told}"
        return {"strategy": "replan_from_failure", "reason": reason}
    return {"strategy": "give_up", "reason": f"{NO_MODEL} that could think of another way: {told}"}


def answered(steps: Records, unmet: Texts) -> str:
    """The answer: what each step gave, with its citation, and what is not done."""
    done = [s for s in steps if s["status"] == "completed" and "result" in s]
    return answer([(s.get("description", ""), s["result"], [s["id"]]) for s in done], unmet)


def read_from(prompt: str) -> str:
    """The answer to a question that stands before some texts; '' where they do not hold it."""
    question, _, text = prompt.partition("\n\n")
    return picked(question, [text]) if is_question(question) else ""
