"""A scripted model behind OpenAI's chat API, in a process of its own, whose CPU nobody is charged.

    python benchmarks/model_server.py

Prints its port. What it answers is decided by the request alone: the user's words name a script as
[[kind-number-milliseconds]], see `Script`; the model's name is the graph whose prompts it expects.
It notes every request of an API key: when it came, when it was answered, and, where the script ends
with -counted, how many bytes of its prompt no request before it had. `GET` gives the notes of a key
and forgets them.
"""

import asyncio
import json
import re
import sys
import time
from collections import defaultdict
from contextlib import suppress
from itertools import takewhile
from typing import Any, NamedTuple

PAGE = "The page says: " + "lorem ipsum dolor sit amet " * 12
DIAMOND: dict[str, tuple[float, list[str]]] = {
    name: (0.3, needs)
    for name, needs in {
        "a": [], "b": ["a"], "c": ["a"], "d": ["a"], "e": ["b", "c"], "f": ["d"], "g": ["e", "f"],
    }.items()
}  # fmt: skip
"""Seven steps: what each takes, and what it needs."""

Body = dict[str, Any]
_NAMED = re.compile(r"\[\[(\w+)-(\d+)-(\d+)(-counted)?\]\]")


def arguments_of(name: str, *, referring: bool) -> Body:
    """What `work` is called with for a step of the diamond."""
    seconds, needs = DIAMOND[name]
    return {"name": name, "seconds": seconds, "given": needs if not referring else [
        f"{{{{{need}.done}}}}" for need in needs
    ]}  # fmt: skip


class Script(NamedTuple):
    """What is to be answered.

    kind: `look` makes so many calls, one an answer, `page` the same with longer results, though
    the history may be cut; `sum` sums it up; `block` so many in one answer; `ready` and
    `step` walk the diamond, all steps that are ready or one; `write` makes one call, then writes an
    answer of so many words. pause: seconds before an answer, or between two words of it. graph:
    whose prompts are to be expected.
    """

    kind: str
    number: int
    pause: float
    counted: bool
    graph: str

    @classmethod
    def of(cls, body: Body, key: str) -> "Script":
        """Find it in a request; a history that was cut may have lost it."""
        named = (_NAMED.search(str(message.get("content"))) for message in body["messages"])
        said = next(filter(None, named), None)
        if not body.get("tools") and (said is None or body["model"] == "loop"):
            return cls("sum", 0, 0, False, body["model"])
        if said is None:
            return _newest[key]
        found = cls(said[1], int(said[2]), int(said[3]) / 1000, bool(said[4]), body["model"])
        _newest[key] = found
        return found


def calls_after(script: Script, made: list[str]) -> list[tuple[str, str, Body]]:
    """The calls that a loop is to make when these were made: id, tool, arguments."""
    if script.kind in ("look", "write"):
        most, place = script.number if script.kind == "look" else 1, len(made)
        return [(f"call_{place}", "look", {"number": place})] if place < most else []
    if script.kind == "page":
        place = 1 + max((int(i.removeprefix("call_")) for i in made), default=-1)
        return [(f"call_{place}", "page", {"number": place})] if place < script.number else []
    if script.kind == "block":
        wanted = [] if made else range(script.number)
        return [(f"call_{i}", "block", {"number": i}) for i in wanted]
    ready = [i for i, (_, needs) in DIAMOND.items() if i not in made and {*made} >= {*needs}]
    ready = ready if script.kind == "ready" else ready[:1]
    return [(i, "work", arguments_of(i, referring=False)) for i in ready]


def all_calls(script: Script) -> list[tuple[str, str, Body]]:
    """The same calls as a plan."""
    if script.kind in ("ready", "step"):
        return [(i, "work", arguments_of(i, referring=True)) for i in DIAMOND]
    number = 1 if script.kind == "write" else script.number
    tool = "block" if script.kind == "block" else "look"
    return [(f"s{i}", tool, {"number": i}) for i in range(number)]


def plan(script: Script) -> Body:
    """A plan of prompt_flow."""
    return {"steps": [
        {"id": name, "description": f"Do {name}", "tool": tool, "arguments": arguments}
        for name, tool, arguments in all_calls(script)
    ]}  # fmt: skip


def tasks(script: Script) -> Body:
    """A plan of plan_execute_verify: the diamond has a task a step, everything else is one task."""
    if script.kind not in ("ready", "step"):
        return {"todos": [{"id": "1", "description": "Look everything up"}]}
    return {"todos": [
        {"id": name, "description": f"Do {name}", "dependsOn": needs}
        for name, (_, needs) in DIAMOND.items()
    ]}  # fmt: skip


def verdict(script: Script) -> Body:
    """Everything was done; the first call of each task proves it."""
    proven = [todo["id"] for todo in tasks(script)["todos"]]
    return {
        "allCompleted": True,
        "userNeedsSatisfied": True,
        "summary": words(script),
        "tasks": [{"id": i, "completed": True, "evidence": [f"{i}.1.0"]} for i in proven],
    }


def words(script: Script) -> str:
    """The answer."""
    if script.kind != "write":
        return "Everything is looked up."
    return " ".join(f"word{i}" for i in range(script.number))


OBSERVE = ("user", "Observation.")


def phase_of(body: Body) -> str:
    """Who asks: the schema that is asked for, or what the tools and the words say."""
    schema = (body.get("response_format") or {}).get("json_schema", {}).get("name", "")
    if schema:
        return str(schema)
    if body.get("tools") and body.get("tool_choice") != "none":
        return "acting"
    last = body["messages"][-1]
    return "observation" if (last["role"], last["content"]) == OBSERVE else "thinking"


def ordered(said: Body, body: Body) -> Body:
    """An object with its fields in the order of the schema asked for, as providers write it."""
    wanted = body["response_format"]["json_schema"]["schema"]["properties"]
    return {name: said[name] for name in wanted if name in said}


def empty(body: Body) -> Body:
    """An object of the schema asked for that says nothing; behind an agent's request, no loop."""
    if "response_format" not in body:
        return {"analysis": "It gets on.", "confidence": 0}
    wanted = body["response_format"]["json_schema"]["schema"]["properties"]
    nothing: Body = {"array": [], "number": 0, "object": {}}
    return {name: nothing.get(part.get("type"), "") for name, part in wanted.items()}


_newest: dict[str, Script] = {}
"""The script that each API key asked for last."""

Said = tuple[str, list[tuple[str, str, Body]]]


def answer(script: Script, body: Body) -> Said:
    """Text and calls of the answer to a request."""
    made = [str(m["tool_call_id"]) for m in body["messages"] if m["role"] == "tool"]
    phase, calls = phase_of(body), calls_after(script, made)
    if script.graph == "agent" and phase != "acting":
        return json.dumps(empty(body)), []
    if script.kind == "sum":
        return "It is looked up page by page.", []
    if script.graph == "agent":
        report = [("call_last", "complete_task", {"summary": words(script)})]
        return "", calls or report
    if script.graph == "react":
        return react(script, phase, calls)
    if script.graph == "plan":
        return planned(script, phase, body, made)
    if phase == "ExecutionPlan":
        return json.dumps(plan(script)), []
    if script.graph == "flow":
        cited = ", ".join(f"[{name}]" for name, _, _ in all_calls(script))
        return f"{words(script)} {cited}.", []
    return ("", calls) if calls else (words(script), [])


def react(script: Script, phase: str, calls: list[Any]) -> Said:
    """What react's phases say."""
    if phase == "observation":
        return "The number is known.", []
    if phase == "acting" and calls:
        return "", calls
    flag = "true" if calls else "false"
    text = "The next number is due." if calls else words(script)
    return f'{text}\n<agent_meta>{{"shouldContinue": {flag}}}</agent_meta>', []


def planned(script: Script, phase: str, body: Body, made: list[str]) -> Said:
    """What the roles of plan_execute_verify say."""
    if phase in ("PlannerResponse", "VerifierResponse"):
        said = tasks(script) if phase == "PlannerResponse" else verdict(script)
        return json.dumps(ordered(said, body)), []
    calls = calls_after(script, made)
    if script.kind in ("ready", "step"):
        told = "\n".join(str(m["content"]) for m in body["messages"])
        name = json.loads(told.split("<task>\n")[1].split("\n</task>")[0])["id"]
        calls = [] if made else [("call_0", "work", arguments_of(name, referring=False))]
    report = {"taskCompleted": True, "shouldContinue": False, "summary": "All is looked up."}
    return ("", calls) if calls else (json.dumps(report), [])


def prompt_of(body: Body) -> list[bytes]:
    """A prompt as a provider's cache sees it: tools and schema, then message by message."""
    first = [body.get("tools"), body.get("response_format")]
    return [json.dumps(part).encode() for part in (first, *body["messages"])]


def new_bytes(prompt: list[bytes], earlier: list[list[bytes]]) -> int:
    """Bytes after the longest beginning that an earlier prompt has too."""

    def shared(other: list[bytes]) -> int:
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(prompt, other)))  # noqa: B905 - of any length
        length = sum(map(len, prompt[:same]))
        if same < min(len(prompt), len(other)):
            pairs = zip(prompt[same], other[same])  # noqa: B905
            length += sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        return length

    return sum(map(len, prompt)) - max(map(shared, earlier), default=0)


_logs: dict[str, list[Body]] = defaultdict(list)
_prompts: dict[str, list[list[bytes]]] = defaultdict(list)
_REMEMBERED = 6
"""Chains that take turns: each request is compared with the last requests, of whatever chain."""


def noted(key: str, script: Script, body: Body) -> Body:
    """Note a request."""
    note: Body = {"came": time.monotonic(), "asked": usage_of(body)["prompt_tokens"]}
    if script.counted:
        prompt = prompt_of(body)
        note["new"] = new_bytes(prompt, _prompts[key])
        _prompts[key] = [*_prompts[key], prompt][-_REMEMBERED:]
    _logs[key].append(note)
    return note


def wire_calls(calls: list[tuple[str, str, Body]]) -> list[Body]:
    """Calls as the API has them."""
    return [
        {"id": i, "type": "function", "function": {"name": tool, "arguments": json.dumps(given)}}
        for i, tool, given in calls
    ]


def usage_of(body: Body) -> Body:
    """Tokens of a request, about four characters each."""
    asked = sum(len(str(message.get("content"))) + 40 for message in body["messages"]) // 4
    return {"prompt_tokens": asked, "completion_tokens": 9, "total_tokens": asked + 9}


def completion(body: Body, said: Said) -> bytes:
    """An answer in one piece."""
    text, calls = said
    message: Body = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = wire_calls(calls)
    usage = usage_of(body)
    finish = "tool_calls" if calls else "stop"
    choice = {"index": 0, "message": message, "finish_reason": finish}
    whole = {"id": "c", "object": "chat.completion", "created": 1, "model": body["model"]}
    return json.dumps(whole | {"choices": [choice], "usage": usage}).encode()


def chunks(body: Body, said: Said) -> list[bytes]:
    """An answer in pieces: a word each; calls in one."""
    text, calls = said
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}

    def chunk(delta: Body, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return f"data: {json.dumps(base | {'choices': [choice]})}\n\n".encode()

    pieces = [chunk({"role": "assistant", "content": ""})]
    pieces += [chunk({"content": word}) for word in _words(text)]
    if calls:
        indexed = [{"index": i, **call} for i, call in enumerate(wire_calls(calls))]
        pieces.append(chunk({"tool_calls": indexed}))
    pieces.append(chunk({}, "tool_calls" if calls else "stop"))
    usage = usage_of(body)
    pieces.append(f"data: {json.dumps(base | {'choices': [], 'usage': usage})}\n\n".encode())
    return [*pieces, b"data: [DONE]\n\n"]


def _words(text: str) -> list[str]:
    return [f"{word} " for word in text.split(" ")] if text else []


async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Answer one request; False where no other can follow on the connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in head[1:])}
    given = await reader.readexactly(int(headers.get("content-length", 0)))
    key = headers.get("authorization", "").removeprefix("Bearer ")
    stays = headers.get("connection", "").lower() != "close"
    if head[0].startswith("GET"):
        _prompts.pop(key, None)
        send(writer, json.dumps(_logs.pop(key, [])).encode())
        return stays
    body = json.loads(given)
    script = Script.of(body, key)
    note, said = noted(key, script, body), answer(script, body)
    if script.pause and script.kind != "write":
        await asyncio.sleep(script.pause)
    if body.get("stream"):
        await stream(writer, chunks(body, said), script.pause, note)
    else:
        if script.kind == "write" and not said[1]:
            await asyncio.sleep(script.pause * script.number)
        send(writer, completion(body, said))
    note["answered"] = time.monotonic()
    return stays


def send(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Send an answer in one piece."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
    writer.write(head.encode() + b"\r\n\r\n" + data)


async def stream(
    writer: asyncio.StreamWriter, pieces: list[bytes], pause: float, note: Body
) -> None:
    """Send an answer in pieces; note when its first word was written."""
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked"
    writer.write(head.encode() + b"\r\n\r\n")
    for piece in pieces:
        if b"word0" in piece:
            note["wrote"] = time.monotonic()
        writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        if pause:
            await writer.drain()
            await asyncio.sleep(pause)
    writer.write(b"0\r\n\r\n")


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer a connection's requests, one after another."""
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while await serve_one(reader, writer):
            await writer.drain()
    writer.close()


async def main() -> None:
    """Serve until the one who started this closes its input."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**24, backlog=4096)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
