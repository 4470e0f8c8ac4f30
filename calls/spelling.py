"""One spelling for all ways to write the arguments of a call: what "the same call" means. Pure."""

from typing import Any

from ..tools.arguments import fit
from ..tools.catalog import CatalogTool


def as_sent(arguments: Any, tool: CatalogTool | None) -> Any:
    """Arguments in the one spelling that all ways to write them come to."""
    if tool is None:
        return arguments
    fields = tool.schema.get("properties", {})
    usual = {name: field["default"] for name, field in fields.items() if "default" in field}
    return _whole_numbers(usual | fit(arguments, tool.schema))


def _whole_numbers(value: Any) -> Any:
    """The value with 3 in place of 3.0: to JSON both are the same number."""
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
