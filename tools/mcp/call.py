"""One call of a server's tool, and what may come of it besides an answer. Imports no MCP client."""

from collections.abc import Callable, Mapping
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, Final

from langgraph.errors import GraphBubbleUp

from ...state.context import Emit

KEY: Final = "loopwright/idempotency_key"
THREAD: Final = "loopwright/thread"
CALL: Final = "loopwright/call"

Why = Callable[[], str]
"""Says why a server gives no answer, in the language of the run that asks: it is often found out
by a task of the connection, which belongs to no run."""


@dataclass(frozen=True, kw_only=True)
class ServerCall:
    """A call as the path hands it over.

    Attributes:
        name: The tool as its server calls it.
        args: Its arguments.
        resendable: Whether running it twice leaves the world as running it once.
        user_id: Whose headers a server with callable headers gets.
        meta: What the server is told of the run; `KEY` names the call, `THREAD` its thread.
        traced: Metadata of the run that tracers see.
        about: Goes into each event of the call.
        emit: Takes progress and log messages.
        turn: The user turn; what its thread left parked in another one is withdrawn.
        can_ask: Whether the human can be asked what the server wants to know.
        reply: The human's answer, where the call was parked with a question.
        within: The caller's context: events come from the session's, which has no run.
    """

    name: str
    args: dict[str, Any]
    resendable: bool = False
    user_id: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    traced: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    emit: Emit | None = None
    turn: str = ""
    can_ask: bool = False
    reply: Mapping[str, Any] | None = None
    within: Context = field(default_factory=copy_context, repr=False)

    @property
    def key(self) -> str:
        """What names the call, and no other; "" where nobody has named it."""
        return str(self.meta.get(KEY, ""))

    @property
    def thread(self) -> str:
        """The thread whose run makes the call."""
        return str(self.meta.get(THREAD, ""))

    def tell(self, kind: str, **what: object) -> None:
        """Tell the run of something that happens meanwhile."""
        if self.emit is not None:
            self.within.run(self.emit, {"type": kind, **self.about, **what})


class ServerUnavailable(Exception):
    """The server cannot be reached; the text says why.

    Attributes:
        sent: Whether the server may have seen the call. If so, a write may have taken effect and
            its outcome is not known; if not, the call has certainly not run.
    """

    def __init__(self, why: str, *, sent: bool = False) -> None:
        """Take the reason in words; `sent` where the call had left for the server."""
        super().__init__(why)
        self.sent = sent


class Lost(ServerUnavailable):
    """The connection ended under a request; a call may open it again and be sent once more."""


class ToolGone(Exception):
    """The server is there, but offers no tool of this name any more."""


class Asked(GraphBubbleUp):
    """The server asks the human something before it goes on; until then the call is parked.

    Attributes:
        form: `message`, and `schema` of the answer or the `url` to go to.
    """

    def __init__(self, form: Mapping[str, Any]) -> None:
        """Take what the server asks."""
        super().__init__(form.get("message", ""))
        self.form = dict(form)
