"""What one model call may take: estimated before it, held back while it runs, counted after it.

The estimate is an upper bound. Of the input a token is at least two bytes, and one where a provider
has counted more; how much is written is told to the provider where it matters.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage

from ..state.attachments import blocks_in
from ..state.contracts import Contract
from ..state.errors import SettingsError
from ..state.outcome import Spend, model_spend
from ..state.window import tokens_of
from ..turn.budget import Budget, Limit, Most
from ..turn.scope import RunScope
from .choice import Chosen, window_of
from .prices import Price, price_of, unpriced

MONEY_OUTPUT: Final = 16_384
"""Tokens a call may write under a limit in dollars, where nothing else is said."""
_LONGEST_OUTPUT: Final = 128_000
"""Of models that do not tell."""
_LEAST_OUTPUT: Final = 256
"""Fewer are not worth a call."""
LARGEST: Final = (2_200_000, 400_000)
"""Input and output of a call, whatever the model."""
_PLENTY: Final = 10
"""Where so many of the largest calls are left, nothing is estimated."""
_PER_MESSAGE, _PER_TOOLS, _PER_BLOCK = 16, 512, 50_000
"""Tokens beside the text: roles and marks, what providers add to tools, a picture."""
_FEWEST: Final = 16
"""Characters of a token, on average, that are still believed."""
_PATIENCE: Final = 0.02

_SETTINGS: Final = ("max_tokens", "max_output_tokens", "max_completion_tokens", "num_predict")
"""What chat models call the tokens they may write."""


class NoRoom(Exception):
    """No model may be asked: less is left of a limit than the call could take."""

    def __init__(self, limit: Limit) -> None:
        """Say which limit."""
        super().__init__(limit)
        self.limit = limit


@dataclass(frozen=True)
class Allowance:
    """What is held back for one call."""

    chosen: Chosen
    model: BaseChatModel
    """As it is asked: told how much it may write, where that matters."""
    input_tokens: int
    output_tokens: int
    price: Price | None

    @property
    def most(self) -> Most:
        """What is held back."""
        usd = self.price.most(self.input_tokens, self.output_tokens) if self.price else 0.0
        return Most(self.input_tokens + self.output_tokens, usd)

    def spent(self, role: str, message: AIMessage | None, asked: Sequence[BaseMessage]) -> Spend:
        """What the call took. Without an answer all it could: a provider may bill what is cut."""
        told = self.input_tokens, self.output_tokens
        if message:
            read, wrote = tokens_of(asked, message)
            told = read, wrote
            if self.input_tokens < LARGEST[0]:  # else limits are far, and histories long
                length = sum(map(_length, asked))
                told = _likely(read, length), _likely(wrote, _length(message))
        took = max(0, min(told[0], self.input_tokens)), max(0, min(told[1], self.output_tokens))
        usd = None
        if self.price is not None:
            usd = self.price.of(message, *took) if message else self.most.usd
        return model_spend(role, self.chosen.name, *took, usd)

    def unbelievable(self, message: AIMessage) -> str:
        """What to say where a provider counts more than the call could take."""
        told = message.usage_metadata
        if not told:
            return ""
        if told["input_tokens"] > self.input_tokens:
            self.chosen.quirks.bytes_per_token = 1
        elif told["output_tokens"] <= self.output_tokens:
            return ""
        return (
            f"The provider of {self.chosen.name} counted {told['input_tokens']:,} tokens of input"
            f" and {told['output_tokens']:,} of output for a call that can take at most"
            f" {self.input_tokens:,} and {self.output_tokens:,}: what is beyond is not counted."
        )


def _length(message: BaseMessage) -> int:
    """Characters of a message that is text, and of its calls."""
    content, calls = message.content, getattr(message, "tool_calls", None)
    length = len(content) if isinstance(content, str) else 0
    return length + sum(len(str(call["args"])) for call in calls) if calls else length


def _likely(told: int, length: int) -> int:
    """A provider's count; the estimate where it is a fraction of what such a text has."""
    return told if told * _FEWEST >= length else round(length / 4)


async def allowed(
    scope: RunScope,
    chosen: Chosen,
    messages: Sequence[BaseMessage],
    tools: Sequence[dict[str, Any]] = (),
    contract: type[Contract] | None = None,
) -> Allowance:
    """Take one call out of the budget; waits for calls under way where these hold what is left.

    Raises:
        NoRoom: A limit is reached.
        SettingsError: The model's price is not known, and there is a limit in dollars.
    """
    budget, most = scope.budget, scope.context.max_output_tokens
    price = await price_of(chosen, scope.context)
    money = budget.room("usd") < inf
    if price is None and money:  # a hook wants another model
        raise SettingsError(unpriced([chosen.name]))
    while True:
        short: Limit | None = None
        if plenty := not money and budget.room("tokens") >= _PLENTY * sum(LARGEST):
            size, output = LARGEST[0], most or LARGEST[1]
        else:
            size = most_input(chosen, messages, tools, contract)
            output, short = _output(scope, chosen, price, size)
        if short is None:
            model = chosen.model if plenty and most is None else _told(chosen, output)
            allowance = Allowance(chosen, model, size, output, price)
            if budget.reserve_model_call(allowance.most):
                await _noted(budget, allowance)
                return allowance
            short = budget.exhausted or "model_calls"
        if not (short in ("tokens", "usd") and budget.under_way):
            budget.run_short(short)
            raise NoRoom(short)
        await asyncio.sleep(_PATIENCE)


async def _noted(budget: Budget, allowance: Allowance) -> None:
    """Have a call on record; one that then is not made holds nothing that others wait for."""
    try:
        await budget.noted()
    except BaseException:
        budget.settle(allowance.most, Spend())
        raise


def _output(
    scope: RunScope, chosen: Chosen, price: Price | None, size: int
) -> tuple[int, Limit | None]:
    """How much a call may write, or of which limit too little is left for it.

    As long as that leaves enough, a call like it is kept for the last words of the turn.
    """
    wanted: float = longest_output(chosen.model) or _LONGEST_OUTPUT
    rooms: dict[Limit, float] = {"tokens": scope.budget.room("tokens") - size}
    spare: dict[Limit, float] = {"tokens": size + _LEAST_OUTPUT}
    usd = scope.budget.room("usd")
    if price is not None and usd < inf:
        rates = price.up_to(size + _LEAST_OUTPUT)
        rooms["usd"], spare["usd"] = inf, 0
        rest = usd - price.most(size, 0)
        if rates.output or rest < 0:
            rooms["usd"] = rest / (rates.output or 1)
            spare["usd"] = price.most(size, _LEAST_OUTPUT) / (rates.output or 1)
    if scope.context.max_output_tokens:
        wanted = min(wanted, scope.context.max_output_tokens)
    elif "usd" in rooms or rooms["tokens"] < wanted:
        wanted = min(wanted, MONEY_OUTPUT)
    least = min(wanted, _LEAST_OUTPUT)
    if short := next((name for name, room in rooms.items() if room < least), None):
        return 0, short
    fair = min(rooms[name] - spare[name] for name in rooms)
    return int(min(wanted, fair if fair >= least else min(rooms.values()))), None


def longest_output(model: BaseChatModel) -> int | None:
    """How much a model writes at most, as it was built or as its profile says; None: not known."""
    profile = getattr(model, "profile", None) or {}
    values = [*(getattr(model, n, None) for n in _SETTINGS), profile.get("max_output_tokens")]
    return min((v for v in values if isinstance(v, int) and v > 0), default=None)


def _told(chosen: Chosen, output: int) -> BaseChatModel:
    """The model, told how much it may write; one that has no such setting is as it was."""
    names = [n for n in _SETTINGS if n in type(chosen.model).model_fields]
    if not names or names[0] in chosen.quirks.dropped:
        return chosen.model
    return chosen.model.model_copy(update={names[0]: output})


def most_input(
    chosen: Chosen,
    messages: Sequence[BaseMessage],
    tools: Sequence[dict[str, Any]] = (),
    contract: type[Contract] | None = None,
) -> int:
    """The tokens that a request can have at most; no model takes more than its window."""
    size = sum(map(_size, messages))
    if tools or contract:
        shown: Any = tools or (contract and contract.wire_schema())
        size += len(json.dumps(shown, ensure_ascii=False).encode("utf-8", "replace"))
        size += _PER_TOOLS * chosen.quirks.bytes_per_token
    blocks = sum(len(blocks_in(message)) for message in messages)
    tokens = size // chosen.quirks.bytes_per_token + _PER_MESSAGE * (len(messages) + 1)
    return int(min(tokens + _PER_BLOCK * blocks, window_of(chosen.model) or inf))


def _size(message: BaseMessage) -> int:
    """Bytes of what a model reads of a message."""
    content, calls = message.content, getattr(message, "tool_calls", None)
    text = content if isinstance(content, str) else message.text
    if calls:
        text += str(calls)
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
