"""Proof: which evidence a verdict may cite for a task, and whether what it cites holds. Pure."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from ..text.sentences import say
from .calls import GAVE_UP, UNCERTAIN, Evidence
from .contracts import TaskVerdict, VerifierResponse
from .plan import Task, is_left_out, list_required


def select_admissible(evidence: Sequence[Evidence], tasks: Sequence[Task]) -> list[Evidence]:
    """The records a verdict may cite: all calls, and reports that are still their task's result.

    A report of an earlier attempt, or of an earlier task under the same id, proves nothing now;
    and none does after a call of its task that failed or is in doubt: words do not undo it.
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

    So is one that stands for such a task of an earlier plan, unless a task that does has made a
    call that succeeded.
    """
    made = {r["task"] for r in evidence if r["tool"] is not None and _has_succeeded(r)}
    vain = {r["task"] for r in evidence if r["tool"] is not None and not _has_succeeded(r)}
    mended = {i for t in tasks if t["id"] in made for i in t.get("replaces", [])}
    heirs = {t["id"] for t in tasks if (vain - mended).intersection(t.get("replaces", []))}
    return vain | heirs


def find_undone_writes(evidence: Sequence[Evidence]) -> list[Evidence]:
    """The calls that were to change something and did not, and that no later one made good.

    Only one of a later message can: who asked for it knew of the failure. One that was refused is
    made good by the same tool alone.
    """
    made: set[tuple[str, str]] = set()
    left: list[Evidence] = []
    for record in reversed(evidence):
        if record["tool"] is None or record.get("read_only"):
            continue
        message, tool = record["id"].rpartition(".")[0], record["tool"]
        alone = record["status"] == "cancelled"
        if _has_succeeded(record):
            made.add((message, tool))
        elif all(m == message or (alone and t != tool) for m, t in made):
            left.insert(0, record)
    return left


def is_citable(record: Evidence) -> bool:
    """Whether a call of an earlier turn can prove a task of this one: it read, and it succeeded.

    What a call changed was done for the request of its own turn.
    """
    return _has_succeeded(record) and bool(record.get("read_only"))


def _has_succeeded(record: Evidence) -> bool:
    return record["status"] == "success" and record.get("reason") not in (UNCERTAIN, GAVE_UP)


def find_only_proofs(
    verdict: VerifierResponse, tasks: Sequence[Task], evidence: Sequence[Evidence]
) -> dict[str, str]:
    """Of each task called completed without a citation its only admissible proof, if it has one."""
    proofs: dict[str, list[str]] = {}
    for record in select_admissible(evidence, tasks):
        if _has_succeeded(record):
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
    """Every reason not to believe a verdict, one sentence each; empty where it holds.

    Each task called completed must cite evidence of its own that exists in this run and is no
    failed call, unless as a finding: an error that is the answer. Where it cites none and there is
    one proof, that is taken. What was read in an `earlier` turn proves a task that had no call
    fail. One that was left out may be called completed without proof: then the request needs it no
    more. A passed verdict must judge every task.
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
        problems += [_describe_unproven(task) for task in missing]
        if tasks and not proven and not missing:
            problems.append(say("nothing_proven"))
    return problems


def _describe_unproven(task: Task) -> str:
    how = "task_left_out" if is_left_out(task) else "task_unproven"
    return say(how, task=repr(task["id"]), status=task["status"])


def find_spared(
    verdict: VerifierResponse, tasks: Sequence[Task], evidence: Sequence[Evidence]
) -> set[str]:
    """The tasks that were left out, and that the verdict holds for needless.

    Not those with a call that failed: that it was needless is a claim like any other.
    """
    vain = find_failed_tasks(evidence, tasks)
    left = {task["id"] for task in tasks if is_left_out(task)} - vain
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
    """Why a task is not proven; what it cites of others beside its own counts for nothing."""
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
    """Why a record is none for this task: the name of the sentence; "" where it is one.

    Of a task that this one stands for only its failures count: they may be what was to be found.
    """
    if record is None:
        return ""
    if "turn" in record:
        return "" if is_citable(record) and task["id"] not in vain else "citation_of_earlier"
    inherited = record["task"] in task.get("replaces", []) and not _has_succeeded(record)
    return "" if inherited or record["task"] == task["id"] else "citation_of_another"


def _find_problem(citation: str, record: Evidence | None, finding: bool) -> str:
    if record is None:
        return say("citation_unknown", evidence=repr(citation))
    if _has_succeeded(record) or (finding and _is_an_answer(record)):
        return ""
    return say("finding_is_none" if finding else "citation_failed", evidence=repr(citation))


def _is_an_answer(record: Evidence) -> bool:
    """Whether a tool answered with an error; a call in doubt, or never made, answered nothing."""
    ended = record["status"] == "error" and record.get("reason") not in (UNCERTAIN, GAVE_UP)
    return ended and record["tool"] is not None


def make_rejected_verdict(problems: Sequence[str]) -> VerifierResponse:
    """The verdict where none could be believed: inconclusive, with the reasons to mend."""
    return VerifierResponse(
        all_completed=False,
        user_needs_satisfied=False,
        overall_feedback=say("verdict_not_believed"),
        improvements=[
            say("prove_the_work", problem=problem) for problem in problems or [say("no_verdict")]
        ],
    )
