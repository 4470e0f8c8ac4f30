"""The shop of the examples: its modules, its companies, and how its MCP server is started."""

import sys
from pathlib import Path
from typing import Any

SHOP = Path(__file__).parents[2] / "examples" / "shop"
LUMEN = SHOP / "lumen"
DESK = SHOP / "support_desk.py"

sys.path.append(str(SHOP))  # its modules import each other from beside them

import knowledge  # noqa: E402 - behind the path
from cases import LOCKED_SECONDS, MOST_FAILURES  # noqa: E402 - likewise
from knowledge import Article  # noqa: E402 - likewise
from seed import count_rows, make_shop  # noqa: E402 - likewise
from shop import Shop  # noqa: E402 - likewise
from stand_in import stand_in  # noqa: E402 - likewise
from support_desk import build_server, main  # noqa: E402 - likewise

__all__ = [
    "DESK", "LOCKED_SECONDS", "LUMEN", "MOST_FAILURES", "SHOP", "Article", "Shop",
    "build_server", "count_rows", "desk_server", "knowledge", "main", "make_shop", "stand_in",
]  # fmt: skip


def desk_server(python: str, path: Path) -> dict[str, Any]:
    """The support desk of a shop as an MCP server over stdio, run by this interpreter."""
    return {"command": python, "args": [str(DESK), "--shop", str(path)]}
