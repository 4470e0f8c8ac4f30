"""A hand-written server over stdio that breaks the rules as it is told to; it starts at once."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MODES = set(sys.argv[1:])
CANCELLED: list[int] = []
OFFERS: dict[str, Any] = {"prompts": {}} if "odd" in MODES else {}
CHILD = [0]
WRITES: dict[str, dict[str, bool]] = {
    "die": {}, "die_once": {}, "hold": {}, "note": {},
    "die_once_idempotent": {"readOnlyHint": False, "idempotentHint": True},
}  # fmt: skip
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "path": {"type": "string"}},
}


def put(message) -> Any:
    whole = {"jsonrpc": "2.0", **message}
    if "backwards" in MODES:
        whole = dict(reversed(whole.items()))
    sys.stdout.write(json.dumps(whole) + "\n")
    sys.stdout.flush()


def tools() -> Any:
    names = ["echo", "hang", "garbled", "pings", "cancelled", "big", "child", "refuse", "pid"]
    names += ["die_read", "die_once_read", "kill_once", *WRITES]
    if "changing" in MODES:
        names += ["changed"] if CANCELLED else ["change"]
    reads = {"readOnlyHint": True}
    return [
        {"name": name, "inputSchema": SCHEMA, "annotations": WRITES.get(name, reads)}
        for name in names
    ]


def text(words) -> Any:
    return {"content": [{"type": "text", "text": str(words)}]}


def call(number, name, arguments) -> Any:
    """The result of a call, or None where there is none."""
    if name.startswith("die"):
        die(name, arguments)
    if name in ("note", "hold"):
        with Path(arguments["path"]).open("a") as notes:
            notes.write("noted\n")
    if name == "refuse":
        put({"id": number, "error": {"code": -32602, "message": "n must be odd"}})
    if name == "garbled":
        put({"id": number, "result": "no object"})
    if name == "pings":
        for ping in range(arguments["n"]):
            put({"id": f"p{ping}", "method": "ping"})
    if name == "change":
        CANCELLED.append(-1)
        put({"method": "notifications/tools/list_changed"})
    words = {"echo": arguments.get("n"), "pings": "pinged", "cancelled": CANCELLED}
    words |= dict.fromkeys(("die_once", "die_once_read", "die_once_idempotent"), "second time")
    words |= {"pid": os.getpid(), "note": "noted", "kill_once": "kept"}
    words |= {"big": "x" * arguments.get("n", 0), "child": CHILD[0], "change": "changed"}
    return text(words[name]) if name in words else None


def die(name, arguments) -> Any:
    """End the process before answering; where it dies once, a file remembers that it has."""
    if "once" in name:
        if Path(arguments["path"]).exists():
            return
        Path(arguments["path"]).touch()
    os._exit(7)


def kill_once(path, meta) -> None:
    """Write down the key of the call; at the first one kill the client before it is answered."""
    again = Path(path).exists()
    with Path(path).open("a") as keys:
        keys.write(meta["loopwright/idempotency_key"] + "\n")
    if not again:
        os.kill(os.getppid(), signal.SIGKILL)


def answer(message) -> Any:
    if message["method"] == "initialize":
        return {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}, **OFFERS},
            "serverInfo": {"name": "faulty", "version": "1"},
        }
    if message["method"] == "prompts/list":
        return {"prompts": [5, {"name": {"a": 1}, "arguments": 5}, {"arguments": ["b"]}]}
    if message["method"] == "tools/list":
        return {"tools": tools()}
    if message["method"] == "tools/call":
        params = message["params"]
        if params["name"] == "kill_once":
            kill_once(params["arguments"]["path"], params["_meta"])
        return call(message["id"], params["name"], params["arguments"])
    put({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
    return None


def serve() -> Any:
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "notifications/cancelled":
            CANCELLED.append(message["params"]["requestId"])
        if "noise" in MODES:
            sys.stdout.write('Starting up...\n{"half": \n\n[1]\n"word"\n\xff\n')
        if "flood" in MODES:
            sys.stderr.write(("many words on stderr " * 50 + "\n") * 5_000)
        if "id" in message and "method" in message:
            result = answer(message)
            if result is not None:
                put({"id": message["id"], "result": result})


if __name__ == "__main__":
    if "fork" in MODES:
        deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        CHILD[0] = subprocess.Popen([sys.executable, "-c", deaf]).pid
    if "stubborn" in MODES:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    serve()
    while "stubborn" in MODES:
        time.sleep(1)
