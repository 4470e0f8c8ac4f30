"""Long runs of task_agent whose history is compressed, and random histories."""

import json
import os
import random
import re
import signal

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from loopwright import Context, ScriptedModel, build_task_agent, open_durability
from support.reacting import THREAD
from support.scripts import call

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
    graph = build_task_agent(model=model, tools=[stock], durability=kept, foreign="allow", **more)
    return graph, graph.invoke(GOAL, THREAD, context=context)


def of_agent(model):
    return [asked for asked in model.asked if asked.role == "agent"]


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


def begun(folder):
    """A process that dies while the history is summed up."""

    def die(messages, offered):
        os.kill(os.getpid(), signal.SIGKILL)

    with open_durability(f"sqlite:///{folder}/t.db") as kept:
        run(kept, ScriptedModel({"agent": worker(20), "summariser": die}))
