"""The end of a turn: its outcome, the message with the answer, and hooks that want another."""

from functools import partial

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from loopwright import Hook
from loopwright.nodes.flow.turn import END
from loopwright.nodes.turns import finish
from support.flow_nodes import run_node
from support.flow_steps import broken, flow_step
from support.flows import GOAL, ended

ANSWER = AIMessage("7 euro [s1].", id="answer-1-r", additional_kwargs={"agent_type": "answerer"})
TALK = [HumanMessage(GOAL, id="m1"), ANSWER]


async def finished(*steps, messages=TALK, **more):
    return await run_node(partial(finish, end=END), *steps, messages=messages, **more)


def rejecting(reason="name the shop", **more):
    seen = []

    def judge(given):
        seen.append((given["prompt_response"], given["stop_hook_active"]))
        return {"decision": "deny", "reason": reason, **more}

    return Hook(event="AfterAgent", run=judge), seen


@pytest.mark.req("S2-32")
async def test_where_none_was_written_what_is_there_and_what_is_missing_becomes_the_last_message():
    steps = [flow_step("s1"), broken("s2", "404")]
    ran = await finished(*steps, messages=TALK[:1], halt="ERROR", unmet=["s2 (do s2) failed: 404"])
    assert ended(ran.state.outcome) == ("failed", "ERROR")
    last = ran.state.messages[-1]
    assert last.text == ran.state.outcome["answer"]
    assert last.text == "**do s1** [s1]\n\nresult of s1\n\nNot done:\n- s2 (do s2) failed: 404"
    assert last.additional_kwargs["agent_type"] == "loopwright"


async def test_a_rejected_answer_goes_back_once_with_the_reason():
    hook, seen = rejecting(hookSpecificOutput={"additionalContext": "The shop is Ada's."})
    ran = await finished(flow_step("s1"), hooks=[hook], task_completed=True)
    assert (ran.state.outcome, ran.state.halt, ran.state.task_completed) == (None, None, False)
    assert ran.state.improvements == ["The answer was rejected by a hook: name the shop"]
    assert ran.state.hook_context == ["The shop is Ada's."]
    assert ran.state.messages == TALK[:1], "a rejected answer is no part of the conversation"
    assert [s["status"] for s in ran.state.todos] == ["completed"]
    assert seen == [("7 euro [s1].", False)]
