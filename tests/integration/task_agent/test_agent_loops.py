"""Which runs of an agent count as going round in circles: whole runs, two strikes."""

import itertools
from datetime import UTC, datetime

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool

from loopwright import Context, ScriptedModel, build_task_agent
from support.reacting import said
from support.scripts import call

DONE = [call("complete_task", summary="Ada owns it.")]
READS = {"readOnlyHint": True}


def tool(name, function, **metadata):
    return StructuredTool.from_function(
        function, name=name, description=f"{name} it", metadata=metadata
    )


def world():
    """A file that can be read and edited, a job that goes on, and a search that finds nothing."""
    passed = itertools.count()

    def at():
        return datetime.fromtimestamp(1.7e9 + next(passed), UTC).isoformat()

    return [
        tool("read", lambda path: f"content of {path}", **READS),
        tool("edit", lambda line: "ok"),
        tool("poll", lambda: f"{next(passed)} % done", cacheable=False, **READS),
        tool("find", lambda words: "nothing found", **READS),
        tool(
            "ask",
            lambda words: f"{{'found': [], 'at': '{at()}', 'took': '{next(passed)} ms'}}",
            **READS,
        ),
        tool("wait", lambda: "not yet", repeatable=True, **READS),
    ]


def words(text, *calls):
    return AIMessage(text, tool_calls=[{**one, "id": f"c{n}"} for n, one in enumerate(calls)])


def run(turns, *, sure=(), check_after=30, **settings):
    """A run of these turns; `sure` is what the judges of loops say, one after the other."""
    judged = [{"analysis": "It finds nothing again and again.", "confidence": c} for c in sure]
    model = ScriptedModel({"agent": [*turns, DONE], "loop_judge": judged})
    graph = build_task_agent(model=model, tools=world())
    context = Context(loop_check_after=check_after, **settings)
    told = []
    for kind, given in graph.stream(said(), context=context, stream_mode=["custom", "values"]):
        if kind == "custom" and given["type"] == "loop":
            told.append((given["strike"], given["model_turn"]))
        elif kind == "values":
            result = given
    return result["outcome"], told, model


def turns_of(kind, n=60):
    return {
        "reads": [[call("read", path=f"{i}.py")] for i in range(n)],
        "polls": [[call("poll")] for _ in range(n)],
        "edits": [[call("edit", line=f"line {i}")] for i in range(n)],
        "waits": [[call("wait")] for _ in range(n)],
        "A": [[call("find", words="owner")]] * n,
        "ABC": [[call("find", words=w)] for w in "abc"] * n,
        "words": [words("I look at the file of the owner.", call("find", words=str(i)))
                  for i in range(n)],
        "chant": [words("The owner must be in that file, so I look there once more. " * 11,
                        call("read", path=str(i))) for i in range(n)],
        "stall by the clock": [[call("ask", words=f"owner {i}")] for i in range(n)],
        "order": [[call("find", f"c{k}", words=w) for k, w in enumerate(("ab", "ba")[i % 2])]
                  for i in range(n)],
        "stall": [[call("find", words=f"owner {i}")] for i in range(n)],
    }[kind]  # fmt: skip


@pytest.mark.req("S4-06", "S4-30", "S4-34")
@pytest.mark.parametrize(("kind", "n"), [("reads", 50), ("polls", 20), ("edits", 30), ("waits", 8)])
def test_what_gets_on_is_no_loop(kind, n):
    outcome, told, model = run(turns_of(kind, n), sure=[0.2] * 9)
    assert (outcome["status"], outcome["reason"], told) == ("complete", "GOAL", [])
    assert "loop" not in str([asked.messages[-1].text for asked in model.asked[:29]])


@pytest.mark.req("S4-30", "S4-31", "S4-35", "S4-65")
@pytest.mark.parametrize(
    ("kind", "sure", "ends"),
    [
        ("A", [], [(2, "agent#5")]),
        ("ABC", [0.5], [(2, "agent#13")]),
        ("words", [], [(1, "agent#6"), (2, "agent#11")]),
        ("chant", [], [(1, "agent#1"), (2, "agent#2")]),
        ("stall by the clock", [{}] * 8, [(1, "agent#11"), (2, "agent#21")]),
        ("order", [], [(2, "agent#9")]),
        ("stall", [0.95, 0.9, 1, 1], [(1, "agent#11"), (2, "agent#21")]),
    ],
)
def test_what_goes_round_in_circles_ends_as_stuck(kind, sure, ends):
    outcome, told, _ = run(turns_of(kind), sure=sure)
    assert (outcome["status"], outcome["reason"]) == ("stuck", "LOOP_DETECTED")
    assert told == ends
    assert any("loop detected" in one and ends[-1][1] in one for one in outcome["unmet"])


def checks(model):
    """After which turns a model looked for loops."""
    turns, seen = 0, []
    for asked in model.asked:
        turns += asked.role == "agent"
        if asked.role == "loop_judge":
            seen.append(turns)
    return seen


@pytest.mark.req("S4-32", "S4-33", "S4-34", "S4-35", "W-111")
def test_a_model_looks_after_thirty_turns_the_sooner_the_surer_it_was():
    """Not sure, sure but the stronger one is not, no answer at all, then both are sure, twice."""
    sure = [0, 0.95, 0.5, 0.9, 0.9, 1, 1]
    outcome, told, model = run(turns_of("reads", 99), sure=sure)
    assert checks(model) == [30, 45, 45, 55, 55, 61, 61]
    assert told == [(1, "agent#55"), (2, "agent#61")]
    assert outcome["unmet"] == ["loop detected: It finds nothing again and again (turn agent#61)"]
    # The question stands behind the agent's own request, which a provider has read by then.
    judge = next(asked for asked in model.asked if asked.role == "loop_judge")
    agent = model.asked[model.asked.index(judge) + 1]
    assert judge.messages[:-1] == agent.messages
    assert (judge.tools, judge.schema, judge.may_call) == (agent.tools, None, False)
    assert "LoopVerdict" in judge.messages[-1].text
    assert "Who owns it?" in judge.messages[-1].text
    # The warning stands behind what it is about, and each request begins with the one before it.
    requests = [asked.messages for asked in model.asked if asked.role == "agent"]
    texts = [[(m.type, m.text) for m in messages] for messages in requests]
    assert all(then[: len(one)] == one for one, then in itertools.pairwise(texts))
    assert "You are not getting on" not in str(texts[54])
    assert texts[55][-1][0] == "human"
    assert "(turn agent#55)" in texts[55][-1][1]


def test_the_second_model_is_a_stronger_one_and_settings_set_the_thresholds():
    sure = [{"confidence": 0.7, "analysis": "the same"}] * 2
    agent = [*turns_of("reads", 30), DONE]
    balanced = ScriptedModel({"agent": agent, "loop_judge": sure})
    strong = ScriptedModel({"loop_judge": [{"confidence": 0.1}] * 2})
    graph = build_task_agent(model={"balanced": balanced, "powerful": strong}, tools=world())
    context = Context(loop_check_after=10, loop_confidence=0.6)
    assert graph.invoke(said(), context=context)["outcome"]["reason"] == "GOAL"
    assert checks(balanced) == [10, 24]
    assert len(strong.asked) == 2
    _, told, _ = run(turns_of("A"), loop_repeats=9)
    assert told == [(2, "agent#9")]
    _, told, _ = run(turns_of("words"), loop_repeats=9, sure=[0.9])
    assert told == [(1, "agent#10"), (2, "agent#19")]
