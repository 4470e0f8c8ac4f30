"""The results of steps as data: what of one is kept in the state, and how it is read back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ...calls.call_records import CallRecord
from ...calls.stored import ResultStore
from ...calls.toolbox import Toolbox
from ...flow.references import MissingValue
from ...state.flow import FlowStep, value_of
from ...state.told import say
from ...turn.scope import RunScope


@dataclass(frozen=True)
class Kept:
    """A result as data, and how a step in the state holds it; see `FlowStep.shape`."""

    data: Any
    shape: Literal["text", "json", "value", "stored"]
    stored: str = ""

    @property
    def value(self) -> Any:
        """What the step's own field must hold."""
        return self.data if self.shape == "value" else None


class StepResults:
    """Reads and keeps the results of the steps of one pass."""

    def __init__(self, store: ResultStore, *, lasts: bool) -> None:
        """Use the store of the run.

        Args:
            store: Where results are that were too long to be shown.
            lasts: Whether it is there after a restart; if not, the state keeps them whole.
        """
        self._store = store
        self._lasts = lasts
        self._read: dict[str, Any] = {}

    async def of(self, record: CallRecord) -> Kept:
        """The result of a call that succeeded."""
        artifact = record["message"].artifact
        about = artifact if isinstance(artifact, Mapping) else {}
        return await self.kept(record["result"], about.get("data"), _stored(record))

    async def unread(self, record: CallRecord) -> Kept:
        """The same, where the store could not be read just now: what of it can still be kept."""
        if not (stored := _stored(record)):
            return await self.of(record)
        return Kept(None, "stored", stored) if self._lasts else Kept(record["result"], "text")

    async def kept(self, text: str, data: Any, stored: str) -> Kept:
        """A result as a step keeps it.

        Args:
            text: As a model is shown it.
            data: Its structured part, or None.
            stored: Id of the whole text in the store; "" where `text` is all of it.
        """
        whole = await self._store.whole(stored) if stored else None
        if whole is not None:
            spelled = _spelled(whole)
            return Kept(spelled, "stored", stored) if self._lasts else Kept(spelled, "value")
        spelled = _spelled(text)
        if data is None:
            return Kept(spelled, "text" if isinstance(spelled, str) else "json")
        if data == text:
            return Kept(data, "text")
        said = _scalar(text, spelled)
        same = type(said) is type(data) and said == data  # False is no 0
        return Kept(data, "json" if same else "value")

    async def data(self, step: FlowStep) -> Any:
        """The result of a finished step.

        Raises:
            MissingValue: It was stored, and is no longer there.
        """
        if step.get("shape") != "stored":
            return value_of(step)
        key = step["stored"]
        if key not in self._read:
            whole = await self._store.whole(key)
            if whole is None:
                raise MissingValue(say("result_lost", step=repr(step["id"])))
            self._read[key] = _spelled(whole)
        return self._read[key]


def results_of(scope: RunScope, toolbox: Toolbox) -> StepResults:
    """The results of a run's steps, in its own store or in the spare one of its tools."""
    store = scope.store or toolbox.spare_store(scope.thread)
    return StepResults(ResultStore(store, scope.thread), lasts=scope.store_lasts)


def _stored(record: CallRecord) -> str:
    """The id under which a store has the whole result; "" where none has."""
    return str(record["message"].additional_kwargs.get("stored", ""))


def _spelled(text: str) -> Any:
    """The object, the list or the null that a text spells; else the text itself."""
    if text != "null" and not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _scalar(text: str, spelled: Any) -> Any:
    """The number or the truth value that a text spells, where it spells nothing bigger."""
    if not isinstance(spelled, str):
        return spelled
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return spelled
