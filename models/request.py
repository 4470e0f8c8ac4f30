"""What goes along the path of a model call: the request, the reply, and who asks.

A wrapper is a function of the asker, the rest of the path and the request. It may change the
request, call the rest of the path any number of times, and change the reply.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage

from ..state.contracts import Contract
from ..state.errors import ModelCallFailed
from ..state.outcome import Spend
from ..turn.budget import Limit
from ..turn.scope import RunScope
from .choice import Chosen, Models
from .refusals import Quirks, describe

if TYPE_CHECKING:
    from .prices import Price


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a model is asked, once."""

    chosen: Chosen
    messages: Sequence[BaseMessage]
    tools: Sequence[dict[str, Any]] = ()
    spare_tools: Callable[[], Sequence[dict[str, Any]]] = tuple
    """Offered beside `tools` where something is left out of the messages."""
    may_call: bool = True
    """False if the tools are only shown."""
    contract: type[Contract] | None = None
    restricted: bool = False
    """A hook took tools away: calls of the others are refused."""
    must_call: bool = False
    """A hook wants a call."""
    price: "Price | None" = None
    model: BaseChatModel | None = None
    """The model with a limit on its output; None: as it was chosen."""


@dataclass(frozen=True)
class Reply:
    """What a model answered, and the request as it was sent."""

    message: AIMessage
    request: Request


class NotAsked(Exception):
    """A limit, a hook or a stop does not let the model be asked, or its answer be used."""

    def __init__(self, *, by: Limit | Literal["hook", "stop"], why: str = "") -> None:
        """Say what forbids it; a hook also says why."""
        super().__init__(by, why)
        self.by, self.why = by, why


class RequestTooLong(ModelCallFailed):
    """A model was sent more than it takes; it is asked again with half of that."""


class Listener(Protocol):
    """Hears the pieces of an answer while it is streamed."""

    def begin(self, quirks: Quirks) -> None:
        """A model is asked, perhaps again: forget the pieces of an earlier try."""

    def hear(self, chunk: AIMessageChunk) -> None:
        """Take the next piece."""


@dataclass
class Asker:
    """Who asks in one call of `ask`, and what that has cost so far."""

    scope: RunScope
    models: Models
    role: str
    listeners: Sequence[Listener] = ()
    answered: str = ""
    """Name of the model that answered last."""
    asks: int = 0
    """How many answers came."""
    spend: Spend = field(default_factory=Spend)
    sent: BaseChatModel | None = None
    """The model as it was last sent a request."""
    cut: AIMessage = field(default_factory=lambda: AIMessage(""))
    """What was heard of an answer that was cut."""

    def report(self, event: dict[str, Any], chosen: Chosen, error: BaseException) -> None:
        """Emit an event about a model that failed."""
        about = {"role": self.role, "model": chosen.name, "error": describe(error)}
        self.scope.emit(event | about)


Call = Callable[[Request], Awaitable[Reply]]
Wrapper = Callable[[Asker, Call, Request], Awaitable[Reply]]
