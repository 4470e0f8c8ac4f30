"""The model that an eval measures, as a chat model of LangChain."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    Model,
    ModelOutput,
    ResponseSchema,
    get_model,
    messages_from_openai,
    model_roles,
)
from inspect_ai.tool import ToolFunction, ToolInfo, ToolParams
from inspect_ai.util import JSONSchema
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    convert_to_openai_messages,
)
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.messages.tool import invalid_tool_call, tool_call
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_core.utils.json_schema import dereference_refs
from pydantic import PrivateAttr

from ..state.roles import ROLES, TIERS

Break = Callable[[BaseException], None]
"""Ends the sample by an error that no answer of a graph may hide."""

_CUT: Final = ("max_tokens", "model_length")


class InspectModel(BaseChatModel):
    """Asks a model of Inspect, which keeps the call in the sample's log and counts it.

    Inspect's own limits of tokens, time and cost hold, and so do its retries and its cache.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    _model: Model = PrivateAttr()
    _fail: Break = PrivateAttr()
    _said: dict[str, ChatMessageAssistant] = PrivateAttr(default_factory=dict)

    def __init__(self, model: Model, fail: Break, **fields: Any) -> None:
        """Take the model of Inspect, and what is told of an error that ends the sample."""
        super().__init__(**fields)
        self._model, self._fail = model, fail

    @property
    def model_name(self) -> str:
        """Inspect's name of the model, such as `openai/gpt-5.4-mini`."""
        return str(self._model)

    @property
    def _llm_type(self) -> str:
        return "inspect"

    def bind_tools(
        self, tools: Sequence[Any], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Offer tools."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def with_structured_output(self, schema: Any, **_: Any) -> Runnable[LanguageModelInput, Any]:
        """Ask for JSON of a schema, in the provider's own way if Inspect knows it."""
        function = convert_to_openai_tool(schema)["function"]
        return self.bind(response_schema=function)

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, *_: Any, **kwargs: Any
    ) -> ChatResult:
        functions = [tool["function"] for tool in kwargs.get("tools") or ()]
        try:
            output = await self._model.generate(
                await self._convert_messages(messages),
                [_make_tool_info(function) for function in functions],
                _read_choice(kwargs.get("tool_choice")),
                self._make_config(stop, kwargs.get("response_schema")),
            )
        except Exception as error:
            self._fail(error)  # after Inspect's own retries: nothing is gained by ours
            raise
        for call in output.message.tool_calls or () if output.choices else ():
            self._said[call.id] = output.message
        return ChatResult(generations=[ChatGeneration(message=_make_message(output))])

    def _make_config(
        self, stop: list[str] | None, wanted: Mapping[str, Any] | None
    ) -> GenerateConfig:
        config = GenerateConfig(
            max_tokens=self.max_tokens, temperature=self.temperature, stop_seqs=stop
        )
        if wanted:
            schema = JSONSchema.model_validate(_inline(wanted["parameters"]))
            config.response_schema = ResponseSchema(name=wanted["name"], json_schema=schema)
        return config

    async def _convert_messages(self, messages: list[BaseMessage]) -> list[ChatMessage]:
        """The request in Inspect's words; an answer that called tools keeps its reasoning."""
        given: Any = convert_to_openai_messages(messages)
        converted = await messages_from_openai(given)
        for message in converted:
            calls = (message.tool_calls or []) if isinstance(message, ChatMessageAssistant) else []
            said = self._said.get(calls[0].id) if calls else None
            if said is not None and isinstance(said.content, list):
                thoughts = [part for part in said.content if isinstance(part, ContentReasoning)]
                text = message.text
                message.content = [*thoughts, *([ContentText(text=text)] if text else [])]
        return converted


def _make_tool_info(function: Mapping[str, Any]) -> ToolInfo:
    parameters = ToolParams.model_validate(_inline(function["parameters"]))
    return ToolInfo(
        name=function["name"], description=function["description"], parameters=parameters
    )


def _inline(schema: Mapping[str, Any]) -> Any:
    """A schema without references, which Inspect's schemas have no place for."""
    return dereference_refs(dict(schema)) if "$defs" in schema else schema


def _read_choice(choice: Any) -> Any:
    """Inspect's word for a `tool_choice` of OpenAI's or LangChain's."""
    match choice:
        case "none" | {"type": "none"}:
            return "none"
        case "any" | "required" | True:
            return "any"
        case {"function": {"name": name}}:
            return ToolFunction(name=name)
    return "auto"


def _make_message(output: ModelOutput) -> AIMessage:
    """The answer as LangChain has it: words, reasoning, calls, what it used, why it ended."""
    message = AIMessage("", response_metadata={"model_name": output.model})
    if (usage := output.usage) is not None:
        cached = usage.input_tokens_cache_read or 0
        read = usage.input_tokens + cached + (usage.input_tokens_cache_write or 0)
        message.usage_metadata = UsageMetadata(
            input_tokens=read, output_tokens=usage.output_tokens,
            total_tokens=read + usage.output_tokens,
            input_token_details=InputTokenDetails(cache_read=cached),
        )  # fmt: skip
    if not output.choices:
        return message
    said = output.message
    message.content = said.text
    why = output.stop_reason
    message.response_metadata["finish_reason"] = "length" if why in _CUT else why
    parts = said.content if isinstance(said.content, list) else []
    thoughts = [part.text for part in parts if isinstance(part, ContentReasoning)]
    if thoughts:
        message.additional_kwargs["reasoning_content"] = "\n\n".join(thoughts)
    for call in said.tool_calls or ():
        name, args, id_ = call.function, call.arguments, call.id
        if error := call.parse_error:
            message.invalid_tool_calls.append(
                invalid_tool_call(name=name, args="", id=id_, error=error)
            )
        else:
            message.tool_calls.append(tool_call(name=name, args=args, id=id_))
    return message


def choose_models(fail: Break) -> dict[str, InspectModel]:
    """The eval's model for everything; its model roles named like ours, or like a tier, besides."""
    asked = InspectModel(get_model(), fail)
    named = [role for role in model_roles() if role in ROLES or role in TIERS]
    roles = {role: InspectModel(get_model(role=role), fail) for role in named}
    return {**dict.fromkeys(map(str, TIERS), asked), **roles}
