"""The offline plan of tool calls: a clause of the goal is a step, or is named as left out.

What changes something keeps its place among the other clauses; what only looks runs side by side.
A result is handed on only where the clause speaks of it and of nothing that must be written first.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final

from ...flow.references import references_in
from .answers import NO_MODEL, Picked
from .arguments import refers_back
from .handing_on import Source, handed_on
from .literals import literals
from .plan import MAX_TASKS, plan
from .reports import report
from .steps import prefers_answer
from .task import Candidate, Task, rank
from .tools import Tool, read_tools, word_score
from .words import changes_something, content_words, covered, is_question

# The one tool that is never planned for a clause: it would ask the model there is not.
_LANGUAGE: Final = "llm_call"
_SAYS: Final = re.compile(r"^[^:\n]{1,40}: ")
# What recovery says is no wish of the user's: failures and results tell it better.
_MENDS: Final = re.compile(r" failed, \w+ was chosen: ")
# As good as an answer can be that nobody has seen yet: a tool that clearly fits is better.
_LIKELY: Final = Picked("", 0.6)
# The share of the best overlap of words that a tool needs to count as meant.
_CLEAR: Final = 0.75
# Arguments that keep a tool from giving a part only, such as a preview of a file.
_WHOLE: Final = frozenset({"full", "all", "whole", "complete", "entire"})
_SAME: Final = 0.8
# "Back up a.txt and delete it": what cannot be undone is not done behind what is missing.
_AFTER_A_GAP: Final = "it would change something, and a part before it cannot be done"
_NAMED: Final = 10
_SHOWN: Final = 300
_LONGEST: Final = 4_000


@dataclass(frozen=True)
class Situation:
    """What the planner is shown beside the request.

    Attributes:
        tools: {name, description, arguments: JSON schema, result?: JSON schema, changes: bool}.
        finished: Steps that are done: {id, description, tool, arguments, result, …}; planned
            again, they stay the same calls.
        failures: What failed before: {tool, arguments, …}; such a call is not planned again.
        improvements: What the user or a hook wants changed, in words.
        findings: What was wrong with the plans before this one; steps they name are dropped.
        most: How many steps a plan may have.
    """

    tools: Sequence[Mapping[str, Any]] = ()
    finished: Sequence[Mapping[str, Any]] = ()
    failures: Sequence[Mapping[str, Any]] = ()
    improvements: Sequence[str] = ()
    findings: Sequence[str] = ()
    most: int = MAX_TASKS


def plan_steps(request: str, situation: Situation) -> dict[str, Any]:
    """Answer as ExecutionPlan; the same inputs always give the same plan."""
    specs = [tool for tool in situation.tools if tool.get("name") != _LANGUAGE]
    draft = _Draft(
        read_tools([{**spec, "parameters": spec.get("arguments")} for spec in specs]),
        {str(spec.get("name")): spec for spec in specs},
        situation,
    )
    for clause, inputs in _parts(request, situation, draft.tools):
        draft.add(clause, inputs)
    steps = draft.sound(_refused(situation.findings, draft.steps))
    if not steps:
        return _as_plan([_asking(request)], "no part of it can be planned.", draft.left)
    return _as_plan(steps, f"{len(steps)} step(s).", draft.left)


def _parts(request: str, situation: Situation, tools: Sequence[Tool]) -> Iterator[tuple[str, str]]:
    """What is to be planned, with the information that came with it; one part more than fits."""
    most = min(situation.most, MAX_TASKS) + 1
    asked = plan(request, tools=tools, most=most)["todos"]
    yield from ((str(todo["description"]), str(todo["inputs"])) for todo in asked)
    for text in (text for text in situation.improvements if not _MENDS.search(text)):
        for todo in plan(_SAYS.sub("", text), tools=tools, most=most)["todos"]:
            if not any(_says(part["description"], todo["description"]) for part in asked):
                yield str(todo["description"]), str(todo["inputs"])


def _says(part: str, wish: str) -> bool:
    """Whether a part of the goal asks for what a wish asks for."""
    given = {item.value for item in literals(part)}
    return covered(content_words(wish), content_words(part)) >= _SAME and all(
        item.value in given for item in literals(wish)
    )


@dataclass
class _Draft:
    """A plan in the making."""

    tools: Sequence[Tool]
    specs: Mapping[str, Mapping[str, Any]]
    situation: Situation
    steps: list[dict[str, Any]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    clauses: list[str] = field(default_factory=list)
    # Ids of the newest steps that may run side by side, and of those all of them wait for.
    newest: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    looking: bool = False
    changing: set[str] = field(default_factory=set)
    # Whether something that was to be done is left out.
    gap: bool = False

    def add(self, clause: str, inputs: str) -> None:
        """Plan the calls one clause wants, or say why there are none."""
        done = self._done(clause)
        task = Task(clause, self.tools, self._earlier(known=not done), inputs=inputs)
        candidates = rank(task)
        told = is_question(clause) and self._is_told() and prefers_answer(_LIKELY, candidates)
        found = None if told else next(self._fitting(task, candidates), None)
        self.clauses.append(clause)
        why = self._against(*found) if found else _why(task, candidates)
        if found and not why:
            self._take(clause, found[0], _as_made(*found, done))
            return
        self.sources.append(Source("", clause))
        if not told:
            self.left.append(f'"{clause[:_SHOWN]}": {why}')
            self.gap = self.gap or not is_question(clause)

    def _against(self, tool: Tool, calls: Sequence[Mapping[str, Any]]) -> str:
        """What speaks against planning these calls, though they could be made."""
        if len(self.steps) + len(calls) > min(self.situation.most, MAX_TASKS):
            return "the plan has no room for more steps"
        return _AFTER_A_GAP if self.gap and self._changes(tool) else ""

    def _changes(self, tool: Tool) -> bool:
        return bool(self.specs[tool.name].get("changes", tool.action))

    def _is_told(self) -> bool:
        """Whether results may answer a question: of steps before it, planned or finished."""
        return any(source.step for source in self.sources) or bool(self.situation.finished)

    def _done(self, clause: str) -> list[Mapping[str, Any]]:
        """The finished steps that this clause was planned as."""
        told = ((str(step.get("description", "")), step) for step in self.situation.finished)
        several = f"{clause[:_SHOWN]} ("
        return [step for text, step in told if text == clause or text.startswith(several)]

    def _earlier(self, *, known: bool) -> tuple[tuple[str, str], ...]:
        """What is known: finished steps by their results, planned ones by their words.

        Without the results a clause is planned as it was before there were any.
        """
        done = (
            (str(step.get("description", "")), str(step.get("result") or ""))
            for step in self.situation.finished
            if known
        )
        return (*done, *((clause, "") for clause in self.clauses))

    def _fitting(
        self, task: Task, candidates: Sequence[Candidate]
    ) -> Iterator[tuple[Tool, list[dict[str, Any]]]]:
        """The tools whose arguments are all there, best first, each with its calls."""
        named = {item.value for item in literals(self.clauses[-1])} if self.clauses else set()
        for candidate in _clear(task, candidates, named):
            calls = self._calls(task, candidate)
            fresh = [call for call in calls if not self._failed(candidate.tool, call)]
            if fresh:
                yield candidate.tool, fresh

    def _calls(self, task: Task, candidate: Candidate) -> list[dict[str, Any]]:
        """The argument sets of a candidate, references filling its gaps; none where one is left."""
        given = [_literal(call) for call in candidate.filled.calls]
        passed: dict[str, Any] = {}
        for parameter, kind in candidate.filled.missing:
            value = handed_on(task.text, parameter, kind, self.sources)
            if value is None:
                return []
            passed[parameter.name] = value
        return [{**call, **passed} for call in given]

    def _failed(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        return any(
            item.get("tool") == tool.name and item.get("arguments") == arguments
            for item in self.situation.failures
        )

    def _take(self, clause: str, tool: Tool, calls: Sequence[Mapping[str, Any]]) -> None:
        """Add the steps of one clause, each waiting for what must be done before."""
        changes = self._changes(tool)
        if changes or not self.looking:
            self.before, self.newest = self.newest, []
        self.looking = not changes
        for call in calls:
            for reference in references_in(call):
                self._read_whole(reference.root)
            name = f"s{len(self.steps) + 1}"
            step = {
                "id": name,
                "description": _described(clause, call, calls),
                "tool": tool.name,
                "arguments": dict(call),
                "dependencies": list(self.before),
            }
            self.steps.append(step)
            self.newest.append(name)
            self.changing |= {name} if changes else set()
            schema = self.specs[tool.name].get("result")
            gives = "" if tool.action else name
            self.sources.append(Source(gives, clause, tool, schema))

    def _read_whole(self, name: str) -> None:
        """Ask for all of a result that is handed on, where its tool can be asked for it."""
        step = next(step for step in self.steps if step["id"] == name)
        tool = next(tool for tool in self.tools if tool.name == step["tool"])
        for parameter in tool.parameters:
            if parameter.name.lower() in _WHOLE and parameter.schema.get("type") == "boolean":
                step["arguments"][parameter.name] = True

    def sound(self, refused: Collection[str]) -> list[dict[str, Any]]:
        """The steps that may stay where some are refused: no reader of theirs, no change behind."""
        kept: list[dict[str, Any]] = []
        # What waits for a dropped step waits for what that one waited for.
        dropped: dict[str, list[str]] = {}
        for step in self.steps:
            waits = [name for other in step["dependencies"] for name in dropped.get(other, [other])]
            waits = list(dict.fromkeys(waits))
            reads = {reference.root for reference in references_in(step["arguments"])}
            lost = step["id"] in refused or reads & dropped.keys()
            if lost or (dropped and step["id"] in self.changing):
                dropped[step["id"]] = waits
                why = "the check of the plan refused it" if lost else _AFTER_A_GAP
                self.left.append(f'"{step["description"]}": {why}')
            else:
                kept.append({**step, "dependencies": waits})
        return kept


def _refused(findings: Sequence[str], steps: Sequence[Mapping[str, Any]]) -> set[str]:
    """The steps that findings are about: each names its step first, then what it speaks of."""
    ids = {step["id"] for step in steps}
    named = ([word for word in re.findall(r"\w+", text) if word in ids] for text in findings)
    return {words[0] for words in named if words}


def _why(task: Task, candidates: Sequence[Candidate]) -> str:
    told = report(task, candidates).summary.removeprefix("Not done. ")
    return told.partition(f" {NO_MODEL}")[0].rstrip(".")


def _clear(task: Task, candidates: Sequence[Candidate], named: Set[str]) -> list[Candidate]:
    """The candidates whose words fit about as well as any other's.

    The next best tool is no stand-in for one that lacks a value, least of all for a change. Of
    those that fit, the first is the one that takes what 'it' stands for.

    Args:
        task: The clause.
        candidates: Best first.
        named: The literals of the clause before it.
    """
    if changes_something(task.text):
        return [*candidates[:1]]
    scores = [word_score(task.text, item.tool, task.tools) for item in candidates]
    fits = [
        item
        for item, score in zip(candidates, scores, strict=True)
        if score >= _CLEAR * max(scores)
    ]
    if not refers_back(task.text):
        return fits
    return sorted(fits, key=lambda item: not named & _values(item))


def _values(candidate: Candidate) -> set[str]:
    return {
        value
        for call in candidate.filled.calls
        for value in call.values()
        if isinstance(value, str)
    }


def _as_made(
    tool: Tool, calls: Sequence[Mapping[str, Any]], done: Sequence[Mapping[str, Any]]
) -> Sequence[Mapping[str, Any]]:
    """The calls of a clause as they were made, where all of them were: no write is made anew.

    What they referred to may have another name by now; such calls are recognised by their values.
    """
    made = [step["arguments"] for step in done if step.get("arguments")]
    same = len(made) == len(calls) and all(step.get("tool") == tool.name for step in done)
    return made if same and not references_in(made) else calls


def _literal(value: Any) -> Any:
    """A value of the goal as a plan spells it: braces in it are no reference."""
    if isinstance(value, str):
        return value.replace("{{", r"\{{")
    if isinstance(value, dict):
        return {key: _literal(item) for key, item in value.items()}
    return [_literal(item) for item in value] if isinstance(value, list) else value


def _described(clause: str, call: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]) -> str:
    """The clause; with the values that tell its calls apart where it wants several."""
    own = [str(value) for key, value in call.items() if any(c.get(key) != value for c in calls)]
    return f"{clause[:_SHOWN]} ({', '.join(own)[:_SHOWN]})" if own else clause


def _asking(request: str) -> dict[str, Any]:
    """The step for a goal that needs language; that there is no model is not what it asks for."""
    return {
        "id": "s1",
        "description": request[:_SHOWN],
        "tool": _LANGUAGE,
        "arguments": {"prompt": _literal(request[:_LONGEST]) or "Say that nothing was asked."},
    }


def _as_plan(steps: Sequence[Mapping[str, Any]], told: str, left: Sequence[str]) -> dict[str, Any]:
    more = f"; and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    out = f" Left out: {'; '.join(left[:_NAMED])}{more}." if left else ""
    return {
        "goal": f"{NO_MODEL}, so the goal was planned by its words: {told}{out}",
        "steps": list(steps),
        "leftOut": list(left),
        "metadata": {"createdBy": "offline", "estimatedSteps": len(steps)},
    }
