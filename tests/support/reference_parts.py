"""The reference of settings, outcome, evidence and errors, made from the code."""

import ast
import inspect
from typing import Any

from loopwright import Context
from loopwright.state import errors
from loopwright.state.calls import Evidence
from loopwright.state.outcome import Outcome


def list_settings() -> str:
    """Every field of Context with its default, range and meaning."""
    rows = []
    for name, field in Context.model_json_schema()["properties"].items():
        default = getattr(Context(), name)
        shown = (
            "none" if default is None else "" if default in ({}, [], "") else f"`{plain(default)}`"
        )
        known = ", ".join(filter(None, [shown, _range(field)]))
        rows.append(f"- `{name}`{known and f' ({known})'}: {field['description']}")
    return "\n".join(rows)


def list_outcome() -> str:
    """Every key of an outcome with the docstring below it."""
    return "\n".join(f"- `{name}`: {says}" for name, says in read_fields(Outcome).items())


def list_evidence() -> str:
    """Every key of a record of evidence with the docstring below it."""
    return "\n".join(f"- `{name}`: {says}" for name, says in read_fields(Evidence).items())


def list_errors() -> str:
    """Every error: what it means and what to do, as its docstring says."""
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.LoopwrightError)
    ]
    return "\n".join(f"- `{kind.__name__}`: {_flow(kind.__doc__ or '')}" for kind in kinds)


def read_fields(kind: Any) -> dict[str, str]:
    """The fields of a TypedDict, each with the docstring below it."""
    (body,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(body, ast.ClassDef)
    fields: dict[str, str] = {}
    for node, after in zip(body.body, [*body.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            says = getattr(getattr(after, "value", None), "value", "")
            fields[node.target.id] = _flow(says if isinstance(says, str) else "")
    return fields


def _flow(text: str) -> str:
    return " ".join(text.split())


def plain(value: object) -> str:
    """A default as JSON or Python users read it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float | int):
        return f"{value:_}"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _range(field: dict[str, Any]) -> str:
    given = [kind for kind in field.get("anyOf", ()) if kind.get("type") != "null"]
    field = given[0] if len(given) == 1 else field
    low = field.get("minimum", field.get("exclusiveMinimum"))
    if low is None:
        return "/".join(field.get("enum", []))
    high = plain(field["maximum"]) if "maximum" in field else ""
    if "exclusiveMinimum" in field:
        return f"above {plain(low)}" + (f" to {high}" if high else "")
    return f"{plain(low)}–{high}" if high else f"from {plain(low)}"
