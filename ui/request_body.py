"""The body of a request, as far as its door takes it."""

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request

from ..state.limits import LIMITS, explain_raw


async def read_body(request: Request, door: str) -> bytes:
    """The body; raises HTTPException with a sentence where it is too long or does not come."""
    limit, body = LIMITS[door], bytearray()
    try:
        async with asyncio.timeout(float(limit.seconds)):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit.bytes:
                    break
    except TimeoutError:
        msg = f"The body did not come within {limit.seconds} s: send it again."
        raise HTTPException(408, msg) from None
    raw = bytes(body)
    if why := explain_raw(door, raw):
        msg = f"The body is not read: {why}. Send less at once."
        raise HTTPException(413, msg)
    return raw
