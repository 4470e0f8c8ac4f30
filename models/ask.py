"""The one path by which a model is asked: a list of wrappers around one request.

Each wrapper can be read alone, and is on the path only if the run has a use for it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any, Final, Literal, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from ..state.contracts import Contract
from ..state.messages import FINAL, calls_in
from ..state.outcome import Spend
from ..text.sentences import say
from ..turn import spans
from ..turn.budget import Limit
from ..turn.scope import RunScope
from .call import call_model, trace_model_call
from .choice import Chosen, Models, apply_settings
from .drafts import reasoning_of
from .fitting import bound_request
from .model_hooks import apply_hooks, enforce_tool_rules
from .prices import attach_price
from .reading import Reading, read_answer
from .request import Asker, Call, Listener, NotAsked, Reply, Request, RequestTooLong, Wrapper
from .reservation import charge_budget
from .retries import cut_at_end, retry_call, try_fallbacks

C = TypeVar("C", bound=Contract)

MAX_ASKS: Final = 3
_LONGEST_QUOTE: Final = 6_000


def _build_path(asker: Asker, chosen: Chosen) -> Call:
    """The path of each request, from the outermost wrapper to the provider."""
    wrappers: tuple[tuple[Wrapper, bool], ...] = (
        (apply_hooks, bool(asker.scope.hooks.events)),
        (cut_at_end, True),
        (try_fallbacks, bool(chosen.fallbacks)),
        (bound_request, True),
        (retry_call, True),
        (attach_price, _costs_dollars(asker.scope, chosen)),
        (charge_budget, True),
        (trace_model_call, spans.is_observed()),
    )
    call: Call = partial(call_model, asker)
    for wrapper, is_used in reversed(wrappers):
        call = partial(wrapper, asker, call) if is_used else call
    return call


def _costs_dollars(scope: RunScope, chosen: Chosen) -> bool:
    """Whether a price may be known of a model that may be asked, or there is a limit in dollars."""
    models = (chosen, *chosen.fallbacks)
    known = bool(scope.context.prices) or any(model.quirks.price is not None for model in models)
    other = bool(scope.hooks.events)  # a hook may name another model
    return known or other or scope.budget.compute_room("usd") < inf


@dataclass(frozen=True)
class Answer(Reading[C]):
    """What came of asking a model: the last message as it was read, and what it cost."""

    model: str = ""
    """Name of the model that answered."""
    reasoning: str = ""
    """What it thought before it spoke, if it shows that."""
    asks: int = 0
    """How often it was asked; a hook's own answer costs no ask."""
    spend: Spend = field(default_factory=Spend)
    """What all asks of this call used."""
    refused: Limit | Literal["hook", "model", "length", "stop"] | None = None
    """What kept it from being asked or used: a limit, a hook, a model that would refuse again, or
    takes no request of the least length, or a stop."""


async def ask(
    scope: RunScope,
    models: Models,
    role: str,
    messages: Sequence[BaseMessage],
    *,
    tools: Sequence[dict[str, Any]] = (),
    spare_tools: Callable[[], Sequence[dict[str, Any]]] = tuple,
    may_call: bool = True,
    contract: type[C] | None = None,
    check: Callable[[C], list[str]] | None = None,
    read: Callable[[AIMessage], Reading[C]] | None = None,
    listeners: Sequence[Listener] = (),
    most_asks: int = MAX_ASKS,
    bump: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> Answer[C]:
    """Ask the model of a role, again with the problems named if its answer is malformed.

    Every ask is reserved in the run's budget and added to it. Hooks may change each request,
    answer in the model's place, or refuse. Events: retry, fallback, budget, warning, hook, model.

    Args:
        scope: The run. Its notes say if another model had to be asked.
        models: Where models come from.
        role: Who asks.
        messages: The conversation.
        tools: Tools the model may call, in OpenAI's format. Real calls win over a contract.
        spare_tools: Those it may call besides once something is left out of the request.
        may_call: False if the tools are only shown, so that requests of several roles begin alike.
        contract: What the answer must be.
        check: Names problems of a valid contract, which are fed back like malformed answers.
        read: Reads an answer that is no contract; its problems are fed back likewise.
        listeners: Hear the answer while it is written, if the model is streamed.
        most_asks: How often a malformed answer is asked for.
        bump: How many tiers stronger than usual.
        settings: Of the model, such as a temperature; those it does not know are left out.

    Returns:
        The answer. A bad one is described in `problems`, never raised.

    Raises:
        ModelUnavailable: If the model cannot be built.
        ModelCallFailed: If no model could be reached.
    """
    chosen = apply_settings(await _choose_model(scope, models, role, bump), settings or {})
    call = _build_path(asker := Asker(scope, models, role, listeners), chosen)
    request = Request(
        chosen=chosen, messages=messages, tools=tools, may_call=may_call, contract=contract,
        spare_tools=spare_tools if tools else tuple,
    )  # fmt: skip
    answer, extra = Answer[C](AIMessage("")), list[BaseMessage]()
    if chosen.quirks.calls_anyway and tools and not may_call:  # it has called one all the same
        extra = [HumanMessage(say("words_alone"))]
    for _ in range(most_asks):
        try:
            reply = await call(replace(request, messages=[*messages, *extra]))
        except (NotAsked, RequestTooLong) as refusal:
            answer = _refuse_answer(answer, refusal)
            break
        reading = _read(reply, read, check, contract)
        answer = Answer(**vars(reading), reasoning=_read_reasoning(scope, reply.message))
        if FINAL in reply.message.additional_kwargs:
            answer = Answer(AIMessage(""), problems=[reply.message.text], refused="model")
        if answer.refused or not answer.problems:
            break
        extra = _build_repair(reading, contract)
    return _add_cost(asker, answer, chosen)


async def _choose_model(scope: RunScope, models: Models, role: str, bump: int) -> Chosen:
    if (built := models.find_built(role, scope.context, bump=bump)) is not None:
        return built
    return await asyncio.to_thread(models.choose, role, scope.context, bump=bump)  # reads files


def _read(
    reply: Reply,
    read: Callable[[AIMessage], Reading[C]] | None,
    check: Callable[[C], list[str]] | None,
    contract: type[C] | None,
) -> Reading[C]:
    """Read a reply; it has a problem if it calls a tool that it may not."""
    request, message = reply.request, reply.message
    if read:
        reading = read(message)
    else:
        calls = bool(request.tools) and request.may_call
        reading = read_answer(message, contract, check, with_tools=calls)
    if request.tools and not request.may_call and calls_in(message):
        request.chosen.quirks.calls_anyway = True
        if reading.parsed is None or not contract:  # a contract stands by itself
            problem = say("no_tool_here_json" if contract else "no_tool_here_words")
            problems = list(dict.fromkeys([*reading.problems, problem]))
            reading = replace(reading, problems=problems)
    if request.restricted or request.must_call:
        reading = enforce_tool_rules(reading, request)
    return reading


def _read_reasoning(scope: RunScope, message: AIMessage) -> str:
    """What the model thought; hooks that judge its words have not seen it."""
    return "" if "AfterModel" in scope.hooks.events else reasoning_of(message)


def _refuse_answer(answer: Answer[C], refusal: NotAsked | RequestTooLong) -> Answer[C]:
    """The answer if no (further) ask is allowed or of use, or a hook keeps what came of it."""
    by: Limit | Literal["hook", "length", "stop"] = "length"
    problem = str(refusal)
    if isinstance(refusal, NotAsked):
        by = refusal.by
        problem = say("no_call_left", limit=by)
        if by == "hook":
            problem = say("hook_refused", why=refusal.why)
    problems = [*answer.problems, problem]
    return replace(answer, message=AIMessage(""), parsed=None, problems=problems, refused=by)


def _build_repair(reading: Reading[Any], contract: type[Contract] | None) -> list[BaseMessage]:
    """The malformed answer and what is wrong with it, as the next words of the conversation."""
    quote = reading.text.strip()
    if len(quote) > _LONGEST_QUOTE:
        quote = f"{quote[:_LONGEST_QUOTE]}…"
    problems = "\n".join(f"- {problem}" for problem in reading.problems)
    kind = reading.wanted or ("wanted_contract" if contract else "wanted_text")
    wanted = say(kind, contract=contract.__name__ if contract else "")
    request = say("answer_again", problems=problems, wanted=wanted)
    # Some providers refuse an empty message.
    return [AIMessage(quote or say("no_answer")), HumanMessage(request)]


def _add_cost(asker: Asker, answer: Answer[C], chosen: Chosen) -> Answer[C]:
    """The answer with its model and its cost, also sent to listeners of events."""
    model, spend = asker.answered or chosen.name, asker.spend
    asker.scope.emit(
        {"type": "model", "role": asker.role, "model": model, "asks": asker.asks}
        | {key: spend.get(key, 0) for key in ("input_tokens", "output_tokens")}
        | ({"usd": spend["usd"]} if "usd" in spend else {})
    )
    return replace(answer, model=model, asks=asker.asks, spend=spend)
