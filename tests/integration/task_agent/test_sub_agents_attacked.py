"""Sub-agents that are given nonsense, narrowed, asked about and steered."""

import asyncio

from loopwright import Context
from support.office import Office, done, give, notebook, told_to
from support.reacting import said
from support.scripts import call


def answers(messages):
    """What the calls of the newest messages were answered."""
    return [m.text for m in messages if m.type == "tool"]


NEEDS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}


def test_the_input_of_a_definition_is_checked_and_the_error_goes_back_to_the_model():
    """A wrong one, none, and the right one, which the sub-agent reads."""
    asked, read = [], []

    def chief(messages, _):
        asked.append(messages)
        wrong = give("guide", input={"city": 7})
        none = give("guide")
        right = give("guide", input={"city": "Bern", "days": 2}, background=False)
        return [wrong, none, right, done("Known.")][len(asked) - 1]

    def guide(messages, _):
        read.append(messages[-1].text)
        return done("Go by train.")

    office = Office(chief=chief, guide=guide)
    outcome = office.graph(agents={"guide": {"input": NEEDS}}).invoke(said())["outcome"]
    wrong, none, right = told_to(asked[-1])
    for refused in (wrong, none):
        assert (refused["status"], refused["agent"]) == ("failed", "guide")
        assert "the input does not fit what guide needs" in refused["unmet"][0]
    assert "city" in none["unmet"][0]
    assert right["status"] == "success"
    (words,) = read
    assert "Bern" in words
    assert "work 0 of guide" in words
    assert outcome["status"] == "complete"


def test_bad_calls_are_answered_and_the_work_goes_on():
    """Nobody known, no objective, an unknown field, a recursion, one mixed with complete_task."""
    asked = []

    def chief(messages, _):
        asked.append(messages)
        turns = [
            [
                call("delegate_to_agent", "a", agent_name="nobody", objective="x"),
                call("delegate_to_agent", "b", agent_name="scout", objective=""),
                call("delegate_to_agent", "c", agent_name="scout", objective="  "),
                call("delegate_to_agent", "d", agent_name="chief", objective="x"),
                call("delegate_to_agent", "e", agent_name="scout"),
                call("delegate_to_agent", "f", agent_name="scout", objective=["x", "y"]),
            ],
            [*give("scout"), call("complete_task", "done", summary="Done before I know.")],
            [*give("scout", "scout"), *done("Again too early.")],
            done("Now I know."),
        ]
        return turns[len(asked) - 1]

    worked = []

    def scout(messages, _):
        worked.append(messages[-1].text)
        return done(f"Scouted {len(worked)}.")

    outcome = Office(chief=chief, scout=scout).graph().invoke(said())["outcome"]
    assert [m.status for m in asked[1] if m.type == "tool"] == ["error"] * 6
    second = answers(asked[2])[6:]
    assert any("Scouted 1." in text for text in second)
    assert any("delegate_to_agent (agent.2.0)" in text for text in second)
    assert len(worked) == 3, "two calls with one objective in one message are two pieces of work"
    assert (outcome["status"], outcome["answer"]) == ("partial", "Now I know.")
    assert ["nobody" in outcome["unmet"][0], "chief" in outcome["unmet"][1]] == [True, True]
    assert len(outcome["unmet"]) == 2, "scout was sent in the end"


def test_fifty_in_one_message_are_all_heard_of_and_no_more_run_at_once_than_may():
    running, most = [0], [0]

    async def dig(where: str) -> str:
        """Dig."""
        running[0] += 1
        most[0] = max(most[0], running[0])
        await asyncio.sleep(0)
        running[0] -= 1
        return f"dug {where}"

    def chief(messages, _):
        told = "\n".join(m.text for m in messages if m.type != "ai")
        if told.count("dug it all") >= 50:
            return done("All fifty.")
        return done("?") if "running" in told else give(*["mole"] * 50, background=True)

    def mole(messages, _):
        return done("dug it all") if answers(messages) else [call("dig", where="here")]

    graph = Office(chief=chief, mole=mole).graph(tools=[dig], policy="allow")
    settings = Context(max_parallel_tasks=3, max_model_calls=200, max_tool_calls=60)
    outcome = graph.invoke(said(), context=settings)["outcome"]
    assert (outcome["status"], outcome["answer"]) == ("complete", "All fifty."), outcome
    assert outcome["spend"]["tool_calls"] == 50
    assert most[0] <= 3


def test_policy_by_agent_can_only_be_tightened(tmp_path):
    """What is denied to the graph no sub-agent may; what is denied to one, its siblings may."""
    save, told = notebook(), {}

    def wipe(text: str) -> str:
        """Wipe."""
        save.saved.append(f"wiped {text}")
        return "wiped"

    def worker(name):
        def turn(messages, offered):
            if answers(messages):
                told[name] = answers(messages)
                return done("Tried.")
            return [call("save", "s", text=name), call("wipe", "w", text=name)]

        return turn

    def chief(messages, _):
        return done("Known.") if told_to(messages) else give("left", "right")

    rules = [
        {"agent": "task_agent/left", "tool": "wipe", "action": "allow"},
        {"agent": "task_agent/right", "tool": "save", "action": "deny"},
        {"tool": "wipe", "action": "deny"},
        {"tool": "*", "action": "allow"},
    ]
    office = Office(chief=chief, left=worker("left"), right=worker("right"))
    office.graph(tools=[save, wipe], policy=rules).invoke(said())
    assert save.saved == ["left"]
    assert all("wip" not in text[:5] for texts in told.values() for text in texts)
