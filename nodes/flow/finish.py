"""Finish: the honest outcome of a turn of prompt_flow, and its final answer."""

from collections.abc import Sequence
from typing import Final

from langchain_core.messages import RemoveMessage
from langgraph.runtime import Runtime

from ...flow.order import in_plan_order
from ...state.canonical import beginning_of
from ...state.context import Context
from ...state.flow import FlowState, FlowStep, FlowUpdate
from ...state.loop import changes
from ...turn.end import Facts, answer_id, denial, end_turn
from ...turn.scope import scope_of
from ..parts import Parts


async def flow_finish(state: FlowState, runtime: Runtime[Context], *, parts: Parts) -> FlowUpdate:
    """End the turn, or go back for another answer from the same results."""
    scope = await scope_of(state, runtime, parts)
    another = FlowUpdate(messages=[RemoveMessage(id=answer_id(state))])
    update: FlowUpdate = await end_turn(scope, state, facts_of(state), lambda _: another)
    return changes(state, update)


_ALL_SHOWN: Final = 32_000
_LEAST_SHOWN: Final = 2_000
_NAMED: Final = 10
# What models write into a list of which they were told to leave it empty.
_NOTHING: Final = frozenset({"", "none", "nothing", "n/a", "null"})


def facts_of(state: FlowState) -> Facts:
    """The facts; what the plan or a run left out counts as not done."""
    newest, last = state.messages[-1] if state.messages else None, answer_id(state)
    return Facts(
        halt=state.halt,
        done=all_required_done(state.todos),
        refused=denial(state.todos),
        unmet=_unmet(state),
        answer=newest.text if newest is not None and newest.id == last else "",
        results=_results(state.todos),
        tasks=in_plan_order(state.todos),
        evidence=state.evidence,
        message=last,
        kept="finished steps are kept",
    )


def all_required_done(steps: Sequence[FlowStep]) -> bool:
    """Whether nothing is left to do that the goal needs; where nothing at all was done, no.

    A step is skipped only where it would need the result of an optional one.
    """
    done = {"completed", "skipped"}
    something = any(s["status"] == "completed" for s in steps)
    return something and all(s["status"] in done or s.get("optional") for s in steps)


def _left_out(state: FlowState) -> list[str]:
    parts = state.plan.get("left_out", [])
    return [f"Not planned: {part}" for part in parts if _bare(part) not in _NOTHING]


def _bare(text: str) -> str:
    return text.strip(" .-–—").casefold()  # noqa: RUF001 - dashes on purpose


def _unmet(state: FlowState) -> list[str]:
    """What was not done: what the phases said, the steps that failed, those that never ran."""
    steps = [s for s in in_plan_order(state.todos) if s["status"] != "completed"]
    ended = [told(s) for s in steps if not _never_ran(s)]
    waiting = [called(s) for s in steps if _never_ran(s)]
    fresh = [line for line in ended if not _said(line, state.unmet)]
    return [*state.unmet, *fresh, *_not_run(waiting), *_left_out(state)]


def _said(line: str, before: Sequence[str]) -> bool:
    """Whether a phase has told this already, perhaps with words before it."""
    return any(text.endswith(line) for text in before)


def _never_ran(step: FlowStep) -> bool:
    return step["status"] not in {"failed", "skipped", "cancelled"} and not step.get("feedback")


def _not_run(names: Sequence[str]) -> list[str]:
    """One line for all of them: behind one failure there may be thousands."""
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return [f"Not run: {', '.join([*names[:_NAMED], *more])}."] if names else []


def called(step: FlowStep) -> str:
    """A step by its id and what it is for."""
    return f"{step['id']} ({step.get('description') or step.get('tool') or 'step'})"


def told(step: FlowStep) -> str:
    """A step that did not complete, with the reason in its own words."""
    verb = {"failed": "failed", "skipped": "was skipped", "cancelled": "was cancelled"}
    why = step.get("feedback")
    return f"{called(step)} {verb.get(step['status'], 'is not done')}{f': {why}' if why else ''}"


def _results(steps: Sequence[FlowStep]) -> list[str]:
    """The results of the completed steps that no completed one needed, cited."""
    last = last_of([s for s in in_plan_order(steps) if s["status"] == "completed"])
    share = max(_LEAST_SHOWN, _ALL_SHOWN // max(1, len(last)))
    return [
        f"**{_title(s)}** [{s['id']}]\n\n{beginning_of(s.get('result', ''), share)}" for s in last
    ]


def last_of(steps: Sequence[FlowStep]) -> list[FlowStep]:
    """Those of the steps that none of them waited for."""
    used = {name for step in steps for name in step.get("depends_on") or []}
    return [step for step in steps if step["id"] not in used]


def _title(step: FlowStep) -> str:
    return step.get("description") or step.get("tool") or step["id"]
