"""Sentences told to models: where they stand, how slots are filled, which language is spoken."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import loopwright
from loopwright.text.sentences import LANGUAGE, SENTENCES, read_sentences, say

ROOT = Path(loopwright.__file__).parent
ROOMS = [
    "calls",
    "evals",
    "flow",
    "graphs",
    "hooks",
    "models",
    "nodes",
    "policy",
    "prompts",
    "run",
    "state",
    "store",
    "stream",
    "text",
    "tools",
    "turn",
]
ENGLISH = SENTENCES["en"]


def calls_of_say() -> Iterator[tuple[str, ast.Call]]:
    """Where a sentence is said, now or by a `partial(say, …)` later."""
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            if "say" not in (source := path.read_text(encoding="utf-8")):
                continue
            for node in ast.walk(ast.parse(source)):
                if not isinstance(node, ast.Call):
                    continue
                said = [getattr(part, "id", "") for part in (node.func, *node.args[:1])]
                if said == ["partial", "say"]:
                    node.args.pop(0)
                elif said[0] != "say":
                    continue
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def names_in(node: ast.expr) -> list[str]:
    """The names a first argument may come to; none where it is put together."""
    if isinstance(node, ast.IfExp):
        return names_in(node.body) + names_in(node.orelse)
    return [str(node.value)] if isinstance(node, ast.Constant) else []


def test_every_sentence_that_is_said_stands_there_and_gets_the_slots_it_has():
    wrong = []
    for place, call in calls_of_say():
        if any(keyword.arg is None for keyword in call.keywords):
            continue  # slots that were put together
        given = {str(keyword.arg) for keyword in call.keywords}
        for name in names_in(call.args[0]):
            slots = set(re.findall(r"\{\{(\w+)\}\}", ENGLISH.get(name, "{{missing}}")))
            wrong += [f"{place}: {name} {slots - given}"] if slots - given else []
    assert wrong == []


def test_no_sentence_stands_there_for_nobody():
    source = "\n".join(
        path.read_text(encoding="utf-8") for room in ROOMS for path in (ROOT / room).rglob("*.py")
    )
    # Names that are put together, such as f"ordinal_{n}" and f"{name}_tool".
    made = (*re.findall(r'f"([a-z_]+)\{', source),)
    ended = (*re.findall(r'say\(f"\{[a-z]+\}(_[a-z_]+)"', source),)
    quoted = set(re.findall(r"(?<=[\"'])\w+(?=[\"'])", source))
    unused = {name for name in ENGLISH.keys() - quoted if not name.startswith(made)}
    assert {name for name in unused if not name.endswith(ended)} == set()


def test_a_slot_is_filled_once_and_braces_in_data_are_data():
    assert say("loop_of_these_words", words="{{words}} {x}").endswith(": {{words}} {x}")
    with pytest.raises(KeyError):
        say("loop_of_these_words")


@pytest.mark.req("W-64")
def test_what_a_language_lacks_is_said_in_english(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(SENTENCES, "xx", read_sentences("## no_json\nkeine Klammern\n"))
    token = LANGUAGE.set("xx")
    try:
        assert say("no_json") == "keine Klammern"
        assert say("a_list") == ENGLISH["a_list"]
    finally:
        LANGUAGE.reset(token)
    assert say("no_json") == ENGLISH["no_json"]
