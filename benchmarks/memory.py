"""What an agent remembers of 400 turns, summed up by a model that forgets, invents and lengthens.

    .venv/bin/python benchmarks/memory.py

One run on SQLite: 400 results of 2 kB, a fact in every second one; then each fact is asked for with
`recall`. Counted are the tokens of every request, the time between two requests, and what stands in
the snapshots. Behind that 500 random histories are compressed before their first turn.
"""

import json
import random
import re
import statistics
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

from langchain_core.messages import AIMessage, BaseMessage

from loopwright import Context, ScriptedModel, build_task_agent, open_durability
from loopwright.state.snapshot import count_call_tokens, estimate_message_tokens
from support.compressing import TARGET, compressed
from support.strict_messages import problems

TURNS, HISTORIES = 400, 500
LATIN = Context(max_turns=2_000, loop_check_after=9_999)
THREAD = {"configurable": {"thread_id": "t"}}
GIVEN = {"messages": [("user", "Read each page, and keep in mind who owns what.")]}
FACT = re.compile(r"Depot (\d+) belongs to owner (\S+)\.")
RIGHT = {number: f"OW-{number * 7919 % 100_003}" for number in range(0, TURNS, 2)}


def page(number: int) -> str:
    """Read a page."""
    told = f"Depot {number} belongs to owner {RIGHT[number]}. " if number in RIGHT else ""
    chance = random.Random(number)
    words = [chance.choice(["shelf", "row", "crate", "paper", "glass", "tin"]) for _ in range(400)]
    return (told + " ".join(words))[:2_048]


def summed(messages: list[BaseMessage], _: list[str]) -> dict[str, Any]:
    """Forgets two facts of three, tells others wrong, makes some up, and is long."""
    text = messages[-1].text.partition("<messages>")[2].partition("</messages>")[0]
    facts = []
    for place, one in enumerate(json.loads(text)):
        if not (found := FACT.search(one["text"])):
            continue
        if place % 3 == 0:
            facts.append({"text": found[0], "from": [one["id"]]})
        wrong = found[0].replace(found[2], f"OW-{place}")
        facts.append({"text": wrong, "from": [one["id"]]})
        facts.append({"text": f"Depot {found[1]} was never seen by anybody.", "from": [one["id"]]})
        facts.append({"text": "All is well, go on as before. " * 5, "from": [one["id"]]})
    return {"overallGoal": facts[:3], "keyKnowledge": facts}


def worker(clock: list[float], folder: str, disk: list[int]) -> Any:
    """Reads every page, then asks for each fact."""
    asks = iter([
        *({"name": "page", "args": {"number": n}} for n in range(TURNS)),
        *({"name": "recall", "args": {"words": f"Depot {n} belongs to owner"}} for n in RIGHT),
        {"name": "complete_task", "args": {"summary": "read"}},
    ])  # fmt: skip
    number = iter(range(9_999))

    def answer(_: list[BaseMessage], __: list[str]) -> list[dict[str, Any]]:
        if len(clock) == TURNS:
            disk.append(sum(path.stat().st_size for path in Path(folder).iterdir()))
        clock.append(time.process_time())
        return [{**next(asks), "id": f"c{next(number)}"}]

    return answer


def main() -> None:
    """Measure, and print."""
    clock, disk = list[float](), list[int]()
    with tempfile.TemporaryDirectory() as folder:
        model = ScriptedModel({"agent": worker(clock, folder, disk), "summariser": summed})
        with open_durability(f"sqlite:///{folder}/t.db") as kept:
            graph = build_task_agent(model=model, tools=[page], durability=kept)
            result = graph.invoke(GIVEN, THREAD, context=LATIN)
    asked = [one.messages for one in model.asked if one.role == "agent"]
    sizes = [count_call_tokens(messages, AIMessage(""))[0] for messages in asked]
    steps = [later - earlier for earlier, later in pairwise(clock)]
    early, late = statistics.median(steps[20:60]), statistics.median(steps[TURNS - 40 : TURNS])
    found = [m.text for m in result["messages"] if m.type == "tool" and m.name == "recall"]
    right = sum(RIGHT[n] + "." in text for n, text in zip(RIGHT, found, strict=True))
    good = sum(map(fine, range(HISTORIES)))
    sys.stdout.write(
        f"tokens of a request, every 40th: {sizes[:TURNS:40]}; longest {max(sizes)}\n"
        f"summed up {sum(one.role == 'summariser' for one in model.asked)} times; CPU of a turn, "
        f"late to early {late / early:.2f}x; {disk[0] / 1e6:.2f} MB at {TURNS} turns\n"
        f"recalled {right} of {len(RIGHT)} facts; {invented(asked)} invented ones in snapshots\n"
        f"{good} of {HISTORIES} random histories are valid, shorter, and keep the request\n"
    )


def invented(asked: list[list[BaseMessage]]) -> int:
    """Lines of snapshots that say what no page says."""
    texts = {m.text for messages in asked for m in messages[1:2] if "<snapshot>" in m.text}
    lines = {line for text in texts for line in text.splitlines() if line.startswith("- ")}
    wrong = [line for line in lines if "never seen" in line or "All is well" in line]
    told = [found for line in lines for found in FACT.findall(line)]
    return len(wrong) + sum(RIGHT[int(number)] != owner for number, owner in told)


def fine(number: int) -> bool:
    """Whether a random history is compressed well."""
    asked, whole, request = compressed(number)
    kept = request in str([m.content for m in asked]) and not problems(asked)
    long = estimate_message_tokens(whole) > TARGET
    return kept and (
        not long
        or estimate_message_tokens(asked[1:]) < min(estimate_message_tokens(whole), 1.2 * TARGET)
    )


if __name__ == "__main__":
    main()
