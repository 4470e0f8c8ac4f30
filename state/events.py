"""What a run tells while it goes on."""

from collections.abc import Callable
from typing import Any

Emit = Callable[[dict[str, Any]], None]
"""Takes one event; `type` says which kind it is."""
