"""Calls: the states they go through, the evidence they leave, whether what is cited of it holds.

`CallState` is the part of a graph's state that belongs to its calls.
"""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeVar

from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.types import Overwrite
from typing_extensions import TypedDict

from .contracts import TaskVerdict, VerifierResponse
from .messages import Messages
from .outcome import Spend, add_spend
from .plan import Task, is_left_out, requested
from .questions import Decision
from .told import say

ToolStatus = Literal[
    "validating", "scheduled", "awaiting_approval", "executing", "success", "error", "cancelled"
]

_ENDS: Final[frozenset[ToolStatus]] = frozenset({"success", "error", "cancelled"})

# A call may succeed without running: a human's words, a recorded result or an earlier one answer
# it. A scheduled one waits again where it turns out that it may have run before a crash.
TRANSITIONS: Final[Mapping[ToolStatus, frozenset[ToolStatus]]] = {
    "validating": _ENDS | {"scheduled", "awaiting_approval"},
    "awaiting_approval": _ENDS | {"scheduled", "awaiting_approval"},
    "scheduled": _ENDS | {"executing", "awaiting_approval"},
    "executing": _ENDS | {"awaiting_approval"},  # its server asks before it goes on
    "success": frozenset(),
    "error": frozenset(),
    "cancelled": frozenset(),
}


def advance(before: ToolStatus, after: ToolStatus) -> ToolStatus:
    """The state after a step.

    Raises:
        ValueError: No call may go from one state to the other.
    """
    if after not in TRANSITIONS[before]:
        msg = f"A tool call cannot go from {before} to {after}."
        raise ValueError(msg)
    return after


UNCERTAIN: Final = "uncertain"
"""The reason of a call that may have taken effect, whatever its record says."""

GAVE_UP: Final = "gave_up"
"""The reason of such a call that a human no longer wants."""


class Evidence(TypedDict, total=False):
    """One call, id `<task>.<round>.<index>`, or a task's report without calls, `<task>.report`.

    `reason` says why a call was cancelled, or, as `uncertain`, that nobody knows whether it took
    effect; its MCP server, if any, is kept then. `reused_from` and `same_as` name the earlier call
    whose result this one shows: it was reused, or the loop guard answered instead of reading
    again; a write with `same_as` was made once more, and gave the same. One that is `read_only`
    changed nothing. `turn` is that of a record of an earlier user turn.
    """

    id: str
    task: str
    call_id: str
    tool: str | None
    arguments: dict[str, Any]
    status: str
    result: str
    seconds: float
    reason: str
    reused_from: str
    same_as: str
    server: str
    read_only: bool
    turn: int


def merge_records(left: list[Evidence], writes: Sequence[Sequence[Evidence]]) -> list[Evidence]:
    """Batch reducer for a delta channel: records by their `id`, the later one wins."""
    merged = {record["id"]: record for record in left}
    for write in writes:
        merged |= {record["id"]: record for record in write}
    return list(merged.values())


def call_id(task: str, round_: int, index: int = 0) -> str:
    """The evidence id of a call: of the model turn `round_` for a task, the call at `index`."""
    return f"{task}.{round_}.{index}"


def item_task(step: str, index: int) -> str:
    """Whose calls those of one item are, of a step that is made once for each item of a list."""
    return f"{step}[{index}]"


_ITEM: Final = re.compile(r"(.+)\[(\d+)\]", re.DOTALL)


def step_of(task: str) -> str:
    """The step whose item a task is; any other task is its own."""
    found = _ITEM.fullmatch(task)
    return found[1] if found else task


def index_of(task: str) -> int | None:
    """Which item of its step a task is; None where it is none."""
    found = _ITEM.fullmatch(task)
    return int(found[2]) if found else None


def left_in_doubt(record: Evidence) -> bool:
    """Whether a call that may have run was given up, because nobody could be asked about it."""
    return record["status"] == "cancelled" and record.get("reason") == UNCERTAIN


def rounds_named(evidence: Sequence[Evidence]) -> dict[str, int]:
    """Task id to the highest round that the ids of its calls name."""
    rounds: dict[str, int] = {}
    for record in evidence:
        number = record["id"].rsplit(".", 2)[1] if record["tool"] is not None else ""
        if number.isdigit():
            rounds[record["task"]] = max(rounds.get(record["task"], 0), int(number))
    return rounds


def admissible(evidence: Sequence[Evidence], tasks: Sequence[Task]) -> list[Evidence]:
    """The records a verdict may cite: all calls, and reports that are still their task's result.

    A report of an earlier attempt, or of an earlier task under the same id, proves nothing now;
    and none does after a call of its task that failed or is in doubt: words do not undo it.
    """
    vain = in_vain(evidence, tasks)
    results = {t["id"]: t.get("result", "") for t in tasks if t["id"] not in vain}
    return [
        record
        for record in evidence
        if record["tool"] is not None or results.get(record["task"]) == record["result"]
    ]


def in_vain(evidence: Sequence[Evidence], tasks: Sequence[Task]) -> set[str]:
    """The tasks with a call that failed or is in doubt.

    So is one that stands for such a task of an earlier plan, unless a task that does has made a
    call that succeeded.
    """
    made = {r["task"] for r in evidence if r["tool"] is not None and _succeeded(r)}
    vain = {r["task"] for r in evidence if r["tool"] is not None and not _succeeded(r)}
    mended = {i for t in tasks if t["id"] in made for i in t.get("replaces", [])}
    heirs = {t["id"] for t in tasks if (vain - mended).intersection(t.get("replaces", []))}
    return vain | heirs


def citable(record: Evidence) -> bool:
    """Whether a call of an earlier turn can prove a task of this one: it read, and it succeeded.

    What a call changed was done for the request of its own turn.
    """
    return _succeeded(record) and bool(record.get("read_only"))


def _succeeded(record: Evidence) -> bool:
    return record["status"] == "success" and record.get("reason") not in (UNCERTAIN, GAVE_UP)


def attached(
    verdict: VerifierResponse, tasks: Sequence[Task], evidence: Sequence[Evidence]
) -> dict[str, str]:
    """Of each task called completed without a citation its only admissible proof, if it has one."""
    proofs: dict[str, list[str]] = {}
    for record in admissible(evidence, tasks):
        if _succeeded(record):
            proofs.setdefault(record["task"], []).append(record["id"])
    return {
        judged.id: proofs[judged.id][0]
        for judged in verdict.tasks
        if judged.completed
        and not (judged.evidence or judged.findings)
        and len(proofs.get(judged.id, [])) == 1
    }


def report_of(task_id: str, summary: str, *, completed: bool) -> Evidence:
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
    only = attached(verdict, tasks, evidence)
    known, vain = by_citation(evidence, tasks, earlier), in_vain(evidence, tasks)
    by_id = {task["id"]: task for task in tasks}
    problems = [
        say("unknown_task", task=repr(t.id), tasks=sorted(by_id))
        for t in verdict.tasks
        if t.id not in by_id
    ]
    spared, proven = spared_by(verdict, tasks, evidence), set[str]()
    for judged in verdict.tasks:
        if judged.completed and judged.id not in spared:
            task = by_id.get(judged.id, Task(id=judged.id))
            found = [] if judged.id in only else _citation_problems(judged, task, known, vain)
            problems += found
            proven |= set() if found else {judged.id}
    if verdict.all_completed:
        missing = [t for t in requested(tasks) if t["id"] not in proven | spared]
        problems += [_unproven(task) for task in missing]
        if tasks and not proven and not missing:
            problems.append(say("nothing_proven"))
    return problems


def _unproven(task: Task) -> str:
    how = "task_left_out" if is_left_out(task) else "task_unproven"
    return say(how, task=repr(task["id"]), status=task["status"])


def spared_by(
    verdict: VerifierResponse, tasks: Sequence[Task], evidence: Sequence[Evidence]
) -> set[str]:
    """The tasks that were left out, and that the verdict holds for needless.

    Not those with a call that failed: that it was needless is a claim like any other.
    """
    vain = in_vain(evidence, tasks)
    left = {task["id"] for task in tasks if is_left_out(task)} - vain
    claimed = (t.id for t in verdict.tasks if t.completed and not (t.evidence or t.findings))
    return left.intersection(claimed)


def by_citation(
    evidence: Sequence[Evidence], tasks: Sequence[Task], earlier: Sequence[Evidence] = ()
) -> dict[str, Evidence]:
    """Admissible records by id, and by the provider's call id where that is unique in the run."""
    records = admissible(evidence, tasks)
    counts = Counter(record.get("call_id", "") for record in records)
    by_call = {r["call_id"]: r for r in records if r.get("call_id") and counts[r["call_id"]] == 1}
    return {record["id"]: record for record in earlier} | by_call | {r["id"]: r for r in records}


def clean_citation(text: str) -> str:
    """A cited id without the brackets and spaces models put around it."""
    return text.strip().strip("[]").strip()


def cited_by(judged: TaskVerdict, task: Task, known: Mapping[str, Evidence]) -> list[str]:
    """The ids of the task's own records that a verdict on it cites, findings after evidence."""
    cited = (known.get(clean_citation(name)) for name in [*judged.evidence, *judged.findings])
    own = (r for r in cited if r and not _of_another(r, task, ()))
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
    others = {name: why for name, r, _ in records if (why := _of_another(r, task, vain))}
    own = [c for c in records if c[0] not in others]
    if not own:
        return [say(why, evidence=repr(name)) for name, why in others.items()]
    return [problem for c in own if (problem := _problem_with(*c))]


def _of_another(record: Evidence | None, task: Task, vain: Collection[str]) -> str:
    """Why a record is none for this task: the name of the sentence; "" where it is one.

    Of a task that this one stands for only its failures count: they may be what was to be found.
    """
    if record is None:
        return ""
    if "turn" in record:
        return "" if citable(record) and task["id"] not in vain else "citation_of_earlier"
    inherited = record["task"] in task.get("replaces", []) and not _succeeded(record)
    return "" if inherited or record["task"] == task["id"] else "citation_of_another"


def _problem_with(citation: str, record: Evidence | None, finding: bool) -> str:
    if record is None:
        return say("citation_unknown", evidence=repr(citation))
    if _succeeded(record) or (finding and _is_an_answer(record)):
        return ""
    return say("finding_is_none" if finding else "citation_failed", evidence=repr(citation))


def _is_an_answer(record: Evidence) -> bool:
    """Whether a tool answered with an error; a call in doubt, or never made, answered nothing."""
    ended = record["status"] == "error" and record.get("reason") not in (UNCERTAIN, GAVE_UP)
    return ended and record["tool"] is not None


def rejected_verdict(problems: Sequence[str]) -> VerifierResponse:
    """The verdict where none could be believed: inconclusive, with the reasons to mend."""
    return VerifierResponse(
        all_completed=False,
        user_needs_satisfied=False,
        overall_feedback=say("verdict_not_believed"),
        improvements=[
            say("prove_the_work", problem=problem) for problem in problems or [say("no_verdict")]
        ],
    )


T = TypeVar("T")

HOOK_STOP: Final = "hook_stop"
"""Key of a planned call, and of a result's artifact: why a hook wants the run to end here."""


def results_of(thread: str) -> tuple[str, ...]:
    """Where a store has a thread's long results. A label must be non-empty and without periods."""
    label = thread.replace("%", "%25").replace(".", "%2E") or "-"
    return ("loopwright", "results", label)


Records = Annotated[list[Evidence], DeltaChannel(merge_records, snapshot_frequency=50)]


def keep_latest(left: dict[str, T], right: dict[str, T]) -> dict[str, T]:
    """Reducer: join two mappings, the later value of a key wins."""
    return {**left, **right}


def join_texts(left: list[str], right: list[str]) -> list[str]:
    """Reducer: append texts that are not there yet; order of first appearance."""
    return list(dict.fromkeys([*left, *right]))


@dataclass(kw_only=True)
class CallState(ABC):
    """Calls between the model turn that wants them and the messages that answer them.

    `path` says whose calls they are, a task's id or the graph's own name: it begins every evidence
    id `<path>.<round>.<index>`.
    """

    messages: Messages = field(default_factory=list)
    turn_id: str = ""
    """Name of the user turn, never used twice; calls are recorded under it."""
    calls: list[Any] = field(default_factory=list)
    """Planned calls without an answer: the model turn writes them, call_tools what is left."""
    decisions: Annotated[dict[str, Decision], keep_latest] = field(default_factory=dict)
    """Call id to the human's answer; approve writes."""
    objections: Annotated[dict[str, str], keep_latest] = field(default_factory=dict)
    """Call id to why the human's answer cannot be used; approve writes, the next question tells."""
    evidence: Records = field(default_factory=list)
    """Every call that was answered; call_tools appends."""
    held: list[Any] = field(default_factory=list)
    """Messages that tools add, as JSON, until each call of their model turn has its answer:
    nothing may stand between those; call_tools writes."""
    denied: str = ""
    """Why a call was refused last: denied, rejected, not_interactive, expired or uncertain; or
    loop_detected, which ended the work on it."""
    strikes: int = 0
    """How often the loop guard has warned since the request or task began."""
    spend: Annotated[Spend, add_spend] = field(default_factory=Spend)
    """What was used; every node that asks or calls adds to it."""
    warnings: Annotated[list[str], join_texts] = field(default_factory=list)
    """What went wrong without ending the run: dead servers, other models that had to answer."""

    # Fields that a tool may change by a graph command.
    by_tools = frozenset({"messages"})

    @property
    @abstractmethod
    def path(self) -> str:
        """Whose calls these are."""


class CallsUpdate(TypedDict, total=False):
    """What a node may change of a `CallState`, beside what every node of its graph may."""

    calls: list[Any]
    decisions: dict[str, Decision] | Overwrite
    objections: dict[str, str] | Overwrite
    evidence: list[Any] | Overwrite
    held: list[Any]
    denied: str
    strikes: int


def stopped_by(calls: Sequence[Mapping[str, Any]]) -> str:
    """Why a hook wants the run to end instead of these calls; "" where none does."""
    return next((str(call[HOOK_STOP]) for call in calls if call.get(HOOK_STOP)), "")


def stopped_after(messages: Sequence[BaseMessage]) -> str:
    """Why a hook wants the run to end after the newest results; "" where none does."""
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            return ""
        if isinstance(message.artifact, Mapping) and message.artifact.get(HOOK_STOP):
            return str(message.artifact[HOOK_STOP])
    return ""
