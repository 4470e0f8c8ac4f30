"""direct: an answer without tools, in one model call."""

from functools import partial

from langchain_core.messages import AIMessage, SystemMessage
from langgraph.runtime import Runtime

from ...models.ask import ask
from ...models.drafts import drafted
from ...models.thoughts import read_words
from ...state.context import Context
from ...state.messages import ENDS, signature
from ...state.outcome import Outcome
from ...state.route import RouterState, RouterUpdate
from ...turn.budget import limit_reason
from ...turn.end import Facts, answer_id, outcome_of
from ...turn.scope import scope_of
from ..parts import Parts


async def direct(state: RouterState, runtime: Runtime[Context], *, parts: Parts) -> RouterUpdate:
    """Answer with the words of a model."""
    scope, name = await scope_of(state, runtime, parts), answer_id(state)
    system = scope.prompts.get_prompt("responder", **scope.contexts())
    answer = await ask(
        scope, parts.models, "responder", [SystemMessage(system), *state.messages],
        read=partial(read_words, with_tools=False), draft=drafted(scope, name, "responder"),
    )  # fmt: skip
    text, used = answer.message.text, scope.used(answer.spend)
    halt = limit_reason(answer.refused) if answer.refused else None
    facts = Facts(halt=halt, done=bool(text), answer=text, message=name)
    ended: Outcome = outcome_of(facts, spend=used, allowance=1, resume=None)
    about = {**signature("responder"), ENDS: True}
    said = [AIMessage(text, id=name, additional_kwargs=about)] if text else []
    return RouterUpdate(inner=ended, messages=said, spend=used, warnings=scope.notes)
