"""The end of the path: the request is bound to the model, sent, and its answer is collected.

A contract is asked for by the provider's native JSON schema, else by a tool named like it, else by
the prompt alone; with tools by the prompt, for tools and a forced schema exclude each other.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, InvalidToolCall, ToolCall
from langchain_core.messages.tool import invalid_tool_call, tool_call
from langchain_core.runnables import Runnable
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.constants import TAG_NOSTREAM

from ..state.limits import Gauge, explain_excess
from ..text.canonical import make_storable
from ..text.loose_json import read_arguments
from ..turn import spans
from .refusals import Quirks, drop_settings, refuse_answer
from .request import Asker, Call, Listener, Reply, Request


async def call_model(asker: Asker, request: Request) -> Reply:
    """Ask the provider once."""
    hearing = StreamCollector(asker.listeners, request.chosen.quirks)
    # Callbacks that are given replace those of tracers and streams.
    config = merge_configs(
        {"callbacks": ensure_config().get("callbacks")},
        {
            "run_name": f"{asker.role} {spans.find_task(asker.scope)}".strip(),
            "tags": [TAG_NOSTREAM],
            "metadata": spans.build_metadata(asker.scope, asker.role),
            "callbacks": [hearing],
        },
    )
    try:
        result = await bind_request(request).ainvoke(list(request.messages), config)
    except asyncio.CancelledError:
        asker.cut = AIMessageChunk(content="") + hearing.pieces
        raise
    answer: AIMessage = result["raw"] if isinstance(result, dict) else result
    return Reply(hearing.complete_message(answer), request)


async def trace_model_call(asker: Asker, inner: Call, request: Request) -> Reply:
    """Put a span around the call, and its numbers into the meter."""
    chosen = request.chosen
    with spans.open_model_span(asker.scope, asker.role, chosen.model, chosen.name) as tell:
        reply = await inner(request)
        tell(reply.message)
    return reply


class StreamCollector(AsyncCallbackHandler):
    """Listens to one model call, and keeps what is streamed of its tool calls."""

    run_inline = True

    def __init__(self, listeners: Iterable[Listener], quirks: Quirks) -> None:
        """Begin a try; what an earlier one wrote counts no more."""
        self._listeners, self.pieces = [*listeners], list[AIMessageChunk]()
        self._heard = Gauge("model answer")
        for listener in self._listeners:
            listener.begin(quirks)

    async def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        """Nothing; without it LangChain makes one text of all messages, for listeners to texts."""

    async def on_llm_new_token(self, token: Any, *, chunk: Any = None, **_: Any) -> None:  # noqa: ARG002 - LangChain's signature
        """Keep a piece of the stream."""
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # Before Python 3.12 `wait_for`, as clients use it, drops what comes with a piece.
            raise asyncio.CancelledError
        piece = getattr(chunk, "message", None)
        if not isinstance(piece, AIMessageChunk):
            return
        parts = [piece.content, piece.additional_kwargs, piece.tool_call_chunks]
        if why := self._heard.take(parts):
            self.raise_error = True  # so LangChain ends the call with it
            raise refuse_answer(why)
        for listener in self._listeners:
            listener.hear(piece)
        self.pieces.append(piece)

    def complete_message(self, message: AIMessage) -> AIMessage:
        """The message, which can be stored; its calls are read from the texts they were sent as."""
        parts = [message.content, message.additional_kwargs, message.tool_calls]
        if why := explain_excess("model answer", parts):
            raise refuse_answer(why)
        content = _drop_half_characters(message.content)
        if content != message.content:
            message = message.model_copy(update={"content": content})
        return read_calls(message, self.pieces)


def _drop_half_characters(content: Any) -> Any:
    """The content without halves of characters, which came in two pieces."""
    match content:
        case str():
            return make_storable(content)
        case list():
            return [_drop_half_characters(block) for block in content]
        case {"type": "text", "text": str(text)}:
            return {**content, "text": make_storable(text)}
    return content


def read_calls(message: AIMessage, chunks: Sequence[AIMessageChunk]) -> AIMessage:
    """The message; a call is invalid if its text leaves in doubt what its arguments are.

    LangChain joins the chunks of a stream to a message that no longer has the text of the
    arguments, only what its parser made of it; that parser closes what was cut.
    """
    pieces = _list_pieces(message, [chunk for chunk in chunks if chunk.tool_call_chunks])
    calls: list[ToolCall] = [] if pieces else [*message.tool_calls]
    broken: list[InvalidToolCall] = []
    sent: Sequence[Any] = pieces or message.invalid_tool_calls
    for piece in sent:
        name, id_, text = piece["name"] or "", piece["id"], piece["args"] or ""
        args, problem = read_arguments(text)
        if problem or not (pieces or text.strip()):
            error = problem or piece.get("error")
            broken.append(invalid_tool_call(name=name, args=text, id=id_, error=error))
        else:
            calls.append(tool_call(name=name, args=args, id=id_))
    if calls == message.tool_calls and broken == message.invalid_tool_calls:
        return message
    return message.model_copy(update={"tool_calls": calls, "invalid_tool_calls": broken})


def _list_pieces(message: AIMessage, chunks: Sequence[AIMessageChunk]) -> Sequence[Any]:
    """The calls as they were sent, where their texts are at hand."""
    if isinstance(message, AIMessageChunk):
        pieces = message.tool_call_chunks
    else:  # joined all at once: each joining reads all of it
        pieces = (AIMessageChunk(content="") + list(chunks)).tool_call_chunks if chunks else []
    # Clients that stream the provider's own calls beside the content alone have a chunk of the
    # first piece of a call, and of no other.
    own = message.additional_kwargs.get("tool_calls")
    functions = [call.get("function") for call in own or () if isinstance(call, Mapping)]
    texts = [str(f.get("arguments") or "") for f in functions if isinstance(f, Mapping)]
    made: Sequence[Any] = pieces or message.tool_calls
    pairs = zip(texts, pieces, strict=False)
    if len(texts) != len(made) or any(not t.startswith(p["args"] or "") for t, p in pairs):
        return pieces
    return [{**call, "args": text} for call, text in zip(made, texts, strict=True)]


def bind_request(request: Request) -> Runnable[Any, Any]:
    """The model with the tools or the contract, in the best way it is not known to refuse."""
    chosen, tools, contract = request.chosen, request.tools, request.contract
    quirks, plain = chosen.quirks, request.model or chosen.model
    if quirks.dropped:
        plain = drop_settings(plain, quirks.dropped)
    if tools and quirks.takes_tools:
        try:
            return _bind_tools(plain, request)
        except NotImplementedError:
            quirks.takes_tools = False
    if tools or contract is None:
        return plain
    schema = contract.wire_schema()
    try:
        if quirks.mode == "native":
            asked = plain.with_structured_output(schema, method="json_schema", include_raw=True)
            return _drop_parser(asked)
        if quirks.mode == "tool":
            # No tool_choice: it is the parameter refused most often, and the prompt asks already.
            about = schema.get("description", "The answer.")
            function = {"name": schema["title"], "description": about, "parameters": schema}
            return plain.bind_tools([{"type": "function", "function": function}])
    except (NotImplementedError, TypeError, ValueError):
        quirks.demote()
        return bind_request(request)
    return plain


def _drop_parser(asked: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """The model as it is bound to a schema, without the parser, whose reading nobody uses."""
    first = getattr(asked, "first", asked)
    model: Runnable[Any, Any] = getattr(first, "steps__", {}).get("raw", first)
    return model if isinstance(getattr(model, "bound", None), BaseChatModel) else asked


def _bind_tools(model: BaseChatModel, request: Request) -> Runnable[Any, Any]:
    """The model with the tools; if it may call none, told so in a way it accepts, if there is one.

    Raises:
        NotImplementedError: It takes no tools.
    """
    quirks, tools = request.chosen.quirks, list(request.tools)
    for way in () if request.may_call else quirks.no_call:
        try:
            return model.bind_tools(tools, tool_choice=way)
        except (TypeError, ValueError):
            quirks.choose_otherwise()
    return model.bind_tools(tools)
