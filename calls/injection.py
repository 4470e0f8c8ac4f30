"""What LangGraph's tool node would give the hidden parameters of a tool, given the same here."""

import copy
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolCallId

from ..store.base.langgraph_keys import RUNTIME
from ..text.sentences import say
from ..tools.catalog import CatalogTool
from ..tools.python_tools import RUNTIME_MODULE
from ..turn.scope import RunScope
from .call_records import PendingCall


class InjectionError(Exception):
    """A hidden parameter has no default, and nothing here fills it in."""


def inject_arguments(
    scope: RunScope,
    tool: CatalogTool,
    call: PendingCall,
    config: RunnableConfig,
    tools: Sequence[BaseTool] = (),
) -> dict[str, Any]:
    """The values of a tool's hidden parameters, by their names.

    Raises:
        InjectionError: One of them cannot be filled in, and has no default.
    """
    module = sys.modules.get(RUNTIME_MODULE)
    values: dict[str, Any] = {}
    for name, annotation, required in _list_hidden(tool):
        value = _resolve_value(module, annotation, scope) if module else None
        if module and _find_marker(annotation, module.ToolRuntime):
            values[name] = _build_runtime(module, scope, call, config, tools)
        elif value is not None:
            values[name] = value
        elif required and not _find_marker(annotation, InjectedToolCallId):
            raise InjectionError(_explain_missing(module, annotation, scope, tool.name, name))
    return values


def _list_hidden(tool: CatalogTool) -> Iterator[tuple[str, Any, bool]]:
    """Each hidden parameter with its annotation, and whether it needs a value."""
    fields = getattr(getattr(tool.tool, "args_schema", None), "model_fields", {})
    for name, hint in _read_hints(tool.tool).items():
        if name in tool.hidden and name not in fields:
            yield name, hint, False  # only the function says so, and it has its own default
    for name in tool.hidden:
        if (field := fields.get(name)) is not None:
            marked: Any = Annotated[(field.annotation, *field.metadata, None)]
            yield name, marked, field.is_required()


def _read_hints(tool: BaseTool | None) -> Mapping[str, Any]:
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    try:
        return get_type_hints(function or getattr(tool, "_run", None), include_extras=True)
    except (NameError, TypeError, AttributeError):  # such as a name imported for type checks alone
        return {}


def _find_marker(annotation: Any, kind: type) -> Any:
    """The marker of this kind in an annotation, an object or its class; None without one."""
    origin = get_origin(annotation) or annotation
    if isinstance(origin, type) and issubclass(origin, kind):
        return origin
    if isinstance(annotation, kind):
        return annotation
    inside = [*get_args(annotation), *getattr(annotation, "__metadata__", ())]
    return next((m for part in inside if (m := _find_marker(part, kind)) is not None), None)


def _resolve_value(module: ModuleType, annotation: Any, scope: RunScope) -> Any:
    """The state, a field of it, or the store; None where it is another parameter."""
    if marker := _find_marker(annotation, module.InjectedState):
        field, state = getattr(marker, "field", None), _copy_state(scope)
        return state.get(field) if field else state
    return scope.store if _find_marker(annotation, module.InjectedStore) else None


def _copy_state(scope: RunScope) -> dict[str, Any]:
    """The state as a tool may keep or change it without harm."""
    public = dict(scope.around.public)
    messages = list(public.pop("messages", []))
    return {"messages": messages, **copy.deepcopy(public)}


def _build_runtime(
    module: ModuleType,
    scope: RunScope,
    call: PendingCall,
    config: RunnableConfig,
    tools: Sequence[BaseTool],
) -> Any:
    def write(value: Any) -> None:
        about = {"id": call["id"], "task": call["task"], "tool": call["name"]}
        scope.emit({"type": "tool_output", **about, "value": value})

    around = config.get("configurable", {}).get(RUNTIME)
    return module.ToolRuntime(
        state=_copy_state(scope), context=scope.context.model_copy(deep=True), config=config,
        stream_writer=write, tool_call_id=call["call_id"], store=scope.store, tools=list(tools),
        execution_info=getattr(around, "execution_info", None),
        server_info=getattr(around, "server_info", None),
    )  # fmt: skip


def _explain_missing(
    module: ModuleType | None, annotation: Any, scope: RunScope, tool: str, parameter: str
) -> str:
    """Why a parameter cannot be injected, as a sentence for the developer."""
    marker = _find_marker(annotation, module.InjectedState) if module else None
    if marker is not None:
        field, known = repr(getattr(marker, "field", None)), ", ".join(_copy_state(scope))
        return say("state_has_no_field", tool=tool, field=field, known=known)
    if module and _find_marker(annotation, module.InjectedStore):
        return say("no_store_for_tool", tool=tool)
    return say("parameter_not_given", tool=tool, parameter=repr(parameter))
