"""How a turn of the router begins and ends."""

from langgraph.runtime import Runtime
from ...state.context import Context
from ...state.messages import merge_messages
from ...state.outcome import Way
from ...state.route import RouterState, RouterUpdate, collect_earlier, make_rewrite, select_kept
from ...store.checkpoints.thread_head import CUT_OFF
from ...turn.begin import begin_turn, is_same_request, repair_conversation
from ...turn.scope import RunScope, make_scope
from ..parts import Parts
from functools import partial
from typing import cast
from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime
from ...hooks.contract import Verdict
from ...state.context import Context
from ...state.messages import PACKAGE, make_signature
from ...state.plan import Task
from ...state.route import RouterState, RouterUpdate, evidence_of
from ...turn.end import Facts, build_answer_id, describe_results, end_turn, replace_rejected
from ...turn.scope import make_scope
from ..parts import Parts


async def route_intake(
    state: RouterState, runtime: Runtime[Context], *, parts: Parts
) -> RouterUpdate:
    """Begin the turn; what the graph had done that the last one was cut off in, is taken in."""
    scope = await make_scope(state, runtime, parts)
    update: RouterUpdate = await begin_turn(scope, state, _adopt_state, parts.find_missing)
    return update


async def _adopt_state(scope: RunScope, state: RouterState) -> RouterUpdate:
    """The calls of the turn before: a request that goes on finds them, any other begins anew.

    Of a graph that was cut off all is taken in: its conversation, where the journal answers the
    calls that have no answer, what its calls brought, and what it needs to go on.
    """
    if state.turn:
        over = state.outcome is not None and not is_same_request(state)
        await scope.release(lambda _: False, ended=over, told=over, anywhere=not over)
    if not state.cut_off:
        return RouterUpdate()
    (left,) = state.cut_off
    known = {message.id for message in left["messages"]}
    whole = [*left["messages"], *(m for m in state.messages if m.id not in known)]
    answers = await repair_conversation(scope, whole, left.get("calls") or [])
    way: Way = left["graph"]
    work = select_kept(left) | {CUT_OFF: left[CUT_OFF], "calls": []}
    return RouterUpdate(
        messages=make_rewrite(state.messages, merge_messages(whole, [answers])),
        way=way,
        kept={**state.kept, way: work},
        earlier=collect_earlier(way, state.turn, left),
    )


async def route_finish(
    state: RouterState, runtime: Runtime[Context], *, parts: Parts
) -> RouterUpdate:
    """End the turn, or have the same graph make another answer where a hook rejects this one."""
    scope = await make_scope(state, runtime, parts)
    another, typed = (
        partial(_try_again, state),
        parts.bind_typed_result(scope, "responder", state.request),
    )
    facts = facts_of(state)
    update: RouterUpdate = await end_turn(scope, state, facts, another, typed)
    outcome, ended = update.get("outcome"), state.inner
    if outcome is not None:
        if all(one.id != facts.message for one in [*state.messages, *update["messages"]]):
            about = {"id": facts.message, "additional_kwargs": make_signature(PACKAGE)}
            update["messages"] = [*update["messages"], AIMessage(outcome["answer"], **about)]
        tasks = ended["tasks"] if ended else outcome["tasks"]
        update["outcome"] = {**outcome, "tasks": tasks, "tried": state.tried}
    return update


def _try_again(state: RouterState, verdict: Verdict) -> RouterUpdate:
    said = next((m for m in reversed(state.messages) if m.type == "ai"), AIMessage(""))
    return cast(
        "RouterUpdate", {"unmet": [], "inner": None, **replace_rejected(state, verdict, said)}
    )


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
        halt=None if ended["reason"] == "GOAL" else ended["reason"],
        done=ended["status"] == "complete",
        partly=ended["status"] == "partial",
        unmet=[*state.unmet, *ended["unmet"]],
        evidence=evidence,
        answer=ended["answer"],
        message=str(newest.id) if newest is not None and said else build_answer_id(state),
        kept="the work is kept",
    )
