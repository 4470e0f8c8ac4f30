"""The offline model as planner, executor, verifier and in prompt_flow: a task a clause. Pure.

Of single tool calls, what changes something keeps its place among the other steps; what only looks
runs side by side.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from ...text.canonical import beginning_of
from ...tools.python_tools import LLM_CALL
from .matching import (
    POINTS_BACK,
    READ,
    Match,
    Tool,
    clauses,
    is_question,
    match,
    read_tools,
    values,
    wanted,
    words,
)  # fmt: skip

NO_MODEL: Final = "No language model is configured"
NO_OTHER_WAY: Final = f"{NO_MODEL} that could think of another way"
PASSED_ON: Final = f'<agent_meta>{{"shouldContinue": true, "reason": "{NO_MODEL}"}}</agent_meta>'
"""It answers nothing by words alone: who has tools may."""
WORDS_ONLY: Final = f"{NO_MODEL}, so what you attached cannot be read: say in words what is wanted."
NO_ANSWER: Final = (
    f"{NO_MODEL}, so this cannot be answered. Set OPENAI_API_KEY, or LOOPWRIGHT_MODEL to a "
    "model such as 'openai:gpt-5.4-mini', and ask again."
)
ONLY_ENGLISH: Final = "The offline model only understands English, and matches words with tools."
_ENOUGH: Final = 0.6  # of a question's words must be spoken of for it to count as answered
NOT_DONE: Final = "Not done. "
_SHOWN: Final = 2_000  # characters of a result that an answer shows
_READS_AS_ERROR: Final = re.compile(r"\s*(?:error|failed|failure|exception)\b", re.IGNORECASE)


def failed(status: object, result: str) -> bool:
    """Whether a call brought nothing, be it that only its text says so."""
    return status != "success" or bool(_READS_AS_ERROR.match(result))


def speaks_of(question: str, told: Sequence[str]) -> bool:
    """Whether some texts speak of what is asked."""
    asked, said = wanted(question), {word for text in told for word in words(text)}
    return sum(word in said for word in asked) >= _ENOUGH * len(asked)


def picked(question: str, texts: Sequence[str]) -> str:
    """The sentences and lines that answer a question; '' where none speaks of enough of it.

    A question for nothing but 'what it says' is answered by the newest text.
    """
    asked = set(wanted(question))
    if not (asked or values(question)):
        return beginning_of(texts[-1], _KEPT) if texts else ""
    parts = [part.strip() for t in texts for part in re.split(r"\n|(?<=[.!?])\s+", t[:READ])]
    shares = {part: len(asked.intersection(words(part))) for part in parts if part}
    best = max(shares.values(), default=0)
    if not asked or best < _ENOUGH * len(asked):
        return ""
    return "\n".join([part[:600] for part, share in shares.items() if share == best][:3])


def answer(parts: Sequence[tuple[str, str, Sequence[str]]], not_done: Sequence[str]) -> str:
    """The answer to a goal from (asked, result, proofs) of each part, questions first."""
    ordered = sorted(parts, key=lambda part: not is_question(part[0]))
    # A question may be answered by the whole of what another part brought: once is enough.
    told = [_part(*part) for part in {part[1]: part for part in reversed(ordered)}.values()][::-1]
    if not_done:
        told.append("Not done:\n" + "\n".join(f"- {text[:700]}" for text in not_done))
    return "\n\n".join([*told, f"_{NO_MODEL}; results are shown as the tools gave them._"])


def _part(asked: str, result: str, proofs: Sequence[str]) -> str:
    cited = "".join(f" [{proof}]" for proof in proofs)
    return f"**{asked[:300]}**{cited}\n\n{_block(beginning_of(result.strip() or 'Done.', _SHOWN))}"


def _block(text: str) -> str:
    """Several lines, and a line with brackets, as code: nothing in it is a list or a citation."""
    if "\n" in text:
        fence = "```" if "```" not in text else "~~~~"
        return f"{fence}\n{text}\n{fence}"
    return f"`{text}`" if "[" in text and "`" not in text else text


Record = Mapping[str, Any]
Records = Sequence[Record]
_KEPT: Final = 6_000  # characters of a result that a report holds


def declined(parts: Sequence[str], tools: Sequence[Tool], *, attached: bool) -> str:
    """Why nothing of a goal is begun, and what can be asked for instead; '' where some of it is.

    Nothing is where no part can be done, nor where one cannot that is about another one, or that
    stands beside a change. A question may yet be answered by what other parts bring.
    """
    if attached or not parts:
        return WORDS_ONLY if attached else f"{NO_OTHER_WAY}."
    found, able = dict[str, Match](), list[str]()
    for part in parts:
        found[part] = one = match(part, tools, able)
        # Of some tools nobody tells what they take.
        able += [part] if one.calls or (one.by and not one.by.parameters) else []
    lacks = [part for part in found if part not in able and not (able and is_question(part))]
    changes = any(m.by and m.by.changes for m in found.values())
    whole = changes or any(map(POINTS_BACK.search, lacks))
    if not lacks or (able and not whole):
        return ""
    why = "; ".join(f'"{part[:300]}": {found[part].why}' for part in lacks)
    offers = "; ".join(f"{tool.name} ({tool.about})" for tool in tools[:8]) or "there are none"
    tried = f' Try their words, such as: "{tools[0].about}".' if tools else ""
    return f"{NO_ANSWER} {why}. {ONLY_ENGLISH} Its tools: {offers}.{tried}"


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


def parts_of(request: str, wishes: Sequence[str], previous: Records = ()) -> list[str]:
    """The clauses of a goal, of the plan before, and of what somebody wants changed in it."""
    # What the verifier below says begins with a quote: it speaks of a clause of the goal.
    told = (re.sub(r"^[^:\n]{1,40}: ", "", wish) for wish in wishes if not wish.startswith('"'))
    known = (task["description"] for task in previous)
    return list(dict.fromkeys(chain(clauses(request), known, *map(clauses, told))))


def untried(request: str, previous: Records, wishes: Sequence[str]) -> list[str]:
    """The parts that a further plan can do anything about: what ended would end so again."""
    ended = (t for t in previous if t["status"] == "completed" or NOT_DONE in t.get("result", ""))
    over = [task["description"] for task in ended] if wishes else []
    return [part for part in parts_of(request, wishes, previous) if part not in over]


def plan(request: str, previous: Records, wishes: Sequence[str], most: int) -> dict[str, Any]:
    """Answer as PlannerResponse; what was planned before keeps its words and its place."""
    parts = parts_of(request, wishes, previous)
    todos = [
        {"id": str(n), "description": part, "priority": n}
        for n, part in enumerate(parts[:most], start=1)
    ]
    told = f"{NO_MODEL}: {len(todos)} of {len(parts)} part(s) of the goal are planned."
    return {"summary": told, "todos": todos}


def next_step(
    clause: str, tools: Sequence[Tool], results: Sequence[str], own: Sequence[Call]
) -> Step:
    """What to do for a clause, by earlier results and its own calls, none of which is repeated."""
    if bad := [call for call in own if call.failed]:
        return Step(text=f"The call of {bad[-1].tool} failed: {beginning_of(bad[-1].text, _KEPT)}")
    whole = beginning_of("\n\n".join(call.text for call in own) or "It gave nothing.", _KEPT)
    said = picked(clause, [c.text for c in own] or results) if is_question(clause) else ""
    if not (own or said):
        found = match(clause, tools, results)
        return Step(match=found) if found.calls else Step(text=f"{found.why}. {ONLY_ENGLISH}")
    asked = [" ".join([*t.named, *t.does]) for t in tools if t.name == own[-1].tool] if own else []
    told = [*asked, *(f"{call.arguments} {call.text}" for call in own)]
    if said or not is_question(clause) or speaks_of(clause, told):
        return Step(True, said or whole)
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
    return str(told).removeprefix(NOT_DONE)[:600]


def _proof(task: Record, good: Records) -> list[str]:
    """The ids that prove a task: its own calls, else its report and the results it is from."""
    own = [e for e in good if e["task"] == task["id"]]
    if task["status"] != "completed" or not own:
        return []
    if calls := [e["id"] for e in own if e["tool"]]:
        return calls
    said = " ".join(own[-1]["result"].split("\n")[0].split())
    sources = [e["id"] for e in good if e["tool"] and said in " ".join(e["result"].split())]
    return [*sources, own[-1]["id"]] if sources else []


# Where single tool calls are planned.


def plan_steps(
    request: str,
    tools: Records,
    steps: Records,
    failures: Records,
    wishes: Sequence[str],
    most: int,
) -> dict[str, Any]:
    """Answer as ExecutionPlan, after a plan before with these steps, failures and wishes."""
    draft = _Draft(tools, steps, failures, most)
    # A failure says by itself what is to mend.
    for number, clause in enumerate(parts_of(request, () if failures else wishes), start=1):
        draft.add(f"s{number}", clause)
    goal = f"{NO_MODEL}: a step for each part of the goal that a tool's words match."
    return {"goal": goal, "steps": draft.steps, "leftOut": draft.left}


class _Draft:
    """A plan in the making."""

    def __init__(self, specs: Records, before: Records, failures: Records, most: int) -> None:
        self.failures, self.most = failures, most
        self.steps, self.left = list[dict[str, Any]](), list[str]()
        self.change = {spec["name"]: spec["changes"] for spec in specs}
        self.tools = [tool for tool in read_tools(specs) if tool.name != LLM_CALL]
        done = [step for step in before if step["status"] == "completed"]
        self.results = [str(step.get("result", "")) for step in done]
        calls = [s for s in done if s.get("arguments") and not s.get("for_each")]
        self.made = {(s["id"], s["tool"]): s["arguments"] for s in calls}

    def add(self, name: str, clause: str) -> None:
        """Plan the calls of one clause, or say why there are none."""
        newest = [f"{_reference(step)}\n" for step in self.steps[-1:]]
        found = match(clause, self.tools, [*self.results, *newest])
        asks = is_question(clause) and LLM_CALL in self.change
        why = self._against(found)
        if why and not (asks and self.steps and not found.tool):
            self.left.append(f'"{clause[:300]}": {why}')
            return
        for number, call in enumerate(found.calls, start=1):
            own = name if number == 1 else f"{name}_{number}"
            given = {k: v if [v] == newest else _literal(v) for k, v in call.items()}
            made = self.made.get((own, found.tool), given)  # it stays the same call
            self.take(own, clause, found.tool, made)
        told = [*found.by.named, *found.by.does, *map(str, found.calls)] if found.by else []
        if asks and not (told and speaks_of(clause, told)):
            # A question for the results there will be; without its answer they are still of use.
            results = "\n\n".join(map(_reference, self.steps))
            prompt = {"prompt": f"{_literal(clause)}\n\n{results}"}
            self.take(f"{name}_answer" if found.tool else name, clause, LLM_CALL, prompt)
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
        before = [s["id"] for s in self.steps if changes or self.change.get(s["tool"])]
        waits = before if changes else before[-1:]
        about = {"id": name, "description": clause[:300], "tool": tool, "arguments": arguments}
        self.steps.append({**about, "dependencies": waits})


def _reference(step: Record) -> str:
    return f"{{{{{step['id']}}}}}"


def _literal(value: Any) -> Any:
    """A value of the goal as a plan spells it: braces in it are no reference."""
    return value.replace("{{", r"\{{") if isinstance(value, str) else value


def recover(failures: Records, left: Record, steps: Records) -> dict[str, str]:
    """Answer as RecoveryDecision: another plan where there are results to make it from."""
    told = "; ".join(failure["error"][:200] for failure in failures[:3])
    if left.get("replan_from_failure") and any(s["status"] == "completed" for s in steps):
        why = f"With the results there are it goes another way, or is left out: {told}"
        return {"strategy": "replan_from_failure", "reason": why}
    return {"strategy": "give_up", "reason": f"{NO_OTHER_WAY}: {told}"}


def answered(steps: Records, unmet: Sequence[str]) -> str:
    """The answer: what each step gave, with its citation, and what is not done."""
    done = [s for s in steps if s["status"] == "completed" and "result" in s]
    return answer([(s.get("description", ""), s["result"], [s["id"]]) for s in done], unmet)


def read_from(prompt: str) -> str:
    """The answer to a question that stands before some texts; '' where they do not hold it."""
    question, _, text = prompt.partition("\n\n")
    return picked(question, [text]) if is_question(question) else ""
