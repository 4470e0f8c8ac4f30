"""The built-in step tool `llm_call`: ask a language model, as one call among others.

Which model, by whose budget and with what prompt is for the graph to say: it lends an asker to the
calls it makes.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from langchain_core.tools import StructuredTool

from .python_tools import PythonTool

LLM_CALL: Final = "llm_call"

Asker = Callable[[str], Awaitable[str]]
"""Takes a prompt, gives the model's text; raises what the step that wanted it fails with."""

_ASKER: ContextVar[Asker | None] = ContextVar("loopwright_llm_asker", default=None)
_FENCED: Final = re.compile(r"\s*```(?:json)?[^\S\n]*\n([^`]*)```\s*")


@contextmanager
def asking(asker: Asker) -> Iterator[None]:
    """Let the `llm_call`s made inside ask a model."""
    token = _ASKER.set(asker)
    try:
        yield
    finally:
        _ASKER.reset(token)


async def llm_call(prompt: str) -> str:
    """Ask a language model; what planners are told of it is the sentence `llm_call_tool`."""
    asker = _ASKER.get()
    if asker is None:
        msg = "llm_call has no model here: it works in the steps of prompt_flow"
        raise RuntimeError(msg)
    return unfenced(await asker(prompt))


def unfenced(text: str) -> str:
    """JSON without the Markdown fence around it, so that references can read its fields."""
    found = _FENCED.fullmatch(text)
    return found[1].strip() if found and found[1].lstrip().startswith(("{", "[")) else text


def with_llm_call(tools: Sequence[PythonTool]) -> list[PythonTool]:
    """The program's tools and `llm_call`, unless one of them has this name: then that one is it."""
    names = {getattr(tool, "name", getattr(tool, "__name__", "")) for tool in tools}
    return [*tools] if LLM_CALL in names else [*tools, BUILT_IN]


# A model says something else each time, and may take longer than a tool: `ask` has its deadline.
_ABOUT: Final[dict[str, Any]] = {"readOnlyHint": True, "cacheable": False, "timeout": 3_600.0}
BUILT_IN: Final = StructuredTool.from_function(coroutine=llm_call, name=LLM_CALL, metadata=_ABOUT)
