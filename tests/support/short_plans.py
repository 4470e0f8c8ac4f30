"""A plan written in the short spelling, see `state.short`, which reads it. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from loopwright.flow.execution_plan import ExecutionPlan
from loopwright.flow.short_syntax import CLAUSES, CONDITION, CONDITIONS, QUOTED, REFERENCE, WORD

_SPELLED: Final = {
    "dependencies": "after", "retryCount": "retry", "expectedOutput": "output",
    "description": "about",
}  # fmt: skip
# Names that stand without quotes.
_SAFE: Final = re.compile(r"\w[\w-]*")
_VARIABLE: Final = re.compile(r"[^\s.\[\]{}=]+")


def short_of(plan: ExecutionPlan) -> str:
    """A plan in the short spelling; read again it is the same, without fields it does not have."""
    extra = {n: set(step.model_extra or ()) for n, step in enumerate(plan.steps)}
    return write_short(
        plan.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={"steps": extra})
    )


def write_short(plan: Mapping[str, Any]) -> str:
    """A plan in the short spelling; read again it is the same.

    Args:
        plan: By ExecutionPlan's names on the wire, without what is as by default.
    """
    lines = [f"{name}: {_text(plan[name])}" for name in ("goal", "planId") if plan.get(name)]
    lines += [f"leftOut: {_text(part)}" for part in plan.get("leftOut", ())]
    lines += [f"metadata: {_json(plan['metadata'])}"] if plan.get("metadata") else []
    for name, value in plan.get("globalVariables", {}).items():
        quoted = f"[{json.dumps(name, ensure_ascii=False)}]"
        lines.append(
            f"global{f'.{name}' if _VARIABLE.fullmatch(name) else quoted} = {_json(value)}"
        )
    return "\n".join([*lines, *map(_step_line, plan.get("steps", ()))])


def _step_line(step: Mapping[str, Any]) -> str:
    arguments = ", ".join(f"{_name(k)}: {_json(v)}" for k, v in step.get("arguments", {}).items())
    head = f"{_name(step['id'])} = {_name(step['tool'])}({arguments})"
    left = {k: v for k, v in step.items() if k not in ("id", "tool", "arguments")}
    about = left.get("description", "")
    remark = ""
    if about and about == about.strip() and "\n" not in about and "\r" not in about:
        remark = f" # {left.pop('description')}"
    clauses = [_clause(name, value) for name, value in left.items()]
    return " ; ".join([head, *clauses]) + remark


def _clause(field: str, value: Any) -> str:
    word = _SPELLED.get(field, field)
    if field == "dependencies":
        return f"{word} {', '.join(map(_name, value))}"
    if field == "optional":
        return word if value is True else f"{word} {_json(value)}"
    if field in CONDITIONS and isinstance(value, str):
        return f"{word} {value if _is_plain(value) else json.dumps(value, ensure_ascii=False)}"
    return f"{word} {_json(value)}"


def _is_plain(condition: str) -> bool:
    """Whether a condition can stand without quotes around it."""
    if not condition or condition != condition.strip() or condition[0] in "{\"':=":
        return False
    found, bare = CONDITION.match(condition), QUOTED.sub(" ", condition)
    whole = found is not None and found.end() == len(condition)
    odd = '"' in bare or "'" in bare or any(w.lower() in CLAUSES for w in WORD.findall(bare))
    return whole and not odd


def _name(name: str) -> str:
    return name if _SAFE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _text(text: str) -> str:
    plain = (
        text == text.strip() and not re.match(r"[\[{\"]", text) and not re.search(r"[\n\r]", text)
    )
    return text if plain else json.dumps(text, ensure_ascii=False)


def _json(value: Any) -> str:
    """A value on one line; a text that is one reference without quotes."""
    if isinstance(value, str):
        return value if REFERENCE.fullmatch(value) else json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_name(k)}: {_json(v)}' for k, v in value.items())}}}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_json, value))}]"
    return json.dumps(value, ensure_ascii=False)
