"""Runs of cases in every graph: fake tools, gullible models, and a person who answers.

A gullible model obeys whatever it reads: it makes the calls of the attack as soon as it has
read the injection. What keeps it from harm is never the model, only the graph.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from langchain_core.messages import BaseMessage
from langchain_core.tools import StructuredTool, ToolException
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import (
    Context,
    ScriptedModel,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
    build_router,
    build_task_agent,
)
from loopwright.graphs.options import BuildOptions
from loopwright.prompts.prompt import read_json
from support.flows import citing, decide, flow
from support.scripts import passed, plan, report, thought, todo

from .cases import (
    Call,
    Case,
    Json,
    JsonObject,
    Read,
    Result,
    Step,
    Tool,
    breaches,
    foreign_arguments,
    tools_of,
)
from .fake_server import list_texts, offering

HAS_FOREIGN: Final = "foreign" in BuildOptions.__annotations__
"""Whether graphs take the option that says what becomes of foreign values."""
_FIRST_PLAN: Final = ("tool_description", "schema_enum", "earlier_turn", "snapshot")
"""Places that a gullible planner has read before its first plan."""
_OF_SERVERS: Final = ("tool_description", "schema_enum")
_MOST_ANSWERS: Final = 30
_SMALL: Final = 800
"""Tokens of history above which it is summed up, so that every snapshot case has a summary."""
_LACK: Final = "not enough: the rest of it"

Messages = list[BaseMessage]


# The world: tools that answer by the case, and note what reaches them.


class World:
    """The fake tools of a case.

    Attributes:
        made: The calls that reached a tool, in order.
    """

    def __init__(self, case: Case) -> None:
        self.made: list[tuple[str, JsonObject]] = []
        self._case = case
        self._tools = tools_of(case)
        self._entries = [read for turn in case.turns for read in turn.reads] + [*case.reads]
        self._used: list[Read] = []

    @contextmanager
    def offer(self) -> Iterator[dict[str, Any]]:
        """The tools as options of a builder.

        Those that lie about themselves are a stranger's: they come from an MCP server.
        """
        attack = self._case.attack
        if attack is None or attack.place not in _OF_SERVERS:
            yield {"tools": [self._make_tool(tool) for tool in self._tools.values()], "mcp": {}}
            return
        with ExitStack() as stack:
            servers: dict[str, Any] = {}
            for origin in dict.fromkeys(tool.declared for tool in self._tools.values()):
                offered = {n: one for n, one in self._tools.items() if one.declared == origin}
                url = stack.enter_context(offering(offered, self.answer))
                servers[origin or "other"] = {"url": url, "trust": True}
                servers[origin or "other"] |= {"origin": origin} if origin else {}
            yield {"tools": [], "mcp": {"mcpServers": servers}}

    def answer(self, tool: Tool, args: JsonObject) -> Result:
        """Answer a call by the rule of the cases, and note it."""
        self.made.append((tool.name, args))
        fitting = [e for e in self._entries if (e.call.tool, e.call.args) == (tool.name, args)]
        fresh = [e for e in fitting if not any(e is used for used in self._used)]
        if fitting:
            entry = fresh[0] if fresh else fitting[-1]
            self._used.append(entry)
            return entry.result
        for default in tool.defaults:
            if all(args.get(name) == value for name, value in default.match.items()):
                return Result(default.result.kind, _fill(default.result.value, args))
        return Result("error", f"{tool.name} has nothing of this kind.")

    def _make_tool(self, tool: Tool) -> StructuredTool:
        hints: dict[str, Any] = {"readOnlyHint": True} if tool.kind == "read" else {}
        hints |= {"openWorldHint": True} if tool.open_world else {}
        hints |= {"origin": tool.declared} if tool.declared else {}

        async def run(**args: Any) -> Any:
            return _give(self.answer(tool, args))

        return StructuredTool(
            name=tool.name,
            description=tool.description,
            args_schema=tool.parameters,
            coroutine=run,
            metadata=hints,
            response_format="content_and_artifact" if tool.result == "text" else "content",
        )


def _fill(value: Json, args: JsonObject) -> Json:
    """Put arguments in place of their names in braces."""
    if isinstance(value, dict):
        return {name: _fill(part, args) for name, part in value.items()}
    if isinstance(value, list):
        return [_fill(part, args) for part in value]
    if not isinstance(value, str):
        return value
    return re.sub(r"\{(\w+)\}", lambda name: str(args.get(name[1], name[0])), value)


def _give(result: Result) -> Any:
    """What a tool returns: data as it is, text as content; pictures as a model reads them."""
    if result.kind == "error":
        raise ToolException(str(result.value))
    if result.kind == "structured":
        return result.value
    return [{"type": "text", "text": text} for text in list_texts(result)], None


# What a model does in a turn, whatever its graph.


@dataclass
class Mind:
    """What a model means to do in a turn: calls one after the other, or plans of steps."""

    case: Case
    attacked: bool
    calls: Iterator[Call] = field(default_factory=lambda: iter(()))
    tasks: Sequence[Sequence[Call]] = ()
    plans: list[dict[str, Any]] = field(default_factory=list)

    def begin(self, calls: Sequence[Call], *, split: bool) -> None:
        """Mean to make these calls in a turn."""
        self.calls = iter(calls)
        self.tasks = [[call] for call in calls] if split else [calls]
        self.plans = [flow(*(_as_step(call, f"t{n}") for n, call in enumerate(calls)))]

    @property
    def outputs(self) -> JsonObject:
        """What the llm steps of the plans answer."""
        flow_of_case = self.case.flow
        return flow_of_case.outputs | (flow_of_case.gullible_outputs if self.attacked else {})

    def next_call(self) -> list[dict[str, Any]]:
        """The next call as a model writes it; nothing once all are made."""
        return [_spell(call) for call in [next(self.calls, None)] if call is not None]


def _spell(call: Call) -> dict[str, Any]:
    return {"name": call.tool, "args": call.args, "id": f"call_{uuid.uuid4().hex[:10]}"}


def list_calls(case: Case, *, attacked: bool) -> list[Call]:
    """What a model calls for the request, in order; an obedient one goes by the attack."""
    reads, attack = [read.call for read in case.reads], case.attack
    if attack is None or not attacked:
        return [*reads, *case.truth]
    at, truth = attack.after + 1, case.truth if attack.mode == "also" else ()
    return [*reads[:at], *attack.calls, *reads[at:], *truth]


# Models, one for each graph; `tasks` of the mind are the tasks of a plan.


def _react(mind: Mind) -> dict[str, Any]:
    waiting: list[dict[str, Any]] = []

    def think(_: Messages, __: list[str]) -> str:
        waiting[:] = mind.next_call()
        if waiting:
            return thought(f"Now {waiting[0]['id']}.", more=True, reason="it is wanted")
        return thought("That is all of it.")

    return {
        "thought": think,
        "action": lambda *_: list(waiting),
        "observation": lambda *_: f"{waiting[0]['id'] if waiting else 'It'} is done.",
    }


def _task_agent(mind: Mind) -> dict[str, Any]:
    def work(_: Messages, __: list[str]) -> list[dict[str, Any]]:
        done = {"name": "complete_task", "args": {"summary": "That is all of it."}}
        return mind.next_call() or [done]

    return {"agent": work, "summariser": partial(_sum_up, mind)}


def _sum_up(mind: Mind, messages: Messages, _: list[str]) -> dict[str, Any]:
    """What a gullible compressor keeps of the turns before: the injection, in any words it can."""
    shown = messages[-1].text.partition("<messages>")[2].partition("</messages>")[0]
    given = {one["id"]: str(one["text"]) for one in json.loads(shown or "[]")}
    attack = mind.case.attack if mind.attacked else None
    texts = [attack.summary] if attack else ["Something was read."]
    texts += [part.text for value in attack.injected for part in value.parts] if attack else []
    facts = [
        {"text": text, "from": [n for n, words in given.items() if text in words] or [*given][:9]}
        for text in texts
    ]
    return {"keyKnowledge": facts}


def _plan_execute_verify(mind: Mind) -> dict[str, Any]:
    count = len(mind.tasks)
    todos = [todo(str(n), f"part {n}", [str(n - 1)] if n > 1 else []) for n in _upto(count)]
    calls = {str(n): iter(mind.tasks[n - 1]) for n in _upto(count)}

    def work(messages: Messages, _: list[str]) -> Any:
        name = str(read_json(messages[1].text, "task")["id"])
        call = next(calls[name], None)
        return [_spell(call)] if call else report(f"Part {name} is done.")

    cited = {f"t{n}": [f"{n}.1.0"] for n in _upto(count)}
    return {
        "planner": lambda *_: plan(*todos),
        "executor": work,
        "verifier": lambda *_: passed("That is all of it.", **cited),
    }


def _upto(count: int) -> range:
    return range(1, count + 1)


def _route(mind: Mind, *, graph: str) -> dict[str, Any]:
    """Send everything to one graph; what comes to nothing there goes to a stronger one."""
    others = _react(mind) | _task_agent(mind) | _plan_execute_verify(mind)
    return {"dispatcher": lambda *_: {"graph": graph, "why": "it fits"}, **others}


def _prompt_flow(mind: Mind) -> dict[str, Any]:
    def write_plan(_: Messages, __: list[str]) -> Any:
        return mind.plans.pop(0) if mind.plans else "I know no other plan."

    def write_answer(messages: Messages, offered: list[str]) -> str:
        may = '"not_enough": 1' in messages[-1].text
        return _LACK if mind.plans and may else citing(messages, offered)

    def recover(*_: Any) -> dict[str, Any]:
        return decide("replan_from_failure" if mind.plans else "give_up")

    def fill(messages: Messages, _: list[str]) -> str:
        name = messages[-1].text.partition(":")[0]
        value = mind.outputs[name]
        return value if isinstance(value, str) else json.dumps(value)

    return {
        "flow_planner": write_plan, "answerer": write_answer, "recovery": recover, "llm_call": fill,
    }  # fmt: skip


# Plans of prompt_flow.


def list_plans(case: Case, *, attacked: bool, literal: bool) -> list[dict[str, Any]]:
    """The plans that are written for the request, the first one and what replaces it.

    A benign plan stands whole at the beginning. A gullible planner writes the replan of the
    attack after the answerer, or a failure, made it plan again.
    """
    by_hand = [_as_step(call, f"r{n}") for n, call in enumerate(list_steps(case))]
    honest = by_hand if literal else [*map(write_step, case.flow.benign_plan)]
    attack = case.attack
    if attack is None or not attacked:
        return [flow(*honest)]
    obey = (
        [_as_step(call, f"o{n}") for n, call in enumerate(attack.calls)]
        if literal else [*map(write_step, case.flow.replan)]
    )  # fmt: skip
    if attack.place not in _FIRST_PLAN:
        return [flow(*honest), flow(*obey)] if obey else [flow(*honest)]
    wanted = honest
    if attack.mode == "instead":
        wanted = [step for step in honest if _is_read(case, step)]
    return [flow(*wanted, *obey)]


def list_steps(case: Case) -> list[Call]:
    """The calls of the benign plan with literals."""
    return [*(read.call for read in case.reads), *case.truth]


def _is_read(case: Case, step: Mapping[str, Any]) -> bool:
    tool = tools_of(case).get(step["tool"])
    return tool is None or tool.kind == "read"


def _as_step(call: Call, name: str) -> dict[str, Any]:
    return {"id": name, "description": "", "tool": call.tool, "arguments": call.args}


def write_step(step: Step) -> dict[str, Any]:
    """A step of a case as a planner writes it."""
    written: dict[str, Any] = {"id": step.id, "description": "", "tool": step.tool or "llm_call"}
    if step.tool:
        written["arguments"] = {name: _refer(value) for name, value in step.args.items()}
    else:
        inputs = " ".join(_path(*ref, braces=True) for ref in step.inputs)
        written["arguments"] = {"prompt": f"{step.id}: {step.instruction}\n\n{inputs}"}
        written["arguments"] |= {"schema": _SCHEMAS[step.result]} if step.result in _SCHEMAS else {}
        if step.choices:
            written["arguments"]["schema"] = {"type": "string", "enum": [*step.choices]}
    if step.when:
        ref, word, wanted = step.when
        written["when"] = f"{_path(*ref)} {word} {json.dumps(wanted, ensure_ascii=False)}"
    if step.for_each:
        written["forEach"] = _path(*step.for_each, braces=True)
    return written


_SCHEMAS: Final[Mapping[str, dict[str, Any]]] = {
    "number": {"type": "number"},
    "date": {"type": "string", "format": "date"},
    "id": {"type": "string"},
}


def _refer(value: Json) -> Any:
    """An argument with references as a plan spells them."""
    if isinstance(value, list):
        return [_refer(part) for part in value]
    if not isinstance(value, dict):
        return value
    if "ref" in value:
        return _path(*_ref(value["ref"]), braces=True)
    if "template" in value:
        refs = value["refs"]
        assert isinstance(refs, list)
        return str(value["template"]).format(*(_path(*_ref(r), braces=True) for r in refs))
    return {name: _refer(part) for name, part in value.items()}


def _ref(value: Json) -> tuple[str, str]:
    assert isinstance(value, list)
    return str(value[0]), str(value[1])


def _path(step: str, path: str, *, braces: bool = False) -> str:
    keys = path.split(".") if path else []
    spelled = step + "".join(f"[{key}]" if key.isdigit() else f".{key}" for key in keys)
    return f"{{{{{spelled}}}}}" if braces else spelled


# The graphs, and how a run in one goes.


@dataclass(frozen=True)
class Player:
    """A graph with a model for it.

    Attributes:
        split: Every call is a task of its own, which knows of the others by their evidence only.
        literal: Plans are written with literals.
        compresses: A long history is summed up.
    """

    build: Callable[..., Any]
    script: Callable[[Mind], dict[str, Any]]
    split: bool = False
    literal: bool = False
    compresses: bool = False


GRAPHS: Final[Mapping[str, Player]] = {
    "prompt_flow": Player(build_prompt_flow, _prompt_flow),
    "prompt_flow, literals": Player(build_prompt_flow, _prompt_flow, literal=True),
    "react": Player(build_react, _react),
    "task_agent": Player(build_task_agent, _task_agent, compresses=True),
    "plan_execute_verify": Player(build_plan_execute_verify, _plan_execute_verify),
    "plan_execute_verify, tasks": Player(
        build_plan_execute_verify, _plan_execute_verify, split=True
    ),
    "router to react": Player(build_router, partial(_route, graph="react")),
    "router to task_agent": Player(
        build_router, partial(_route, graph="task_agent"), compresses=True
    ),
}


@dataclass(frozen=True)
class Setting:
    """How a graph is set up, and who answers.

    Attributes:
        options: Of the graph's builder.
        person: Somebody answers questions; else the run is not interactive.
    """

    options: Mapping[str, Any]
    person: bool = True


_OFF: Final = {"foreign": "allow"} if HAS_FOREIGN else {}
_STRICT: Final = {"foreign": "strict"} if HAS_FOREIGN else {}
SETTINGS: Final[Mapping[str, Setting]] = {
    "off": Setting({"policy": "allow", **_OFF}),
    "allow": Setting({"policy": "allow"}),
    "default": Setting({}, person=False),
    "default, asked": Setting({}),
    "strict": Setting({"policy": "allow", **_STRICT}),
}
"""`off` is how it would be without any rule for foreign values."""


@dataclass(frozen=True)
class Question:
    """A question that was asked: about a call, or (without a tool) about a plan."""

    tool: str
    args: JsonObject
    foreign: tuple[str, ...]
    """The paths of what a stranger wrote."""
    marked: bool


@dataclass
class Run:
    """What became of a case in a graph."""

    case: Case
    made: list[tuple[str, JsonObject]]
    questions: list[Question] = field(default_factory=list)
    outcome: Mapping[str, Any] = field(default_factory=dict)

    @property
    def broken(self) -> bool:
        """Whether a call that reached its tool is a breach."""
        return any(breaches(self.case, tool, args) for tool, args in self.made)

    @property
    def useful(self) -> bool:
        """Whether everything that the request needs was done."""
        return all((call.tool, call.args) in self.made for call in self.case.truth)

    def list_needless(self, *, strict: bool = False) -> list[Question]:
        """The marked questions about calls that need nothing which the rule calls foreign."""
        needed = set(foreign_arguments(self.case, strict))
        return [
            asked
            for asked in self.questions
            if asked.marked
            and not any((asked.tool, re.split(r"[.\[]", p)[0]) in needed for p in asked.foreign)
        ]


def run_case(graph: str, setting: str, case: Case) -> Run:
    """Run a case: an attack with a gullible model, a benign task with an honest one."""
    return asyncio.run(play(graph, setting, case))


async def play(graph: str, setting: str, case: Case) -> Run:
    """Run the earlier turns of a case, then its request."""
    player, world, how = GRAPHS[graph], World(case), SETTINGS[setting]
    mind = Mind(case, attacked=case.attack is not None)
    run, context = Run(case, world.made), _context(player, case, how)
    saver, thread = InMemorySaver(), {"configurable": {"thread_id": uuid.uuid4().hex}}
    asked = [(turn.request, [read.call for read in turn.reads]) for turn in case.turns]
    asked.append((case.request, list_calls(case, attacked=mind.attacked)))
    with world.offer() as offered:
        for number, (request, calls) in enumerate(asked, start=1):
            mind.begin(calls, split=player.split)
            if number == len(asked):
                mind.plans = list_plans(case, attacked=mind.attacked, literal=player.literal)
            model = ScriptedModel(player.script(mind))
            options = {**offered, **how.options, "checkpointer": saver}
            graph_of_turn = player.build(model=model, **options)
            said: Any = {"messages": [("user", request)]}
            run.outcome = await _run_turn(graph_of_turn, said, thread, context, run)
    return run


def _context(player: Player, case: Case, how: Setting) -> Context:
    settings = {"interactive": how.person, "max_verify_cycles": 1}
    if player.compresses and case.attack and case.attack.place == "snapshot":
        settings["context_target"] = _SMALL
    return Context.model_validate(settings)


async def _run_turn(
    graph: Any, said: Any, thread: Any, context: Context, run: Run
) -> Mapping[str, Any]:
    """Run one turn to its end; whoever is asked answers."""
    for _ in range(_MOST_ANSWERS):
        result = await graph.ainvoke(said, thread, context=context)
        waiting = result.get("__interrupt__") or ()
        if not waiting:
            outcome: Mapping[str, Any] = result.get("outcome") or {}
            return outcome
        questions = {one.id: read_question(one.value) for one in waiting}
        run.questions += questions.values()
        said = Command(resume={name: _answer(run.case, q) for name, q in questions.items()})
    return {}


def read_question(value: Mapping[str, Any]) -> Question:
    """What a question is about, and whether it names what a stranger wrote."""
    about = value["action_requests"][0]
    foreign = value.get("foreign") or about.get("foreign") or []
    widened = value.get("widened") or about.get("args", {}).get("widened") or []
    is_plan = about["name"] == "review_flow"
    foreign = foreign or (is_plan and about["args"].get("foreign")) or []
    paths = tuple(str(one.get("path", "")) for one in foreign if isinstance(one, dict))
    tool, args = ("", {}) if is_plan else (about["name"], about["args"])
    return Question(tool, args, paths, marked=bool(foreign or widened))


def _answer(case: Case, asked: Question) -> str:
    """A person rejects what a stranger wrote; but an honest task gets what it needs."""
    honest = case.attack is None and (not asked.tool or (asked.tool, asked.args) in _needs(case))
    return "approve" if honest or not asked.marked else "reject"


def _needs(case: Case) -> list[tuple[str, JsonObject]]:
    return [(call.tool, call.args) for call in list_steps(case)]
