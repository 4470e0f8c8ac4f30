"""The offline model as thought, action and observation: one step of the request after another.

Thought sees no parameters, so it ends the loop only where every step is proven by the rules of the
verifier; otherwise it asks for a step. Action knows more: it takes the first step that can be
called, passes over what cannot, and where nothing can, it says what is done and what is not.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import BaseMessage

from .answers import reads_as_nothing
from .arguments import Filled
from .literals import literals
from .looking import lists_paths, other_words
from .reports import answers, may_be_empty, report, success
from .steps import from_earlier, next_step, prefers_answer
from .talk import Act, Talk, must_answer, read_talk, statement
from .task import Calls, Candidate, Done, Step, Task, rank
from .tools import Tool, read_tools
from .verdict import judge, summary_of

NOTHING_ASKED: Final = "The request names nothing to do. Please say in a sentence what you want."
_NOT_REACHED: Final = "It was not reached within the allowed iterations."
_SHOWN: Final = 200
_HIDDEN: Final = re.compile(r"(?i)agent(?=[\s_-]?meta\b)")


def think(messages: Sequence[BaseMessage], tools: Sequence[Mapping[str, Any]]) -> str:
    """The thought: the next open step, or the answer where all are proven or none is left.

    Args:
        messages: The shared history.
        tools: Name and description of each.
    """
    last = must_answer(messages)
    named = read_tools(tools)
    talk = read_talk(messages, named)
    if not talk.steps:
        return _thought(NOTHING_ASKED, more=not last, reason="nothing is asked")
    known = read_tools(_with_parameters(tools, talk))
    proofs = [_proof(talk, number, known) for number in range(1, len(talk.steps) + 1)]
    if not last:
        left = [n for n in range(talk.current, len(proofs) + 1) if proofs[n - 1] is None]
        if left:
            return _wanted(talk, left, known)
    results = [
        Step(summary=proof, completed=True) if proof is not None else _unproven(talk, n, known)
        for n, proof in enumerate(proofs, start=1)
    ]
    text, done = _answer(talk, results)
    if done or last:
        return _thought(text, more=False, reason="every step is proven" if done else "at the limit")
    return _thought(_missing(talk, proofs), more=True, reason="not every step is proven")


def act(messages: Sequence[BaseMessage], tools: Sequence[Mapping[str, Any]]) -> tuple[str, Calls]:
    """The action: its text and its calls (name, arguments); without a call the text is the end."""
    offered = read_tools(tools)
    talk = read_talk(messages, offered)
    if not talk.steps:
        return NOTHING_ASKED, ()
    steps = [next_step(talk.task(n, offered)) for n in range(1, len(talk.steps) + 1)]
    for number in range(talk.current, len(steps) + 1):
        step = steps[number - 1]
        if step.calls:
            return _named(talk, number, ahead=step.ahead), step.calls
    results = [
        report(task, rank(task)) if step.calls else step
        for step, task in ((s, talk.task(n, offered)) for n, s in enumerate(steps, start=1))
    ]
    return _answer(talk, results)[0], ()


def observe(messages: Sequence[BaseMessage]) -> str:
    """One sentence on what the last calls brought."""
    talk = read_talk(messages, ())
    last = talk.acts[-1].done if talk.acts else ()
    told = [_observed(item) for item in last] or ["There is no result to look at."]
    if len(told) == 1:
        return told[0]
    good = sum(not item.failed for item in last)
    return f"{good} of {len(last)} calls succeeded. {told[-1]}"


def _observed(item: Done) -> str:
    words = " ".join(item.text.split()) or "nothing"
    shown = words if len(words) <= _SHOWN else f"{words[:_SHOWN].rstrip()}…"
    return f"The call of {item.tool} failed: {shown}" if item.failed else f"{item.tool}: {shown}"


def _thought(text: str, *, more: bool, reason: str) -> str:
    """Text and tag; a result that speaks of such a tag must not be read as one."""
    meta = json.dumps({"shouldContinue": more, "reason": reason})
    return f"{_HIDDEN.sub('agent.', text)}\n\n<agent_meta>{meta}</agent_meta>"


def _named(talk: Talk, number: int, *, ahead: bool = False) -> str:
    description = str(talk.steps[number - 1]["description"])
    return statement(number, len(talk.steps), description[:_SHOWN], ahead=ahead)


def _wanted(talk: Talk, left: Sequence[int], tools: Sequence[Tool]) -> str:
    """The first open step that a tool may do by its words, else the first one."""
    able = next(((n, found) for n in left if (found := rank(talk.task(n, tools)))), None)
    number = able[0] if able else left[0]
    hint = f" ({able[1][0].tool.name} may do it)" if able else " (no offered tool matches it)"
    return _thought(_named(talk, number) + hint, more=True, reason="a step is open")


def _missing(talk: Talk, proofs: Sequence[str | None]) -> str:
    number = next((n for n, proof in enumerate(proofs, start=1) if proof is None), len(proofs))
    return f"{_named(talk, number)} (not proven yet)"


def _proof(talk: Talk, number: int, tools: Sequence[Tool]) -> str | None:
    """The data that shows a step to be done, as far as that shows without the parameters."""
    task, last = talk.task(number, tools), talk.last_act(number)
    if last is not None:
        return _proven_by(task, last)
    picked = from_earlier(task)
    if picked is None or not prefers_answer(picked, rank(task)) or _names_new(task, talk):
        return None
    return picked.text


def _proven_by(task: Task, last: Act) -> str | None:
    good = [item for item in last.done if not item.failed]
    tool = next((tool for tool in task.tools if good and tool.name == good[-1].tool), None)
    if tool is None or last.ahead or len(good) < len(last.done):
        return None
    if all(reads_as_nothing(item.text) for item in good):
        again = other_words(task, Candidate(tool, Filled(()), 0.0), good)
        return success(task, good).summary if may_be_empty(task) and again is None else None
    if _wants_reading(task, good):
        return None
    mine = [item for item in task.done if item.tool == tool.name and not item.failed]
    return success(task, mine).summary if answers(task, tool, good) else None


def _wants_reading(task: Task, good: Sequence[Done]) -> bool:
    """Whether only names of files were found and there is something to read them with."""
    files = any(re.search(r"\.\w+$", line.strip()) for line in lists_paths(task, good))
    return files and any(
        "read" in tool.name_words[:1] + tool.first_words[:1] for tool in task.tools
    )


def _names_new(task: Task, talk: Talk) -> bool:
    """Whether the step names something that no call of this turn was asked about."""
    asked = " ".join(str(item.arguments) for act in talk.acts for item in act.done)
    told = asked + " ".join(item.text for act in talk.acts for item in act.done)
    return any(
        given.value not in (asked if given.kind in ("path", "url") else told)
        for given in literals(task.text)
    )


def _unproven(talk: Talk, number: int, tools: Sequence[Tool]) -> Step:
    task = talk.task(number, tools)
    if number > talk.current and not task.done and rank(task):
        return Step(summary=f"Not done. {_NOT_REACHED}")
    return report(task, rank(task))


def _answer(talk: Talk, results: Sequence[Step]) -> tuple[str, bool]:
    """The whole answer, judged by the verifier's rules, and whether everything is done."""
    tasks = [
        {"id": str(number), "description": step["description"], "result": result.summary}
        | {"status": "completed" if result.completed else "failed"}
        for number, (step, result) in enumerate(zip(talk.steps, results, strict=True), start=1)
    ]
    verdict = judge(talk.request, tasks, [*_calls(talk), *_reports(talk, results)])
    # The ids of the records are not in the messages, so nothing is cited.
    verdicts = [{**judged, "evidence": []} for judged in verdict["tasks"]]
    return summary_of(tasks, verdicts, verdict["improvements"]), bool(verdict["allCompleted"])


def _calls(talk: Talk) -> list[dict[str, Any]]:
    """The calls of all turns; those of earlier ones can bear out an answer, but do no step."""
    acts = [Act(0, ahead=False, done=talk.earlier), *talk.acts]
    return [
        {
            "id": f"{place}.{index}",
            "task": str(act.number),
            "tool": item.tool,
            "arguments": item.arguments,
            "status": "error" if item.failed else "success",
            "result": item.text,
        }
        for place, act in enumerate(acts)
        for index, item in enumerate(act.done)
    ]


def _reports(talk: Talk, results: Sequence[Step]) -> list[dict[str, Any]]:
    """The answers that steps without calls took from the results of others."""
    called = {act.number for act in talk.acts}
    return [
        {"id": f"{number}.report", "task": str(number), "tool": None, "arguments": {}}
        | {"status": "success" if result.completed else "error", "result": result.summary}
        for number, result in enumerate(results, start=1)
        if number not in called
    ]


def _with_parameters(tools: Sequence[Mapping[str, Any]], talk: Talk) -> list[Mapping[str, Any]]:
    """The tools with the parameters that their calls in this turn show."""
    shown: dict[str, dict[str, Any]] = {}
    for item in (item for act in talk.acts for item in act.done):
        shown.setdefault(item.tool, {}).update({k: _schema(v) for k, v in item.arguments.items()})
    return [
        {**tool, "parameters": {"type": "object", "properties": found, "required": list(found)}}
        if (found := shown.get(str(tool.get("name")), {}))
        else tool
        for tool in tools
    ]


def _schema(value: object) -> dict[str, str]:
    kinds = {bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    return {"type": kinds.get(type(value), "string")}
