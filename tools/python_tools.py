"""Tools of the embedding program, LangChain tools or functions; and the built-in `llm_call`."""

import asyncio
import concurrent.futures
import contextvars
import functools
import os
import queue
import re
import sys
import threading
import types
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Final, TypeVar, cast

from langchain_core.messages import ToolMessage
from langchain_core.messages.tool import ToolOutputMixin
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel, create_model
from pydantic.errors import PydanticUserError

from ..state.errors import SettingsError
from ..state.limits import explain_excess
from ..text.sentences import say
from .catalog import RESERVED, CatalogTool
from .hints import read_flags, read_origin
from .names import MAX_NAME, is_name
from .schemas import Schema, one_line, read_output, sanitize
from .values import ReturnedValue, collect_async_items, collect_items, read_result_schema

RUNTIME_MODULE: Final = "langgraph.prebuilt.tool_node"
"""Of the classes that mark hidden parameters; whoever uses them has imported it."""

PythonTool = BaseTool | Callable[..., Any]


def read_tools(tools: Sequence[PythonTool]) -> tuple[CatalogTool, ...]:
    """Describe the program's tools.

    Raises:
        SettingsError: something is no tool, or two tools have one name.
    """
    described = tuple(_describe_tool(_as_tool(tool)) for tool in tools)
    for name, count in Counter(tool.name for tool in described).items():
        if count > 1:
            msg = f"Two tools are named {name!r}; rename one of them."
            raise SettingsError(msg)
    return described


async def run_tool(tool: BaseTool, call: Mapping[str, Any], config: RunnableConfig) -> Any:
    """Run a tool call: an async tool on this loop, a sync one in a thread of our pool.

    Returns:
        The tool's return value, or the message or graph command that it made.
    """
    returned: list[Any] = []
    watched = _watch_returns(tool, returned)
    if _is_async(tool):
        result = await watched.ainvoke(dict(call), config)
    else:
        result = await _run_in_thread(watched, call, config)
    value, artifact = returned[-1] if returned else result, None
    if tool.response_format == "content_and_artifact" and returned:
        value, artifact = value
    if returned and isinstance(result, ToolMessage) and result.status == "error":
        return result
    is_mcp = isinstance(artifact, Mapping) and "structured_content" in artifact
    if isinstance(result, ToolMessage) and (is_mcp or not returned):
        return result
    if _is_of_graph(value):
        return value
    says_so = (tool.metadata or {}).get("content") is True
    is_content = says_so or tool.response_format == "content_and_artifact"
    return ReturnedValue(await collect_async_items(value), artifact, is_content=is_content)


async def _run_in_thread(tool: BaseTool, call: Mapping[str, Any], config: RunnableConfig) -> Any:
    result = await POOL.run(lambda: tool.invoke(dict(call), config))
    if isinstance(result, GeneratorExit):  # would end the coroutine that awaits it instead
        msg = "GeneratorExit"
        raise RuntimeError(msg) from result  # noqa: TRY004 - it is not about a type
    if isinstance(result, BaseException):
        raise result
    return result


def is_argument_error(error: BaseException) -> bool:
    """Whether a tool's arguments could not be read, so that its code was not reached.

    The kind of the error does not tell: the tool's code may validate what it got back.
    """
    return _UNREAD in getattr(error, "__notes__", ())


def _is_of_graph(value: Any) -> bool:
    """Whether the tool returned LangGraph objects: a tool message, a command, a list of them."""
    items = value if isinstance(value, list) and value else [value]
    return all(isinstance(item, ToolOutputMixin) for item in items)


def _watch_returns(tool: BaseTool, returned: list[Any]) -> BaseTool:
    """A twin of the tool, with the same state, that records what the tool's code returned.

    LangChain turns a return value into text: `[]` and `""` become the same.
    """
    twin = object.__new__(_make_twin(type(tool)))
    for name in ("__dict__", "__pydantic_private__", "__pydantic_fields_set__"):
        object.__setattr__(twin, name, getattr(tool, name))
    object.__setattr__(twin, "__pydantic_extra__", getattr(tool, "__pydantic_extra__", None))
    _GIVEN.set(returned)
    return twin


_UNREAD: Final = "loopwright: the arguments could not be read"
_GIVEN: ContextVar[list[Any] | None] = ContextVar("loopwright_given", default=None)


@lru_cache(maxsize=512)
def _make_twin(kind: type[BaseTool]) -> type[BaseTool]:
    """A tool class that puts aside what `_run` returns, and marks errors of `_parse_input`."""
    own: dict[str, Any] = {"__module__": kind.__module__, "__doc__": kind.__doc__}
    run, arun, parse = kind._run, kind._arun, kind._parse_input

    @functools.wraps(parse)
    def _parse_input(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return parse(self, *args, **kwargs)
        except Exception as error:
            error.add_note(_UNREAD)
            raise

    @functools.wraps(run)
    def _run(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _note_return(self, collect_items(run(self, *args, **kwargs)))

    @functools.wraps(arun)
    async def _arun(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _note_return(
            self, await collect_async_items(collect_items(await arun(self, *args, **kwargs)))
        )

    own |= {"_parse_input": _parse_input, "_run": _run}
    if arun is not BaseTool._arun:
        own["_arun"] = _arun
    return cast(
        "type[BaseTool]", types.new_class(kind.__name__, (kind,), {}, lambda ns: ns.update(own))
    )


def _note_return(tool: BaseTool, value: Any) -> Any:
    """Put it aside before LangChain makes a text of it; of what is too much only that it is."""
    returned = _GIVEN.get()
    if returned is not None:
        if why := explain_excess("tool result", value):
            words = say("result_not_read", why=why)
            value = (words, None) if tool.response_format == "content_and_artifact" else words
        returned.append(value)
    return value


def _is_async(tool: BaseTool) -> bool:
    if isinstance(tool, StructuredTool) or hasattr(tool, "coroutine"):
        return getattr(tool, "coroutine", None) is not None
    return type(tool)._arun is not BaseTool._arun or type(tool).ainvoke is not BaseTool.ainvoke


def _as_tool(tool: PythonTool) -> BaseTool:
    if isinstance(tool, BaseTool):
        return _with_any_runtime(tool)
    if not callable(tool) or isinstance(tool, type):
        msg = f"{tool!r} is no tool: give a LangChain tool or a function."
        raise SettingsError(msg)
    name = getattr(tool, "__name__", type(tool).__name__)
    is_async = asyncio.iscoroutinefunction(tool)
    try:
        made = StructuredTool.from_function(
            func=None if is_async else tool,
            coroutine=tool if is_async else None,
            name=name,
            description=(tool.__doc__ or "").strip() or name.replace("_", " "),
        )
    except (ValueError, TypeError, NameError, PydanticUserError) as error:
        msg = f"The function {name!r} cannot be a tool: {error}. Annotate its parameters."
        raise SettingsError(msg) from error
    return _with_any_runtime(made)


def _with_any_runtime(tool: BaseTool) -> BaseTool:
    """The tool, with any context allowed in a bare `ToolRuntime`.

    LangChain declares its context as None, so pydantic would warn at each call.
    """
    module, declared = sys.modules.get(RUNTIME_MODULE), cast("Any", tool.args_schema)
    if module is None or type(tool) is not StructuredTool:  # a copy of another may lack its state
        return tool
    plain: dict[str, Any] = {
        name: (module.ToolRuntime[Any, Any], field)
        for name, field in getattr(declared, "model_fields", {}).items()
        if field.annotation is module.ToolRuntime
    }
    if not plain:
        return tool
    schema = create_model(declared.__name__, __base__=declared, **plain)
    return tool.model_copy(update={"args_schema": schema})


def _describe_tool(tool: BaseTool) -> CatalogTool:
    if tool.name in RESERVED:
        msg = f"A tool may not be named {tool.name!r}, which has a meaning here; rename it."
        raise SettingsError(msg)
    if not is_name(tool.name):
        msg = (
            f"The tool name {tool.name!r} is refused by model providers: use 1 to {MAX_NAME} "
            "of the characters a-z, A-Z, 0-9, '_' and '-'."
        )
        raise SettingsError(msg)
    return CatalogTool(
        name=tool.name,
        description=one_line(tool.description) or tool.name.replace("_", " "),
        schema=sanitize(_read_schema(tool)),
        original=tool.name,
        tool=tool,
        hidden=_find_injected(tool),
        timeout=_read_timeout(tool.metadata),
        output=read_output((tool.metadata or {}).get("outputSchema")) or read_result_schema(tool),
        **read_flags(tool.metadata),
        **read_origin(tool.metadata, f"The tool {tool.name!r}"),
    )


def _read_schema(tool: BaseTool) -> dict[str, Any]:
    """The schema of a tool's arguments, without the description that the tool has besides."""
    try:
        declared: Any = tool.tool_call_schema
        if isinstance(declared, Mapping):  # one that names no fields takes any
            open_ended = {} if "properties" in declared else {"additionalProperties": True}
            schema = {**open_ended, **declared}
        else:
            is_new = issubclass(declared, BaseModel)  # else a model of pydantic v1
            schema = declared.model_json_schema() if is_new else declared.schema()
        return {key: value for key, value in schema.items() if key != "description"}
    except (PydanticUserError, TypeError, ValueError, NameError) as error:
        msg = f"The parameters of tool {tool.name!r} have no JSON schema: {error}."
        raise SettingsError(msg) from error


def _read_timeout(metadata: Mapping[str, Any] | None) -> float | None:
    """Seconds that a tool asks for itself, as `metadata={"timeout": …}`."""
    seconds = (metadata or {}).get("timeout")
    return float(seconds) if isinstance(seconds, int | float) and seconds > 0 else None


def _find_injected(tool: BaseTool) -> frozenset[str]:
    """Arguments that the framework injects; a model must not set them."""
    of_function: frozenset[str] = getattr(tool, "_injected_args_keys", frozenset())
    if isinstance(tool.args_schema, Mapping) or tool.args_schema is None:
        return of_function
    known = _read_schema(tool).get("properties", {})
    fields = getattr(tool.args_schema, "model_fields", {})
    names = {name for name in fields if name not in known}
    aliases = {str(field.alias) for field in fields.values() if field.alias}
    return frozenset(names - aliases) | of_function


T = TypeVar("T")

SIZE: Final = 32
"""asyncio's own pool has 6 threads on a machine of 2 cores: a few slow tools would fill it."""


class ThreadPool:
    """Runs sync functions with the caller's context variables. Safe to use from any loop."""

    def __init__(self, size: int = SIZE) -> None:
        """Allow `size` threads; each is started when it is first needed."""
        self._size = size
        self._begin()
        # A forked child inherits the counters, not the threads.
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._open = 0

    async def run(self, function: Callable[[], T]) -> T | BaseException:
        """Run the function in a thread; if the caller is cancelled, the thread goes on.

        Returns:
            Its result, or the exception it raised: a future cannot carry `StopIteration`.
        """
        done: concurrent.futures.Future[T | BaseException] = concurrent.futures.Future()
        context = contextvars.copy_context()

        def job() -> None:
            if done.set_running_or_notify_cancel():
                try:
                    done.set_result(context.run(function))
                except BaseException as error:  # noqa: BLE001 - the awaiting task decides
                    done.set_result(error)

        self._start(job)
        return await asyncio.wrap_future(done)

    def _start(self, job: Callable[[], None]) -> None:
        with self._lock:
            self._open += 1
            if self._open > self._threads and self._threads < self._size:
                self._threads += 1
                name = f"loopwright tool {self._threads}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
            self._jobs.put(job)

    def _work(self) -> None:
        while True:
            self._jobs.get()()  # under no name: an idle thread would keep its last run by it
            with self._lock:
                self._open -= 1


POOL: Final = ThreadPool()

LLM_CALL: Final = "llm_call"

Asker = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Takes a prompt and the answer's schema ({} for a text); returns the answer, or raises the error
of the step."""

_ASKER: ContextVar[Asker | None] = ContextVar("loopwright_llm_asker", default=None)
_FENCED: Final = re.compile(r"\s*```(?:json)?[^\S\n]*\n([^`]*)```\s*")


@contextmanager
def allow_asking(asker: Asker) -> Iterator[None]:
    """Let the `llm_call`s made inside ask a model."""
    token = _ASKER.set(asker)
    try:
        yield
    finally:
        _ASKER.reset(token)


async def llm_call(prompt: str, schema: Mapping[str, Any] | None = None) -> Any:
    """Ask a language model; planners read the sentence `llm_call_tool` about it."""
    asker = _ASKER.get()
    if asker is None:
        msg = "llm_call has no model here: it works in the steps of prompt_flow"
        raise RuntimeError(msg)
    answer = await asker(prompt, schema or {})
    return strip_fence(answer) if isinstance(answer, str) and not schema else answer


def find_result_schema(tool: CatalogTool, arguments: Mapping[str, Any]) -> Schema | None:
    """The schema of a call's result: the tool's, or for `llm_call` the one in its arguments."""
    if tool.tool is not BUILT_IN:
        return tool.output
    return read_output(arguments.get("schema"))


def strip_fence(text: str) -> str:
    """JSON without the Markdown fence around it, so that references can read its fields."""
    fence = _FENCED.fullmatch(text)
    return fence[1].strip() if fence and fence[1].lstrip().startswith(("{", "[")) else text


def add_llm_call(tools: Sequence[PythonTool]) -> list[PythonTool]:
    """The program's tools and `llm_call`, unless one of them has this name."""
    names = {getattr(tool, "name", getattr(tool, "__name__", "")) for tool in tools}
    return [*tools] if LLM_CALL in names else [*tools, BUILT_IN]


# A model says something else each time, and may take longer than a tool: `ask` has its deadline.
_ABOUT: Final[dict[str, Any]] = {"readOnlyHint": True, "cacheable": False, "timeout": 3_600.0}
_TAKES: Final[Schema] = {
    "type": "object",
    "properties": {"prompt": {"type": "string"}, "schema": {"type": "object"}},
    "required": ["prompt"],
}
BUILT_IN: Final = StructuredTool(
    name=LLM_CALL,
    description="Ask a language model.",
    args_schema=_TAKES,
    coroutine=llm_call,
    metadata=_ABOUT,
)
