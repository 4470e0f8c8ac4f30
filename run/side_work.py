"""Work beside the steps of a run: a node starts it, and its step does not wait for it.

LangGraph waits for everything that a step has started. This work belongs to the run, which pauses
it before it releases the thread: the next run continues its saved part.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.runtime import RunControl

from ..state.context import Emit
from ..store.base import langgraph_keys as keys
from ..store.locks.control import InnerControl, get_wish

BESIDE_KEY: Final = "__loopwright_beside"
"""Where the nodes of a graph find what works beside them; kept out of metadata as FENCE_KEY."""

Wishes = Mapping[str, Sequence[Mapping[str, str]]]
"""By path: what is wished of one in the background, `{id, text}`; no text: that it ends."""


@dataclass
class SideWork:
    """What works beside the steps of one run of a graph, each under a name; see also RunScope."""

    heard: dict[str, Any] = field(default_factory=dict)
    seen: dict[str, Any] = field(default_factory=dict)
    control: InnerControl | None = None
    wishes: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    _working: dict[str, asyncio.Task[Any]] = field(default_factory=dict)
    _emit: Emit | None = None
    _unheard: list[dict[str, Any]] = field(default_factory=list)
    _slots: asyncio.Semaphore | None = None

    def has(self, name: str) -> bool:
        """Whether one of this name works, or has worked."""
        return name in self._working

    def begin(self, name: str, work: Coroutine[Any, Any, Any], *, most: int) -> None:
        """Begin a piece of work, which heeds the control; at most so many go on at a time."""
        slots = self._slots = self._slots or asyncio.Semaphore(most)

        async def working() -> Any:
            async with slots:
                return await work

        self._working[name] = asyncio.ensure_future(working())

    async def collect_results(self, *, wait: bool) -> dict[str, Any]:
        """Results by name, an exception where one has come to rest; with `wait` of all of them."""
        works = {**self._working}
        if wait and works:
            await asyncio.wait(works.values())
        done = [name for name, work in works.items() if work.done()]
        return {name: works[name].exception() or works[name].result() for name in done}

    def wish(self, path: str, wish: dict[str, str]) -> None:
        """Wish something of one; of the same id only once."""
        known = self.wishes.setdefault(path, [])
        known += [] if any(one["id"] == wish["id"] for one in known) else [wish]

    def is_over(self, name: str) -> bool:
        """Whether one has come to its end; a question, or a pause, is none."""
        work = self._working.get(name)
        return work is not None and work.done() and work.exception() is None

    def tell_status(self, name: str) -> str:
        """How far one is, in a word."""
        work = self._working.get(name)
        rests = work is not None and work.done()
        return "ended" if self.is_over(name) else "waits for an answer" if rests else "running"

    def forget(self, name: str) -> None:
        """Drop one that has ended."""
        del self._working[name]

    def tell(self, event: dict[str, Any]) -> None:
        """Tell an event by the node that is running, or by the next one."""
        if self._emit is None:
            self._unheard.append(event)
        else:
            self._emit(event)

    @contextmanager
    def forward_events(self, emit: Emit) -> Iterator[None]:
        """A node that tells what is told beside it."""
        unheard, self._unheard, self._emit = self._unheard, [], emit
        for event in unheard:
            emit(event)
        try:
            yield
        finally:
            self._emit = None

    async def stop_all(self, *, at_once: bool = False) -> None:
        """Bring all to rest, at their next border or at once."""
        if self.control is not None:
            self.control.request_drain("the run has ended")
        works = [*self._working.values()]
        for work in works if at_once else ():
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)


def get_side_work() -> SideWork:
    """What works beside the run of the running node's graph."""
    beside: SideWork = get_config()["configurable"][BESIDE_KEY]
    return beside


def is_cancelled(wishes: Wishes, path: str) -> bool:
    """Whether one, or one that it works for, is to end."""
    return any(
        not one["text"]
        for above, some in wishes.items() if f"{path}/".startswith(f"{above}/")
        for one in some
    )  # fmt: skip


def is_stopped(control: RunControl | None, wishes: Wishes, path: str) -> bool:
    """Whether a graph is to end, by a stop of the turn or the word of whom it works for."""
    return get_wish(control) == "stop" or is_cancelled(wishes, path)


@asynccontextmanager
async def open_side_work(run: Any) -> AsyncIterator[Any]:
    """A run, and what will work beside it."""
    all_of_it = SideWork()
    try:
        yield run.with_configurable(BESIDE_KEY, all_of_it)
    except BaseException:
        await all_of_it.stop_all(at_once=True)
        raise
    await all_of_it.stop_all()


def make_side_config(config: RunnableConfig, place: str) -> RunnableConfig:
    """What to run a graph beside a node with: it goes on where it is saved under this name."""
    configurable = config["configurable"]
    around = str(configurable.get("checkpoint_ns", "")).split("|")[:-1]
    own = {
        "checkpoint_ns": "|".join([*around, place]),
        keys.RESUMING: True,  # where nothing is saved, LangGraph begins
        # Several graphs of one step would be told apart by their order.
        keys.SCRATCHPAD: replace(configurable[keys.SCRATCHPAD], subgraph_counter=lambda: 0),
    }
    return {**config, "configurable": {**configurable, **own}}
