"""What an import of the package pulls in: no provider's SDK, no MCP client, no database driver."""

import json
import subprocess
import sys

from support.patience import PATIENCE

LATE = {
    "anthropic", "langchain_anthropic", "langchain_mcp_adapters", "langchain_openai", "mcp",
    "openai", "psycopg", "tiktoken", "typer",
}  # fmt: skip


def loaded_by(statement: str) -> set[str]:
    """Top-level packages in a new process after the statement."""
    script = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    return {module.partition(".")[0] for module in json.loads(told.stdout)}


def test_the_bare_import_loads_the_standard_library_at_most():
    foreign = loaded_by("import loopwright") - loaded_by("import typing") - sys.stdlib_module_names
    assert foreign == {"loopwright"}


EVERYTHING = """
from loopwright import *
from loopwright.graphs.plan_execute_verify import graph
from loopwright.graphs.react import graph
build_plan_execute_verify(model="openai:x", mcp={})
"""


def test_nothing_that_most_programs_do_without_is_loaded():
    """One process for all of it: whatever any of these lines loads is still there at the end."""
    assert loaded_by(EVERYTHING) & LATE == set()
