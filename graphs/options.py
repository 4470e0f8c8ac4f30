"""The arguments of every `build_<name>()`, also in the words of LangChain's `create_agent`."""

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from textwrap import indent
from typing import Any, Final, TypeVar, cast, get_type_hints

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import SystemMessage
from langchain_core.tools import BaseTool
from langgraph.cache.base import BaseCache
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer
from typing_extensions import TypedDict

from ..calls.policy import ForeignWord, PolicyLike
from ..hooks.contract import Hook
from ..models.ask_value import ResultType
from ..prompts.prompt import PromptManager
from ..state.context import Context
from ..store.durability import Durability
from ..store.journal.port import Journal
from ..store.locks.thread_locks import LockedBy

F = TypeVar("F", bound=Callable[..., Any])

ModelOption = str | BaseChatModel | Mapping[str, str | BaseChatModel] | None
ToolsOption = Sequence[BaseTool | Callable[..., Any]] | None

_INDENT: Final = " " * 4
_RAISES: Final = """Raises:
    TypeError: There is no such option.
    SettingsError: A setting is wrong; the message says which and what to do."""


class BuildOptions(TypedDict, total=False):
    """What every graph can be built with; all of it is optional.

    model: `provider:name`, a chat model, or a mapping of role or tier to either. Without one:
        the run's Context, LOOPWRIGHT_MODEL, the OpenAI variables, then offline.
    tools: Python tools; MCP tools come by `mcp`. prompt_flow always has `llm_call`, and runs side
        by side only steps whose tools declare `readOnlyHint`.
    mcp: Path or mapping in the `mcpServers` format; None means no server.
    policy: "allow", "ask", "deny", rules, or a Policy; None asks before MCP writes.
    foreign: What happens to values of a call that a stranger may have written: "ask" (also without
        it) asks a human, "strict" also about whole fields of records, "allow" lets them pass.
    system_prompt: What every role is told of its work; in task_agent the prompt of its agent.
    prompts: Core templates and business contexts.
    instructions: Folders whose AGENTS.md and skills (folders with a SKILL.md) are followed.
    hooks: Callables and commands around sessions, turns, model calls and tool calls, or the path
        of a hooks file.
    durability: What `open_durability` gave; the three options after it win over it.
    checkpointer: Where threads are saved.
    store: Where long results are kept.
    memory: True offers tools that remember across a user's threads, in `store`, or in a store that
        is given here; without it nothing is remembered.
    journal: Where calls are recorded before they are made; in memory without one.
    locked_by: Gives what keeps the runs of a thread apart, `lambda: durability.locks`, for a graph
        whose threads a server saves; called in a worker thread.
    result_schema: A pydantic model or a JSON schema: the outcome's `result` is then the answer as
        data of it. Asked for at the end, by one model call more.
    response_format: Another word for `result_schema`; strategies of LangChain give their schema.
    name: Of the compiled graph; its own without one.
    debug, cache, transformers: Passed on to LangGraph's `compile`.
    """

    mcp: str | Path | Mapping[str, Any] | None
    policy: PolicyLike
    foreign: ForeignWord | None
    system_prompt: str | SystemMessage | None
    prompts: PromptManager | None
    instructions: str | Path | Sequence[str | Path] | None
    hooks: str | Path | Sequence[Hook]
    durability: Durability | None
    checkpointer: Checkpointer
    store: BaseStore | None
    memory: BaseStore | bool | None
    journal: Journal | None
    locked_by: LockedBy | None
    result_schema: ResultType | None
    response_format: Any
    name: str | None
    debug: bool
    cache: BaseCache[Any] | None
    transformers: Sequence[Callable[[tuple[str, ...]], Any]] | None


_ALIASES: Final = {"prompt": "system_prompt", "response_format": "result_schema"}
"""Words of create_agent and of its relatives for options that mean the same."""

_ASKS: Final = 'policy="ask", or rules, which ask a human before calls'
_INSTEAD: Final = {
    "middleware": "hooks=; docs/from-create-agent.md names what is built in",
    "interrupt_before": _ASKS,
    "interrupt_after": _ASKS,
    "context_schema": "context=Context(tool_context={…}) of a run for data that tools read",
    "state_schema": "the graph as a node of your own graph, which has that state",
}
"""What to use in place of what means something else here."""


def read_prompt(given: str | SystemMessage | None) -> str:
    """The text of a system prompt."""
    return str(given.text) if isinstance(given, SystemMessage) else given or ""


def document_options(function: F) -> F:
    """Take options by other words, too, and spell them out for `help` and editors."""
    whole = inspect.signature(function, eval_str=True)
    own = whole.parameters
    hints = {n: hint for n, hint in get_type_hints(BuildOptions).items() if n not in own}
    shared = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, annotation=hint,
            default=() if name == "hooks" else False if name == "debug" else None,
        )
        for name, hint in hints.items()
    ]  # fmt: skip
    kept = [p for p in own.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    first = [p for p in kept if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    parameters = [*first, *shared, *kept[len(first) :]]
    known = [parameter.name for parameter in parameters]

    @wraps(function)
    def build(*args: Any, **options: Any) -> Any:
        return function(*args, **_translate(function.__name__, options, known))

    build.__signature__ = whole.replace(parameters=parameters)  # type: ignore[attr-defined]  # as inspect asks for it
    _, _, words = (inspect.getdoc(BuildOptions) or "").partition("\n\n")
    texts = [inspect.getdoc(function), f"Options:\n{indent(words, _INDENT)}", _RAISES]
    build.__doc__ = "\n\n".join(filter(None, texts))
    return cast("F", build)


def _translate(builder: str, options: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """The options in our words; raises TypeError for one that there is not."""
    given: dict[str, Any] = {}
    for name, value in options.items():
        if name in _INSTEAD and (value is Context or not value):
            continue  # it says nothing
        ours = _ALIASES.get(name, name)
        if ours not in known:
            msg = f"{builder}() got an unexpected keyword argument {name!r}. {_advise(name, known)}"
            raise TypeError(msg)
        if ours != name and options.get(ours) is not None:
            msg = f"{builder}() got {name!r} and {ours!r}, which mean the same: give one of them."
            raise TypeError(msg)
        given |= {} if value is None else {ours: value}
    wanted: Any = given.get("result_schema")
    if not isinstance(wanted, type | Mapping) and hasattr(wanted, "schema"):
        given["result_schema"] = wanted.schema  # of a strategy of LangChain
    return given


def _advise(wrong: str, known: Sequence[str]) -> str:
    if wrong in _INSTEAD:
        return f"Use {_INSTEAD[wrong]}."
    if wrong in Context.model_fields:
        return f"It is a setting of a run: pass context=Context({wrong}=…) to invoke."
    near = difflib.get_close_matches(wrong, known, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known)}."
