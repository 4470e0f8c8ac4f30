"""A run on record: what it was given, how it ended, and what it asks."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import wraps
from typing import Any, Final, TypeVar, cast

from langchain_core.messages import convert_to_messages, messages_from_dict, messages_to_dict
from langgraph.types import Command

from ..state.context import Context
from ..state.errors import (
    AnswerRejected,
    DatabaseError,
    LeaseLost,
    ModelUnavailable,
    SettingsError,
    ThreadError,
)
from ..state.messages import STEERS
from ..text.secrets import MASK, is_secret_name, read_own_secrets

F = TypeVar("F", bound=Callable[..., Any])
RUN: Final = "run"

# A run that ends with a refusal has changed nothing; three kinds of them end it in the middle.
_REFUSALS: Final = (AnswerRejected, SettingsError, ThreadError)
_MIDWAY: Final = (DatabaseError, LeaseLost, ModelUnavailable)


def keep_run(astream: F) -> F:
    """Tell the tape of a whole graph, if it has one, of each of its runs."""

    @wraps(astream)
    def stream(graph: Any, input: Any, config: Any = None, **options: Any) -> Any:
        chunks, builder = astream(graph, input, config, **options), graph.own_builder
        keys = graph._merge_configurable(config)
        kept = getattr(builder.tape, "kept", None)
        if not kept or not builder.whole or keys.get("checkpoint_ns"):
            return chunks
        try:
            about = {
                "thread": str(keys.get("thread_id") or ""),
                "graph": builder.graph,
                "context": _spell_context(options.get("context")),
                "given": spell_input(input),
            }
        except (TypeError, ValueError, NotImplementedError):
            return chunks  # the run itself says what is wrong
        return _stream_on_record(graph, config or {}, about, chunks)

    return cast("F", stream)


async def _stream_on_record(
    graph: Any, config: Any, about: Mapping[str, Any], chunks: AsyncGenerator[Any, None]
) -> AsyncGenerator[Any, None]:
    kept = graph.own_builder.tape.kept
    path = await asyncio.to_thread(kept.save, RUN, about)
    try:
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk
    except _REFUSALS as error:
        if not isinstance(error, _MIDWAY):
            await asyncio.to_thread(path.unlink)
        raise
    if graph.checkpointer is None or not about["thread"]:
        return
    state = await graph.aget_state(config)
    asks = [{"id": one.id, "value": one.value} for one in state.interrupts]
    messages = state.values.get("messages") or ()
    steered = not about["given"] or any(STEERS in one.additional_kwargs for one in messages)
    end = {"outcome": state.values.get("outcome"), "asks": asks, "stopped_or_steered": steered}
    await asyncio.to_thread(kept.save, RUN, {**about, **end}, path=path)


def _spell_context(context: Any) -> dict[str, Any]:
    given = Context.model_validate({} if context is None else context)
    spelled = given.model_dump(mode="json", exclude_defaults=True, fallback=str)
    if shared := spelled.get("tool_context"):
        spelled["tool_context"] = _mask_named(shared)
    return spelled


def _mask_named(value: Any, name: str = "") -> Any:
    """Data for tools, without what is secret by its name or stands in an address, at any depth."""
    if is_secret_name(name):
        return MASK
    if isinstance(value, Mapping):
        return {key: _mask_named(part, key) for key, part in value.items()}
    if isinstance(value, list):
        return [_mask_named(part, name) for part in value]
    return read_own_secrets().mask_words(value) if isinstance(value, str) else value


def spell_input(given: Any) -> dict[str, Any]:
    """A run's input as JSON; {} of one that is no input, such as a stop."""
    match given:
        case None:
            return {"goes_on": True}
        case Command(resume=answer) if answer is not None:
            return {"answer": answer}
        case Mapping():
            messages = convert_to_messages(given.get("messages") or [])
            return {"values": {**given, "messages": messages_to_dict(messages)}}
    return {}


def read_input(spelled: Mapping[str, Any]) -> Any:
    """The input that was spelled so."""
    if "answer" in spelled:
        return Command(resume=spelled["answer"])
    values = spelled.get("values")
    return values and {**values, "messages": messages_from_dict(values["messages"])}
