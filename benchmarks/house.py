"""What does the house weigh, and how far is the walk through it? Prints lines and files.

    python benchmarks/house.py [lines | walk]

Lines are all lines of the `*.py` of a room. The walk is how many of the package's files one
`invoke` of the smallest goal enters: one task or step, one call of a write tool, SQLite, a scripted
model. A run before it warms up, so imports do not count. LangGraph's own files do not count either.
Python tells of a coroutine each time it goes on after a pause. Only its first entry counts: whoever
waits outside for a tool call or a model ask is no part of it.
"""

import ast
import sys
import tempfile
import threading
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
ROOMS = sorted(file.parent.name for file in ROOT.glob("*/__init__.py"))
OFFLINE = "models/offline/**/*.py"
# What answers "was this write made?", in two rooms: the rules, and what they mean for a call.
WRITES = ("state/intents.py", "calls/journal.py")
# The port and the stores behind it, which are not counted with it.
STORES = ("state/journal.py", "doors/journal/*.py")
# Functions by name, wherever they live: a tool call goes through the gate, then along the path.
TOOL_CALL = ("open_calls", "run_calls")
MODEL_ASK = ("ask",)
MOCKS = {"mock", "mocker", "Mock", "MagicMock", "AsyncMock", "NonCallableMock", "create_autospec"}

Event = tuple[bool, str, FrameType | None]


def say(name: str, value: object) -> None:
    """Print one line of the table."""
    sys.stdout.write(f"  {name:40} {value}\n")


# Lines


def lines(*files: Path) -> int:
    """As `wc -l` counts them."""
    return sum(file.read_bytes().count(b"\n") for file in files)


def found(*patterns: str) -> list[Path]:
    """The files that match one of these."""
    return sorted({file for pattern in patterns for file in ROOT.glob(pattern)})


def product() -> list[Path]:
    """The package's files: all rooms, and the root's own `__init__.py`."""
    return found("__init__.py", *(f"{room}/**/*.py" for room in ROOMS))


def functions(file: Path) -> Iterator[tuple[int, str]]:
    """The lines of each function of a file, without its docstring, and its name."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if ast.get_docstring(node) is not None:
                text = node.body[0]
                length -= (text.end_lineno or text.lineno) - text.lineno + 1
            yield length, f"{node.name}  {file.relative_to(ROOT)}"


def cycle() -> str:
    """How modules import each other in a circle, if any do."""
    import grimp  # noqa: PLC0415 - not needed for the walk

    graph = grimp.build_graph("loopwright", exclude_type_checking_imports=True)
    ours = [m for m in graph.modules if m.split(".")[1:2] in ([], *([room] for room in ROOMS))]
    try:
        TopologicalSorter(
            {module: graph.find_modules_directly_imported_by(module) for module in ours}
        ).prepare()
    except CycleError as error:
        return " → ".join(error.args[1])
    return "none"


def mocks() -> int:
    """How often the tests name something of `unittest.mock`."""
    nodes = (
        node
        for file in found("tests/**/*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    )
    return sum(getattr(node, "id", getattr(node, "attr", None)) in MOCKS for node in nodes)


def weigh() -> None:
    """Print everything that can be read from the files."""
    files = product()
    for room in ROOMS:
        own = found(f"{room}/**/*.py")
        say(f"{room}/", f"{lines(*own):6,} lines {len(own):4} modules")
    say("all product lines", f"{lines(*files):6,} lines {len(files):4} modules")
    say("models/offline", f"{lines(*found(OFFLINE)):6,} lines")
    for name, patterns in (
        ("was this write made?", WRITES),
        ("its stores", STORES),
    ):
        own = found(*patterns)
        say(name, f"{lines(*own):6,} lines {len(own):4} modules")
    for folder in sorted({file.parent for file in found("nodes/**/*.py")}):
        say(f"files in {folder.relative_to(ROOT)}/", f"{len(list(folder.glob('*.py'))):6}")
    length, name = max(one for file in files for one in functions(file))
    say("longest function", f"{length:6} lines  {name}")
    longest = max(files, key=lines)
    say("longest file", f"{lines(longest):6} lines  {longest.relative_to(ROOT)}")
    say("import cycles", f"{cycle():>6}")
    say("uses of Mock or patch in tests", f"{mocks():6}")


# The walk


class Walk:
    """Which of the package's functions are called and left: a profile function of `sys`."""

    def __init__(self) -> None:
        """Know the package's files; note nothing yet."""
        self.events: list[Event] | None = None
        self._seen: set[FrameType] = set()
        self._ours = {str(file): str(file.relative_to(ROOT)) for file in product()}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call or a return of a function of ours; a coroutine returns at each pause."""
        code = frame.f_code
        file = self._ours.get(code.co_filename)
        if file is None or code.co_name == "<module>" or event not in ("call", "return"):
            return
        begins = event == "call" and frame not in self._seen
        self._seen.add(frame)  # which keeps it, so that no later one is taken for it
        if self.events is not None:
            entry = frame if code.co_name in TOOL_CALL + MODEL_ASK else None
            self.events.append((begins, file, entry))


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


def report(graph: str, events: list[Event]) -> None:
    """Print the walk of one goal."""
    say(f"files entered by {graph}", f"{len(entered(events)):6}")
    for what, names in (("tool call", TOOL_CALL), ("model ask", MODEL_ASK)):
        inside = [max(within(events, name), key=len, default=set()) for name in names]
        missing = [name for name, files in zip(names, inside, strict=True) if not files]
        note = f"  no {', '.join(missing)} was called" if missing else ""
        say(f"    in one {what}", f"{len(set().union(*inside)):6}{note}")


class Goal(NamedTuple):
    """The smallest goal of a graph: what its models say."""

    graph: str
    script: dict[str, Any]


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
GOALS = (
    Goal(
        "plan_execute_verify",
        {
            "planner": [{"summary": "the plan", "needsMorePlanning": False, "todos": [TASK]}],
            "executor": [[CALL], DONE],
            "verifier": [PASSED],
        },
    ),
    Goal("react", {"thought": [MORE, END], "action": [[CALL]], "observation": ["It is put."]}),
    Goal(
        "prompt_flow",
        {
            "flow_planner": [{"steps": [{"id": "s1", "tool": "put", "arguments": CALL["args"]}]}],
            "answerer": ["It is put. [s1]"],
        },
    ),
)


def put(name: str) -> str:
    """Put a thing."""
    return f"{name} is put"


def run(goal: Goal, thread: str, folder: str, walk: Walk) -> list[Event]:
    """What one goal calls on a new thread."""
    import loopwright  # noqa: PLC0415 - its threads must begin under the profile function

    assert Path(loopwright.__file__).parent == ROOT, "another loopwright is installed"
    with loopwright.open_durability(f"sqlite:///{folder}/threads.db") as durability:
        build = getattr(loopwright, f"build_{goal.graph}")
        model = loopwright.ScriptedModel(goal.script)
        graph = build(model=model, tools=[put], durability=durability)
        request = {"messages": [("user", "Put the lamp.")]}
        events = walk.events = []
        outcome = graph.invoke(request, {"configurable": {"thread_id": thread}})["outcome"]
        walk.events = None
    assert outcome["status"] == "complete", outcome
    assert outcome["spend"]["tool_calls"] == 1, outcome
    return events


def walk_through() -> None:
    """Print how many files the smallest goal of each graph enters."""
    walk = Walk()
    sys.setprofile(walk)
    threading.setprofile(walk)
    walks: dict[str, list[Event]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for goal in GOALS:
            run(goal, f"{goal.graph} warm", folder, walk)
            walks[goal.graph] = run(goal, goal.graph, folder, walk)
    sys.setprofile(None)
    for graph, events in walks.items():
        report(graph, events)


def main() -> None:
    """Measure and print."""
    wanted = sys.argv[1:] or ["lines", "walk"]
    if "lines" in wanted:
        weigh()
    if "walk" in wanted:
        walk_through()


if __name__ == "__main__":
    main()
