"""The small shop that the shipped tasks work in: tools over its tables, and what was done there."""

import json
from importlib.resources import files
from typing import Any, Final

import yaml  # type: ignore[import-untyped]  # stubs are a package of their own
from inspect_ai.tool import ToolDef, ToolError, ToolParams
from inspect_ai.util import StoreModel, store_as
from pydantic import Field

SHOP: Final[dict[str, Any]] = yaml.safe_load(
    files(__package__).joinpath("shop.yaml").read_text(encoding="utf-8")
)


class Office(StoreModel):
    """What the calls of a sample changed."""

    effects: list[dict[str, Any]] = Field(default_factory=list)


def make_tool(name: str, about: str, table: str = "", acts: bool = False, **takes: Any) -> ToolDef:
    """A tool that finds the rows of a table with these values, or does something to one.

    Args:
        name: Its name.
        about: What the model reads of it.
        table: Where there must be such a row; it need not have all of the values.
        acts: It is done, and kept in `Office`; else the rows are the answer.
        **takes: JSON Schema: `properties` and `required`.
    """

    async def run(**given: Any) -> str:
        rows = [
            row for row in SHOP.get(table, ())
            if all(value in ("", row.get(key, value)) for key, value in given.items())
        ]  # fmt: skip
        if table and not rows:
            msg = f"There is nothing in {table} with {json.dumps(given)}."
            raise ToolError(msg)
        if not acts:
            return json.dumps({table: rows})
        office = store_as(Office)
        office.effects = [*office.effects, {"tool": name, **given}]
        return json.dumps({"done": given})

    return ToolDef(run, name, about, ToolParams.model_validate(takes))
