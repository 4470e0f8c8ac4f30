"""How the offline model ends a plan of tool calls: what to do about a failure, and the answer."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from .answers import NO_MODEL, pick
from .known import Known
from .literals import literals, path_kind
from .plan import split_goal
from .reports import result_failed, success
from .task import Done, Task
from .verdict import missed, sources, summary_of
from .words import is_question

_RETRY: Final = "retry_step"
_REPLAN: Final = "replan_from_failure"
# Failures that may be gone the next time; all others come from the plan itself.
_PASSING: Final = ("timeout", "tool_error")
_NAMES: Final = ("path", "url", "email")
_ENOUGH: Final = 0.5
_SHOWN: Final = 300


def recovered(
    failures: Sequence[Mapping[str, Any]],
    strategies: Mapping[str, Any],
    steps: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Answer as RecoveryDecision: other paths, or the same calls again, where that may help.

    Args:
        failures: {step, tool, arguments, failure, error, safe_to_repeat, …} of each failed step.
        strategies: How often each may still be taken.
        steps: {description, status, result, …} of the whole plan.
    """
    passing = failures and all(
        item.get("failure") in _PASSING
        and item.get("safe_to_repeat") is True
        and NO_MODEL not in str(item.get("error"))
        for item in failures
    )
    paths = _other_paths(failures, steps)
    if passing and paths and _is_left(strategies.get(_REPLAN)):
        told = ", ".join(f"{old} is {new}" for old, new in paths.items())
        return {"strategy": _REPLAN, "reason": f"The results there are name other paths: {told}."}
    if passing and _is_left(strategies.get(_RETRY)):
        told = "; ".join(_told(item) for item in failures[:3])
        reason = f"Such a failure may pass, and the call may be repeated: {told}."
        return {"strategy": _RETRY, "reason": reason}
    reason = f"{NO_MODEL}, so no other way than the one that failed can be planned."
    return {"strategy": "give_up", "reason": reason}


def _is_left(count: object) -> bool:
    return isinstance(count, int) and count > 0


def _other_paths(
    failures: Sequence[Mapping[str, Any]], steps: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    """Paths of failed calls that results know under another name: a plan made now has that one."""
    done = (step for step in steps if step.get("status") == "completed")
    known = Known(tuple((str(s.get("description", "")), str(s.get("result") or "")) for s in done))
    given = (
        value
        for item in failures
        for value in (item.get("arguments") or {}).values()
        if isinstance(value, str) and path_kind(value) == "path"
    )
    return {path: other for path in given if (other := known.resolve(path)) != path}


def _told(item: Mapping[str, Any]) -> str:
    error = " ".join(str(item.get("error") or "").split()).rstrip(".") or "no reason is given"
    return f"step {item.get('step', '?')} ({item.get('tool', '?')}) failed: {error[:_SHOWN]}"


def answered(request: str, steps: Sequence[Mapping[str, Any]], unmet: Sequence[str] = ()) -> str:
    """What the steps gave, each with its citation, and plainly what is missing.

    Args:
        request: The goal.
        steps: {id, description, tool, arguments, status, result | feedback} of each step.
        unmet: What was not done and why, in words.
    """
    done = [step for step in steps if _gave(step)]
    tasks = [{**step, "result": _shown(step)} for step in done]
    proofs = [[str(step.get("id", ""))] for step in done]
    for question, text, cited in _picked(request, steps, done):
        tasks.append({"description": question, "result": text})
        proofs.append(cited)
    open_ = [step for step in steps if step not in done]
    told = "\n".join(unmet)
    not_done = [*unmet]
    not_done += [f'"{_about(s)}": {_reason(s)}' for s in open_ if _about(s) not in told]
    uncovered = [part for part in _uncovered(request, [*tasks, *open_]) if part not in told]
    not_done += [f'"{clause}": no completed step covers it' for clause in uncovered]
    verdicts = [{"completed": True, "evidence": cited} for cited in proofs]
    return summary_of(tasks, verdicts, not_done)


def _uncovered(request: str, steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """Parts of the goal whose words no step has, or whose file or address none speaks of."""
    found = missed(request, steps)
    told = "\n".join(f"{step.get('description', '')}\n{step.get('result', '')}" for step in steps)
    return [
        clause
        for clause in split_goal(request)[0]
        if clause in found
        or any(item.kind in _NAMES and item.value not in told for item in literals(clause))
    ]


def _gave(step: Mapping[str, Any]) -> bool:
    """Whether a step has a result; that there is no model is none, whatever its status says."""
    text = str(step.get("result") or "")
    failed = result_failed("", text) or text.startswith(NO_MODEL)
    return step.get("status") == "completed" and not failed


def _about(step: Mapping[str, Any]) -> str:
    return str(step.get("description") or step.get("tool") or "a step")[:_SHOWN]


def _reason(step: Mapping[str, Any]) -> str:
    told = str(step.get("feedback") or step.get("result") or "").strip()
    return told[:600] or "it was not run"


def _shown(step: Mapping[str, Any]) -> str:
    """The result; before it what answers the step's question, where it is one."""
    made = Done(str(step.get("tool", "")), {}, failed=False, text=str(step.get("result") or ""))
    return _quoted(success(Task(_about(step), ()), [made]).summary)


def _quoted(result: str) -> str:
    """A line with brackets as code: what stands in them there is no citation."""
    plain = "\n" in result or "`" in result or "[" not in result
    return result if plain else f"`{result}`"


def _picked(
    request: str, steps: Sequence[Mapping[str, Any]], done: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str, list[str]]]:
    """The questions of the goal that no step stands for, answered from the results there are."""
    told = tuple(str(step.get("description", "")) for step in steps)
    results = [str(step.get("result") or "") for step in done]
    calls = [{"id": str(step.get("id", "")), "result": step.get("result")} for step in done]
    for clause in split_goal(request)[0]:
        if not is_question(clause) or any(text.startswith(clause) for text in told):
            continue
        picked = pick(clause, results)
        held = sources([{"result": picked.text}], calls)
        if picked.share >= _ENOUGH and held:
            yield clause, _quoted(picked.text), [str(call["id"]) for call in held]
