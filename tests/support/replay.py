"""Clients of a stream of messages, and a model that streams as providers do."""

import json
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    message_chunk_to_message,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import PrivateAttr

from loopwright import ScriptedModel

SECRET = ("shouldContinue", "agent_meta", "<ag", "<th", "</th", "pondering")
"""Parts of tags, of what stands in them, and the word with which all thoughts here begin."""


THOUGHT = "pondering <agent_meta> and more of it"


class Lost(ConnectionError):
    """A connection that breaks in the middle of an answer; another try may be made at once."""

    response = SimpleNamespace(headers={"retry-after-ms": "1"})


class Broken(AIMessage):
    """An answer that breaks off after some of its text."""


class Splitting(ScriptedModel):
    """Streams in random pieces, thoughts first; `thinks` says how they are told, if at all."""

    _random: random.Random = PrivateAttr()
    _thinks: str = PrivateAttr()

    def __init__(self, turns: Any, *, seed: int, thinks: str = "", **more: Any) -> None:
        """Take the script."""
        super().__init__(turns, **more)
        self._random, self._thinks = random.Random(seed), thinks

    async def _astream(
        self, messages: list[BaseMessage], *_: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        message = await self._areply(messages, kwargs)
        told = [*self._thoughts(), *self._words(message)]
        whole = len(told)
        for about in told[: int(whole * 0.7) if isinstance(message, Broken) else whole]:
            yield _chunk(message, **about)
        if isinstance(message, Broken):
            raise Lost
        calls = [
            {"name": c["name"], "args": json.dumps(c["args"]), "id": c["id"], "index": index}
            for index, c in enumerate(message.tool_calls)
        ]
        yield _chunk(message, tool_call_chunks=calls, usage_metadata=message.usage_metadata)

    def _thoughts(self) -> Iterator[dict[str, Any]]:
        for piece in self._split(THOUGHT if self._thinks in ("blocks", "kwargs") else ""):
            if self._thinks == "blocks":
                yield {"content": [{"type": "reasoning", "reasoning": piece, "index": 0}]}
            else:
                yield {"additional_kwargs": {"reasoning_content": piece}}

    def _words(self, message: AIMessage) -> Iterator[dict[str, Any]]:
        before = f"<think>{THOUGHT}</think>\n" if self._thinks == "tags" else ""
        for piece in self._split(before + str(message.text)):
            block = {"type": "text", "text": piece, "index": 1}
            yield {"content": [block] if self._thinks == "blocks" else piece}

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> ChatResult:
        message = await self._areply(messages, kwargs)
        if isinstance(message, Broken):
            raise Lost
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _split(self, text: str) -> list[str]:
        pieces = []
        while text:
            end = self._random.choice([1, 1, 2, 3, 5, 8, 40])
            pieces.append(text[:end])
            text = text[end:]
        return pieces


def _chunk(message: AIMessage, **about: Any) -> ChatGenerationChunk:
    about = {"content": "", "id": message.id, **about}
    return ChatGenerationChunk(message=AIMessageChunk(**about), text="")


@dataclass
class Replay:
    """What three kinds of clients have of a stream, by id, oldest first.

    One follows the rules of the manual; one adds up whatever comes under an id unless it is a
    removal, as the front ends' library does; one adds up objects, as LangGraph's server does.
    """

    messages: dict[str, BaseMessage] = field(default_factory=dict)
    front_end: dict[str, str] = field(default_factory=dict)
    server: dict[str, Any] = field(default_factory=dict)

    def take(self, message: BaseMessage) -> None:
        name = str(message.id)
        self.server[name] = self.server[name] + message if name in self.server else message
        if message.type == "remove":
            self.messages.pop(name, None)
            self.front_end.pop(name, None)
            return
        self.front_end[name] = self.front_end.get(name, "") + str(message.text)
        had = self.messages.get(name)
        if isinstance(message, AIMessageChunk) and isinstance(had, AIMessageChunk):
            message = had + message
        self.messages[name] = message

    def begin(self, messages: Sequence[BaseMessage]) -> None:
        for message in messages:
            self.messages.setdefault(str(message.id), message)
            self.front_end.setdefault(str(message.id), str(message.text))

    @property
    def whole(self) -> list[BaseMessage]:
        return [message_chunk_to_message(message) for message in self.messages.values()]

    def agrees(self, state: Sequence[BaseMessage]) -> None:
        """The state has all that was told, but for an answer that is shown before its turn ends."""
        known = {str(message.id) for message in state}
        early = [name for name in self.messages if name.startswith("answer-")]
        last = {state[-1].id} & {*early}  # it may have been told before what it was last to follow
        ended = sorted(self.whole, key=lambda message: message.id in last)
        assert [m for m in ended if str(m.id) in known or m.id not in early] == list(state)
        shown = {k: v for k, v in self.front_end.items() if k in known or k not in early}
        assert shown == {str(m.id): str(m.text) for m in state}
        for message in state:
            if str(message.id) in self.server:
                assert self.server[str(message.id)].text == message.text
