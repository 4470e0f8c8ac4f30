"""Errors that the transports put in the place of an answer which does not come."""

import uuid
from typing import Any, Final

from mcp import types
from mcp.shared.exceptions import McpError

_MARK: Final = f"loopwright-{uuid.uuid4().hex}"
"""Nobody else knows it, so no server can pass an error of its own off as one of ours."""


def failed(
    request: types.RequestId, why: str, *, sent: bool, forgotten: bool = False
) -> types.JSONRPCMessage:
    """The answer to a request that gets no other.

    Args:
        request: Its id.
        why: The reason, for the user.
        sent: Whether the server may have carried the request out.
        forgotten: Whether the server seems to have forgotten the session.
    """
    data = {_MARK: {"sent": sent, "forgotten": forgotten}}
    error = types.ErrorData(code=types.CONNECTION_CLOSED, message=why, data=data)
    return types.JSONRPCMessage(types.JSONRPCError(jsonrpc="2.0", id=request, error=error))


def mark_of(error: BaseException) -> dict[str, bool] | None:
    """`sent` and `forgotten` of an error made by `failed`; None for any other."""
    data: Any = error.error.data if isinstance(error, McpError) else None
    return data.get(_MARK) if isinstance(data, dict) else None
