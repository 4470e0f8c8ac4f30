"""A model that does its worst within what a provider lets it, and what it truly took."""

import asyncio
import json
import os
import random
import signal
from types import SimpleNamespace

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr

from loopwright import build_react, open_durability
from loopwright.state.errors import ModelCallFailed

PRICES = {"input": 2.0, "output": 10.0, "cached_input": 0.5}
DOLLARS = 1e-6
ON = {"shouldContinue": True, "reason": "there is more"}


class Hiccup(ConnectionError):
    """A failure after which the same call may be made again at once."""

    response = SimpleNamespace(headers={"retry-after": "0"})


class Refuses(Exception):
    """A 400 that names a setting."""

    status_code = 400


class Adversary(BaseChatModel):
    """Its provider cuts at `max_tokens`, as they do, and counts as it likes.

    Attributes:
        seed: Of what it says.
        lies: Whether the provider's counts may be anything.
        book: A file that is told of each request before it is answered.
        dies_at: The request in which the process is killed.
    """

    seed: int = 0
    lies: bool = True
    book: str = ""
    dies_at: int = 0
    max_tokens: int | None = None
    temperature: float | None = 0.5
    model_name: str = "worst"
    _random: random.Random = PrivateAttr()
    _truth: list[tuple[int, int]] = PrivateAttr(default_factory=list)

    def model_post_init(self, _):
        self._random = random.Random(self.seed)

    @property
    def _llm_type(self):
        return "adversary"

    @property
    def truth(self):
        """Tokens of input and output of each request, failed ones too."""
        return self._truth

    def bind_tools(self, tools, **kwargs):
        return self.bind(tools=list(tools), **kwargs)

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        raise NotImplementedError

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        dice, read = self._random, sum(len(m.text) for m in messages) // 4
        place = len(self._truth)
        self._truth.append((0, 0))
        self._note(read)
        await asyncio.sleep(0)
        if dice.random() < 0.2:
            raise dice.choice([
                Hiccup("down"), RuntimeError("Event loop is closed"), ValueError("no"),
                Refuses("temperature is not supported"),
            ])  # fmt: skip
        message = self._said(kwargs.get("tools") or [])
        if self.max_tokens is not None and len(message.text) > 4 * self.max_tokens:
            cut = message.text[: 4 * self.max_tokens]
            message = AIMessage(cut, response_metadata={"finish_reason": "length"})
        wrote = (len(message.text) + sum(len(str(c["args"])) for c in message.tool_calls)) // 4
        self._truth[place] = (read, wrote)
        message.usage_metadata = self._count(read, wrote)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _note(self, read):
        if self.book:
            with open(self.book, "a", encoding="utf-8") as book:
                book.write(f"{read}\n")
        if len(self._truth) == self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def _said(self, tools):
        dice = self._random
        names = [tool["function"]["name"] for tool in tools]
        kind = dice.choice(["calls", "calls", "long", "bad", "empty", "flags", "plan"])
        if kind == "calls" and names:
            names += ["delegate_to_agent"] * 9 * ("delegate_to_agent" in names)
            wanted = [dice.choice([*names, "none"]) for _ in range(dice.randrange(1, 6))]
            return AIMessage("", tool_calls=[
                {"name": name, "args": self._args(name), "id": f"c{dice.randrange(10**9)}"}
                for name in wanted
            ])  # fmt: skip
        if kind == "long":
            return AIMessage("".join(dice.choices("0123456789abcdef ", k=dice.choice([50, 9_000]))))
        if kind == "bad":
            return AIMessage('{"todos": [{"id": "1", "descr')
        if kind == "flags":
            return AIMessage(
                'I go on.<agent_meta>{"shouldContinue": true, "reason": "x"}</agent_meta>'
            )
        if kind == "plan":
            todos = [{"id": str(n), "description": f"Do {n}", "depends_on": []} for n in range(4)]
            return AIMessage(json.dumps({"summary": "x", "todos": todos, "taskCompleted": False}))
        return AIMessage("")

    def _args(self, name):
        if name == "delegate_to_agent":
            return {"agent_name": "helper", "objective": "Look."}
        return {"n": self._random.randrange(10**9)}

    def _count(self, read, wrote):
        if not self.lies:
            counted = (read, wrote)
        else:
            lie = self._random.choice([0, 1, 10**9])
            counted = self._random.choice([None, (lie, lie), (read, wrote), (read, lie)])
        if counted is None:
            return None
        return {
            "input_tokens": counted[0], "output_tokens": counted[1], "total_tokens": sum(counted),
            "input_token_details": {"cache_read": self._random.choice([0, -5, 10**12])},
        }  # fmt: skip

    def dollars(self):
        """What an honest provider would bill."""
        return sum(
            (read * PRICES["input"] + wrote * PRICES["output"]) * DOLLARS
            for read, wrote in self._truth
        )


def settings(seed, times=1):
    """Random limits, as small as they may be, or some times that."""
    dice = random.Random(seed)
    context = {
        "max_model_calls": times * dice.choice([1, 2, 5, 12]),
        "max_tool_calls": dice.choice([1, 3, 9]),
        "max_tokens": times * dice.choice([1_000, 4_000, 20_000, 60_000, 5_000_000]),
        "model_retries": dice.randrange(3), "interactive": False,
        "max_parallel_tasks": dice.choice([1, 4]), "prices": {"worst": PRICES},
    }  # fmt: skip
    if dice.random() < 0.7:
        context["max_cost"] = times * dice.choice([0.001, 0.01, 0.05, 0.3])
    if dice.random() < 0.3:
        context["max_output_tokens"] = dice.choice([16, 300, 4_000])
    return context


def within(quote, model, *, calls=0, spend=None):
    """What breaks a quote; nothing where it holds."""
    tokens = sum(map(sum, model.truth))
    took = {"model_calls": len(model.truth), "tool_calls": calls, "usd": model.dollars()}
    took |= {"tokens": tokens} if not model.lies else {}
    if model.lies:
        took.pop("usd")
    broken = {name: (n, quote[name]) for name, n in took.items() if n > quote[name] + 1e-9}
    if spend is not None:
        counted = {
            "model_calls": spend["model_calls"], "tool_calls": spend["tool_calls"],
            "tokens": spend["input_tokens"] + spend["output_tokens"], "usd": spend["usd"] or 0,
        }  # fmt: skip
        broken |= {
            f"counted {name}": (n, quote[name])
            for name, n in counted.items()
            if n > quote[name] + 1e-9
        }
    return broken


def run_and_die(folder, given, context, seed, dies_at):
    """A process that runs a turn of react, and is killed in a request."""
    model = Adversary(seed=seed, lies=False, book=f"{folder}/book", dies_at=dies_at)
    with open_durability(f"sqlite:///{folder}/t.db") as durability:
        graph = build_react(model=model, tools=[look], durability=durability)
        while True:
            try:
                graph.invoke(given, {"configurable": {"thread_id": "t"}}, context=context)
            except ModelCallFailed:
                given = None
            else:
                return


def look(n: int) -> str:
    """Look it up."""
    return f"{n} " * (n % 300)
