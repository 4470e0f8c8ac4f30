"""One call of a server's tool, and its possible outcomes. Imports no MCP client."""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from langgraph.errors import GraphBubbleUp

from ...state.context import Emit

KEY: Final = "loopwright/idempotency_key"
THREAD: Final = "loopwright/thread"
CALL: Final = "loopwright/call"

Why = Callable[[], str]
"""Says why a server gives no answer, in the language of the run that asks. The task that found the
reason belongs to no run."""


Reply = Callable[[dict[str, Any]], Awaitable[None]]
"""Sends the answer to a question of the server: `result` or `error` of its request."""

ELICIT: Final = "elicitation/create"
"""The method by which a server asks a human."""

SAMPLE: Final = "sampling/createMessage"
"""The method by which a server asks the model."""

Sample = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Has a model answer the params of such a request: `result` or `error`, from any event loop."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Why a request gets no answer.

    Attributes:
        why: The reason.
        sent: Whether the server may have carried the request out.
        forgotten: Whether the server seems to have forgotten the session.
    """

    why: Why
    sent: bool
    forgotten: bool = False


class Unanswered(Exception):
    """A request gets no answer."""

    def __init__(self, loss: Loss) -> None:
        """Take the reason."""
        super().__init__()
        self.loss = loss


class Listener(Protocol):
    """The session, to which its transport reports what is no protocol message."""

    def lose(self, number: object, loss: Loss) -> None:
        """Note why the next answer to this request is an error of our own."""

    def ask(self, method: str, params: Any, request: Mapping[str, Any], reply: Reply) -> None:
        """Pass a question of the server on; `request` is ours in which it asks, if known."""

    def doubt(self) -> None:
        """Note that messages of the server may have been missed."""

    def cut_off(self, why: Why | None = None) -> None:
        """Note that the connection has ended, and why, if the transport knows."""


def make_error(number: object, why: Why) -> dict[str, Any]:
    """The answer of our own to a request, as a message of the protocol."""
    error = {"code": -32_000, "message": why()}
    return {"jsonrpc": "2.0", "id": number, "error": error}


def make_refusal(why: str) -> dict[str, Any]:
    """What a server hears that may not ask the model; -1 is the protocol's code for that."""
    return {"error": {"code": -1, "message": why}}


@dataclass(frozen=True, kw_only=True)
class ServerCall:
    """A call as the path hands it over.

    Attributes:
        name: The tool as its server calls it.
        args: Its arguments.
        resendable: Whether running it twice leaves the world as running it once.
        user_id: Whose login or headers a server gets, where users have their own.
        meta: What the server is told of the run; `KEY` names the call, `THREAD` its thread.
        traced: Metadata of the run that tracers see.
        about: Goes into each event of the call.
        emit: Takes progress and log messages.
        turn: The user turn; what its thread left parked in another one is withdrawn.
        can_ask: Whether the human can be asked what the server wants to know.
        reply: The human's answer, where the call was parked with a question.
        sample: Asks the model for the server, at the cost of the run; None where nobody can.
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
    sample: Sample | None = field(default=None, repr=False)
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


class ConnectionLost(ServerUnavailable):
    """The connection ended under a request; a call may open it again and be sent once more."""


class ToolGone(Exception):
    """The server is there, but offers no tool of this name any more."""


class ElicitationPending(GraphBubbleUp):
    """Whoever answers the call asks the human something first; a server parks it until then.

    Attributes:
        form: `message`, and `schema` of the answer or the `url` to go to.
    """

    def __init__(self, form: Mapping[str, Any]) -> None:
        """Take what is asked."""
        super().__init__(form.get("message", ""))
        self.form = dict(form)
