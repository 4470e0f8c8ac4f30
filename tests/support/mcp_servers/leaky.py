"""A hand-written server that repeats the secrets it was given, in every way a server can speak."""

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.mcp_servers import faulty

READS = {"readOnlyHint": True}
TOOLS: dict[str, dict[str, bool]] = {
    "environment": READS, "refuse": READS, "fail": READS, "file": READS, "chatter": READS,
    "rows": READS, "long": READS, "die": READS, "use": {}, "spill": {}, "perish": {},
}  # fmt: skip


def secret() -> str:
    return os.environ.get("API_TOKEN", "")


def tools() -> Any:
    about = f"Connects with {secret()}."
    fields = {"token": {"type": "string"}, "dsn": {"type": "string", "default": secret()}}
    return [
        {
            "name": name,
            "description": about,
            "inputSchema": {"type": "object", "properties": fields},
            "annotations": hints,
        }
        for name, hints in TOOLS.items()
    ]


def call(number, name, arguments) -> Any:
    """The result of a call; it says the secret."""
    if name == "use":
        with Path(os.environ["USED"]).open("a") as used:
            used.write(json.dumps(arguments) + "\n")
    if name in ("die", "perish"):
        sys.stderr.write(f"cannot connect with {secret()}\n")
        sys.stderr.flush()
        os._exit(1)
    if name == "refuse":
        faulty.put({"id": number, "error": {"code": -32602, "message": f"no {secret()}"}})
        return None
    if name == "fail":
        return faulty.text(f"401 for {secret()}") | {"isError": True}
    if name == "file":
        inner = {"uri": f"file:///{secret()}", "text": f"TOKEN={secret()}"}
        return {"content": [{"type": "resource", "resource": inner}]}
    if name == "long":
        return faulty.text(("x" * 999 + " " + secret() + "\n") * 40)
    if name == "chatter":
        say("notifications/message", level="info", data={"token": secret()})
        progress = {"progressToken": arguments.get("_progress", number), "progress": 1}
        say("notifications/progress", message=f"with {secret()}", **progress)
        return faulty.text("done")
    said = {"token": secret(), "all": dict(os.environ), secret(): [secret()]}
    words = json.dumps(said if name in ("environment", "spill") else {"token": secret()})
    return faulty.text(words) | {"structuredContent": said}


def say(method, **params) -> None:
    faulty.put({"method": method, "params": params})


if __name__ == "__main__":
    faulty.tools, faulty.call = tools, call
    faulty.serve()
