"""How a turn of the router begins and ends."""

from typing import Any, Final

from langchain_core.messages import AIMessage

from ...hooks.contract import Verdict
from ...state.messages import ENDS, PACKAGE, make_rewrite, make_signature, merge_messages
from ...state.outcome import Spend, Way
from ...state.plan import Task
from ...state.route import RouterState, RouterUpdate, collect_earlier, evidence_of, select_kept
from ...store.checkpoints.thread_head import CUT_OFF
from ...turn.begin import is_same_request, repair_conversation
from ...turn.end import Facts, build_answer_id, build_outcome, describe_results, replace_rejected
from ...turn.scope import RunScope
from ..conversation import sign_message
from ..turns import TurnEnd


async def adopt_state(scope: RunScope, state: RouterState) -> RouterUpdate:
    """Keep the calls if the request goes on; take in the graph that was cut off."""
    if state.turn:
        over = state.outcome is not None and not is_same_request(state)
        await scope.release(lambda _: False, ended=over, told=over, anywhere=not over)
    if not state.cut_off:
        return RouterUpdate()
    (left,) = state.cut_off
    known = {message.id for message in left["messages"]}
    whole = [*left["messages"], *(m for m in state.messages if m.id not in known)]
    answers, _ = await repair_conversation(scope, state, whole, left.get("calls") or [])
    way: Way = left["graph"]
    work = select_kept(left) | {CUT_OFF: left[CUT_OFF], "calls": []}
    return RouterUpdate(
        messages=make_rewrite(state.messages, merge_messages(whole, [answers])),
        way=way,
        kept={**state.kept, way: work},
        earlier=collect_earlier(way, state.turn, left),
    )


def end_direct(
    facts: Facts, message: AIMessage, role: str, reasoning: str, used: Spend
) -> RouterUpdate:
    """The end of a request that was answered without a graph, with the message if it answers."""
    said = [sign_message(message, facts.message, role, reasoning, {ENDS: True})]
    ended = build_outcome(facts, spend=used, allowance=1, resume=None)
    return RouterUpdate(inner=ended, messages=said if facts.answer else [])


def complete_outcome(state: RouterState, facts: Facts, update: dict[str, Any]) -> dict[str, Any]:
    """The outcome with the tasks of the graph that ended, and its answer as a message."""
    outcome, ended = update.get("outcome"), state.inner
    if outcome is None:
        return {}
    messages = [*update["messages"]]
    if all(one.id != facts.message for one in [*state.messages, *messages]):
        about = {"id": facts.message, "additional_kwargs": make_signature(PACKAGE)}
        messages.append(AIMessage(outcome["answer"], **about))
    tasks = ended["tasks"] if ended else outcome["tasks"]
    return {"messages": messages, "outcome": {**outcome, "tasks": tasks, "tried": state.tried}}


def retry(state: RouterState, verdict: Verdict) -> dict[str, Any]:
    """The same graph makes another answer."""
    said = next((m for m in reversed(state.messages) if m.type == "ai"), AIMessage(""))
    return {"unmet": [], "inner": None, **replace_rejected(state, verdict, said)}


def _tasks(state: RouterState) -> list[Task]:
    """The tasks or steps of a graph that was stopped; an agent's list is no plan."""
    planned = state.way in ("prompt_flow", "plan_execute_verify")
    return list(state.kept.get(state.way, {}).get("todos") or []) if planned else []


def facts_of(state: RouterState) -> Facts:
    """The facts, as the graph told them that had the request last."""
    ended, evidence = state.inner, evidence_of(state)
    if ended is None:
        return Facts(
            halt=state.halt,
            unmet=state.unmet,
            evidence=evidence,
            tasks=_tasks(state),
            results=describe_results(evidence),
            message=build_answer_id(state),
            kept="the work is kept",
        )
    newest = next((m for m in reversed(state.messages) if m.type == "ai"), None)
    said = newest is not None and newest.text == ended["answer"]
    return Facts(
        halt=state.halt or (None if ended["reason"] == "GOAL" else ended["reason"]),
        done=ended["status"] == "complete",
        partly=ended["status"] == "partial",
        unmet=[*state.unmet, *ended["unmet"]],
        evidence=evidence,
        answer=ended["answer"],
        message=str(newest.id) if newest is not None and said else build_answer_id(state),
        kept="the work is kept",
    )


END: Final = TurnEnd("responder", facts_of, retry, complete_outcome)
