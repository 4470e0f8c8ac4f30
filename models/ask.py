"""The one path by which a model is asked: budget, retries, structure, repair, spend.

A contract is asked for by the provider's native JSON schema, else by a tool named like it, else by
the prompt alone; with tools by the prompt, for tools and a forced schema exclude each other.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeVar
from weakref import WeakKeyDictionary

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.constants import TAG_NOSTREAM
from langgraph.errors import GraphBubbleUp, GraphDrained

from ..state.context import Context
from ..state.contracts import Contract
from ..state.errors import LoopwrightError, ModelCallFailed, RequestTooLong
from ..state.messages import FINAL, calls_in
from ..state.outcome import Spend, add_spend, model_spend
from ..text.told import say
from ..turn import spans
from ..turn.budget import Limit
from ..turn.scope import RunScope
from . import refusals
from .allowance import Allowance, NoRoom, allowed
from .arguments import Heard
from .choice import Chosen, Models
from .drafts import Draft, reasoning_of
from .model_hooks import Request, after_model, as_configured, before_model, restrained
from .reading import Reading, read_answer

C = TypeVar("C", bound=Contract)

MAX_ASKS: Final = 3
_LONGEST_QUOTE: Final = 6_000
_MOST_AT_ONCE: Final = 32
# Interrupts, our own errors and a test script that ran out are no failures of a model.
_PASSED_ON: Final = (GraphBubbleUp, LoopwrightError, AssertionError, NoRoom)

_gates: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, asyncio.Semaphore]] = (
    WeakKeyDictionary()
)


@dataclass(frozen=True)
class Answer(Reading[C]):
    """What came of asking a model: the last message as it was read, and what it cost."""

    model: str = ""
    """Name of the model that answered."""
    reasoning: str = ""
    """What it thought before it spoke, as far as it told."""
    asks: int = 0
    """How often it was asked; a hook's own answer costs no ask."""
    spend: Spend = field(default_factory=Spend)
    """What all asks of this call used."""
    refused: Limit | Literal["hook", "model"] | None = None
    """What kept it from being asked or used: a limit, a hook, a model that would refuse again."""


async def ask(
    scope: RunScope,
    models: Models,
    role: str,
    messages: Sequence[BaseMessage],
    *,
    tools: Sequence[dict[str, Any]] = (),
    may_call: bool = True,
    contract: type[C] | None = None,
    check: Callable[[C], list[str]] | None = None,
    read: Callable[[AIMessage], Reading[C]] | None = None,
    heard: Callable[[str], None] | None = None,
    draft: Draft | None = None,
    most_asks: int = MAX_ASKS,
    bump: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> Answer[C]:
    """Ask the model of a role, again with the problems named where its answer is malformed.

    Every ask is reserved in the run's budget and added to it. Hooks may change each request,
    answer in the model's place, or refuse. Events: retry, fallback, budget, warning, hook, model.
    Where another model had to be asked, the scope's notes say so.

    Args:
        scope: The run.
        models: Where models come from.
        role: Who asks.
        messages: The conversation.
        tools: Tools the model may call, in OpenAI's format. Real calls win over a contract.
        may_call: False where the tools are only shown, so that the request begins like those of
            other roles: a call is refused.
        contract: What the answer must be.
        check: Names problems of a valid contract, which are fed back like malformed answers.
        read: Reads an answer that is no contract; its problems are fed back likewise.
        heard: Is given the answer as far as it is written, where the model is streamed.
        draft: Shows people what is written of it.
        most_asks: How often a malformed answer is asked for.
        bump: How many tiers stronger than usual.
        settings: Of the model, such as a temperature, as far as it knows them.

    Returns:
        The answer. A bad one is described in `problems`, never raised.

    Raises:
        ModelUnavailable: If the model cannot be built.
        ModelCallFailed: If no model could be reached, or the last one takes no request so long.
    """
    chosen = await _chosen(models, role, scope.context, bump)
    chosen = as_configured(chosen, settings) if settings else chosen
    caller = _Caller(scope, models, role, chosen, tools, may_call, contract, heard, draft)
    answer, extra = Answer[C](AIMessage("")), caller.reminder()
    for _ in range(most_asks):
        request = await caller.turn([*messages, *extra])
        if request.answer is None:
            return caller.told(_refused(answer, request))
        if read:
            reading = read(request.answer)
        else:
            calls = bool(request.tools) and may_call
            reading = read_answer(request.answer, contract, check, with_tools=calls)
        reading = caller.refused_call(request, request.answer, reading)
        reading = restrained(reading, request) if scope.hooks.events else reading
        answer = Answer(**vars(reading), reasoning=caller.reasoning(request.answer))
        if FINAL in request.answer.additional_kwargs:
            answer = Answer(AIMessage(""), problems=[request.answer.text], refused="model")
        if answer.refused or not answer.problems:
            break
        extra = _repair(reading, contract)
    return caller.told(answer)


async def _chosen(models: Models, role: str, context: Context, bump: int) -> Chosen:
    if chosen := models.at_hand(role, context, bump=bump):
        return chosen
    # Clients read certificates and configuration files when they are built.
    return await asyncio.to_thread(models.choose, role, context, bump=bump)


@dataclass
class _Caller:
    """Makes the provider calls of one `ask`, and counts what they use."""

    scope: RunScope
    models: Models
    role: str
    chosen: Chosen
    tools: Sequence[dict[str, Any]]
    may_call: bool
    contract: type[Contract] | None
    heard: Callable[[str], None] | None = None
    draft: Draft | None = None
    answered: str = ""
    asks: int = 0
    spend: Spend = field(default_factory=Spend)

    async def turn(self, messages: list[BaseMessage]) -> Request:
        """Ask once, with the hooks around it; without an answer it was refused."""
        request = Request(messages, self.tools, self.may_call)
        hooks = self.scope.hooks
        if hooks.events:
            request = await before_model(hooks, request, self.chosen, self.scope.emit)
        if request.refused or request.answer is not None:
            return request
        chosen = self.chosen
        if request.model not in ("", chosen.name):
            chosen = await asyncio.to_thread(self.models.ready, request.model, chosen.tier)
        if request.settings:
            chosen = as_configured(chosen, request.settings)
        try:
            chosen, message = await self._call(chosen, request)
        except NoRoom as refused:
            return replace(request, limit=refused.limit)
        if hooks.events:
            return await after_model(hooks, request, chosen, message, self.scope.emit)
        return replace(request, answer=message)

    async def _call(self, chosen: Chosen, request: Request) -> tuple[Chosen, AIMessage]:
        """Ask a model, again where that may help, then each of its fallbacks."""
        spare, attempt = list(chosen.fallbacks), 1
        while True:
            try:
                message = await self._within_deadline(chosen, request)
            except _PASSED_ON:
                raise
            except Exception as error:
                if (
                    self.scope.run.stopped()
                ):  # who stops a turn wants neither another try nor an error
                    msg = "stop"
                    raise GraphDrained(msg) from error
                # Providers' errors share no base class: whatever it is, the next may do better.
                more = attempt <= self.scope.context.model_retries
                if more and (delay := refusals.delay_before(attempt, error)) is not None:
                    told: dict[str, Any] = {"type": "retry", "attempt": attempt}
                    self._emit(told | {"delay": round(delay, 2)}, chosen, error)
                    attempt += 1
                elif spare:
                    self._fall_back(chosen, spare[0], error)
                    chosen, attempt, delay = spare.pop(0), 1, 0.0
                else:
                    failed = RequestTooLong if refusals.is_too_long(error) else ModelCallFailed
                    raise failed(
                        refusals.sentence(self.role, chosen.name, error, request.messages)
                    ) from error
            else:
                return chosen, message
            await asyncio.sleep(delay)

    async def _within_deadline(self, chosen: Chosen, request: Request) -> AIMessage:
        context = self.scope.context
        gates = _gates.setdefault(asyncio.get_running_loop(), {})
        most = context.max_parallel_models
        async with gates.setdefault(most, asyncio.Semaphore(most)):
            try:
                async with asyncio.timeout(context.model_deadline) as deadline:
                    return await self._once(chosen, request)
            except TimeoutError as error:
                if not deadline.expired():
                    raise
                msg = f"no answer within {context.model_deadline:g} s"
                raise refusals.DeadlinePassed(msg) from error

    async def _once(self, chosen: Chosen, request: Request) -> AIMessage:
        """Ask without what the model refuses, again at once where it turns out to refuse more."""
        quirks, tools, left = chosen.quirks, request.tools, _MOST_AT_ONCE
        took_tools = quirks.takes_tools
        while True:
            known, left = replace(quirks, dropped=set(quirks.dropped)), left - 1
            spells_out = quirks.spells_out and not tools
            messages = refusals.spelled_out(request.messages) if spells_out else request.messages
            taken = await allowed(self.scope, chosen, messages, tools, self.contract)
            try:
                message = await self._try(taken, tools, messages)
            except Exception as error:
                # A parallel call may have learnt the same in the meantime.
                learnt = known != quirks or quirks.learn(
                    error, taken.model, messages, tools=bool(tools), contract=bool(self.contract),
                    may_call=self.may_call,
                )  # fmt: skip
                if not left or not (learnt or refusals.is_stale(error)):
                    raise
            else:
                if took_tools and not quirks.takes_tools:
                    text = f"The model {chosen.name} takes no tools: it answers without them."
                    self.scope.emit({"type": "warning", "text": text})
                return message

    async def _try(
        self, taken: Allowance, tools: Sequence[dict[str, Any]], messages: list[BaseMessage]
    ) -> AIMessage:
        """Ask the provider once, which counts however it ends; also an answer nobody can read."""
        chosen, heard = taken.chosen, self._listener(taken.chosen.quirks)
        try:
            asked = refusals.prepared(
                taken.model, chosen.quirks, tools, self.contract, may_call=self.may_call
            )
            with spans.of_model(self.scope, self.role, chosen.model, chosen.name) as told:
                given = await asked.ainvoke(messages, self._config(heard))
                answer: AIMessage = given["raw"] if isinstance(given, dict) else given
                told(answer)
            message = heard.whole(answer)
        except Exception as error:
            broken = refusals.broken_answer(error)
            if broken is None:
                self._settle(taken, model_spend(self.role, chosen.name, 0, 0))
                raise
            message = broken
        except BaseException:
            self._settle(taken, taken.spent(self.role, None, messages))
            raise
        self.answered, self.asks = chosen.name, self.asks + 1
        if text := taken.unbelievable(message):
            self.scope.emit({"type": "warning", "text": text})
        self._settle(taken, taken.spent(self.role, message, messages))
        return message

    def _settle(self, taken: Allowance, spend: Spend) -> None:
        self.spend = add_spend(self.spend, spend)
        self.scope.budget.settle(taken.most, spend)
        for warning in self.scope.budget.near():
            self.scope.emit(warning)

    def reasoning(self, answer: AIMessage) -> str:
        """What the model thought; hooks that judge its words have not seen it."""
        return "" if "AfterModel" in self.scope.hooks.events else reasoning_of(answer)

    def _listener(self, quirks: refusals.Quirks) -> Heard:
        """Who listens to one try; what an earlier one wrote counts no more."""
        if self.draft is None:
            return Heard(self.heard)
        self.draft.begin(quirks)
        return Heard(self.heard, self.draft.hear)

    def _config(self, heard: Heard) -> RunnableConfig:
        """What surrounds one try. Callbacks that are given replace those of tracers and streams."""
        return merge_configs(
            {"callbacks": ensure_config().get("callbacks")},
            {
                "run_name": spans.run_name(self.scope, self.role),
                "tags": [TAG_NOSTREAM],
                "metadata": spans.about(self.scope, self.role),
                "callbacks": [heard],
            },
        )

    def reminder(self) -> list[BaseMessage]:
        """What a model is told that would call a tool where it must not: it has done so before."""
        forgets = self.chosen.quirks.calls_anyway and self.tools and not self.may_call
        return [HumanMessage(say("words_alone"))] if forgets else []

    def refused_call(self, request: Request, message: AIMessage, reading: Reading[C]) -> Reading[C]:
        """The reading, with a problem where a tool was called that was only shown.

        A contract stands by itself.
        """
        shown_only = bool(request.tools) and not self.may_call
        if not (shown_only and calls_in(message)):
            return reading
        self.chosen.quirks.calls_anyway = True
        if reading.parsed is not None and self.contract:
            return reading
        problem = say("no_tool_here_json" if self.contract else "no_tool_here_words")
        return replace(reading, problems=list(dict.fromkeys([*reading.problems, problem])))

    def _fall_back(self, chosen: Chosen, following: Chosen, error: Exception) -> None:
        """Tell of the next model that is asked; the user should still know of it after the run."""
        # The type of the error alone: its words may hold what must not be saved.
        self.scope.notes.append(
            f"The {self.role}'s model {chosen.name} did not answer ({type(error).__name__}); "
            f"{following.name} was asked instead."
        )
        self._emit({"type": "fallback", "to": following.name}, chosen, error)

    def _emit(self, event: dict[str, Any], chosen: Chosen, error: Exception) -> None:
        about = {"role": self.role, "model": chosen.name, "error": refusals.describe(error)}
        self.scope.emit(event | about)

    def told(self, answer: Answer[C]) -> Answer[C]:
        """The answer with who gave it and what it cost, which listeners are told."""
        model = self.answered or self.chosen.name
        self.scope.emit(
            {"type": "model", "role": self.role, "model": model, "asks": self.asks}
            | {key: self.spend.get(key, 0) for key in ("input_tokens", "output_tokens")}
            | ({"usd": self.spend["usd"]} if "usd" in self.spend else {})
        )
        return replace(answer, model=model, asks=self.asks, spend=self.spend)


def _refused(answer: Answer[C], request: Request) -> Answer[C]:
    """The answer where no (further) ask is allowed, or a hook keeps what came of it."""
    problem = say("hook_refused", why=request.refused)
    if request.limit:
        problem = say("no_call_left", limit=request.limit)
    problems = [*answer.problems, problem]
    refused = request.limit or "hook"
    return replace(answer, message=AIMessage(""), parsed=None, problems=problems, refused=refused)


def _repair(reading: Reading[Any], contract: type[Contract] | None) -> list[BaseMessage]:
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
