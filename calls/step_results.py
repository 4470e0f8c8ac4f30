"""The results of the steps of a plan: as data, and as the state keeps them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..flow.references import MissingValue
from ..state.flow import FlowStep, Shape, value_of
from ..text.told import say
from .call_records import CallRecord
from .result_store import MISSING, ResultStore
from .results import spelled


@dataclass
class StepResults:
    """Reads and keeps the results of the steps of one pass."""

    store: ResultStore
    """Where results are that were too long to be shown."""
    lasts: bool
    """Whether it is there after a restart; if not, the state keeps them whole."""
    _read: dict[str, Any] = field(default_factory=dict)

    async def of(self, record: CallRecord) -> tuple[Any, FlowStep]:
        """The result of a call that succeeded: as data, and as its step keeps it."""
        artifact = record["message"].artifact
        data = artifact.get("data") if isinstance(artifact, Mapping) else None
        return await self.kept(record["result"], data, _stored(record))

    async def unread(self, record: CallRecord) -> FlowStep:
        """The same, where the store could not be read just now: what of it can still be kept."""
        if not (stored := _stored(record)):
            return (await self.of(record))[1]
        shape: Shape = "stored" if self.lasts else "text"
        return FlowStep(result=record["result"], shape=shape, value=None, stored=stored)

    async def kept(self, text: str, data: Any, stored: str) -> tuple[Any, FlowStep]:
        """A result as data, and as a step keeps it; see `FlowStep.shape`.

        Args:
            text: As a model is shown it.
            data: Its structured part, or None.
            stored: Id of the whole text in the store; "" where `text` is all of it.
        """
        whole = await self.store.whole(stored) if stored else MISSING
        if whole is not MISSING:
            data = whole
            shape: Shape = "stored" if self.lasts else "value"
        else:
            data = spelled(text) if data is None else data
            shape = _shape(text, data)
        value, where = data if shape == "value" else None, stored if shape == "stored" else ""
        return data, FlowStep(result=text, shape=shape, value=value, stored=where)

    async def data(self, step: FlowStep) -> Any:
        """The result of a finished step.

        Raises:
            MissingValue: It was stored, and is no longer there.
        """
        if step.get("shape") != "stored":
            return value_of(step)
        key = step["stored"]
        if key not in self._read:
            whole = await self.store.whole(key)
            if whole is MISSING:
                raise MissingValue(say("result_lost", step=repr(step["id"])))
            self._read[key] = whole
        return self._read[key]


def _stored(record: CallRecord) -> str:
    """The id under which a store has the whole result; "" where none has."""
    return str(record["message"].additional_kwargs.get("stored", ""))


def _shape(text: str, data: Any) -> Shape:
    """How the state can hold data of which this is the text."""
    if data == text:
        return "text"
    said = _as_json(text)
    same = type(said) is type(data) and said == data  # False is no 0
    return "json" if same else "value"


def _as_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
