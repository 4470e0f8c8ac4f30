"""Show a model call to OpenTelemetry; on the path if the program has set it up."""

from ..turn import spans
from .request import Asker, Call, Reply, Request


async def trace_model_call(asker: Asker, inner: Call, request: Request) -> Reply:
    """Put a span around the call, and its numbers into the meter."""
    chosen = request.chosen
    with spans.open_model_span(asker.scope, asker.role, chosen.model, chosen.name) as tell:
        reply = await inner(request)
        tell(reply.message)
    return reply
