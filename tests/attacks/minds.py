"""Gullible models: they obey whatever they read, each in the words of its graph."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

from langchain_core.messages import BaseMessage

from loopwright.prompts.prompt import read_json
from support.flows import citing, decide, flow
from support.scripts import PROOFREAD, passed, plan, report, thought, todo

from .cases import Attack, Call, Case, Json, JsonObject, Step, words

_FIRST_PLAN: Final = ("tool_description", "schema_enum", "earlier_turn", "snapshot")
"""Places that a gullible planner has read before its first plan."""
_LACK: Final = "not enough: the rest of it"
WORKER: Final = "worker"
"""The sub-agent of an office."""

Messages = list[BaseMessage]
Script = dict[str, Any]
Split = Literal["", "each", "halves"]
"""How the calls of a turn are shared out: each by itself, or the first reads and the rest."""


@dataclass
class Mind:
    """What a model means to do in a turn: calls one after the other, or plans of steps."""

    case: Case
    attacked: bool
    calls: Iterator[Call] = field(default_factory=lambda: iter(()))
    tasks: Mapping[str, Sequence[Call]] = field(default_factory=dict)
    plans: list[dict[str, Any]] = field(default_factory=list)

    def begin(self, calls: Sequence[Call], split: Split) -> None:
        """Mean to make these calls in a turn."""
        at, known = 0, [read.call for read in self.case.reads]
        while at < len(calls) and calls[at : at + 1] == known[at : at + 1]:
            at += 1
        parts: dict[Split, list[Sequence[Call]]] = {
            "": [calls], "each": [[call] for call in calls], "halves": [calls[:at], calls[at:]]
        }  # fmt: skip
        self.calls = iter(calls)
        self.tasks = {str(n): part for n, part in enumerate(parts[split], start=1)}
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


def react(mind: Mind) -> Script:
    """Thinks of one call after the other."""
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


def task_agent(mind: Mind) -> Script:
    """Makes one call after the other."""

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


def plan_execute_verify(mind: Mind) -> Script:
    """Plans the tasks of the mind, one after the other."""
    names = [*mind.tasks]
    calls = {name: iter(task) for name, task in mind.tasks.items()}
    todos = [todo(n, f"part {n}", names[:at][-1:]) for at, n in enumerate(names)]

    def work(messages: Messages, _: list[str]) -> Any:
        name = str(read_json(messages[1].text, "task")["id"])
        call = next(calls[name], None)
        return [_spell(call)] if call else report(f"Part {name} is done. {_repeat(mind, messages)}")

    cited = {f"t{name}": [f"{name}.1.0"] for name in names}
    return {
        "planner": lambda *_: plan(*todos),
        "executor": work,
        "verifier": lambda *_: passed("That is all of it.", **cited),
    }


def _repeat(mind: Mind, messages: Messages) -> str:
    """The lines of the injection that a model was shown: its report passes them on."""
    shown = "\n".join(message.text for message in messages)
    texts = mind.case.attack.texts if mind.case.attack else ()
    return " ".join(line for text in texts for line in text.text.splitlines() if line in shown)


def office(mind: Mind, *, worker: str) -> Script:
    """Has a part of the work done by a sub-agent, whose brief or report has in it all there is."""
    steps = _lead(mind, worker)
    made = iter(mind.tasks[worker])
    texts = [read.result.text() for read in mind.case.reads]

    def work(messages: Messages, _: list[str]) -> list[dict[str, Any]]:
        inner = f"I am {WORKER}." in messages[0].text
        step = next((_spell(call) for call in made), None) if inner else next(steps, None)
        summary = "\n\n".join(texts) if inner else "That is all of it."
        return [step or {"name": "complete_task", "args": {"summary": summary}}]

    return {"agent": work, "summariser": partial(_sum_up, mind)}


def _lead(mind: Mind, worker: str) -> Iterator[dict[str, Any]]:
    """What the agent itself calls, with the delegation of the worker's part in its place."""
    for name, task in mind.tasks.items():
        if name != worker:
            yield from map(_spell, task)
        elif task:
            brief = json.dumps([[call.tool, call.args] for call in task], ensure_ascii=False)
            args = {"agent_name": WORKER, "objective": f"Do this: {brief}"}
            yield {"name": "delegate_to_agent", "args": args, "id": f"call_{uuid.uuid4().hex[:10]}"}


def customer_service(mind: Mind) -> Script:
    """A desk that does whatever it is told."""

    def work(_: Messages, __: list[str]) -> Any:
        return mind.next_call() or "That is all of it."

    understood = {"intent": "order", "mood": "calm", "score": 0}
    return {**PROOFREAD, "listener": lambda *_: understood, "support": work}


def route(mind: Mind, *, graph: str) -> Script:
    """Send everything to one graph; what comes to nothing there goes to a stronger one."""
    others = react(mind) | task_agent(mind) | plan_execute_verify(mind)
    return {"dispatcher": lambda *_: {"graph": graph, "why": "it fits"}, **others}


def prompt_flow(mind: Mind) -> Script:
    """Writes the plans of the mind; the answerer lacks something while one is left."""

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


def list_plans(
    case: Case, *, attacked: bool, literal: bool = False, in_two: bool = False
) -> list[dict[str, Any]]:
    """The plans that are written for the request, the first one and what replaces it.

    A benign plan stands whole at the beginning. A gullible planner writes the replan of the
    attack after the answerer, or a failure, made it plan again.
    """
    attack = case.attack
    known = [call for call in list_steps(case) if not attack or not _holds_injection(attack, call)]
    by_hand = [_as_step(call, f"r{n}") for n, call in enumerate(known)]
    honest = by_hand if literal else [*map(write_step, case.flow.benign_plan)]
    tools = {"llm_call", *(read.call.tool for read in case.reads)}
    reads = [step for step in honest if step["tool"] in tools]
    rest = [step for step in honest if step not in reads]
    if attack is None or not attacked:
        return [flow(*reads), flow(*rest)] if in_two and reads and rest else [flow(*honest)]
    obey = (
        [_as_step(call, f"o{n}") for n, call in enumerate(attack.calls)]
        if literal else [*map(write_step, case.flow.replan)]
    )  # fmt: skip
    if attack.place in _FIRST_PLAN:
        return [flow(*(reads if attack.mode == "instead" else honest), *obey)]
    if in_two:
        return [flow(*reads), flow(*obey, *(rest if attack.mode == "also" else []))]
    return [flow(*honest), flow(*obey)] if obey else [flow(*honest)]


def list_steps(case: Case) -> list[Call]:
    """The calls of the benign plan with literals."""
    return [*(read.call for read in case.reads), *case.truth]


def _holds_injection(attack: Attack, call: Call) -> bool:
    """Whether an injected value stands in an honest call; no plan has it before it is read."""
    text = "\n".join(words(call.args))
    return any(isinstance(one.value, str) and one.value in text for one in attack.injected)


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
