"""Verifier: judges tasks and answer by the evidence; a verdict without proof is not believed."""

from typing import Any, Final

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from ...models.ask import Answer, ask
from ...models.drafts import make_draft_listeners, make_field_listeners, wrap_reasoning
from ...state.context import Context
from ...state.contracts import VerifierResponse
from ...state.evidence_checks import (
    check_verdict,
    find_only_proofs,
    index_by_citation,
    list_cited_ids,
    make_rejected_verdict,
    select_admissible,
)
from ...state.history import build_call_index
from ...state.loop import PlanState, PlanUpdate
from ...state.messages import make_signature
from ...state.outcome import Reason
from ...state.plan import Task, is_left_out, merge_tasks, task_view
from ...stream.turn_messages import make_phase_message, move_answer_last
from ...text.canonical import cut_middle, find_cap
from ...text.sentences import say
from ...turn.budget import get_limit_reason
from ...turn.end import build_answer_id, get_denial_reason
from ...turn.scope import make_scope
from ..parts import Parts

JUDGED = (
    "id", "description", "acceptance_criteria", "status", "result", "feedback", "replaces",
)  # fmt: skip
_ATTACHED: Final = (
    "The verdict on task {!r} cites nothing; its only proof, {}, was attached by code."
)
_LEFT_OUT: Final = "Task {!r} was {}, and the verdict agrees that it is not needed: {}"
CITED = ("id", "task", "tool", "arguments", "status", "result")
_CHARACTERS: Final = 2
"""Of results for each token of the budget: about half of it, so that no record is left out."""


async def verifier(state: PlanState, runtime: Runtime[Context], *, parts: Parts) -> PlanUpdate:
    """Ask for a verdict, check its citations, and decide whether another cycle may run."""
    scope = await make_scope(state, runtime, parts)
    round_ = state.cycles + 1
    scope.emit({"type": "phase", "role": "verifier", "action": "verifying", "round": round_})
    if scope.budget.reached_limit:
        scope.budget.grant_last_turn()
    data = {
        "conversation": state.conversation,
        "earlier_evidence": build_call_index(state.earlier, citing=True),
        "request": state.request,
        "additional_context": scope.join_hook_notes(state.hook_context),
        "evidence": _render_evidence(state, scope.context.context_budget),
        "tasks": [task_view(t, *JUDGED) for t in state.todos],
    }
    answer = await ask(
        scope, parts.models, "verifier", scope.build_opening("verifier", data, state.attachments),
        contract=VerifierResponse,
        check=lambda verdict: check_verdict(
            verdict, state.todos, state.evidence, state.earlier
        ),
        listeners=[
            *make_draft_listeners(scope, build_answer_id(state), "verifier", field="summary"),
            *make_field_listeners(
                scope, "verifier", VerifierResponse, round=round_, message_id=build_answer_id(state)
            ),
        ],
    )  # fmt: skip
    update = _take_verdict(state, answer, scope.context)
    update |= PlanUpdate(spend=scope.add_seconds(answer.spend), warnings=scope.notes)
    if answer.parsed:
        update["warnings"] = [*scope.notes, *_notes(state, answer.parsed)]
    scope.emit(_build_verdict_event(state, answer, update))
    return update


def _render_evidence(state: PlanState, budget: int) -> list[dict[str, Any]]:
    """The calls that may be cited, the longest results without their middle."""
    records = [*select_admissible(state.evidence, state.todos)]
    cap = find_cap([len(record["result"]) for record in records], _CHARACTERS * budget)
    return [
        {key: record.get(key) for key in CITED} | {"result": cut_middle(record["result"], cap)}
        for record in records
    ]


def _build_verdict_event(
    state: PlanState, answer: Answer[VerifierResponse], update: PlanUpdate
) -> dict[str, Any]:
    """The verdict as an event."""
    passed, given = update["task_completed"], answer.parsed
    about = {"message_id": build_answer_id(state)} if passed or answer.refused else {}
    judged = given.tasks if given else []
    tasks = [task.model_dump(include={"id", "completed", "feedback"}) for task in judged]
    feedback = given.overall_feedback if given else ""
    improvements = update.get("improvements", [])
    return {
        "type": "verdict", "passed": passed, "improvements": improvements, "feedback": feedback,
        "tasks": tasks, "round": state.cycles + 1, **about,
    }  # fmt: skip


def _notes(state: PlanState, verdict: VerifierResponse) -> list[str]:
    """What the outcome tells of a verdict beside its words."""
    only = find_only_proofs(verdict, state.todos, state.evidence)
    agreed = {judged.id for judged in verdict.tasks if judged.completed}
    left = [t for t in state.todos if t["id"] in agreed and is_left_out(t)]
    told = [_LEFT_OUT.format(t["id"], t["status"], t.get("feedback") or "-") for t in left]
    return [*(_ATTACHED.format(*one) for one in only.items()), *told]


def _take_verdict(
    state: PlanState, answer: Answer[VerifierResponse], context: Context
) -> PlanUpdate:
    verdict = answer.parsed or make_rejected_verdict(answer.problems)
    blockers = sorted(_blockers(state, verdict))
    judged = _judge_tasks(state, verdict)
    update = PlanUpdate(
        cycles=state.cycles + 1,
        task_completed=verdict.is_met,
        improvements=[] if verdict.is_met else verdict.improvements,
        blockers=blockers,
        todos=judged,
    )
    if verdict.is_met:
        # The same id if the turn is taken up again.
        signed = make_signature("verifier") | wrap_reasoning(answer.reasoning)
        about = {"id": build_answer_id(state), "additional_kwargs": signed}
        return update | PlanUpdate(
            messages=move_answer_last(state, AIMessage(verdict.summary, **about))
        )
    if not answer.refused:
        lines = [verdict.overall_feedback, *(f"- {text}" for text in verdict.improvements)]
        text = "\n".join(filter(None, lines))
        update["messages"] = make_phase_message(state, "verifier", text)
    if state.halt:
        return update
    halt = get_limit_reason(answer.refused) if answer.refused else None
    halt = halt or _find_dead_end(state, merge_tasks(state.todos, [judged]), blockers, context)
    return update | PlanUpdate(halt=halt, should_continue=halt is None)


def _find_dead_end(
    state: PlanState, tasks: list[Task], blockers: list[str], context: Context
) -> Reason | None:
    """Why another cycle cannot help, if it cannot: permission, no progress, no cycles left."""
    if refused := get_denial_reason(tasks):
        return refused
    if blockers and blockers == state.blockers:
        return "SAME_BLOCKERS"
    return "MAX_ROUNDS" if state.cycles + 1 >= context.max_verify_cycles else None


def _blockers(state: PlanState, verdict: VerifierResponse) -> set[str]:
    """What keeps the verdict from passing: the unproven tasks, else the improvements."""
    if verdict.is_met:
        return set()
    words = {t["id"]: t["description"] for t in state.todos}
    unproven = {words[t.id] for t in verdict.tasks if not t.completed and t.id in words}
    return unproven or set(verdict.improvements)


def _judge_tasks(state: PlanState, verdict: VerifierResponse) -> list[Task]:
    """Proven tasks get the evidence the verdict cites; rejected ones must be done again."""
    known = index_by_citation(state.evidence, state.todos, state.earlier)
    only = find_only_proofs(verdict, state.todos, state.evidence)
    tasks = {t["id"]: t for t in state.todos}
    changed = []
    for judged in verdict.tasks:
        if judged.id not in tasks:
            continue
        task = tasks[judged.id]
        if judged.completed:
            cited = list_cited_ids(judged, task, known) or [
                only[i] for i in [judged.id] if i in only
            ]
            agreed = Task(spared=True) if is_left_out(task) else Task()
            changed.append(Task(id=judged.id, evidence=cited) | agreed)
        elif task["status"] == "completed" or is_left_out(task):
            why = judged.feedback or say("not_accepted")
            changed.append(Task(id=judged.id, status="failed", feedback=why))
    return changed
