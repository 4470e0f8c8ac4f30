"""The program's OpenTelemetry tracer, if it has one: spans of runs and of calls."""

import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial, wraps
from typing import Any, TypeVar, cast

from langgraph.errors import GraphBubbleUp

from .meters import AGENT

F = TypeVar("F", bound=Callable[..., Any])


def find_tracer() -> Any:
    """The program's tracer; nothing is imported here, because a program that has one did so."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    return trace.get_tracer("loopwright")


@contextmanager
def start_span(
    tracer: Any, name: str, kind: str, attributes: Mapping[str, Any], *, current: bool = True
) -> Iterator[Any]:
    """A span with its known attributes. An error leaves its type there, not its words."""
    known = {key: value for key, value in attributes.items() if value}
    kinds = sys.modules["opentelemetry.trace"].SpanKind
    span = tracer.start_span(name, kind=kinds[kind], attributes=known)
    try:
        with _make_current(span) if current else nullcontext():
            yield span
    except (GraphBubbleUp, GeneratorExit):
        raise  # a question, or nobody reads on: no failure
    except BaseException as error:
        mark_failed(span, type(error).__name__)
        raise
    finally:
        span.end()


def _make_current(span: Any) -> Any:
    use_span = sys.modules["opentelemetry.trace"].use_span
    return use_span(span, record_exception=False, set_status_on_exception=False)


def mark_failed(span: Any, kind: str) -> None:
    """Give a span the type of its error."""
    span.set_attribute("error.type", kind)
    span.set_status(sys.modules["opentelemetry.trace"].StatusCode.ERROR)


def trace_run(astream: F) -> F:
    """Put a span `invoke_agent` around each run of a whole graph, so that it is one trace."""

    @wraps(astream)
    def stream(graph: Any, input: Any, config: Any = None, **options: Any) -> Any:
        chunks, tracer = astream(graph, input, config, **options), find_tracer()
        if tracer is None or not graph.own_builder.whole:
            return chunks
        thread = graph._merge_configurable(config).get("thread_id")
        about = {
            "gen_ai.operation.name": "invoke_agent",
            AGENT: graph.name,
            "gen_ai.conversation.id": "" if thread is None else str(thread),
        }
        open_span = partial(start_span, tracer, f"invoke_agent {graph.name}", "INTERNAL", about)
        return _stream_in_span(partial(open_span, current=False), chunks)

    return cast("F", stream)


async def _stream_in_span(
    open_span: Callable[[], Any], chunks: AsyncGenerator[Any, None]
) -> AsyncGenerator[Any, None]:
    """The same chunks. The span is current while one is made, and not while one is read."""
    with open_span() as span:
        try:
            while True:
                with _make_current(span):
                    chunk = await anext(chunks, _END)
                if chunk is _END:
                    return
                yield chunk
        finally:
            with _make_current(span):
                await chunks.aclose()


_END: Any = object()
