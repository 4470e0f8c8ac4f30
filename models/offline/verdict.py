"""The offline verifier: a task counts only if a fitting call succeeded or its answer is in one."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from .answers import NO_MODEL, count, reads_as_error, shorten
from .plan import split_goal
from .words import (
    best_related,
    changes_something,
    content_words,
    covered,
    is_question,
    words,
)

_ENOUGH: Final = 0.7
_READ: Final = 20_000


def judge(
    request: str, tasks: Sequence[Mapping[str, Any]], evidence: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Answer as VerifierResponse; every completed task cites the ids that prove it."""
    verdicts = [_verdict(task, evidence) for task in tasks]
    improvements = [
        f'"{_text(task)}": {verdict["feedback"]}'
        for task, verdict in zip(tasks, verdicts, strict=True)
        if not verdict["completed"]
    ]
    improvements += [
        f'"{clause}": no task covers this part of the request' for clause in missed(request, tasks)
    ]
    if not tasks and not improvements:
        improvements.append("Plan at least one task for the request.")
    done = not improvements
    return {
        "allCompleted": done,
        "userNeedsSatisfied": done,
        "overallFeedback": f"{NO_MODEL}: checked by matching calls and results with the words "
        f"of each task.",
        "tasks": verdicts,
        "summary": summary_of(tasks, verdicts, improvements),
        "improvements": improvements,
    }


def _text(task: Mapping[str, Any]) -> str:
    return str(task.get("description", ""))


def missed(request: str, tasks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Parts of the request that no task speaks of."""
    known = [_text(task) for task in tasks]
    said = [set(content_words(text)) for text in known]
    parts = split_goal(request)[0]
    return [
        part
        for part in parts
        if part not in known and not _spoken_of(set(content_words(part)), said)
    ][:20]


def _spoken_of(part: set[str], said: Sequence[set[str]]) -> bool:
    together: set[str] = set().union(*said)
    return (
        not part
        or any(len(part & task) >= 0.6 * len(part) for task in said)
        or len(part & together) >= 0.9 * len(part)
    )


def _verdict(task: Mapping[str, Any], evidence: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    number = str(task.get("id", ""))
    own = [item for item in evidence if str(item.get("task", "")) == number]
    calls = [item for item in evidence if item.get("tool") and _succeeded(item)]
    proof = [str(item.get("id")) for item in calls if item in own and _fits(task, item)]
    feedback = ""
    if task.get("status") in ("failed", "skipped", "cancelled", "blocked"):
        proof, feedback = [], _reason(task, own)
    elif not proof:
        reports = [
            item for item in own if not item.get("tool") and _is_grounded(item, calls, _text(task))
        ]
        proof = [str(item.get("id")) for item in [*sources(reports, calls), *reports]]
        feedback = "" if proof else _reason(task, own)
    return {
        "id": number,
        "completed": bool(proof),
        "feedback": feedback or "Proven.",
        "evidence": proof,
    }


def sources(
    reports: Sequence[Mapping[str, Any]], calls: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """The calls whose result holds a report's words: what the report was read from."""
    said = content_words(" ".join(str(report.get("result", "")) for report in reports))
    held = [(set(words(str(call.get("result", "")))), call) for call in calls]
    return [call for told, call in held if said and sum(w in told for w in said) >= 0.8 * len(said)]


def _succeeded(item: Mapping[str, Any]) -> bool:
    return item.get("status") == "success" and not reads_as_error(str(item.get("result", "")))


def _fits(task: Mapping[str, Any], item: Mapping[str, Any]) -> bool:
    """Whether a call is about what its task asks: the same change, and words in common."""
    text, tool = _text(task), words(str(item.get("tool", "")))
    arguments = str(item.get("arguments", ""))
    wish = changes_something(text)
    if wish and not best_related(wish, [*tool, *words(arguments)[:200]]):
        return _says_so(wish, str(item.get("result", "")))
    result = str(item.get("result", ""))[:_READ]
    told = {*tool, *words(arguments), *words(result)}
    wanted = content_words(text)
    return not wanted or covered(wanted, told) > 0 or bool(count(text, [result]))


def _says_so(wish: str, result: str) -> bool:
    return bool(best_related(wish, words(result[:500])))


def _is_grounded(
    report: Mapping[str, Any], calls: Sequence[Mapping[str, Any]], question: str
) -> bool:
    """Whether a report's words come from the results of successful calls."""
    text = str(report.get("result", ""))
    if report.get("status") == "error" or re.match(r"\s*Not done\b", text):
        return False
    results = [str(item.get("result", "")) for item in calls]
    if "(counted in the result)" in text:
        return any(text.startswith(count(question, [result]) or "\0") for result in results)
    told = {word for result in results for word in words(result)}
    said = content_words(text)
    return bool(said) and bool(told) and sum(word in told for word in said) >= _ENOUGH * len(said)


def _reason(task: Mapping[str, Any], own: Sequence[Mapping[str, Any]]) -> str:
    told = str(task.get("result") or "").strip()
    if told:
        return re.sub(r"^Not done\. ", "", told)[:600]
    failed = [item for item in own if item.get("tool") and not _succeeded(item)]
    if failed:
        last = failed[-1]
        return f"the call of {last.get('tool')} failed: {str(last.get('result', ''))[:300]}"
    return "no successful call proves it"


def summary_of(
    tasks: Sequence[Mapping[str, Any]],
    verdicts: Sequence[Mapping[str, Any]],
    improvements: Sequence[str],
) -> str:
    """The results of the tasks that are proven, with what proves them, and what is not done."""
    pairs = [
        (task, verdict)
        for task, verdict in zip(tasks, verdicts, strict=True)
        if verdict["completed"]
    ]
    answers = [pair for pair in pairs if is_question(_text(pair[0]))]
    others = [pair for pair in pairs if pair not in answers]
    parts = [_part(task, verdict, 3_000) for task, verdict in answers]
    parts += [_part(task, verdict, 700 if answers else 3_000) for task, verdict in others]
    if improvements:
        parts.append("Not done:\n" + "\n".join(f"- {text[:700]}" for text in improvements))
    parts.append(f"_{NO_MODEL}; results are shown as the tools gave them._")
    return "\n\n".join(parts)


def _part(task: Mapping[str, Any], verdict: Mapping[str, Any], limit: int) -> str:
    result = shorten(str(task.get("result") or "Done.").strip(), _text(task), limit)
    cited = " ".join(f"[{number}]" for number in verdict["evidence"])
    return f"**{_text(task)[:300]}** {cited}".rstrip() + f"\n\n{_block(result)}"


def _block(result: str) -> str:
    """Several lines as a code block: Markdown would run a listing together."""
    if "\n" not in result:
        return result
    fence = "```" if "```" not in result else "~~~~"
    return f"{fence}\n{result}\n{fence}"
