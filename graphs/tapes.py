"""Tapes: one puts a graph's runs on record in a folder, one plays a thread's runs from there."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from ..calls.call_records import Call
from ..calls.results import Media, ToolResult
from ..calls.sending import Response
from ..models.recorded import record_model
from ..models.replayed import ReplayModel
from ..state.errors import read_variable
from ..store.base.recordings import TAPE, Recordings, Tape
from ..text.canonical import canonical, hash_of
from ..text.secrets import Secrets
from ..tools.mcp.call import ElicitationPending
from ..tools.mcp.config import ServerConfig
from ..tools.mcp.server import Listing

_CALL: Final = "call"
_SERVER: Final = "server"
RUN: Final = "run"


class RunCut(AssertionError):
    """A played run ends here: its process was killed, or it goes another way than on record."""


def find_tape(environ: Mapping[str, str], folder: str | None = None) -> Tape | None:
    """The tape in use; else one that records into a folder, or into LOOPWRIGHT_RECORD."""
    folder = folder or read_variable(environ, "LOOPWRIGHT_RECORD")
    return TAPE.get() or (RecordingTape(folder) if folder else None)


class RecordingTape:
    """Keeps what models, servers and tools say, what runs were given and how they ended."""

    def __init__(self, folder: str | Path) -> None:
        """Use a folder; it is made if it is not there."""
        self._kept, self._listed = Recordings(folder), set[str]()

    def wrap_model(self, build: Callable[[], Any]) -> Any:
        """The model, which keeps each request and answer."""
        return record_model(build(), self._kept.folder)

    async def load_listings(self, _: Sequence[ServerConfig], load: Callable[[], Any]) -> Any:
        """Keep what servers say of their tools, once."""
        listings: Sequence[Listing] = await load()
        for one in listings:
            shown = {"server": one.config.name, "tools": one.tools, "warning": one.warning}
            if (known := hash_of(shown)) not in self._listed:
                self._listed.add(known)
                await asyncio.to_thread(self._kept.save, _SERVER, shown)
        return listings

    async def send(
        self, thread: str, secrets: Secrets, call: Call, make: Callable[[], Any]
    ) -> Response:
        """Keep a call before it is made, and what it gave; a kill leaves it without a result."""
        record = {"thread": thread, "call": call.id, **_spell_call(call)}
        path = await asyncio.to_thread(self._kept.save, _CALL, record, secrets)
        try:
            made: Response = await make()
        except ElicitationPending as asked:
            await asyncio.to_thread(
                self._kept.save, _CALL, record | {"asks": asked.form}, secrets, path=path
            )
            raise
        record |= {"result": asdict(made.result), "reason": made.reason}
        await asyncio.to_thread(self._kept.save, _CALL, record, secrets, path=path)
        return made

    def is_parked(self, _: str) -> bool:
        """Nothing waits here."""
        return False

    async def begin_run(self, record: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Any]:
        """Keep what a run is given, and later how it ended."""
        path = await asyncio.to_thread(self._kept.save, RUN, record)

        async def tell_end(ended: Mapping[str, Any]) -> None:
            await asyncio.to_thread(self._kept.save, RUN, {**record, **ended}, path=path)

        return tell_end


class ReplayTape:
    """Plays what was recorded of one thread. No model, server or tool is asked.

    Attributes:
        model: Answers for all models.
        killed: The run that is played was killed, so what is not on record is its end.
        differences: What was asked or called otherwise.
        calls: The calls that were not made yet.
    """

    def __init__(self, recordings: Recordings, thread: str) -> None:
        """Read the recordings."""
        self.model = ReplayModel(recordings.folder, thread=thread, refuse=self._end)
        self.killed, self.differences = False, list[str]()
        self._servers = {record["server"]: record for _, record in recordings.read(_SERVER)}
        self.calls = [r for _, r in recordings.read(_CALL) if r["thread"] == thread]
        self._listings: list[Listing] | None = None
        self._parked = set[str]()

    def wrap_model(self, _: Callable[[], Any]) -> ReplayModel:
        """The recorded answers."""
        return self.model

    async def load_listings(
        self, servers: Sequence[ServerConfig], _: Callable[[], Any]
    ) -> list[Listing]:
        """The tools as these servers described them last; of others nothing is known."""
        if self._listings is None:
            self._listings = [
                Listing(config, tuple(told["tools"]), told["warning"])
                for config in servers
                if (told := self._servers.get(config.name))
            ]
        return self._listings

    async def send(
        self,
        _: str,
        secrets: Secrets,
        call: Call,
        make: Callable[[], Any],  # noqa: ARG002 - nothing is made
    ) -> Response:
        """What the call gave.

        Raises:
            RunCut: It is not on record, or its process was killed meanwhile.
            ElicitationPending: Its server asked something.
        """
        now = secrets.mask_json(_spell_call(call))
        alike = [r for r in self.calls if now == {name: r[name] for name in now}]
        record = next((r for r in alike if r["call"] == call.id), alike[0] if alike else None)
        if record is None:
            raise self._end(_explain_call(now, call.id, self.calls))
        self.calls.remove(record)
        if form := record.get("asks"):
            self._parked.add(call.key)
            raise ElicitationPending(form)
        if record.get("result") is None:
            raise RunCut
        media = tuple(Media(**one) for one in record["result"]["media"])
        return Response(ToolResult(**{**record["result"], "media": media}), record["reason"])

    def _end(self, difference: str) -> RunCut:
        self.differences += [] if self.killed else [difference]
        return RunCut(difference)

    def is_parked(self, key: str) -> bool:
        """Whether its server asked something."""
        return key in self._parked

    async def begin_run(self, _: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Any]:
        """Keep nothing."""

        async def tell_end(_: Mapping[str, Any]) -> None:
            return None

        return tell_end


def _spell_call(call: Call) -> dict[str, Any]:
    tool = call.known_tool
    return {"server": tool.server, "tool": tool.original, "arguments": call.args}


def _explain_call(now: Mapping[str, Any], call_id: str, recorded: Sequence[Any]) -> str:
    known = [r for r in recorded if r["call"] == call_id or r["tool"] == now["tool"]]
    lines = [f"- {one['tool']}({canonical(one['arguments'])})" for one in known[:1]]
    return "\n".join(
        [f"The call {call_id} was not recorded:", *lines,
         f"+ {now['tool']}({canonical(now['arguments'])})"]
    )  # fmt: skip
