"""How long the suite waits for what must happen.

Only what hangs meets this limit: a machine with ten times the work it can do must pass as well.
"""

from typing import Final

PATIENCE: Final = 300.0
"""Seconds; a test as a whole may take twice as long (`timeout` in pyproject.toml)."""
