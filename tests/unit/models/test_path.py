"""What a run has no use for is not on the path of its model calls."""

import sys
from types import FrameType
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from loopwright import Hook
from loopwright.hooks.registry import Hooks
from loopwright.models.ask import ask
from loopwright.models.choice import Models
from loopwright.models.scripted import ScriptedModel
from loopwright.state.context import Context
from support.scope import scope_with

ALWAYS = {"reservation", "ask", "call", "choice", "reading", "retries", "scripted"}
THOUGHTFUL = AIMessage("<think>well</think>Good day.")
PRICES: Any = {"scripted": {"input": 1, "output": 2}}
SILENT = Hook(event="BeforeModel", run=lambda _: None)


@pytest.mark.parametrize(
    ("answer", "settings", "hooks", "more"),
    [
        ("Good day.", {}, [], set()),
        (THOUGHTFUL, {}, [], {"drafts", "hidden_tags"}),
        ("Good day.", {"fallback_models": ["offline"]}, [], {"fallbacks", "prices"}),
        ("Good day.", {"prices": PRICES}, [], {"prices"}),
        ("Good day.", {}, [SILENT], {"model_hooks", "prices"}),
    ],
)
async def test_a_file_is_entered_only_for_what_is_configured(answer, settings, hooks, more):
    entered = set[str]()

    def note(frame: FrameType, event: str, _: object) -> None:
        name = str(frame.f_globals.get("__name__"))
        made = frame.f_code.co_filename == "<string>"  # by a dataclass
        if event == "call" and name.startswith("loopwright.models.") and not made:
            entered.add(name.removeprefix("loopwright.models."))

    scope = scope_with(Context(**settings), hooks=Hooks(hooks))
    models = Models(ScriptedModel([answer, answer]))
    await ask(scope, models, "thought", [HumanMessage("Hello")])  # imports, clients
    sys.setprofile(note)
    try:
        await ask(scope, models, "thought", [HumanMessage("Hello")])
    finally:
        sys.setprofile(None)
    assert entered == ALWAYS | more
