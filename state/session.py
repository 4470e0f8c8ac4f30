"""What one run of a graph is begun with from outside its nodes, and what it tells."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final

Emit = Callable[[dict[str, Any]], None]
"""Takes one event; `type` says which kind it is."""

SESSION_KEY: Final = "__loopwright_session"
"""Where a run's config holds its `Session`: live, and by its underscores in no saved metadata."""


@dataclass(frozen=True)
class Session:
    """One run of a thread, as the hooks that were called at its start see it."""

    context: str = ""
    """Text for every prompt of the run."""
    warnings: list[str] = field(default_factory=list)
    """Hooks that failed."""


OpenSession = Callable[[str, str], AbstractAsyncContextManager[Session]]
"""From a thread's id and the source of the run (startup, resume) to what surrounds the run."""
