"""A model that gives recorded answers again, and shows where it is asked otherwise."""

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from langchain_core.exceptions import ModelError
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.tool import invalid_tool_call, tool_call
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
    """A replayed model was asked what was not recorded, or more often than it was."""


def replay_model(folder: str | Path) -> "ReplayModel":
    """A model that gives the answers of a folder of recordings again.

    Each is given as often as it was recorded, to a request that is equal but for ids that every
    run makes anew. It needs no provider, serves every role, and runs may be parallel.

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

    _left: dict[str, list[tuple[Path, dict[str, Any]]]] = PrivateAttr(default_factory=dict)
    _records: list[tuple[Path, dict[str, Any]]] = PrivateAttr(default_factory=list)
    _refuse: Callable[[str], BaseException] = PrivateAttr(default=RequestNotRecorded)

    def __init__(
        self,
        folder: str | Path,
        *,
        thread: str = "",
        refuse: Callable[[str], BaseException] = RequestNotRecorded,
        **kwargs: Any,
    ) -> None:
        """Read the recordings, of one thread if it is named; `refuse` makes the error."""
        super().__init__((), **kwargs)
        self._refuse = refuse
        for path, record in Recordings(folder).read(MODEL):
            if thread in ("", record.get("thread")):
                self._records.append((path, record))
                self._left.setdefault(_key_of(record), []).append((path, record))
        if thread:  # what was asked again after a crash had its first answers lost
            for same in self._left.values():
                last = same[-1][1].get("process")
                same[:] = [one for one in same if one[1].get("process") == last]
        profiles = [record["profile"] for _, record in self._records if record.get("profile")]
        self.profile = profiles[0] if profiles else None

    def list_unused(self) -> list[str]:
        """The files with requests that were not asked, oldest first."""
        with self._lock:
            return sorted(path.name for same in self._left.values() for path, _ in same)

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Offer tools; refused where none were ever offered, as by a model that takes none."""
        if not any(record["request"]["tools"] for _, record in self._records):
            raise NotImplementedError
        return super().bind_tools(tools, **kwargs)

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Any:
        """Ask for a schema; refused where it was never asked for one."""
        if not any(record["request"]["schema"] for _, record in self._records):
            raise NotImplementedError
        return super().with_structured_output(schema, **kwargs)

    def _next(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> Any:
        role = str(kwargs.get(ROLE_METADATA, ""))
        record = {"role": role, "request": spell_request(messages, kwargs)}
        record = read_own_secrets().mask_json(json.loads(json.dumps(record, default=str)))
        key = _key_of(record)
        with self._lock:
            if same := self._left.get(key):
                return _answer_of(same.pop(0)[1])
        text = _explain_unknown(record, key, [known for _, known in self._records])
        raise self._refuse(text)


def _answer_of(record: Mapping[str, Any]) -> AIMessage | Exception:
    """A recorded answer, or its error."""
    if "error" in record:
        return _make_error(record["error"])
    answer = record.get("answer") or {}
    calls = answer.get("tool_calls") or []
    return AIMessage(
        answer.get("content") or "",
        tool_calls=[tool_call(**c) for c in calls if isinstance(c["args"], dict)],
        invalid_tool_calls=[
            invalid_tool_call(**c, error=None) for c in calls if not isinstance(c["args"], dict)
        ],
        usage_metadata=answer.get("usage"),
        response_metadata=answer.get("response_metadata") or {},
        additional_kwargs=answer.get("additional_kwargs") or {},
    )


def _make_error(told: Mapping[str, Any]) -> RecordedError:
    """An error of the recorded name; all that is read of it is kept with it."""
    error: RecordedError = type(told["kind"], (RecordedError,), {})(told["text"])
    vars(error).update(told, response=SimpleNamespace(headers={"retry-after-ms": "1"}))
    return error


def _key_of(record: Mapping[str, Any]) -> str:
    """The role and the request in one spelling, with calls numbered instead of named."""
    request, ids = record["request"], dict[str, str]()
    messages = [_number_calls(message, ids) for message in request["messages"]]
    text = canonical([record.get("role", ""), {**request, "messages": messages}])
    return VARYING.sub(lambda name: ids.setdefault(name[0], f"#{len(ids)}"), text)


def _number_calls(message: Mapping[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    numbered = dict(message)
    if calls := message.get("tool_calls"):
        numbered["tool_calls"] = [
            {**call, "id": ids.setdefault(str(call["id"]), f"call {len(ids) + 1}")}
            for call in calls
        ]
    if call_id := message.get("tool_call_id"):
        numbered["tool_call_id"] = ids.setdefault(call_id, f"call {len(ids) + 1}")
    return numbered


def _explain_unknown(record: Any, key: str, known: Sequence[Any]) -> str:
    """What differs from the nearest recorded request of the role."""
    role = record["role"]
    whose = f"The role {role!r}" if role else "A call that tells no role"
    alike = [other for other in known if other.get("role", "") == role]
    if any(_key_of(other) == key for other in alike):
        return f"{whose} asked the same again, which was not recorded so often."
    if not alike:
        roles = sorted({str(other.get("role", "")) for other in known})
        return f"{whose} asked a model, which is not recorded; recorded are {roles}."
    now = _list_lines(record["request"])
    match = difflib.SequenceMatcher(b=now, autojunk=False)

    def score(lines: list[str]) -> float:
        match.set_seq1(lines)
        return match.ratio()

    nearest = max((_list_lines(other["request"]) for other in alike), key=score)
    diff = difflib.unified_diff(nearest, now, "recorded", "now", lineterm="")
    return "\n".join([f"{whose} asked what is not recorded:", *diff])


def _list_lines(request: Mapping[str, Any]) -> list[str]:
    """A request as people read it, line by line."""
    lines, ids = list[str](), dict[str, str]()
    for message in request["messages"]:
        shown = _number_calls(message, ids)
        content = shown.pop("content")
        lines.append(f"[{shown.pop('type')}] {canonical(shown) if shown else ''}".rstrip())
        lines += (content if isinstance(content, str) else canonical(content)).splitlines()
    for tool in request["tools"]:
        lines += [f"[tool] {canonical(tool)}"]
    rest = {name: request[name] for name in ("schema", "stop")}
    lines += [f"[{name}] {canonical(value)}" for name, value in rest.items() if value]
    return lines
