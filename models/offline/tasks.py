"""The offline model as planner, executor and verifier: a task for each clause of the goal. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...state.canonical import beginning_of
from .answers import NO_MODEL, answer, failed, picked, speaks_of
from .clauses import clauses, is_question, words
from .matching import Match, Tool, match

Record = Mapping[str, Any]
Records = Sequence[Record]
_KEPT: Final = 6_000
"""Characters of a result that a report holds."""


@dataclass(frozen=True)
class Call:
    """One call with its result."""

    tool: str
    arguments: Mapping[str, Any]
    failed: bool
    text: str


@dataclass(frozen=True)
class Step:
    """What is done next for a clause: the calls of a match, else how it ended."""

    done: bool = False
    text: str = ""
    match: Match | None = None


def parts_of(request: str, wishes: Sequence[str]) -> list[str]:
    """The clauses of a goal and of what somebody wants changed in its plan."""
    # What the verifier below says begins with a quote: it speaks of a clause of the goal.
    told = (re.sub(r"^[^:\n]{1,40}: ", "", wish) for wish in wishes if not wish.startswith('"'))
    return list(dict.fromkeys(part for text in (request, *told) for part in clauses(text)))


def plan(request: str, previous: Records, wishes: Sequence[str], most: int) -> dict[str, Any]:
    """Answer as PlannerResponse; what was planned before keeps its words and its place."""
    known = [task["description"] for task in previous]
    parts = list(dict.fromkeys([*clauses(request), *known, *parts_of("", wishes)]))
    criteria = ["a successful call of a tool, or an earlier result, shows it"]
    todos = [
        {"id": str(n), "description": part, "priority": n, "acceptanceCriteria": criteria}
        for n, part in enumerate(parts[:most], start=1)
    ]
    told = f"{NO_MODEL}: {len(todos)} of {len(parts)} part(s) of the goal are planned."
    return {"summary": told, "todos": todos}


def next_step(
    clause: str, tools: Sequence[Tool], results: Sequence[str], own: Sequence[Call]
) -> Step:
    """What to do for a clause, by earlier results and its own calls, none of which is repeated."""
    ended = settled(clause, tools, results, own)
    if ended is not None:
        return ended
    found = match(clause, tools, results)
    return Step(match=found) if found.calls else Step(text=f"{found.why}. {NO_MODEL}.")


def settled(
    clause: str, tools: Sequence[Tool], results: Sequence[str], own: Sequence[Call]
) -> Step | None:
    """How a clause ended, None where it is still open."""
    bad = [call for call in own if call.failed]
    if bad:
        return Step(text=f"The call of {bad[-1].tool} failed: {beginning_of(bad[-1].text, _KEPT)}")
    whole = beginning_of("\n\n".join(call.text for call in own) or "Done.", _KEPT)
    if not is_question(clause):
        return Step(True, whole) if own else None
    said = picked(clause, [call.text for call in own] or results)
    if said or not own:
        return Step(True, said) if said else None
    asked = [" ".join([*t.named, *t.does]) for t in tools if t.name == own[-1].tool]
    if speaks_of(clause, [*asked, *(f"{call.arguments} {call.text}" for call in own)]):
        return Step(True, whole)
    return Step(text=f"The result of {own[-1].tool} does not say: {whole[:300]}")


def judge(request: str, tasks: Records, evidence: Records) -> dict[str, Any]:
    """Answer as VerifierResponse: every completed task cites the ids that prove it."""
    good = [e for e in evidence if not failed(e["status"], e["result"])]
    judged = [(task, task["description"], _proof(task, good)) for task in tasks]
    told = {word for _, asked, _ in judged for word in words(asked)}
    improvements = [f'"{asked}": {_reason(task)}' for task, asked, proof in judged if not proof]
    improvements += [
        f"Plan a task for this part of the request: {part}"
        for part in clauses(request)
        if not told.issuperset(words(part))
    ]
    return {
        "allCompleted": not improvements,
        "userNeedsSatisfied": not improvements,
        "overallFeedback": f"{NO_MODEL}: a task counts as done where a call for it succeeded.",
        "tasks": [
            {"id": task["id"], "completed": bool(proof), "evidence": proof}
            | {"feedback": "Proven." if proof else _reason(task)}
            for task, _, proof in judged
        ],
        "summary": answer([(a, t.get("result", ""), p) for t, a, p in judged if p], improvements),
        "improvements": improvements,
    }


def _reason(task: Record) -> str:
    told = task.get("result") or task.get("feedback") or "no successful call proves it"
    return str(told).removeprefix("Not done. ")[:600]


def _proof(task: Record, good: Records) -> list[str]:
    """The ids that prove a task: its own calls, else its report and the results it is from."""
    own = [e for e in good if e["task"] == task["id"]]
    if task["status"] != "completed" or not own:
        return []
    calls = [e["id"] for e in own if e["tool"]]
    if calls:
        return calls
    said = " ".join(own[-1]["result"].split("\n")[0].split())
    sources = [e["id"] for e in good if e["tool"] and said in " ".join(e["result"].split())]
    return [*sources, own[-1]["id"]] if sources else []
