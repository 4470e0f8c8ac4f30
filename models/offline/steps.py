"""The offline executor's next step: calls of a tool, or the report that ends the task."""

from collections.abc import Sequence

from .answers import (
    Picked,
    pick,
    reads_as_nothing,
)
from .arguments import fill
from .clause import Clause
from .corrections import corrected
from .looking import other_words, read_found, reveal
from .reports import answers, may_be_empty, report, success
from .task import MOST_CALLS, Candidate, Done, Step, Task, rank
from .words import (
    is_question,
)


def next_step(task: Task) -> Step:
    """Decide the next step; the same inputs always give the same step."""
    candidates = rank(task)
    answer = from_earlier(task)
    if answer and not task.done and prefers_answer(answer, candidates):
        return Step(summary=answer.text, completed=True)
    if len(task.done) < MOST_CALLS:
        for candidate in candidates:
            step = _with(task, candidate)
            if step is not None:
                return step
    if answer and answer.share >= 0.5:
        return Step(summary=answer.text, completed=True)
    return report(task, candidates)


def from_earlier(task: Task) -> Picked | None:
    """What earlier results say to a question, if anything."""
    texts = [text for _, text in task.earlier if text]
    if not texts or not is_question(task.text):
        return None
    picked = pick(task.text, texts)
    return picked if picked.share > 0 else None


def prefers_answer(answer: Picked, candidates: Sequence[Candidate]) -> bool:
    """Whether an answer from earlier results is better than calling one of the candidates."""
    if not candidates:
        return answer.share >= 0.3
    best = candidates[0]
    return (
        answer.share >= 0.6 and (best.score < 2.5 or answer.share >= 0.99) and not best.filled.used
    )


def _with(task: Task, candidate: Candidate) -> Step | None:
    """The next step with this tool, or None where it is of no (more) use."""
    tool = candidate.tool
    mine = [item for item in task.done if item.tool == tool.name]
    if not mine:
        ready = fill(tool, task.whole, task.known) if candidate.filled.missing else candidate.filled
        if ready.missing:
            return reveal(task, candidate, ready)
        return Step(calls=tuple((tool.name, call) for call in ready.calls))
    good = [item for item in mine if not item.failed]
    if len(good) < _wanted(task, candidate):
        return _mend(task, candidate, mine)
    if all(reads_as_nothing(item.text) for item in good):
        return other_words(task, candidate, good) or (
            success(task, good) if may_be_empty(task) else None
        )
    return read_found(task, good) or (success(task, good) if answers(task, tool, good) else None)


def _wanted(task: Task, candidate: Candidate) -> int:
    """How many calls of this tool the clause wants."""
    if not candidate.filled.missing:
        return len(candidate.filled.calls)
    ready = fill(candidate.tool, task.whole, task.known)
    return 1 if ready.missing else len(ready.calls)


def _mend(task: Task, candidate: Candidate, mine: Sequence[Done]) -> Step | None:
    """One corrected attempt for each call that failed, else a look around, else None."""
    tool = candidate.tool
    failed = [item for item in mine if item.failed]
    if len(failed) > 2 * _wanted(task, candidate):
        return None
    clause = Clause(task.whole, task.known)
    better = [corrected(tool, item.arguments, item.text, clause) for item in failed]
    again = fill(tool, task.whole, task.known)
    calls = [call for call in better if call] or ([] if again.missing else list(again.calls))
    fresh = [call for call in calls if not any(item.is_call(tool.name, call) for item in task.done)]
    if fresh and len(failed) + len(fresh) <= 2 * _wanted(task, candidate):
        return Step(calls=tuple((tool.name, call) for call in fresh))
    looks = () if tool.action else (reveal(task, candidate, again, item) for item in failed)
    return next((step for step in looks if step), None)
