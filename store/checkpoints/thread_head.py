"""The head of a saved thread: its newest checkpoint, the next nodes and the open questions.

A graph inside a durable task saves its own steps under its own namespace. If the process dies after
an answer was read and before the task ended, the question stays at the head: LangGraph shows it
again, and would ignore an answer.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, PendingWrite
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME, TASKS
from langgraph.graph import END, START
from langgraph.types import Interrupt, Send, StateSnapshot

from ...state.channels import RECORDS, unpack_fields
from ..base import langgraph_keys as keys

CUT_OFF: Final = "cut_off"
"""The channel of a graph that wants to know what a turn had finished when it was cut off."""

BESIDE: Final = "background"
"""The channel of a graph in which stands what works beside it, each with its `place`."""

ASKS_BESIDE: Final = "gather"
"""The node that puts the questions of what works beside its graph, and no others."""

_CONTROL: Final = frozenset({ERROR, INTERRUPT, RESUME, keys.ERROR_SOURCE})


@dataclass(frozen=True, slots=True)
class ThreadHead:
    """The newest (or the addressed) checkpoint of a thread, with its pending writes."""

    saved: CheckpointTuple

    @property
    def writes(self) -> list[PendingWrite]:
        """The writes of tasks that ran after the checkpoint."""
        return self.saved.pending_writes or []

    @property
    def own_writes(self) -> list[tuple[str, Any]]:
        """Values written onto the checkpoint itself, by an update given with a resume."""
        return [
            (c, v) for task, c, v in self.writes if task == keys.NULL_TASK and c not in _CONTROL
        ]

    @property
    def values(self) -> dict[str, Any]:
        """The plain fields; append-only ones (messages) are stored as writes and missing here."""
        return {**unpack_fields(self.saved.checkpoint["channel_values"]), **self.own_values}

    @property
    def own_values(self) -> dict[str, Any]:
        """What was written onto the checkpoint itself, by field."""
        values: dict[str, Any] = {}
        for channel, value in self.own_writes:
            values |= value if channel in RECORDS else {channel: value}
        return values

    @property
    def status(self) -> str | None:
        """The status of the last outcome, if the thread's last turn ended with one."""
        outcome = self.values.get("outcome")
        return outcome.get("status") if isinstance(outcome, Mapping) else None

    def list_task_returns(self) -> list[Any]:
        """What durable tasks (`@task`) of the step under way returned, before it was cut off."""
        return [value for _, channel, value in self.writes if channel == keys.RETURN]

    def list_ended_parts(self) -> list[Mapping[str, Any]]:
        """Tasks or steps that ended in a phase which was cut off; not in the state yet."""
        ends = [end for end in self.list_task_returns() if isinstance(end, Mapping)]
        parts = ((end.get("step"), end.get("task"), end) for end in ends)
        return [next(one for one in found if isinstance(one, Mapping)) for found in parts]

    def list_interrupts(self) -> list[Interrupt]:
        """The questions still waiting for an answer, in task order.

        By this checkpoint; see `find_open_questions` for what a crash may have left of it.
        """
        finished = {task for task, channel, _ in self.writes if channel not in _CONTROL}
        asked: dict[str, Interrupt] = {}
        answered: set[str] = set()
        for task, question in self.iterate_questions():
            asked[question.id] = question
            answered |= {question.id} if task in finished else set()
        return [question for key, question in asked.items() if key not in answered]

    def iterate_questions(self) -> Iterator[tuple[str, Interrupt]]:
        """Every question with the id of the task that asked, or passed it on, in task order."""
        for task, channel, value in self.writes:
            if channel == INTERRUPT:
                questions = value if isinstance(value, list | tuple) else [value]
                yield from ((task, parse_interrupt(question)) for question in questions)

    def find_next_nodes(self) -> set[str]:
        """Names of the nodes the saved run would go to next, known to this graph or not."""
        stored = self.saved.checkpoint["channel_values"]
        names = _find_send_targets(stored.get(TASKS) or ())
        names |= {
            _parse_target(c) for c in stored if c.startswith(keys.BRANCH) and self._is_unseen(c)
        }
        names |= {START} if START in stored and self._is_unseen(START) else set()
        names |= {
            _parse_target(c) for c in stored
            if c.startswith(keys.JOIN) and _is_full(c, stored[c]) and self._is_unseen(c)
        }  # fmt: skip
        for _, channel, value in self.writes:
            if channel.startswith(keys.BRANCH):
                names.add(_parse_target(channel))
            elif channel == TASKS:
                names |= _find_send_targets([value])
        return names - {END}

    def _is_unseen(self, channel: str) -> bool:
        """Whether no node has run yet for what stands in a channel that makes one run."""
        checkpoint = self.saved.checkpoint
        nodes = (seen for node, seen in checkpoint["versions_seen"].items() if node != INTERRUPT)
        seen = (versions[channel] for versions in nodes if channel in versions)
        version: Any = checkpoint["channel_versions"][channel]  # one scheme per saver
        return all(version > one for one in seen)

    def find_foreign_nodes(self, nodes: Container[str]) -> list[str]:
        """Which of the nodes the thread has ever gone to a graph does not have."""
        written = self.saved.checkpoint["channel_versions"]
        gone_to = {_parse_target(channel) for channel in written if channel.startswith(keys.BRANCH)}
        return sorted(name for name in gone_to - {END} if name not in nodes)

    def find_missing_nodes(self, nodes: Container[str], channels: Container[str]) -> list[str]:
        """Which nodes the thread still needs that a graph does not have.

        LangGraph drops triggers, sends and joins of unknown nodes without an error: the thread
        would silently end.
        """
        waiting = self.find_next_nodes()
        if waiting:
            stored = self.saved.checkpoint["channel_values"]
            joins = (
                c for c in stored if c.startswith(keys.JOIN) and stored[c] and c not in channels
            )
            waiting |= {f"{_parse_target(channel)} (join)" for channel in joins}
        return sorted(name for name in waiting if name not in nodes)


async def write_update(
    saver: BaseCheckpointSaver[Any],
    config: RunnableConfig,
    head: ThreadHead | None,
    update: Mapping[str, Any],
) -> None:
    """Write values onto a checkpoint itself (`head`), as `Command(update=)` does.

    A new checkpoint would give every waiting task another id and orphan its question.
    """
    # Savers key a write by its position, so the ones already there come first.
    before = [] if head is None else head.own_writes
    await saver.aput_writes(config, [*before, *update.items()], keys.NULL_TASK)


async def write_node_update(configurable: Mapping[str, Any], update: Mapping[str, Any]) -> None:
    """Write into the state of the graph whose node is about to ask a question.

    LangGraph loses what a node returns when something in it asks; the resumed step finds this.
    """
    saver = configurable.get(keys.SAVER)
    place = "|".join(str(configurable.get("checkpoint_ns", "")).split("|")[:-1])
    step = configurable.get("checkpoint_map", {}).get(place)
    if step and isinstance(saver, BaseCheckpointSaver):
        thread = configurable.get("thread_id")
        where = {"thread_id": thread, "checkpoint_ns": place, "checkpoint_id": step}
        config = RunnableConfig(configurable=where)
        saved = await saver.aget_tuple(config)
        await write_update(saver, config, ThreadHead(saved) if saved else None, update)


def parse_interrupt(saved: Any) -> Interrupt:
    """A saved question; LangGraph's server saves the fields of one as a dict."""
    if isinstance(saved, Mapping):
        return Interrupt(value=saved.get("value"), id=str(saved.get("id", "")))
    return cast("Interrupt", saved)


def _parse_target(channel: str) -> str:
    return channel.split(":", 2)[2]


def _is_full(join: str, seen: object) -> bool:
    """Whether all the nodes have come for which a node waits."""
    return isinstance(seen, set | list) and set(join.split(":")[1].split("+")) == set(seen)


def _find_send_targets(packets: Iterable[object]) -> set[str]:
    return {packet.node for packet in packets if isinstance(packet, Send)}


def find_inner_namespaces(head: ThreadHead, around: str = "") -> dict[str, set[str]]:
    """Question id to the namespaces in which a graph inside this one (`around`) may have asked."""
    asked = list(head.iterate_questions())
    tasks = {task for task, _ in asked}
    before = f"{around}|" if around else ""
    works = head.values.get(BESIDE) or () if ASKS_BESIDE in head.find_next_nodes() else ()
    beside = {f"{before}{one['place']}" for one in works}
    places: dict[str, set[str]] = {}
    for task, question in asked:
        inside = {
            before + keys.build_task_namespace(node, outer, task)
            for node in head.find_next_nodes()
            for outer in tasks - {task}
        }
        places.setdefault(question.id, set(beside)).update(inside)
    return places


def find_open_questions(
    head: ThreadHead, inner: Mapping[str, Container[str]], around: str = ""
) -> list[Interrupt]:
    """The questions that wait, without those whose answer an inner graph has taken.

    `inner`: ids of the open questions by namespace, where something is saved.
    """
    places = find_inner_namespaces(head, around)

    def is_open(question: Interrupt) -> bool:
        saved = [inner[place] for place in places[question.id] if place in inner]
        return not saved or any(question.id in ids for ids in saved)

    return [question for question in head.list_interrupts() if is_open(question)]


def drop_answered(state: StateSnapshot, waiting: list[Interrupt]) -> StateSnapshot:
    """The state as LangGraph tells it, with only these questions."""
    ids = {question.id for question in waiting}

    def keep_open(questions: tuple[Interrupt, ...]) -> tuple[Interrupt, ...]:
        return tuple(question for question in questions if parse_interrupt(question).id in ids)

    return state._replace(
        interrupts=keep_open(state.interrupts),
        tasks=tuple(task._replace(interrupts=keep_open(task.interrupts)) for task in state.tasks),
    )
