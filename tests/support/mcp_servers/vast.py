"""A hand-written server over stdio whose answers are as large as its arguments say.

They are what is large (`answer`, `list` or `definition`), in what (bytes, values, depth), how many.
"""

import json
import sys
from typing import Any

WHERE, KIND, MUCH = sys.argv[1], sys.argv[2], int(sys.argv[3])
PAGE = 20_000_000 if KIND == "bytes" else 300_000
SCHEMA = {"type": "object", "properties": {}}


def put(number: int, result: str) -> None:
    sys.stdout.write(f'{{"jsonrpc": "2.0", "id": {number}, "result": {result}}}\n')
    sys.stdout.flush()


def large(much: int) -> str:
    """JSON with so many bytes, values or levels."""
    if KIND == "bytes":
        return f'"{"x" * much}"'
    return f"[{'0,' * much}0]" if KIND == "values" else "[" * much + "]" * much


def tools(cursor: str) -> str:
    if WHERE == "list" and KIND != "depth":
        page = int(cursor or 0)
        more = f', "nextCursor": "{page + PAGE}"' if page + PAGE < MUCH else ""
        return f'{{"tools": [{{"name": "t{page}", "about": {large(PAGE)}}}]{more}}}'
    about = large(MUCH) if WHERE in ("list", "definition") else "1"
    odd = f'{{"name": "vast", "inputSchema": {json.dumps(SCHEMA)}, "about": {about}}}'
    return f'{{"tools": [{odd}, {json.dumps({"name": "plain", "inputSchema": SCHEMA})}]}}'


def serve() -> None:
    for line in sys.stdin:
        message: dict[str, Any] = json.loads(line)
        number, params = message.get("id"), message.get("params") or {}
        if number is None:
            continue
        if message["method"] == "initialize":
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "vast", "version": "1"}}
            put(number, json.dumps({"protocolVersion": params["protocolVersion"], **about}))
        elif message["method"] == "tools/list":
            put(number, tools(params.get("cursor", "")))
        elif params.get("name") == "vast":
            put(number, f'{{"content": [], "structuredContent": {{"v": {large(MUCH)}}}}}')
        else:
            put(number, '{"content": [{"type": "text", "text": "here"}]}')


if __name__ == "__main__":
    serve()
