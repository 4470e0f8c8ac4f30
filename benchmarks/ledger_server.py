"""An MCP server over stdio whose one tool changes the world: it books an item in a SQLite file.

It remembers nothing and checks nothing: whoever calls twice has booked twice. Each process of a
benchmark starts one, so it speaks the protocol by itself: to import the package of MCP took longer
than all the rest of a killed run.
"""

import json
import os
import random
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

BOOK = Path(sys.argv[1])


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The result of a request."""
    match method:
        case "initialize":
            about = {"name": "ledger", "version": "1"}
            known = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}
            return {**known, "serverInfo": about}
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            said = book(params["arguments"]["item"])
            content = [{"type": "text", "text": said}]
            return {"content": content, "structuredContent": {"result": said}}
        case _:
            return {}


TOOL = {
    "name": "book", "description": "Book an item.",
    "inputSchema": {
        "type": "object", "properties": {"item": {"type": "integer"}}, "required": ["item"],
    },
    "outputSchema": {
        "type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"],
    },
}  # fmt: skip


def book(item: int) -> str:
    """Book an item."""
    time.sleep(random.uniform(0, 0.02))
    with closing(sqlite3.connect(BOOK, timeout=10, isolation_level=None)) as database:
        database.execute("INSERT INTO bookings (item) VALUES (?)", (item,))
    time.sleep(random.uniform(0, 0.02))
    return f"booked item {item}"


def serve() -> None:
    """Answer requests, one after the other, until there are no more."""
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            result = answer(asked["method"], asked.get("params") or {})
            told = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
            sys.stdout.write(f"{json.dumps(told)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    pid_file = BOOK.parent / f"server-{os.getpid()}.pid"
    pid_file.touch()
    serve()
    pid_file.unlink()
