"""A server over stdio whose tools are what a file says at each listing; a call says it anew."""

import json
import sys
from pathlib import Path
from typing import Any

TOLD, RAN = map(Path, sys.argv[1:3])


def put(message) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(message) -> Any:
    if message["method"] == "initialize":
        return {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "fickle", "version": "1"},
        }
    if message["method"] == "tools/list":
        return {"tools": json.loads(TOLD.read_text())}
    if message["method"] == "tools/call":
        with RAN.open("a") as ran:
            ran.write(message["params"]["name"] + "\n")
        return {"content": [{"type": "text", "text": "done"}]}
    return {}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked and "method" in asked:
        put({"id": asked["id"], "result": answer(asked)})
        put({"method": "notifications/tools/list_changed"})
