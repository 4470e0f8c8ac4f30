"""How one sub-agent is run, and what whoever delegated to it is told of its end."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime
from langgraph.types import Interrupt
from typing_extensions import TypedDict

from ....calls.call_records import Call, PendingCall, tell_end
from ....calls.limits import warn_of_circle
from ....calls.results import SHOWN, ToolResult
from ....run.side_work import SideWork, is_cancelled, make_side_config
from ....state.agent import (
    DELEGATE,
    AgentState,
    AgentUpdate,
    make_agent_path,
    merge_limits,
    summarize_spend,
)
from ....state.calls import Evidence, merge_records
from ....state.channels import read_state
from ....state.context import Context
from ....state.errors import DatabaseError, ThreadError
from ....state.loop import LoopState
from ....state.outcome import Spend
from ....state.undone import describe_undone_calls
from ....store.journal.port import Row
from ....stream.components import Handoff, text_of
from ....stream.events import make_call_events, make_component_events
from ....stream.turn_messages import add_messages, make_answers
from ....text.canonical import beginning_of
from ....text.sentences import say
from ....turn.begin import make_evidence
from ....turn.end import LIMITS
from ....turn.event_emitter import show_questions
from ....turn.repetition import find_repeat
from ....turn.schedule import run_ready
from ....turn.scope import RunScope
from ..shared.agent import Agent
from ..shared.complete_task import list_undone, list_unmet

RunAgent = Callable[..., Awaitable[Any]]
"""Runs a sub-agent: its input, the config, and LangGraph's options."""

_KEPT: Final = 2_000
"""Characters of the result of a sub-agent's call, as whoever delegated keeps it."""
_MOST_IDS: Final = 50


class AgentEnd(TypedDict):
    """How one sub-agent ended, as JSON that survives a crash; `told` is its result."""

    call: str
    told: dict[str, Any]
    unmet: list[str]
    text: str
    stored: str
    evidence: list[Evidence]
    spend: Spend
    warnings: list[str]


@dataclass(frozen=True)
class SubAgents:
    """Sub-agents, by the calls they were `given`; with `beside` they work in the background."""

    scope: RunScope
    state: AgentState
    agent: Agent
    runs: Mapping[str, RunAgent]
    given: Sequence[PendingCall]
    beside: SideWork | None = None
    answered: dict[str, Call] = field(default_factory=dict)

    @property
    def calls(self) -> dict[str, PendingCall]:
        """Those calls, by their ids."""
        return {call["id"]: call for call in self.given}

    async def run(self, name: str, _: Mapping[str, AgentEnd]) -> AgentEnd:
        """Run one, unless it cannot begin."""
        call = self.calls[name]
        if self.beside is None:
            Call.from_pending(call, self.scope.emit, status="scheduled").begin()
        objective, problem = self.build_objective(call)
        if problem:
            return await self._end(call, {"status": "failed", "unmet": [problem]}, AgentState())
        began, path = time.monotonic(), make_agent_path(self.state.path, call)
        state, failed = await self._run_graph(call, path, objective)
        told = _summarize_state(state) | ({"status": "failed", "reason": "ERROR"} if failed else {})
        for left in (told["unmet"], told["own_unmet"]):
            left[:] = dict.fromkeys([*filter(None, [failed]), *left])
        told["seconds"] = round(time.monotonic() - began, 3)
        if state.halt == "ABORTED" and self.is_cancelled(name):
            return await self.end_cancelled(name, state)
        return await self._end(call, told, state, path)

    def is_cancelled(self, name: str) -> bool:
        """Whether one is to end by the word of whoever delegated."""
        path = make_agent_path(self.state.path, self.calls[name])
        return is_cancelled(self.scope.around.wishes, path)

    async def end_cancelled(self, name: str, state: AgentState | None = None) -> AgentEnd:
        """The end of one that was cancelled, with what its calls left undone; it is no failure."""
        path = make_agent_path(self.state.path, self.calls[name])
        state = state or self.scope.around.seen.get(path) or AgentState(path=path)
        told = {"status": "cancelled", "unmet": describe_undone_calls(state.evidence)}
        return await self._end(self.calls[name], told, state, path)

    async def run_all(self, runtime: Runtime[Context], names: Sequence[str]) -> list[AgentEnd]:
        """Run these side by side; whatever becomes of one is data, and harms no other."""
        waits: dict[str, list[str]] = {name: [] for name in names}
        return await run_ready(
            self.scope,
            runtime,
            names,
            waits,
            self.run,
            ended=self.note_end,
            asked=self.show_asked,
            together=True,
        )

    def build_objective(self, call: PendingCall) -> tuple[str, str]:
        """What one is told, and why it cannot begin."""
        args = call["args"]
        objective, problem = self.agent.team[args["agent_name"]].build_objective(args)
        most = self.scope.context.max_agent_depth
        deep = len(self.state.agents) >= most
        return objective, problem or (say("agents_too_deep", most=most) if deep else "")

    async def _run_graph(
        self, call: PendingCall, path: str, objective: str
    ) -> tuple[AgentState, str]:
        """The last known state of a sub-agent, and why it did not come to its own end."""
        definition = self.agent.team[call["args"]["agent_name"]].definition
        limits = merge_limits(self.scope.context, definition.limits)
        given = {
            "messages": [HumanMessage(objective, id=f"{self.state.turn_id}.{path}")],
            "turn_id": self.state.turn_id,
            "hook_context": self.state.hook_context,
            "path": path,
            "limits": limits,
        }
        config, options = self._locate_run(call, path)
        late = asyncio.timeout(self._compute_deadline(limits))
        try:
            async with late:
                final = await self.runs[definition.name](given, config, **options)
                return read_state(AgentState, final), ""
        except (GraphBubbleUp, DatabaseError, ThreadError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever a sub-agent raises is data
            why = f"{type(error).__name__}: {error}" if not late.expired() else say("agent_hung")
            known = self.scope.around.seen.get(path)
            return (known if isinstance(known, AgentState) else AgentState(path=path)), why

    def _locate_run(self, call: PendingCall, path: str) -> tuple[RunnableConfig, dict[str, Any]]:
        """Where one is run, and what it heeds."""
        config = self.scope.build_inner_config(path)
        if self.beside is None:
            return config, {}
        place = make_side_config(get_config(), call["place"])
        place["configurable"].update(config.get("configurable", {}))
        return place | RunnableConfig(run_name=path), {"control": self.beside.control}

    def _compute_deadline(self, limits: Mapping[str, float]) -> float:
        """Seconds after which one is given up that never comes to look at its limits."""
        context = self.scope.context
        return limits["seconds"] + context.tool_deadline + 2 * context.model_deadline

    async def _end(
        self, call: PendingCall, told: dict[str, Any], state: AgentState, path: str = ""
    ) -> AgentEnd:
        evidence = [
            *state.evidence,
            *(await self._find_unreported_writes(state, path) if path else ()),
        ]
        used, unmet = state.spend, told.pop("own_unmet", [])
        if self.agent.team[call["args"]["agent_name"]].definition.output_alone:
            told = {key: told.get(key) for key in ("status", "reason", "output", "seconds")}
        mine = [record["id"] for record in evidence if record["status"] == "success"]
        told = {
            "agent": call["args"]["agent_name"],
            **{key: value for key, value in told.items() if value not in ("", [], None)},
            "evidence": mine[-_MOST_IDS:],
            "spent": summarize_spend(state),
        }
        text = json.dumps(told, ensure_ascii=False, indent=1)
        results = self.agent.parts.toolbox.open_results(self.scope)
        shown, stored = await results.shorten(ToolResult(text), self.scope.context.result_cap)
        return AgentEnd(
            call=call["id"],
            told=told | {"path": path},
            unmet=unmet,
            text=shown.text,
            stored=stored,
            evidence=[r | Evidence(result=beginning_of(r["result"], _KEPT)) for r in evidence],
            spend=used,
            warnings=state.warnings,
        )

    async def _find_unreported_writes(self, state: AgentState, path: str) -> list[Evidence]:
        """Writes that only the journal knows of, of one that did not come to its own end."""
        if state.report or state.halt:
            return []
        known = {record["id"] for record in state.evidence}
        rows = await list_rows(self.scope, path)
        return [make_evidence(row) for row in rows if row.call not in known]

    def note_end(self, end: AgentEnd) -> None:
        """Count and tell how one ended, in this process or before a crash."""
        call, told = self.calls[end["call"]], end["told"]
        for event in (event for record in end["evidence"] for event in make_call_events(record)):
            self.scope.emit(event)
        if self.beside is None:
            self.scope.budget.count_branch(told["path"] or call["id"], end["spend"])
        else:  # its call has been answered
            for event in make_component_events(call["id"], [self._build_handoff(call, told)]):
                self.scope.emit(event)
            return
        seconds, stored = told.get("seconds", 0.0), end["stored"]
        self.answer(call, told, end["text"], stored=stored, seconds=seconds)

    def answer(self, pending: PendingCall, told: Mapping[str, Any], text: str, **how: Any) -> None:
        """Write down the answer to a call."""
        call = replace(Call.from_pending(pending, self.scope.emit, status="executing"), **how)
        call.result = ToolResult(
            text, dict(told), artifact={SHOWN: [self._build_handoff(pending, told)]}
        )
        call.end_status = read_call_status(told)
        repeats = self.scope.context.loop_repeats
        if circle := find_repeat(
            self.state.own_evidence, DELEGATE, pending["args"], stuck_at=repeats
        ):
            warn_of_circle(call, circle)
        tell_end(call)
        self.answered[call.id] = call

    def _build_handoff(self, call: PendingCall, told: Mapping[str, Any]) -> dict[str, Any]:
        """The component of one."""
        shown = Handoff(
            target=told["agent"], source=self.state.path, reason=call["args"]["objective"],
            summary=told.get("summary", ""), reference=told["path"], status=told["status"],
        ).model_dump(mode="json")  # fmt: skip
        return {"name": "handoff", "props": shown, "text": text_of("handoff", shown)}

    def update(self, ends: Sequence[AgentEnd]) -> AgentUpdate:
        """What they change in the agent that delegated."""
        answered = [self.answered[name] for name in self.calls if name in self.answered]
        evidence = [record for end in ends for record in end["evidence"]]
        # What was changed is among the calls inside.
        evidence += [call.evidence | Evidence(read_only=True) for call in answered]
        evidence = merge_records([], [evidence, [self._note_unmet(end, evidence) for end in ends]])
        messages: list[Any] = [*self.collect_answers(ends), *(call.message for call in answered)]
        if isinstance(self.state, LoopState):
            messages = add_messages(self.state, messages)
        return AgentUpdate(
            messages=messages,
            evidence=evidence,
            warnings=[text for end in ends for text in end["warnings"]],
        )  # fmt: skip

    def _note_unmet(self, end: AgentEnd, made: Sequence[Evidence]) -> Evidence:
        """The record of a call whose agent has ended; in the background it was answered before."""
        known = next(r for r in [*made, *self.state.evidence] if r["id"] == end["call"])
        ended = Evidence(status=read_call_status(end["told"]), result=end["text"])
        began = Evidence(read_only=bool(end["told"]["path"]), unmet=end.get("unmet", []))
        return known | ended | began

    def collect_answers(self, ends: Sequence[AgentEnd]) -> list[AnyMessage]:
        """Answers to the calls inside that people were asked about."""
        if not isinstance(self.state, LoopState):
            return []
        ended = [record for end in ends for record in end["evidence"]]
        return [*make_answers(self.state, [*self.scope.around.heard.values(), *ended])]

    async def show_asked(self, questions: Sequence[Interrupt], ends: Sequence[AgentEnd]) -> None:
        """Show what is asked where people look: in the conversation of the graph's own agent."""
        if not isinstance(self.state, LoopState):
            return
        await show_questions(self.state, "agent", questions, self.collect_answers(ends))


def read_call_status(told: Mapping[str, Any]) -> Literal["success", "error"]:
    """How the call of one ended."""
    return "error" if told["status"] in ("failed", "cancelled") else "success"


def _summarize_state(state: AgentState) -> dict[str, Any]:
    """What a sub-agent came to, by its report, its limits, and what its calls brought."""
    report, halt, unmet = state.report or {}, state.halt, list_undone(state)
    status, own = report.get("status", "failed"), list_unmet(state)
    if (status == "responded" and halt) or (status == "success" and unmet):
        status = "partial"
    more = [say(LIMITS[halt])] if halt in LIMITS else []
    if status == "failed" and not more:
        more = [say("agent_said_nothing", why=halt or "-")]
    told = {"status": status, "reason": halt, "summary": report.get("summary")}
    left = {"unmet": [*unmet, *more], "own_unmet": [*own, *more]}
    return {**told, **left, "output": report.get("output")}


async def list_rows(scope: RunScope, path: str) -> list[Row]:
    """What the journal knows of a sub-agent in this turn, and of those below it."""
    rows = await scope.journal.rows(scope.journal_thread) if scope.turn else []
    return [row for row in rows if row.turn == scope.turn and is_within(row.task, path)]


def is_within(task: str, path: str) -> bool:
    """Whether a task is a sub-agent, or one below it."""
    return f"{task}/".startswith(f"{path}/")
