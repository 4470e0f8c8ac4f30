"""direct: an answer without tools, in one model call; or the word that tools are needed."""

from dataclasses import replace
from functools import partial

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.runtime import Runtime

from ...models.ask import Answer, ask
from ...models.drafts import make_draft_listeners
from ...models.hidden_tags import AgentMeta, read_thought
from ...models.reading import Reading
from ...state.context import Context
from ...state.messages import is_talk
from ...state.route import RouterState, RouterUpdate
from ...text.sentences import say, says_nothing
from ...tools.catalog import Catalog
from ...turn.budget import get_limit_reason
from ...turn.end import Facts, build_answer_id
from ...turn.scope import RunScope, make_scope
from ..conversation import system_message, to_model_message
from ..parts import Parts
from .turn import end_direct

_MOST_ASKS = 2


async def direct(state: RouterState, runtime: Runtime[Context], *, parts: Parts) -> RouterUpdate:
    """Answer with the words of a model; where it says that these cannot do, others take over."""
    scope, name = await make_scope(state, runtime, parts), build_answer_id(state)
    scope.emit({"type": "phase", "role": "responder", "action": "answering", "round": 1})
    catalog = await parts.toolbox.catalog(scope.user)
    answer = await ask(
        scope, parts.models, "responder", _request(scope, state, catalog),
        read=partial(_read, request=state.request),
        listeners=make_draft_listeners(scope, name, "responder"), most_asks=_MOST_ASKS,
    )  # fmt: skip
    facts, used = _facts(answer, bool(catalog.specs()), name), scope.add_seconds(answer.spend)
    ended = end_direct(facts, answer.message, "responder", answer.reasoning, used)
    return ended | RouterUpdate(spend=used, warnings=scope.notes)


def _facts(answer: Answer[AgentMeta], has_tools: bool, name: str) -> Facts:
    """The words are the answer, unless they say that tools are needed."""
    needs, text = answer.parsed, answer.message.text
    if answer.refused:
        return Facts(
            halt=get_limit_reason(answer.refused), unmet=answer.problems[-1:], message=name
        )
    if needs is None or not needs.should_continue:
        done = bool(text) and not answer.problems
        return Facts(done=done, unmet=answer.problems, answer=text, message=name)
    unmet = [needs.reason or text or say("no_answer")]
    if has_tools:
        return Facts(unmet=unmet, message=name)
    return Facts(halt="MISSING_INFORMATION", unmet=unmet, answer=text, message=name)


def _request(scope: RunScope, state: RouterState, catalog: Catalog) -> list[BaseMessage]:
    """The talk, of which a hook may have rejected the newest words."""
    prompt = scope.parts.prompts.get_prompt("responder", **scope.build_contexts())
    system = system_message(scope, prompt, catalog.deferred_tools.names, state.hook_context)
    talk = [to_model_message(message) for message in state.messages if is_talk(message)]
    why, then = "; ".join(state.improvements), say("answer_now")
    again = [HumanMessage(say("answer_was_rejected", why=why, then=then))] if why else []
    return [system, *talk, *again]


def _read(message: AIMessage, request: str) -> Reading[AgentMeta]:
    """The words; the tag may be left out, and words with it, where tools are needed."""
    reading = read_thought(message, request=request)
    wants = reading.parsed is not None and reading.parsed.should_continue
    if wants or (reading.complete and not says_nothing(reading.message.text, request)):
        return replace(reading, problems=[])
    return reading
