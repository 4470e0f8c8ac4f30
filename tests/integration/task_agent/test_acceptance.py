"""What an agent loop must have at least, seen in one run that is cut in two and resumed."""

import pytest
from langchain_core.messages import AIMessage
from langgraph.types import Command

from loopwright import ScriptedModel, build_task_agent, open_durability
from loopwright.state.snapshot import count_call_tokens
from support.compressing import GOAL, SMALL, TARGET, honest, of_agent, stock, worker
from support.reacting import THREAD
from support.scripts import call

_ITEMS = [{"description": "look"}, {"description": "write down"}]


def _working(turns):
    """Writes a list, looks at each warehouse, asks once for leave, closes the list and ends."""
    look, begun = worker(turns), []

    def answer(messages, offered):
        begun.append(len(messages))
        if len(begun) == 1:
            return [call("write_todos", todos=[{**i, "status": "pending"} for i in _ITEMS])]
        if len(begun) == 2:
            return [call("publish", text="the codes")]
        if len(begun) <= 2 + turns:
            return look(messages, offered)
        if len(begun) == 3 + turns:
            return [call("write_todos", todos=[{**i, "status": "completed"} for i in _ITEMS])]
        return look(messages, offered)

    return answer


def _flags(state):
    return [state.get("task_completed", False), state.get("should_continue", True)]


@pytest.mark.req("S3-45")
def test_a_run_ends_explicitly_with_flags_progress_checkpoints_a_tier_and_a_bound(tmp_path):
    published = []

    def publish(text: str) -> str:
        """Publish a text."""
        published.append(text)
        return "published"

    fast, other = (ScriptedModel({"agent": _working(40), "summariser": honest}) for _ in "ab")
    context = SMALL.model_copy(update={"tiers": {"agent": "fast"}})

    def through(given):
        """One process's part of the run: what it told, and the thread behind it."""
        with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
            graph = build_task_agent(
                tools=[stock, publish], model={"fast": fast, "balanced": other},
                policy=[{"tool": "publish", "action": "ask"}], foreign="allow", durability=kept,
            )  # fmt: skip
            told = list(graph.stream(given, THREAD, context=context, stream_mode="custom"))
            return told, graph.get_state(THREAD).values

    _, state = through(GOAL)
    # While the run waits: tracked status, the flags that edges read, and nothing done unasked.
    assert [item["status"] for item in state["todos"]] == ["pending", "pending"]
    assert (_flags(state), published) == ([False, True], [])
    told, state = through(Command(resume={"type": "approve"}))
    outcome = state["outcome"]
    # Completion is explicit, and progress could be seen.
    assert (outcome["status"], outcome["reason"]) == ("complete", "GOAL")
    assert _flags(state) == [True, False]
    assert [task["status"] for task in outcome["tasks"]] == ["completed", "completed"]
    lists = [(e["done"], e["total"]) for e in told if e.get("type") == "todos"]
    assert lists[-1] == (2, 2)
    # By the checkpoint nothing was done twice; the tier was the one asked for; prompts are bounded.
    assert (published, other.asked) == (["the codes"], [])
    sizes = [count_call_tokens(one.messages, AIMessage(""))[0] for one in of_agent(fast)]
    assert len(sizes) > 40
    assert max(sizes) <= TARGET
