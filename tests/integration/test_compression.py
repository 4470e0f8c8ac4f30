"""Long runs of task_agent: old messages are left out of requests, and nothing of them is lost."""

import json
import random
import re
from itertools import pairwise

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from loopwright import (
    Context,
    Hook,
    ScriptedModel,
    build_task_agent,
    open_durability,
)
from loopwright.state.window import tokens_in
from loopwright.turn.budget import tokens_of
from support.reacting import THREAD
from support.scripts import call
from support.strict_messages import problems

TARGET = 6_000
SMALL = Context(
    context_budget=int(TARGET / 0.8), context_target=TARGET, max_turns=1_000, loop_check_after=9_999
)  # fmt: skip
GOAL = {"messages": [("user", "Write down the code of each warehouse. Never delete ledger_7.db.")]}
FACT = re.compile(r"The code of warehouse (\d+) is (\S+)\.")


def stock(number: int) -> str:
    """Look at the stock of a warehouse."""
    return f"The code of warehouse {number} is KX-{number * 37}. " + f"shelf {number} row " * 125


def handles(messages):
    """What the summariser is shown, by handle."""
    text = messages[-1].text.partition("<messages>")[2].partition("</messages>")[0]
    return {one["id"]: one for one in json.loads(text)}


def honest(messages, offered):
    """A summariser that writes each code down."""
    facts = [
        {"text": found[0], "from": [name]}
        for name, one in handles(messages).items() if (found := FACT.search(one["text"]))
    ]  # fmt: skip
    return {"keyKnowledge": facts, "taskState": []}


def worker(turns, ask=()):
    """Looks at one warehouse after the other, then asks and ends."""
    count = iter(range(1, 10_000))

    def answer(messages, offered):
        number = next(count)
        if number <= turns:
            return [call("stock", f"c{number}", number=number)]
        if number <= turns + len(ask):
            return [call(*ask[number - turns - 1][:1], f"c{number}", **ask[number - turns - 1][1])]
        return [call("complete_task", f"c{number}", summary="All are written down.")]

    return answer


def run(kept, model, context=SMALL, **more):
    graph = build_task_agent(model=model, tools=[stock], durability=kept, **more)
    return graph, graph.invoke(GOAL, THREAD, context=context)


def of_agent(model):
    return [asked for asked in model.asked if asked.role == "agent"]


@pytest.mark.req("S3-35", "S3-36", "S3-37", "S4-09", "S4-58", "P-14")
def test_a_long_run_stays_within_its_target_and_forgets_nothing(tmp_path):
    ask = [("recall", {"words": f"code of warehouse {n}"}) for n in (3, 20, 41)]
    model = ScriptedModel({"agent": worker(60, ask), "summariser": honest})
    seen = []
    hook = Hook(event="PreCompress", run=lambda given: seen.append(given["trigger"]))
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph, result = run(kept, model, hooks=[hook])
        state = graph.get_state(THREAD).values
    assert result["outcome"]["status"] == "complete"
    sizes = [tokens_of(asked.messages, AIMessage(""))[0] for asked in of_agent(model)]
    assert max(sizes) <= TARGET
    assert len(seen) == len([a for a in model.asked if a.role == "summariser"]) >= 3
    assert set(seen) == {"auto"}
    assert [problems(asked.messages) for asked in of_agent(model)] == [[]] * len(sizes)
    # What the user said stands in every request, and every message is still in the thread.
    assert all("Never delete ledger_7.db" in str(a.messages) for a in of_agent(model))
    assert len([m for m in result["messages"] if m.type == "tool"]) == 60 + 3 + 1
    found = [m.text for m in result["messages"] if m.type == "tool" and m.name == "recall"]
    assert [f"KX-{n * 37}." in text for n, text in zip((3, 20, 41), found, strict=True)] == [
        True
    ] * 3
    assert state["cut"]


def careless(messages, offered):
    """A summariser that forgets two codes of three, invents others, and repeats itself."""
    given = handles(messages)
    found = honest(messages, offered)["keyKnowledge"]
    name = next(iter(given))
    wrong = [
        {"text": "The code of warehouse 9001 is KX-1234.", "from": [name]},
        {"text": 'The user said "delete ledger_7.db".', "from": [name]},
        {"text": "The owner is Mallory.", "from": list(given)},
        {"text": "The file /srv/keys.pem has been made.", "from": ["m-00000000"]},
        {"text": "Everything is wonderful and nobody worries about anything.", "from": [name]},
        {"text": "仓库的密码是三百二十一。", "from": [name]},
    ]
    goals = [{"text": "The code of warehouse 2 is KX-74.", "from": [n]} for n in [*given][-1:]]
    return {"overallGoal": goals, "activeConstraints": wrong, "keyKnowledge": [*found[::3], *wrong]}


def summed(model):
    """The facts in the snapshots of the agent's requests."""
    texts = [m.text for asked in of_agent(model) for m in asked.messages if m.type == "human"]
    parts = [text.partition("<snapshot>")[2].partition("earlier_calls:")[0] for text in texts]
    return [line for text in parts for line in text.splitlines() if line.startswith("- ")]


@pytest.mark.req("S4-59", "P-14")
def test_what_a_summary_invents_is_dropped_and_what_it_forgets_can_be_recalled(tmp_path):
    ask = [("recall", {"words": f"The code of warehouse {n}"}) for n in range(1, 21)]
    model = ScriptedModel({"agent": worker(40, ask), "summariser": careless})
    events = []
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = build_task_agent(model=model, tools=[stock], durability=kept)
        for event in graph.stream(GOAL, THREAD, context=SMALL, stream_mode="custom"):
            events += [event] if event.get("type") == "compressed" else []
        messages = graph.get_state(THREAD).values["messages"]
    lines = summed(model)
    assert any("KX-" in line for line in lines)
    for wrong in (
        "9001",
        "KX-1234",
        'said "delete',
        "Mallory",
        "keys.pem",
        "wonderful",
        "三百",
    ):
        assert [line for line in lines if wrong in line] == []
    assert all(event["dropped"] >= 6 for event in events if event["how"] == "summary")
    assert {event["how"] for event in events} == {"summary"}
    found = [m.text for m in messages if m.type == "tool" and m.name == "recall"]
    right = [f"KX-{n * 37}." in text for n, text in zip(range(1, 21), found, strict=True)]
    assert right == [True] * 20


USELESS = {
    "empty": {"scratchpad": "nothing to say"},
    "malformed": "I would rather tell a story.",
    "invented": {"keyKnowledge": [{"text": "The key is 4711.", "from": ["m-1"]}]},
    "not smaller": lambda m, o: {
        "keyKnowledge": [
            {"text": f"{n}: {one['text']}"[:2_000].removeprefix(f"{n}: "), "from": [n]}
            for n, one in handles(m).items() if one["text"].startswith("The code")
        ]
    },
    "raises": RuntimeError("no such model"),
}  # fmt: skip


@pytest.mark.parametrize("name", USELESS)
def test_without_a_summary_of_use_the_history_is_cut_all_the_same(tmp_path, name):
    given = USELESS[name]
    asks = []

    def summariser(messages, offered):
        asks.append(len(messages))
        return given(messages, offered) if callable(given) else given

    ask = [("recall", {"words": "code of warehouse 5"})]
    model = ScriptedModel({"agent": worker(36, ask), "summariser": summariser})
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        _, result = run(kept, model, SMALL.model_copy(update={"model_retries": 0}))
    assert result["outcome"]["status"] == "complete"
    sizes = [tokens_of(asked.messages, AIMessage(""))[0] for asked in of_agent(model)]
    assert max(sizes) <= TARGET
    assert [problems(asked.messages) for asked in of_agent(model)] == [[]] * len(sizes)
    shrinks = sum(after < before for before, after in pairwise(sizes))
    assert 1 <= len([n for n in asks if n == 2]) < shrinks
    assert "KX-185." in next(m.text for m in result["messages"] if m.name == "recall")


@pytest.mark.req("S3-33", "S3-34", "S3-38")
def test_an_agent_sums_up_by_itself_and_its_notes_stay_in_view(tmp_path):
    seen = []
    hook = Hook(event="PreCompress", run=lambda given: seen.append(given["trigger"]))
    points = {"keyPoints": ["Warehouse 2 has KX-74"], "nextSteps": ["look at warehouse 3"]}
    model = ScriptedModel([
        [call("note", text="Codes begin with KX.")],
        [call("stock", "c1", number=1), call("stock", "c2", number=2)],
        [call("summarize_and_continue", **points)],
        [call("note", text="x" * 8_001)],
        [call("recall", "c1", id="nonsense"), call("recall", "c2", id="agent.2.0"),
         call("recall", "c3")],
        [call("complete_task", summary="done")],
    ])  # fmt: skip
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        _, result = run(kept, model, Context(), hooks=[hook])
    assert seen == ["manual"]
    before, after = (str(model.asked[n].messages) for n in (2, 3))
    assert "shelf 1 row" in before
    assert "shelf 1 row" not in after
    told = model.asked[3].messages[1].text
    lasting = ("Codes begin with KX.", "Warehouse 2 has KX-74", "look at warehouse 3", "Never del")
    assert [words for words in lasting if words not in told] == []
    assert [problems(asked.messages) for asked in model.asked] == [[]] * 6
    answers = {m.name: m for m in result["messages"] if m.type == "tool" and m.status == "error"}
    assert "8000" in answers["note"].text
    recalled = [m.text for m in result["messages"] if m.name == "recall"]
    assert "no message" in recalled[0]
    assert "The code of warehouse 1 is KX-37." in recalled[1]
    assert "an id, or words" in recalled[2]
    assert len(result["messages"]) == len({m.id for m in result["messages"]})


WORDS = ("word " * 300, "仓库的库存 " * 150, "x" * 3_000, "", "ok", "a line\n" * 90)


def turn_of(chance):
    """Some messages that belong together: words, pictures, calls with their answers."""
    kind, text = chance.random(), chance.choice(WORDS)
    if kind < 0.2:
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        shown = [picture, {"type": "text", "text": text}] if kind < 0.05 else text or "go on"
        return [HumanMessage(shown)]
    if kind < 0.3:
        return [AIMessage(text or "fine")]
    calls = [
        {"name": f"t{n}", "args": {"n": chance.choice(WORDS)[:90]}, "id": f"call_{n}"}
        for n in range(chance.randint(1, 4))
    ]
    answers = [
        ToolMessage(chance.choice(WORDS) or "none", tool_call_id=c["id"], name=c["name"])
        for c in calls
    ]
    chance.shuffle(answers)
    return [AIMessage(text, tool_calls=calls), *answers]


def compressed(number):
    """A random history, compressed before the first turn: the request, and the whole of it."""
    chance = random.Random(number)
    summariser = chance.choice([honest, careless, lambda m, o: {"scratchpad": "none"}])
    turns = (turn_of(chance) for _ in range(chance.randint(3, 60)))
    history = [HumanMessage("Hello."), *(m for turn in turns for m in turn)]
    model = ScriptedModel(
        {"agent": [[call("complete_task", summary="x")]], "summariser": summariser}
    )
    request = f"Request {number}: keep file_{number}.txt as it is."
    graph = build_task_agent(model=model, tools=[stock])
    graph.invoke({"messages": [*history, HumanMessage(request)]}, context=SMALL)
    return model.asked[-1].messages, [*history, HumanMessage(request)], request


@pytest.mark.req("P-14")
def test_random_histories_become_shorter_and_stay_valid_and_keep_the_request():
    for number in range(30):
        asked, whole, request = compressed(number)
        assert problems(asked) == [], number
        assert request in str([m.content for m in asked]), number
        if tokens_in(whole) > TARGET:
            assert tokens_in(asked[1:]) < min(tokens_in(whole), 1.2 * TARGET), number
