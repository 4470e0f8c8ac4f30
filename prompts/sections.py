"""Data inside prompts: tagged sections that are written once and can be read back.

A section is `<name>` … `</name>` on lines of its own. Data is never a template: braces stay braces.
A tag alone on a line of the data gets a backslash, so that it can neither begin nor end a section;
reading takes it away.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

NAMES: Final = frozenset(
    {
        "additional_context", "answers", "conversation", "evidence", "failures", "improvements",
        "limits", "previous_plan", "request", "results_so_far", "steps", "strategies", "task",
        "tasks", "tools",
    }
)  # fmt: skip
_ANY = "|".join(sorted(NAMES))
# Alone on a line; anywhere else a tag begins and ends nothing.
_TAG: Final = re.compile(rf"^([ \t]*<\\*)(/?(?:{_ANY})>)(?=[ \t]*$)", re.MULTILINE)
_DEFUSED: Final = re.compile(rf"^([ \t]*<\\*)\\(/?(?:{_ANY})>)(?=[ \t]*$)", re.MULTILINE)


def section(name: str, value: object) -> str:
    """Write one section: a text as it is, anything else as JSON, a line per list item."""
    if name not in NAMES:
        msg = f"There is no section {name!r}; the sections are {sorted(NAMES)}."
        raise ValueError(msg)
    body = _TAG.sub(r"\1\\\2", value) if isinstance(value, str) else _json(value)
    return f"<{name}>\n{body}\n</{name}>"


def sections(values: Mapping[str, object]) -> str:
    """Write several sections, leaving out the empty ones (None, '', [], {})."""
    kept = ((name, value) for name, value in values.items() if value not in (None, "", [], {}))
    return "\n\n".join(section(name, value) for name, value in kept)


def read_section(text: str, name: str) -> str | None:
    """Read the last section of this name back as text; None where there is none."""
    found = re.findall(rf"^<{name}>\n(.*?)\n</{name}>$", text, re.DOTALL | re.MULTILINE)
    return _DEFUSED.sub(r"\1\2", str(found[-1])) if found else None


def read_json(text: str, name: str) -> Any:
    """Read a section written from JSON data back; None where it is missing or no JSON."""
    body = read_section(text, name)
    try:
        return None if body is None else json.loads(body)
    except json.JSONDecodeError:
        return None


def _json(value: object) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(json.dumps(item, ensure_ascii=False) for item in value) + "\n]"
    return json.dumps(value, ensure_ascii=False)
