"""A model that gives recorded answers again, and shows where it is asked otherwise."""

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from langchain_core.exceptions import ModelError
from langchain_core.messages import AIMessage, BaseMessage
from pydantic import PrivateAttr

from ..state.roles import ROLE_METADATA
from ..store.base.recordings import Recordings
from ..text.canonical import canonical
from ..text.secrets import read_own_secrets
from .recorded import MODEL, spell_request
from .scripted import ScriptedModel

# What the package makes anew in each run and shows to models: the number of a desk's question, and
# when a call in doubt was begun.
VARYING: Final = re.compile(r"\bq[0-9a-f]{6}\b|\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\b")


class RecordedError(ModelError):
    """The error with which a recorded request ended."""


class RequestNotRecorded(AssertionError):
    """What is replayed asked for what was not recorded, or more often than it was."""


def replay_model(folder: str | Path) -> "ReplayModel":
    """A model that gives the answers of a folder of recordings again.

    Each is given as often as it was recorded, to an equal request. It needs no provider, serves
    every role, and runs may be parallel.

    Raises:
        SettingsError: The folder or a file in it cannot be read.
    """
    return ReplayModel(folder)


class ReplayModel(ScriptedModel):
    """Gives recorded answers again; see `replay_model`.

    Raises:
        RequestNotRecorded: On a request that has no answer left; shows how it differs from the
            nearest one of its role.
    """

    _known: list[dict[str, Any]] = PrivateAttr()
    _left: list[dict[str, Any]] = PrivateAttr()

    def __init__(self, folder: str | Path, *, thread: str = "", **kwargs: Any) -> None:
        """Read the recordings, of one thread if it is named."""
        super().__init__((), **kwargs)
        self._known = [
            {**record, "key": _key_of(record)}
            for record in Recordings(folder).read(MODEL)
            if thread in ("", record["thread"])
        ]
        # What a thread asked again after a crash had its first answers lost.
        last = {record["key"]: record["process"] for record in self._known}
        self._left = [r for r in self._known if not thread or r["process"] == last[r["key"]]]
        self.profile = next((r["profile"] for r in self._known if r["profile"]), None)

    def list_unused(self) -> list[str]:
        """The files with requests that were not asked, oldest first."""
        with self._lock:
            return [record["file"] for record in self._left]

    def _next(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> Any:
        role = str(kwargs.get(ROLE_METADATA, ""))
        asked = {"role": role, "request": spell_request(messages, kwargs)}
        asked = read_own_secrets().mask_json(json.loads(json.dumps(asked, default=str)))
        key = _key_of(asked)
        with self._lock:
            found = next((record for record in self._left if record["key"] == key), None)
            if found is not None:
                self._left.remove(found)
                return _read_answer(found)
        raise RequestNotRecorded(_explain_unknown(asked, key, self._known))


def _read_answer(record: Mapping[str, Any]) -> AIMessage | RecordedError:
    """A recorded answer; or its error, of the same name and with all that is read of errors."""
    if answer := record.get("answer"):
        return AIMessage(**answer)
    told = record["error"]
    error: RecordedError = type(told["kind"], (RecordedError,), {})(told["text"])
    vars(error).update(told, response=SimpleNamespace(headers={"retry-after-ms": "1"}))
    return error


def _key_of(record: Mapping[str, Any]) -> str:
    """The role and the request in one spelling."""
    return VARYING.sub("…", canonical([record["role"], record["request"]]))


def _explain_unknown(asked: Mapping[str, Any], key: str, known: Sequence[Any]) -> str:
    """What differs from the nearest recorded request of the role."""
    whose = f"The role {asked['role']!r}" if asked["role"] else "A call that tells no role"
    if any(record["key"] == key for record in known):
        return f"{whose} asked the same again, which was not recorded so often."
    now = _list_lines(asked)
    alike = [_list_lines(record) for record in known if record["role"] == asked["role"]]
    nearest: Any = difflib.get_close_matches(now, alike, 1, cutoff=0) or [[]]
    diff = difflib.unified_diff(nearest[0], now, "recorded", "now", lineterm="")
    return "\n".join([f"{whose} asked what is not recorded:", *diff])


def _list_lines(record: Mapping[str, Any]) -> list[str]:
    """A request as people read it, line by line."""
    text = json.dumps(record["request"], indent=1, ensure_ascii=False)
    return text.replace(r"\n", "\n").splitlines()
