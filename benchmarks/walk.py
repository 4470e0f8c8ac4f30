"""What the smallest goal of each graph enters and saves.

The walk is how many of the package's files one `invoke` of the goal enters: one task or step, one
call of a tool, SQLite, a scripted model. A run before it warms up, so imports do not count.
LangGraph's own files do not count either. Python reports a coroutine each time it resumes. Only its
first entry counts: a caller that waits for a tool call or a model ask is no part of it.

Checkpoints and channel writes are those of the same goal on LangGraph's own saver in memory, with
inner graphs, `branch:to:*` included: what a user's database would get.
"""

import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

ROOT = Path(__file__).resolve().parents[1]
# Functions by name, wherever they live: a tool call goes through the gate, then along the path.
TOOL_CALL = ("open_calls", "run_calls")
MODEL_ASK = "ask"
WARM = "warm"
TRIES = 3
"""Walks of a goal; the shortest counts, for what other threads do at the time may add to one."""

Event = tuple[bool, str, FrameType | None]
Counts = dict[str, int]


class Walk:
    """Which of the package's functions are called and left: a profile function of `sys`."""

    def __init__(self, files: Collection[Path] = ()) -> None:
        """Know the package's files; note nothing yet."""
        self.noting = False
        self.events: list[Event] = []
        self._seen: set[FrameType] = set()
        self._ours = {str(file): str(file.relative_to(ROOT)) for file in files}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call or a return of a function of ours; a coroutine returns at each pause."""
        code = frame.f_code
        file = self._ours.get(code.co_filename)
        if file is None or code.co_name == "<module>" or event not in ("call", "return"):
            return
        begins = event == "call" and frame not in self._seen
        self._seen.add(frame)  # which keeps it, so that no later one is taken for it
        if self.noting:
            entry = frame if code.co_name in (*TOOL_CALL, MODEL_ASK) else None
            self.events.append((begins, file, entry))


ROOMS = sorted(file.parent for file in ROOT.glob("*/__init__.py"))
PRODUCT = [ROOT / "__init__.py", *(file for room in ROOMS for file in sorted(room.rglob("*.py")))]
"""The package's files: its rooms, and the root's own."""

WALK = Walk(PRODUCT)


def entered(events: list[Event]) -> set[str]:
    """The files whose functions were entered for the first time."""
    return {file for begins, file, _ in events if begins}


def within(events: list[Event], name: str) -> list[set[str]]:
    """For each call of a function of this name: the files entered until it has ended."""
    frames = [frame for _, _, frame in events]
    calls = {id(f): f for f in frames if f is not None and f.f_code.co_name == name}
    return [
        entered(events[frames.index(call) : len(frames) - frames[::-1].index(call)])
        for call in calls.values()
    ]


class Goal(NamedTuple):
    """The smallest goal of a graph: what its models say."""

    graph: str
    script: dict[str, Any]
    options: dict[str, Any] = {}  # noqa: RUF012 - a tuple's default, which nobody changes


SAID = {"summary": "It is put."}
SEARCH = {"name": "search_knowledge_base", "args": {"query": "returns"}, "id": "call_0"}
CALL = {"name": "put", "args": {"name": "lamp"}, "id": "call_0"}
TASK = {"id": "1", "description": "Put it", "priority": 1, "status": "pending"}
DONE = {"summary": "It is put.", "taskCompleted": True, "shouldContinue": False}
PASSED = {
    "allCompleted": True, "userNeedsSatisfied": True, "overallFeedback": "fine",
    "summary": "It is put.",
    "tasks": [{"id": "1", "completed": True, "feedback": "ok", "evidence": ["1.1.0"]}],
}  # fmt: skip
MORE = 'I put it.\n\n<agent_meta>{"shouldContinue": true}</agent_meta>'
END = 'It is put.\n\n<agent_meta>{"shouldContinue": false}</agent_meta>'
REACT = {"thought": [MORE, END], "action": [[CALL]], "observation": ["It is put."]}
STEP = {"graph": "react", "why": "one call does it", "step": "I put it with put."}
HEARD = {"intent": "question", "mood": "calm", "score": 0}
GOALS = (
    Goal(
        "plan_execute_verify",
        {
            "planner": [{"summary": "the plan", "needsMorePlanning": False, "todos": [TASK]}],
            "executor": [[CALL], DONE],
            "verifier": [PASSED],
        },
    ),
    Goal("react", REACT, {"observe": "direct"}),
    Goal(
        "prompt_flow",
        {
            "flow_planner": [{"steps": [{"id": "s1", "tool": "put", "arguments": CALL["args"]}]}],
            "answerer": ["It is put. [s1]"],
        },
    ),
    Goal("task_agent", {"agent": [[CALL], [{"name": "complete_task", "args": SAID, "id": "c"}]]}),
    Goal(
        "customer_service",
        {
            "proofreader": lambda *_: {"unsupported": []},
            "listener": [HEARD],
            "support": [[SEARCH], "You can return it within 14 days [kb-1]."],
        },
    ),
    Goal("router", {**REACT, "dispatcher": [STEP], "thought": [END]}),
)


def put(name: str) -> str:
    """Put a lamp, or another thing."""
    return f"{name} is put"


def search_knowledge_base(query: str) -> dict[str, Any]:
    """Search the articles."""
    text = "You can return it within 14 days."
    return {"articles": [{"id": "kb-1", "title": query, "text": text, "url": "u", "score": 3.0}]}


READS = {"readOnlyHint": True}
ARTICLES = StructuredTool.from_function(search_knowledge_base, metadata=READS)


def ready(goal: Goal, **options: Any) -> Callable[[str], None]:
    """What runs one goal on a new thread, and asserts that it was met."""
    import loopwright  # noqa: PLC0415 - its threads must begin under the profile function

    assert Path(loopwright.__file__).parent == ROOT, "another loopwright is installed"
    desk = goal.graph == "customer_service"
    request = {"messages": [("user", "How long can I return it?" if desk else "Put the lamp.")]}
    build = getattr(loopwright, f"build_{goal.graph}")
    tools = [ARTICLES if desk else put]

    def run(thread: str) -> None:
        model = loopwright.ScriptedModel(goal.script)
        graph = build(model=model, tools=tools, **goal.options, **options)
        WALK.noting = not thread.startswith(WARM)
        outcome = graph.invoke(request, {"configurable": {"thread_id": thread}})["outcome"]
        WALK.noting = False
        assert outcome["status"] == "complete", outcome
        assert outcome["spend"]["tool_calls"] == 1, outcome

    return run


def noted(run: Callable[[str], None], thread: str) -> list[Event]:
    """What one run of a goal calls."""
    WALK.events = []
    run(thread)
    return WALK.events


def files_entered() -> Counts:
    """How many files the smallest goal of each graph enters; of react one tool call, one ask."""
    import loopwright  # noqa: PLC0415 - as above

    counts: Counts = {}
    sys.setprofile(WALK)
    threading.setprofile(WALK)
    for goal in GOALS:
        with (
            tempfile.TemporaryDirectory() as folder,
            loopwright.open_durability(f"sqlite:///{folder}/threads.db") as kept,
        ):
            run = ready(goal, durability=kept)
            run(WARM)
            walks = [noted(run, f"{goal.graph} {number}") for number in range(TRIES)]
        counts[goal.graph] = min(len(entered(events)) for events in walks)
        if goal.graph == "react":
            calls = [[max(within(events, name), key=len) for name in TOOL_CALL] for events in walks]
            counts["tool_call"] = min(len(set().union(*files)) for files in calls)
            asks = [max(within(events, MODEL_ASK), key=len) for events in walks]
            counts["model_ask"] = min(map(len, asks))
    sys.setprofile(None)
    threading.setprofile(None)
    return counts


class CountingSaver(InMemorySaver):
    """LangGraph's own, which counts what it is given."""

    checkpoints = 0
    channel_writes = 0

    async def aput(self, *given: Any) -> Any:
        """Save a checkpoint."""
        self.checkpoints += 1
        return await super().aput(*given)

    async def aput_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], *given: Any
    ) -> None:
        """Save what a node has written."""
        self.channel_writes += len(writes)
        await super().aput_writes(config, writes, *given)


def rows_saved() -> tuple[Counts, Counts]:
    """How many checkpoints, and channel writes, the smallest goal of each graph saves."""
    checkpoints: Counts = {}
    writes: Counts = {}
    for goal in GOALS:
        saver = CountingSaver()
        ready(goal, checkpointer=saver)(goal.graph)
        checkpoints[goal.graph] = saver.checkpoints
        writes[goal.graph] = saver.channel_writes
    return checkpoints, writes
