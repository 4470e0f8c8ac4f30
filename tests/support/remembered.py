"""What LangGraph looks up each time a graph is built, looked up once: the suite builds thousands.

Both are functions of what never changes: the fields of a class, the instructions of a code object.
"""

import dis
from collections.abc import Sequence
from functools import cache
from types import CodeType, SimpleNamespace
from typing import Any, get_type_hints

from langgraph.graph import _branch, state
from langgraph.pregel import _utils


@cache
def _of_class(kind: type, options: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    return get_type_hints(kind, **dict(options))


def _hints(thing: Any, **options: Any) -> dict[str, Any]:
    if isinstance(thing, type):
        return dict(_of_class(thing, tuple(options.items())))
    return get_type_hints(thing, **options)


@cache
def _instructions(code: CodeType) -> Sequence[dis.Instruction]:
    return list(dis.get_instructions(code))


def remember() -> None:
    """From here on; a graph is built in two thirds of the time."""
    vars(_branch)["get_type_hints"] = vars(state)["get_type_hints"] = _hints
    vars(_utils)["dis"] = SimpleNamespace(get_instructions=_instructions)
