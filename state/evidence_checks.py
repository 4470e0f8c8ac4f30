"""Proof: which evidence a verdict may cite for a task, and whether what it cites holds. Pure."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from ..text.sentences import say
from .calls import GAVE_UP, UNCERTAIN, Evidence
from .contracts import TaskVerdict, VerifierResponse
from .plan import Task, is_left_out, list_required


def select_admissible(evidence: Sequence[Evidence], tasks: Sequence[Task]) -> list[Evidence]:
    """The records a verdict may cite: all calls, and reports that are still their task's result.

    A report counts for nothing if a call of its task failed or is in doubt.
    """
    vain = find_failed_tasks(evidence, tasks)
    results = {t["id"]: t.get("result", "") for t in tasks if t["id"] not in vain}
    return [
        record
        for record in evidence
        if record["tool"] is not None or results.get(record["task"]) == record["result"]
    ]


def find_failed_tasks(evidence: Sequence[Evidence], tasks: Sequence[Task]) -> set[str]:
    """The tasks with a call that failed or is in doubt.

    A task that replaces a failed one counts as failed until a replacement makes a successful call.
    """
    calls = [record for record in evidence if record["tool"] is not None]
    succeeded = {record["task"] for record in calls if has_taken_effect(record)}
    failed = {record["task"] for record in calls if not has_taken_effect(record)}
    repaired = {i for t in tasks if t["id"] in succeeded for i in t.get("replaces", [])}
    heirs = {t["id"] for t in tasks if (failed - repaired).intersection(t.get("replaces", []))}
    return failed | heirs


def is_citable(record: Evidence) -> bool:
    """Whether a call of an earlier turn can prove a task of this one: a read that succeeded."""
    return has_taken_effect(record) and bool(record.get("read_only"))


def has_taken_effect(record: Evidence) -> bool:
    """Whether a call surely succeeded."""
    return record["status"] == "success" and record.get("reason") not in (UNCERTAIN, GAVE_UP)


def find_only_proofs(
    verdict: VerifierResponse, tasks: Sequence[Task], evidence: Sequence[Evidence]
) -> dict[str, str]:
    """The only admissible proof of each task that is judged completed without a citation."""
    proofs: dict[str, list[str]] = {}
    for record in select_admissible(evidence, tasks):
        if has_taken_effect(record):
            proofs.setdefault(record["task"], []).append(record["id"])
    return {
        judged.id: proofs[judged.id][0]
        for judged in verdict.tasks
        if judged.completed
        and not (judged.evidence or judged.findings)
        and len(proofs.get(judged.id, [])) == 1
    }


def make_report(task_id: str, summary: str, *, completed: bool) -> Evidence:
    """The evidence of a task that made no call: its own words, good for that task alone."""
    status = "success" if completed else "error"
    return Evidence(
        id=f"{task_id}.report", task=task_id, call_id="", tool=None, arguments={}, status=status,
        result=summary, seconds=0.0,
    )  # fmt: skip


def check_verdict(
    verdict: VerifierResponse,
    tasks: Sequence[Task],
    evidence: Sequence[Evidence],
    earlier: Sequence[Evidence] = (),
) -> list[str]:
    """Every reason not to believe a verdict, one sentence each; empty if it holds.

    Each completed task must cite its own successful calls, or as a finding a call whose error is
    the answer. If it cites none and has one proof, that is taken. Reads of an `earlier` turn prove
    a task without a failed call. A task that was left out needs no proof. A passed verdict must
    judge every task.
    """
    only = find_only_proofs(verdict, tasks, evidence)
    known, vain = index_by_citation(evidence, tasks, earlier), find_failed_tasks(evidence, tasks)
    by_id = {task["id"]: task for task in tasks}
    problems = [
        say("unknown_task", task=repr(t.id), tasks=sorted(by_id))
        for t in verdict.tasks
        if t.id not in by_id
    ]
    spared, proven = find_spared(verdict, tasks, evidence), set[str]()
    for judged in verdict.tasks:
        if judged.completed and judged.id not in spared:
            task = by_id.get(judged.id, Task(id=judged.id))
            found = [] if judged.id in only else _citation_problems(judged, task, known, vain)
            problems += found
            proven |= set() if found else {judged.id}
    if verdict.all_completed:
        missing = [t for t in list_required(tasks) if t["id"] not in proven | spared]
        for task in missing:
            how = "task_left_out" if is_left_out(task) else "task_unproven"
            problems.append(say(how, task=repr(task["id"]), status=task["status"]))
        if tasks and not proven and not missing:
            problems.append(say("nothing_proven"))
    return problems


def find_spared(
    verdict: VerifierResponse, tasks: Sequence[Task], evidence: Sequence[Evidence]
) -> set[str]:
    """The tasks without a failed call that were left out, and that the verdict needs no more."""
    left = {task["id"] for task in tasks if is_left_out(task)} - find_failed_tasks(evidence, tasks)
    claimed = (t.id for t in verdict.tasks if t.completed and not (t.evidence or t.findings))
    return left.intersection(claimed)


def index_by_citation(
    evidence: Sequence[Evidence], tasks: Sequence[Task], earlier: Sequence[Evidence] = ()
) -> dict[str, Evidence]:
    """Admissible records by id, and by the provider's call id where that is unique in the run."""
    records = select_admissible(evidence, tasks)
    counts = Counter(record.get("call_id", "") for record in records)
    by_call = {r["call_id"]: r for r in records if r.get("call_id") and counts[r["call_id"]] == 1}
    return {record["id"]: record for record in earlier} | by_call | {r["id"]: r for r in records}


def clean_citation(text: str) -> str:
    """A cited id without the brackets and spaces models put around it."""
    return text.strip().strip("[]").strip()


def list_cited_ids(judged: TaskVerdict, task: Task, known: Mapping[str, Evidence]) -> list[str]:
    """The ids of the task's own records that a verdict on it cites, findings after evidence."""
    cited = (known.get(clean_citation(name)) for name in [*judged.evidence, *judged.findings])
    own = (r for r in cited if r and not _explain_foreign(r, task, ()))
    return list(dict.fromkeys(r["id"] for r in own))


def _citation_problems(
    judged: TaskVerdict, task: Task, known: Mapping[str, Evidence], vain: Collection[str]
) -> list[str]:
    """Why a task is not proven; citations of other tasks beside its own count for nothing."""
    cited = [(name, False) for name in judged.evidence]
    cited += [(name, True) for name in judged.findings]
    if not cited:
        return [say("no_citation", task=repr(judged.id))]
    records = [(name, known.get(clean_citation(name)), finding) for name, finding in cited]
    others = {name: why for name, r, _ in records if (why := _explain_foreign(r, task, vain))}
    own = [c for c in records if c[0] not in others]
    if not own:
        return [say(why, evidence=repr(name)) for name, why in others.items()]
    return [problem for c in own if (problem := _find_problem(*c))]


def _explain_foreign(record: Evidence | None, task: Task, vain: Collection[str]) -> str:
    """Why a record may not prove this task, as the name of a sentence; "" if it may.

    Of a task that this one replaces only failures count: they may be the finding.
    """
    if record is None:
        return ""
    if "turn" in record:
        return "" if is_citable(record) and task["id"] not in vain else "citation_of_earlier"
    inherited = record["task"] in task.get("replaces", []) and not has_taken_effect(record)
    return "" if inherited or record["task"] == task["id"] else "citation_of_another"


def _find_problem(citation: str, record: Evidence | None, finding: bool) -> str:
    if record is None:
        return say("citation_unknown", evidence=repr(citation))
    # An error is an answer of the tool, unless the call is in doubt or was not made.
    in_doubt = record.get("reason") in (UNCERTAIN, GAVE_UP)
    is_answer = record["status"] == "error" and record["tool"] is not None and not in_doubt
    if has_taken_effect(record) or (finding and is_answer):
        return ""
    return say("finding_is_none" if finding else "citation_failed", evidence=repr(citation))


def make_rejected_verdict(problems: Sequence[str]) -> VerifierResponse:
    """The verdict if none could be believed: inconclusive, with the reasons."""
    return VerifierResponse(
        all_completed=False,
        user_needs_satisfied=False,
        overall_feedback=say("verdict_not_believed"),
        improvements=[
            say("prove_the_work", problem=problem) for problem in problems or [say("no_verdict")]
        ],
    )
