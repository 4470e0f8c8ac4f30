"""A model of customer_service that writes the files which its customers ask for."""

import re
from typing import Any

from loopwright import ScriptedModel
from support.scripts import PROOFREAD

_GOAL = re.compile(r'Write "(?P<content>[^"]+)" to (?P<path>\S+)')


def desk_writer() -> ScriptedModel:
    """It asks for the write that the newest message names, then tells what came of it."""
    return ScriptedModel({**PROOFREAD, "listener": _understand, "support": _write})


def _understand(*_: Any) -> dict[str, Any]:
    return {"intent": "order", "mood": "calm", "score": 0}


def _write(messages: Any, _: Any) -> Any:
    newest = max(place for place, m in enumerate(messages) if m.type == "human" and m.id)
    if results := [m.text for m in messages[newest:] if m.type == "tool"]:
        return results[-1]
    asked = _GOAL.search(messages[newest].text)
    assert asked, messages[newest].text
    return [{"name": "write_file", "args": asked.groupdict()}]
