"""`RunScope`: what surrounds the running node, made once per node and handed on whole."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.runtime import RunControl, Runtime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from ..hooks.contract import NOTHING, HookEvent, Verdict
from ..hooks.registry import Hooks
from ..prompts.instructions import Instructions
from ..prompts.prompt import PromptManager, render_sections
from ..run.client_access import is_server_call, resolve_identity
from ..run.side_work import is_stopped
from ..state.attachments import Block
from ..state.calls import CallState, Evidence
from ..state.context import SESSION_KEY, SHOWN_TOOLS, STARTUP, Context, Emit, Session, context_of
from ..state.history import History
from ..state.loop import PUBLIC, LoopState
from ..state.messages import EVIDENCE
from ..state.outcome import Spend, add_spend
from ..store.base.langgraph_keys import SAVER, mute_values_stream
from ..store.checkpoints.async_adapters import ThreadedSaver
from ..store.durability import get_saver_locks
from ..store.journal.port import FENCE_KEY, Fence, Row
from ..store.journal.recorder import KNOWN_IN, Recorder
from ..store.locks.control import poll_wish
from ..store.locks.thread_locks import LockedBy
from ..text.sentences import LANGUAGE, SENTENCES, match_language
from .budget import Budget, make_share
from .chain import Chain
from .event_emitter import find_emit


@dataclass(frozen=True, kw_only=True)
class GraphParts:
    """The live objects of a graph; `name` is how the policy's rules name it."""

    prompts: PromptManager = field(default_factory=PromptManager)
    instructions: Instructions = field(default_factory=Instructions)
    about: str = ""
    hooks: Hooks = field(default_factory=Hooks)
    journal: Recorder = field(default_factory=Recorder)
    name: str = ""
    served: bool = False
    """A server loads the graph, so each caller is a client."""
    inside: bool = False
    """The graph works for the turn of one around it, which begins and ends that turn."""
    locked_by: LockedBy | None = None
    """Gives what locks the threads; None where that is for the graph's saver to say."""


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """How the run was begun, where its node stands in it, and how it is saved."""

    of_client: bool = False
    """A client of a server began it, so the words in its settings are the user's."""
    place: str = ""
    """The nodes around the node's graph, as `outer|inner`; "" where it is the outermost."""
    role: str = ""  # that calls tools, if the graph has one only
    model_turn: str = ""  # the id of the model turn in it, `<path>#<round>`, where it counts so
    fence: Fence | None = None
    """The fencing token of the locked thread; None if nobody else can run it."""
    stopped: Callable[[], bool] = lambda: False
    """Whether somebody stops the turn, so that nothing new may begin."""
    control: RunControl | None = None
    """What the run heeds, if there is anything."""
    saved: bool = False
    """The run is saved as it goes."""
    durable: bool = False
    """It is saved somewhere that outlives the process."""
    elsewhere: bool = False
    """What the node is about to do may have been begun by a process whose journal is not here."""
    locked_by: LockedBy = lambda: get_saver_locks(None)
    """Gives what keeps others out, of its thread and of what it changes."""
    session: Session = field(default_factory=Session)
    """What hooks brought at the start of this run."""
    began: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a graph inside the node, or a tool, knows of the graph around it."""

    past: History = field(default_factory=History)
    """The conversation and the calls before, for graphs inside the node."""
    handed: LoopState | None = None
    """The outer turn that this graph works for; see `GraphParts.inside`."""
    hides: int | None = None
    """Index of the namespace segment to drop: the router's graphs share a place in the journal."""
    public: Mapping[str, Any] = field(default_factory=dict)
    """The graph's state as its tools see it, as the node found it."""
    by_tools: frozenset[str] = frozenset()
    """The fields of it that tools may change."""
    chain: Chain = field(default_factory=Chain)
    """What the graph's models have read, and who may command them."""
    heard: dict[str, Evidence] = field(default_factory=dict)
    """By id: the calls that ended in graphs inside the node's tasks."""
    seen: dict[str, Any] = field(default_factory=dict)
    """By path: the newest state of such graphs, which may end by an error."""
    wishes: Mapping[str, Sequence[Mapping[str, str]]] = field(default_factory=dict)  # see SideWork


@dataclass(frozen=True, kw_only=True)
class RunScope:
    """The run as one node sees it. Outside of a graph, budget and settings are enough."""

    context: Context
    """The run's settings."""
    budget: Budget
    """What the run may still use, shared by all its branches."""
    parts: GraphParts = field(default_factory=GraphParts)
    """The live objects of the graph."""
    emit: Emit = lambda _: None
    """Takes events; they reach the outer run's stream, also from inside a task."""
    store: BaseStore | None = None
    """Where long results are kept; None where the graph has no store."""
    thread: str = ""
    """The thread's id; "" where the graph runs without one."""
    user: str | None = None
    """Whom the run is for: as a server has proven, else as the program that embeds it says."""
    turn: str = ""
    """Name of the user turn, never used twice."""
    agent: str = ""
    """The graph, as the policy's rules name it, and the sub-agents in it down to this one."""
    path: str = ""
    """Whose calls are made: a task's id, a step's, or the graph's own name."""
    can_ask: bool = True
    """A question could be answered: somebody is there, and the run can be resumed."""
    notes: list[str] = field(default_factory=list)
    """What the outcome must warn of: the warnings told on the way."""
    asides: list[Spend] = field(default_factory=list)  # of requests for servers
    run: RunFacts = field(default_factory=RunFacts)
    around: Surroundings = field(default_factory=Surroundings)

    @property
    def journal(self) -> Recorder:
        """Where calls are recorded before they are made."""
        return self.parts.journal

    @property
    def hooks(self) -> Hooks:
        """The graph's hooks."""
        return self.parts.hooks

    @property
    def journal_thread(self) -> str:
        """The journal's thread id; a run without a thread uses its turn."""
        return self.thread or self.turn

    @property
    def has_lasting_store(self) -> bool:
        """Whether the store keeps what it is given for as long as the run is saved."""
        in_memory = isinstance(self.store, InMemoryStore)
        return self.store is not None and not (in_memory and self.run.durable)

    def add_seconds(self, spend: Spend | None = None) -> Spend:
        """The node's spend with its active seconds, and what was asked beside it."""
        seconds = round(time.monotonic() - self.run.began, 3)
        while self.asides:
            spend = add_spend(spend, self.asides.pop())
        return add_spend(spend, Spend(seconds=seconds))

    async def release(self, keeps: Callable[[Row], bool], **how: bool) -> list[Row]:
        """Release the turn's calls at this place; see `Recorder.release`."""
        return await self.journal.release(
            self.journal_thread,
            turn=self.turn,
            place=self.run.place,
            keeps=keeps,
            fence=self.run.fence,
            **how,
        )

    def build_opening(
        self, role: str, data: Mapping[str, object], blocks: Sequence[Block] = ()
    ) -> list[BaseMessage]:
        """The first two messages of a request: the role's system prompt, and data as sections.

        `blocks` are the user's attachments; they change least, so they come first.
        """
        system = self.parts.prompts.get_prompt(role, **self.build_contexts())
        text = render_sections(data)
        shown = HumanMessage([*blocks, {"type": "text", "text": text}] if blocks else text)
        return [SystemMessage(system), shown]

    def build_contexts(self) -> dict[str, Any]:
        """The contexts for prompts, from the operator's folders and the run's settings."""
        texts = (
            self.parts.about,
            self.parts.instructions.render_text(),
            self.context.system_context,
        )
        return {
            "system_context": "\n\n".join(filter(None, texts)),
            "business_context": self.context.business_context,
            "language": self.context.language or "",
        }

    def with_own_notes(self) -> "RunScope":
        """The same scope with notes of its own; each warning told on it is one."""
        notes: list[str] = []

        def emit(event: dict[str, Any]) -> None:
            if event["type"] == "warning":
                notes.append(event["text"])
            self.emit(event)

        return replace(self, notes=notes, emit=emit)

    def build_inner_config(self, name: str) -> RunnableConfig:
        """How to run a graph inside the node: under this name, its states unseen by clients."""
        config = mute_values_stream(get_config()) if self.run.of_client else RunnableConfig()
        config["run_name"] = name
        return config

    def for_part(self, turn: LoopState, part: float, emit: Emit) -> "RunScope":
        """The same scope for a graph that works for this turn, with `part` of each limit."""
        budget = self.budget
        if part != 1:
            budget = make_share(self.context, turn.spend, part, budget)
        depth = len(self.run.place.split("|")) if self.run.place else 0
        around_it = replace(self.around, handed=turn, hides=depth)
        return replace(self, budget=budget, around=around_it, emit=emit)

    def in_model_turn(self, name: str) -> "RunScope":
        """The same scope for a model turn; its events name the innermost such turn."""
        if not name:
            return self

        def emit(event: dict[str, Any]) -> None:
            self.emit({"model_turn": name, **event} if event["type"] in _OF_MODEL_TURNS else event)

        return replace(self, run=replace(self.run, model_turn=name), emit=emit)

    async def fire(self, event: HookEvent, **fields: Any) -> Verdict:
        """Run an event's hooks and merge their outputs."""
        if event not in self.hooks.events:
            return NOTHING
        return await self.hooks.fire(event, emit=self.emit, **fields)

    async def notify(self, kind: str, message: str, details: dict[str, Any]) -> None:
        """Tell hooks that a question is about to be put."""
        await self.fire("Notification", notification_type=kind, message=message, details=details)

    def join_hook_notes(self, context: Sequence[str]) -> str:
        """What hooks add to each prompt: for the turn, and at the start of this run."""
        return "\n\n".join(dict.fromkeys(filter(None, [*context, self.run.session.context])))


_OF_MODEL_TURNS: Final = frozenset({"phase", "model", "tool_call", "loop"})
_State = LoopState | CallState
_OUTER: ContextVar[RunScope | None] = ContextVar("loopwright_outer_scope", default=None)


@contextmanager
def share_scope(scope: RunScope) -> Iterator[None]:
    """Let every node called inside use this scope's budget and stream."""
    # LangGraph shows a subgraph's own custom events only with `subgraphs=True`.
    token = _OUTER.set(scope)
    try:
        yield
    finally:
        _OUTER.reset(token)


def report_to_outer(state: object) -> None:
    """Report ended calls and their spend to the outer node, before anything asks."""
    if outer := _OUTER.get():
        outer.around.heard.update(
            (record["id"], record) for record in getattr(state, "evidence", ())
        )
        if isinstance(state, CallState):
            outer.around.seen[state.path] = state
            outer.budget.count_branch(state.path, state.spend)


async def make_scope(state: _State, runtime: Runtime[Context], parts: GraphParts) -> RunScope:
    """What surrounds the running node."""
    context, configurable = context_of(runtime), get_config()["configurable"]
    set_language(runtime, parts)
    KNOWN_IN.set(parts.journal.identity)
    await poll_wish(runtime.control)
    STARTUP.set(context.startup_timeout)
    SHOWN_TOOLS.set(context.shown_tools)
    outer, path = _OUTER.get(), getattr(state, "path", parts.name)
    thread, saver = str(configurable.get("thread_id", "")), configurable.get(SAVER)
    if outer is None:
        emit = find_emit(runtime.stream_writer)
        budget = await _make_budget(context, state, parts.journal, thread)
    else:
        emit, budget = outer.emit, _make_inner_budget(outer.budget, context, state, path)
        report_to_outer(state)
    scope = RunScope(
        context=context,
        budget=budget,
        parts=parts,
        emit=emit,
        store=runtime.store,
        thread=thread,
        user=resolve_identity(configurable, served=parts.served),
        turn=state.turn_id,
        agent="/".join([parts.name, *getattr(state, "agents", ())]),
        path=path,
        can_ask=context.interactive and bool(saver),
        run=_find_run_facts(state, runtime, parts, outer),
        around=_find_surroundings(state, outer, parts),
    )
    return scope.with_own_notes().in_model_turn(getattr(state, "turn_name", ""))


def _find_run_facts(
    state: _State, runtime: Runtime[Context], parts: GraphParts, outer: RunScope | None
) -> RunFacts:
    """How the run was begun, where its node stands in it, and how it is saved."""
    configurable = get_config()["configurable"]
    session, saver = configurable.get(SESSION_KEY), configurable.get(SAVER)
    path, wishes = getattr(state, "path", parts.name), outer.around.wishes if outer else {}
    return RunFacts(
        of_client=parts.served or is_server_call(configurable),
        place=_build_place(configurable, outer),
        fence=configurable.get(FENCE_KEY),
        stopped=lambda: is_stopped(runtime.control, wishes, path),
        control=runtime.control,
        saved=bool(saver),
        durable=_is_durable(saver),
        elsewhere=state.known_in not in ("", parts.journal.identity),
        locked_by=parts.locked_by or partial(get_saver_locks, saver or None),
        session=session if isinstance(session, Session) else Session(),
    )


def _make_inner_budget(outer: Budget, context: Context, state: _State, path: str) -> Budget:
    """The outer budget, tightened by the graph's own limits."""
    outer.count_branch(path, state.spend)
    limits = getattr(state, "limits", None)
    return Budget(context, state.spend, limits=limits, parent=outer) if limits else outer


def _find_surroundings(state: _State, outer: RunScope | None, parts: GraphParts) -> Surroundings:
    """What the node knows of the outer one, and what its tools see."""
    known = outer.around if outer else Surroundings()
    works_for_it = parts.inside and isinstance(state, LoopState)
    return replace(
        known,
        handed=known.handed if works_for_it else None,
        public=_build_public_state(state, outer),
        by_tools=getattr(state, "by_tools", frozenset()),
        chain=Chain(state, known.past, outer.around.chain if outer else None),
    )


def _is_durable(saver: Any) -> bool:
    """Whether what is saved outlives the process."""
    inner = saver.inner if isinstance(saver, ThreadedSaver) else saver
    return bool(inner) and not isinstance(inner, InMemorySaver)


def _build_place(configurable: Mapping[str, Any], outer: RunScope | None) -> str:
    """The outer nodes, without task ids, which are others after a lost step."""
    around_it = str(configurable.get("checkpoint_ns", "")).split("|")[:-1]
    if outer is not None and (hides := outer.around.hides) is not None:
        del around_it[hides : hides + 1]
    return "|".join(step.partition(":")[0] for step in around_it)


def _build_public_state(state: _State, outer: RunScope | None) -> Mapping[str, Any]:
    """What a graph's tools see of its state; a task's calls follow the run's conversation."""
    own = {name: getattr(state, name) for name in PUBLIC if hasattr(state, name)}
    if outer is None or isinstance(state, LoopState):
        return own
    # Calls that were asked about are among the task's own.
    before = outer.around.public.get("messages", ())
    talk = [message for message in before if EVIDENCE not in message.additional_kwargs]
    return {**outer.around.public, **own, "messages": [*talk, *getattr(state, "messages", ())]}


def set_language(runtime: Runtime[Context], parts: GraphParts) -> None:
    """Use the run's language in the running node and all it calls."""
    LANGUAGE.set(match_language(context_of(runtime).language or parts.prompts.language, SENTENCES))


async def _make_budget(context: Context, state: _State, journal: Recorder, thread: str) -> Budget:
    """A budget from the spend in the state, and usage that a crash kept from the state."""
    limits = getattr(state, "limits", None)
    if not (thread and state.turn_id):
        return Budget(context, state.spend, limits=limits)
    tab = await journal.load_usage(thread, state.turn_id, state.spend)
    return Budget(context, state.spend, tab=tab, limits=limits)
