"""Finish: ends a turn with its honest outcome, or has another answer written for a hook."""

from collections.abc import Sequence
from typing import Final

from langchain_core.messages import RemoveMessage
from langgraph.runtime import Runtime

from ...flow.order import sort_steps
from ...state.context import Context
from ...state.contracts import FINISHED
from ...state.flow import FlowState, FlowStep, FlowUpdate, is_spared
from ...text.canonical import beginning_of
from ...text.sentences import say
from ...turn.end import Facts, build_answer_id, end_turn, find_answer, get_denial_reason
from ...turn.scope import make_scope
from ..parts import Parts


async def flow_finish(state: FlowState, runtime: Runtime[Context], *, parts: Parts) -> FlowUpdate:
    """End the turn, or go back for another answer from the same results."""
    scope = await make_scope(state, runtime, parts)
    another = FlowUpdate(messages=[RemoveMessage(id=build_answer_id(state))])
    typed = parts.bind_typed_result(scope, "answerer", state.request)
    update: FlowUpdate = await end_turn(scope, state, facts_of(state), lambda _: another, typed)
    return update


_MOST_TOLD: Final = 32_000
_LEAST_TOLD: Final = 2_000
_NAMED: Final = 10
# What models write into a list of which they were told to leave it empty.
_NOTHING: Final = frozenset({"", "none", "nothing", "n/a", "null"})
_ENDS: Final = {"failed": "step_failed", "skipped": "step_skipped", "cancelled": "step_cancelled"}
"""Status to the sentence that tells it; whoever writes the answer reads these as well."""


def facts_of(state: FlowState) -> Facts:
    """The facts; what the plan or a run left out counts as not done."""
    steps = sort_steps(state.todos)
    # A step is skipped where the plan wants it, or where it would need an optional one's result.
    left = [s for s in steps if s["status"] not in FINISHED and not s.get("optional")]
    done = [s for s in steps if s["status"] == "completed"]
    return Facts(
        halt=state.halt,
        done=bool(done or any(map(is_spared, steps))) and not left,
        refused=get_denial_reason(state.todos),
        unmet=_unmet(state, steps),
        answer=find_answer(state),
        results=_results(find_last_steps(done)),
        tasks=steps,
        evidence=state.evidence,
        message=build_answer_id(state),
        kept="finished steps are kept",
    )


def _unmet(state: FlowState, steps: Sequence[FlowStep]) -> list[str]:
    """What was not done: what the phases said, the steps that failed, those that never ran."""
    undone = [step for step in steps if step["status"] != "completed" and not is_spared(step)]
    ended = {s["id"]: s for s in undone if s["status"] in _ENDS or s.get("feedback")}
    # A phase may have told this already, perhaps with words before it.
    known = state.unmet
    fresh = [
        t for t in map(describe_undone, ended.values()) if not any(k.endswith(t) for k in known)
    ]
    # One line for all that never ran: behind one failure there may be thousands.
    names = [_name_step(step) for step in undone if step["id"] not in ended]
    more = [say("and_more", count=len(names) - _NAMED)] if len(names) > _NAMED else []
    not_run = [say("steps_not_run", steps=", ".join([*names[:_NAMED], *more]))] if names else []
    left_out = [part for part in state.plan.get("left_out", []) if _bare(part) not in _NOTHING]
    not_planned = [say("not_planned", part=part) for part in left_out]
    return [*known, *fresh, *not_run, *not_planned]


def _bare(text: str) -> str:
    return text.strip(" .-–—").casefold()  # noqa: RUF001 - dashes on purpose


def describe_undone(step: FlowStep) -> str:
    """A step that did not complete, with the reason in its own words."""
    how = say(_ENDS.get(step["status"], "step_not_done"), step=_name_step(step))
    why = step.get("feedback")
    return say("problem_at", place=how, problem=why) if why else how


def _name_step(step: FlowStep) -> str:
    """A step by its id and what it is for."""
    about = step.get("description") or step.get("tool")
    return f"{step['id']} ({about})" if about else step["id"]


def _results(steps: Sequence[FlowStep]) -> list[str]:
    """The results of these steps, cited."""
    share = max(_LEAST_TOLD, _MOST_TOLD // max(1, len(steps)))
    return [
        f"**{step.get('description') or step.get('tool') or step['id']}** [{step['id']}]\n\n"
        f"{beginning_of(step.get('result', ''), share)}"
        for step in steps
    ]


def find_last_steps(steps: Sequence[FlowStep]) -> list[FlowStep]:
    """Those of the steps that none of them waited for."""
    used = {name for step in steps for name in step.get("depends_on") or []}
    return [step for step in steps if step["id"] not in used]
