"""The model's answers for MCP servers that ask for them in the middle of a call (`sampling`).

What a server asks is a stranger's text. Nothing of the run stands in the request, which has no
tools, and the answer goes to the server alone.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import copy_context
from dataclasses import replace
from typing import Any, Final

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from pydantic import ValidationError

from ..text.sentences import say
from ..tools.mcp.call import Sample, make_refusal
from ..turn.scope import RunScope
from .ask import ask
from .choice import Models
from .hidden_tags import read_words

_MOST_TOKENS: Final = 4_096


@asynccontextmanager
async def open_sampling(models: Models, scope: RunScope) -> AsyncIterator[Sample]:
    """What asks the model for the server of a call; what still runs at its end is cut."""
    loop, within, asked = asyncio.get_running_loop(), copy_context(), list[Any]()

    async def sample(params: Any) -> dict[str, Any]:
        # Models belong to the loop of the run, sessions to another one.
        work = _answer_server(models, scope, params)
        asked.append(within.run(asyncio.run_coroutine_threadsafe, work, loop))
        answer: dict[str, Any] = await asyncio.wrap_future(asked[-1])
        return answer

    try:
        yield sample
    finally:
        for future in asked:
            future.cancel()


async def _answer_server(models: Models, scope: RunScope, params: Any) -> dict[str, Any]:
    """The `result` or the `error` of a request for a message."""
    from mcp.types import CreateMessageRequestParams  # noqa: PLC0415 - slow to import, there by now

    try:
        wanted = CreateMessageRequestParams.model_validate(params)
    except ValidationError:
        return make_refusal("this is no request for a message")
    most = min(wanted.maxTokens, scope.context.max_output_tokens or _MOST_TOKENS, _MOST_TOKENS)
    context = scope.context.model_copy(update={"max_output_tokens": max(1, most)})
    messages: list[Any] = [SystemMessage(wanted.systemPrompt)] if wanted.systemPrompt else []
    for one in wanted.messages:
        texts: list[Any] = [getattr(part, "text", None) for part in one.content_as_list]
        if None in texts or wanted.tools:
            return make_refusal("only texts are sent to the model, and no tools")
        kind = AIMessage if one.role == "assistant" else HumanMessage
        messages.append(kind("\n\n".join(texts)))
    try:
        answer = await ask(
            replace(scope, context=context), models, scope.run.role or "llm_call", messages,
            read=read_words, most_asks=1,
        )  # fmt: skip
    except Exception as error:  # noqa: BLE001 - whatever a provider raises
        return make_refusal(f"the model could not be asked ({type(error).__name__})")
    scope.asides.append(answer.spend)
    is_cut = answer.problems == [say("answer_cut")]
    if not answer.message.text or (answer.problems and not is_cut):
        return make_refusal(f"there is no answer ({answer.refused or 'of no use'})")
    content = {"type": "text", "text": answer.message.text}
    ended = {"model": answer.model, "stopReason": "maxTokens" if is_cut else "endTurn"}
    return {"result": {"role": "assistant", "content": content, **ended}}
