"""Models on record: one keeps what it is asked and answers, one gives those answers again."""

import asyncio
import difflib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackManager
from langchain_core.exceptions import ModelError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    convert_to_openai_image_block,
    is_data_content_block,
)
from langchain_core.outputs import LLMResult
from langchain_core.runnables import ensure_config
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from pydantic import PrivateAttr

from ..state.context import Context
from ..state.roles import ROLE_METADATA
from ..store.base.recordings import Recordings
from ..text.canonical import canonical
from ..text.secrets import read_own_secrets
from .call import read_calls
from .choice import Models, name_of
from .refusals import delay_before, status_of
from .scripted import ScriptedModel

MODEL: Final = "model"
_CALLS: Final = ("tool_calls", "invalid_tool_calls")
_ANSWER: Final = ("content", *_CALLS, "usage_metadata", "additional_kwargs")
_REQUEST: Final[Any] = {
    **dict.fromkeys(("type", "content", "name", "status"), True),
    **{key: {"__all__": {"name", "args"}} for key in _CALLS},
}
"""What a provider reads of a message, but for ids: runs make some of them anew."""

VARYING: Final = re.compile(r"\bq[0-9a-f]{6}\b|\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\b")
"""What each run makes anew and shows to models: the number of a desk's question, and when a call in
doubt was begun."""


def record_model(model: str | BaseChatModel, folder: str | Path) -> BaseChatModel:
    """The model, which from now on keeps each request and its answer as a file in a folder.

    It can be used like the model itself. Secrets of the environment are masked.

    Args:
        model: A chat model, or `provider:name`.
        folder: Where to; it is made if it is not there.

    Raises:
        ModelUnavailable: The model cannot be built.
    """
    if isinstance(model, str):
        model = Models(model).choose("", Context()).model
    known = model.callbacks
    handlers = known.handlers if isinstance(known, BaseCallbackManager) else known or []
    return model.model_copy(update={"callbacks": [*handlers, _Recorder(model, folder)]})


class _Recorder(AsyncCallbackHandler):
    """LangChain tells it of each request and its answer, in whatever way the model is asked."""

    raise_error = run_inline = True

    def __init__(self, model: BaseChatModel, folder: str | Path) -> None:
        self._kept = Recordings(folder)
        self._about = {"model": name_of(model), "profile": model.profile}
        self._open: dict[UUID, tuple[dict[str, Any], list[AIMessageChunk]]] = {}
        """By run: a request without an answer yet, and the pieces of it that were streamed."""

    async def on_chat_model_start(self, *model_and_batch: Any, run_id: UUID, **more: Any) -> None:
        metadata, keys = more.get("metadata") or {}, ensure_config().get("configurable", {})
        options = {**more["invocation_params"], **more["options"]}
        record = {
            "role": metadata.get(ROLE_METADATA, ""),
            "thread": str(metadata.get("thread_id") or keys.get("thread_id") or ""),
            **self._about,
            "request": spell_request(model_and_batch[1][0], options),
        }
        self._open[run_id] = record, []

    async def on_llm_new_token(self, *_: Any, run_id: UUID, **more: Any) -> None:
        if isinstance(piece := getattr(more.get("chunk"), "message", None), AIMessageChunk):
            self._open[run_id][1].append(piece)

    async def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        record, pieces = self._open.pop(run_id)
        first: Any = response.generations[0][0]
        message = read_calls(first.message, pieces)
        answer = {name: getattr(message, name) for name in _ANSWER}
        about = {**(response.llm_output or {}), **(first.generation_info or {})}
        answer["response_metadata"] = {**about, **message.response_metadata}
        await asyncio.to_thread(self._kept.save, MODEL, record | {"answer": answer})

    async def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        record, _pieces = self._open.pop(run_id)
        if isinstance(error, Exception):
            await asyncio.to_thread(self._kept.save, MODEL, record | {"error": _spell_error(error)})


def spell_request(messages: list[BaseMessage], options: Mapping[str, Any]) -> dict[str, Any]:
    """A request as it is kept and compared: the same for all providers."""
    form = options.get("response_format")
    native = form.get("json_schema") if isinstance(form, Mapping) else None
    schema = (options.get("ls_structured_output_format") or {}).get("schema") or native
    return {
        "messages": [*map(_spell_message, messages)],
        "tools": [] if schema else [*map(_spell_tool, options.get("tools") or ())],
        "schema": schema and convert_to_json_schema(schema),
        "stop": options.get("stop"),
    }


def _spell_tool(tool: Any) -> dict[str, Any]:
    """A tool in OpenAI's format, without its shell."""
    try:
        function: dict[str, Any] = convert_to_openai_tool(tool)["function"]
    except (ValueError, TypeError, KeyError):
        return tool if isinstance(tool, dict) else {"name": str(tool)}
    return function


def _spell_message(message: BaseMessage) -> dict[str, Any]:
    spelled = message.model_dump(include=_REQUEST, exclude_none=True)
    if not isinstance(message.content, str):
        spelled["content"] = [*map(_spell_block, message.content)]
    return spelled


def _spell_block(block: Any) -> Any:
    """An image as LangChain spells it for listeners, anything else as it is."""
    image = isinstance(block, dict) and block.get("type") == "image"
    return convert_to_openai_image_block(block) if image and is_data_content_block(block) else block


def _spell_error(error: Exception) -> dict[str, Any]:
    fields = {name: getattr(error, name, None) for name in ("code", "param")}
    fields |= {"kind": type(error).__name__, "text": str(error), "status_code": status_of(error)}
    return fields | {"is_retryable": delay_before(0, error) is not None}


class RecordedError(ModelError):
    """The error with which a recorded request ended."""


class RequestNotRecorded(AssertionError):
    """What is replayed asked for what was not recorded, or more often than it was."""


def replay_model(folder: str | Path) -> "ReplayModel":
    """A model that gives the answers of a folder of recordings again.

    Each is given as often as it was recorded, to an equal request; any other request is a
    RequestNotRecorded, which shows how it differs from the nearest one of its role. The model needs
    no provider, serves every role, and runs may be parallel.

    Raises:
        SettingsError: The folder or a file in it cannot be read.
    """
    return ReplayModel(folder)


class ReplayModel(ScriptedModel):
    """Gives recorded answers again; see `replay_model`."""

    _known: list[dict[str, Any]] = PrivateAttr()
    _left: list[dict[str, Any]] = PrivateAttr()
    _process: str = PrivateAttr(default="")

    def __init__(self, folder: str | Path, *, thread: str = "", **kwargs: Any) -> None:
        """Read the recordings, of one thread if it is named."""
        super().__init__((), **kwargs)
        self._known = [
            {**record, "key": _key_of(record["role"], record["request"])}
            for record in Recordings(folder).read(MODEL)
            if thread in ("", record["thread"])
        ]
        self._left = drop_lost(self._known) if thread else [*self._known]
        self.profile = next((r["profile"] for r in self._known if r["profile"]), None)

    def play_process(self, process: str) -> None:
        """From now on give only what this process was given: one that was killed has no more."""
        self._process = process

    def plays(self, record: Mapping[str, Any]) -> bool:
        """Whether a record is of the process that is played; without one all are."""
        return self._process in ("", record["process"])

    def list_unused(self) -> list[str]:
        """The files with requests that were not asked, oldest first."""
        with self._lock:
            return [record["file"] for record in self._left]

    def _next(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> Any:
        role = str(kwargs.get(ROLE_METADATA, ""))
        spelled = json.loads(json.dumps(spell_request(messages, kwargs), default=str))
        request = read_own_secrets().mask_json(spelled)
        key = _key_of(role, request)
        with self._lock:
            own = (record for record in self._left if self.plays(record))
            found = next((record for record in own if record["key"] == key), None)
            if found is not None:
                self._left.remove(found)
                return _read_answer(found)
        who = f"The role {role!r}" if role else "A call that tells no role"
        if any(record["key"] == key for record in self._known):
            msg = f"{who} asked the same again, which was not recorded so often."
            raise RequestNotRecorded(msg)
        alike = [record["request"] for record in self._known if record["role"] == role]
        raise RequestNotRecorded(explain_difference(who, request, alike))


def drop_lost(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that no later process asked again: what it asks again was lost by a crash."""
    last = {record["key"]: record["process"] for record in records}
    return [record for record in records if record["process"] == last[record["key"]]]


def _read_answer(record: Mapping[str, Any]) -> AIMessage | RecordedError:
    """A recorded answer; or its error, of the same name and with all that is read of errors."""
    if answer := record.get("answer"):
        return AIMessage(**answer)
    fields = record["error"]
    error: RecordedError = type(fields["kind"], (RecordedError,), {})(fields["text"])
    vars(error).update(fields, response=SimpleNamespace(headers={"retry-after-ms": "1"}))
    return error


def _key_of(role: str, request: Mapping[str, Any]) -> str:
    """In one spelling, without what varies."""
    return VARYING.sub("…", canonical([role, request]))


def explain_difference(who: str, now: Any, recorded: Sequence[Any]) -> str:
    """What somebody asks now that is not on record, as a diff from the nearest that is."""
    lines, known = _list_lines(now), [*map(_list_lines, recorded)]
    nearest: Any = difflib.get_close_matches(lines, known, 1, cutoff=0) or [[]]
    diff = difflib.unified_diff(nearest[0], lines, "recorded", "now", lineterm="")
    return "\n".join([f"{who} asked what is not recorded:", *diff])


def _list_lines(value: Any) -> list[str]:
    """A value as people read it, line by line."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    return text.replace(r"\n", "\n").splitlines()
