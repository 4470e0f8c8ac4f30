"""The model that an eval measures, through Inspect's bridge for clients of OpenAI's API."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from inspect_ai.agent import agent_bridge
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    Model,
    ModelOutput,
    model_roles,
)
from inspect_ai.tool import ToolChoice, ToolInfo
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from ..state.roles import ROLES, TIERS

Break = Callable[[BaseException], None]
"""Ends the sample by an error that no answer of a graph may hide."""


@asynccontextmanager
async def open_models(fail: Break) -> AsyncIterator[dict[str, ChatOpenAI]]:
    """The eval's model for everything; its model roles named like ours, or like a tier, besides.

    Inspect keeps each call in the log; its limits, retries and cache hold.
    """
    thoughts: dict[str, list[ContentReasoning]] = {}

    async def ask(
        model: Model, messages: list[ChatMessage], tools: list[ToolInfo],
        choice: ToolChoice | None, config: GenerateConfig,
    ) -> ModelOutput:  # fmt: skip
        for message in messages:
            calls = (message.tool_calls or ()) if isinstance(message, ChatMessageAssistant) else ()
            if kept := thoughts.get(calls[0].id if calls else ""):
                words = [ContentText(text=message.text)] if message.text else []
                message.content = [*kept, *words]
        try:
            output = await model.generate(messages, tools, choice, config)
        except Exception as error:
            fail(error)  # after Inspect's own retries: nothing is gained by ours
            raise
        return _take_thoughts(output, thoughts)

    async with agent_bridge(filter=ask, forward_generation_config=True):
        named = [role for role in model_roles() if role in ROLES or role in TIERS]
        models = {
            **dict.fromkeys(map(str, TIERS), "inspect"),
            **{role: f"inspect/{role}" for role in named},
        }
        yield {role: _make_client(name) for role, name in models.items()}


class _Client(ChatOpenAI):
    """A class of its own: `ChatOpenAI` itself is made lean, past what the bridge reads."""


def _make_client(name: str) -> ChatOpenAI:
    return _Client(
        model=name, api_key=SecretStr("none"), max_retries=0, disable_streaming=True,
        use_responses_api=False,
    )  # fmt: skip


def _take_thoughts(output: ModelOutput, thoughts: dict[str, list[ContentReasoning]]) -> ModelOutput:
    """The answer without its reasoning, which is given back to the model with the same calls."""
    answer = output.model_copy(deep=True)
    for said in [one.message for one in answer.choices]:
        parts = said.content if isinstance(said.content, list) else []
        for call in said.tool_calls or ():
            thoughts[call.id] = [part for part in parts if isinstance(part, ContentReasoning)]
            if call.parse_error:
                call.arguments = {"no JSON": call.parse_error}  # which no tool takes
        said.content = said.text
    return answer
