"""Tapes: one puts a graph's runs on record in a folder, one plays a thread's runs from there."""

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from ..calls.call_records import Call
from ..calls.results import Media, ToolResult
from ..calls.sending import Response
from ..hooks.contract import NOTHING, Verdict
from ..models.on_record import (
    ReplayModel,
    RequestNotRecorded,
    drop_lost,
    explain_difference,
    record_model,
)
from ..state.errors import DatabaseError, read_variable
from ..store.base.recordings import TAPE, Recordings
from ..text.canonical import canonical, hash_of
from ..text.secrets import Secrets
from ..tools.mcp.config import ServerConfig
from ..tools.mcp.server import Listing

_CALL: Final = "call"
_HOOK: Final = "hook"
_SERVER: Final = "server"


@contextmanager
def use_tape(tape: Any = None, folder: str | None = None) -> Iterator[None]:
    """Have the graphs that are built meanwhile run with a tape.

    Without one it is the tape in use, or one that records into a folder or LOOPWRIGHT_RECORD.
    """
    folder = folder or read_variable(os.environ, "LOOPWRIGHT_RECORD")
    token = TAPE.set(tape or TAPE.get() or (RecordingTape(folder) if folder else None))
    try:
        yield
    finally:
        TAPE.reset(token)


class RecordingTape:
    """Keeps what models, servers and tools say; `run/on_record.py` adds the runs."""

    def __init__(self, folder: str | Path) -> None:
        """Use a folder; it is made if it is not there."""
        self.kept, self._saved = Recordings(folder), set[str]()

    def wrap_model(self, build: Callable[[], Any]) -> Any:
        """The model, which keeps each request and answer."""
        return record_model(build(), self.kept.folder)

    async def load_listings(self, _: Sequence[ServerConfig], load: Callable[[], Any]) -> Any:
        """Keep what servers say of their tools, once."""
        listings: Sequence[Listing] = await load()
        for one in listings:
            record = {"server": one.config.name, "tools": one.tools, "warning": one.warning}
            if (digest := hash_of(record)) not in self._saved:
                self._saved.add(digest)
                await asyncio.to_thread(self.kept.save, _SERVER, record)
        return listings

    async def send(
        self, thread: str, secrets: Secrets, call: Call, make: Callable[[], Any]
    ) -> Response:
        """Keep a call before it is made, and what it gave; a kill leaves it without a result."""
        record = {"thread": thread, "call": call.id, **_spell_call(call)}
        path = await asyncio.to_thread(self.kept.save, _CALL, record, secrets)
        response: Response = await make()
        record |= {"result": asdict(response.result), "reason": response.reason}
        with suppress(DatabaseError):  # what was done counts; the next record tells
            await asyncio.to_thread(self.kept.save, _CALL, record, secrets, path=path)
        return response

    async def hear_hooks(self, thread: str, about: list[Any], run: Callable[[], Any]) -> Verdict:
        """Keep what hooks say together."""
        verdict: Verdict = await run()
        said = verdict.model_dump(mode="json", by_alias=True, exclude_defaults=True, fallback=str)
        record = {"thread": thread, "event": about[0], "key": hash_of(about), "said": said}
        with suppress(DatabaseError):  # as above: a call may have been made before
            await asyncio.to_thread(self.kept.save, _HOOK, record)
        return verdict


class ReplayTape:
    """Plays what was recorded of one thread. No model, server or tool is asked.

    Attributes:
        model: Answers for all models.
        calls: The calls that were not made yet.
    """

    def __init__(self, recordings: Recordings, thread: str) -> None:
        """Read the recordings."""
        self.model = ReplayModel(recordings.folder, thread=thread)
        self._servers = {record["server"]: record for record in recordings.read(_SERVER)}
        calls = [r for r in recordings.read(_CALL) if r["thread"] == thread]
        self.calls = drop_lost([r | {"key": canonical([r["call"], r["arguments"]])} for r in calls])
        self._hooks = [r for r in recordings.read(_HOOK) if r["thread"] == thread]

    def wrap_model(self, _: Callable[[], Any]) -> ReplayModel:
        """The recorded answers."""
        return self.model

    async def load_listings(
        self, servers: Sequence[ServerConfig], _: Callable[[], Any]
    ) -> list[Listing]:
        """The tools as these servers described them last; of others nothing is known."""
        return [
            Listing(config, tuple(told["tools"]), told["warning"])
            for config in servers
            if (told := self._servers.get(config.name))
        ]

    async def send(self, _: str, secrets: Secrets, call: Call, __: Callable[[], Any]) -> Response:
        """What the call gave.

        Raises:
            RequestNotRecorded: It is not on record, or it ended without a result.
        """
        now = secrets.mask_json(_spell_call(call))
        own = [r for r in self.calls if self.model.plays(r)]
        alike = [r for r in own if now == {name: r[name] for name in now}]
        record = next((r for r in alike if r["call"] == call.id), alike[0] if alike else None)
        if record is None:
            others = [{name: r[name] for name in now} for r in own]
            raise RequestNotRecorded(explain_difference(f"The call {call.id}", now, others))
        self.calls.remove(record)
        if record.get("result") is None:
            asked = f"{record['tool']} asked a human something, which cannot be played again."
            raise RequestNotRecorded(asked)
        media = tuple(Media(**one) for one in record["result"]["media"])
        return Response(ToolResult(**{**record["result"], "media": media}), record["reason"])

    async def hear_hooks(self, _: str, about: list[Any], __: Callable[[], Any]) -> Verdict:
        """What hooks said, which do not run; nothing where none was heard."""
        own = (r for r in self._hooks if self.model.plays(r))
        record = next((r for r in own if r["key"] == hash_of(about)), None)
        if record is None:
            return NOTHING
        self._hooks.remove(record)
        return Verdict.model_validate(record["said"])


def _spell_call(call: Call) -> dict[str, Any]:
    tool = call.known_tool
    return {"server": tool.server, "tool": tool.original, "arguments": call.args}
