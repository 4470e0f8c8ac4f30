"""What the user set: arguments before environment variables before defaults."""

import os
import secrets
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..state.errors import SettingsError

DEFAULT_GRAPH: Final = "plan_execute_verify"
ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    DEFAULT_GRAPH: ("planner", "executor", "verifier"),
    "react": ("thought", "action", "observation"),
    "prompt_flow": ("flow_planner", "recovery", "answerer", "llm_call"),
}
"""Who asks a model, by graph."""
# No vowels and nothing that looks alike: ids are read aloud and typed.
_ALPHABET: Final = "23456789bcdfghjkmnpqrstvwxz"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options that `run`, `resume` and `doctor` share; None is "not given".

    Attributes:
        graph: Name of the graph.
        mcp: MCP configuration file.
        policy: File with rules, or a policy's word.
        model: `provider:name` for every role.
        database: Database URL.
        yes: Approve what policy asks.
        review: Show each plan before it runs.
        max_parallel: Tasks or steps side by side.
        environ: Where LOOPWRIGHT_MODEL, LOOPWRIGHT_MCP, LOOPWRIGHT_POLICY and
            LOOPWRIGHT_DATABASE_URL are looked up.
    """

    graph: str | None = None
    mcp: str | None = None
    policy: str | None = None
    model: str | None = None
    database: str | None = None
    yes: bool = False
    review: bool = False
    max_parallel: int | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    def database_url(self, default: str) -> str:
        """The database to open."""
        return self.database or self.environ.get("LOOPWRIGHT_DATABASE_URL") or default

    def limits(self) -> dict[str, Any]:
        """Fields of the run's Context that were given."""
        given = {"max_parallel_tasks": self.max_parallel, "review_plan": self.review or None}
        return {name: value for name, value in given.items() if value is not None}

    def resume_command(self, thread: str, database: str) -> str:
        """The command that goes on with a thread, with the options that were given.

        Consent is not carried over: `--yes` must be given anew.

        Args:
            thread: The thread's id.
            database: The URL of the open database, without a password.
        """
        given = {
            "--mcp": self.mcp,
            "--policy": self.policy,
            "--model": self.model,
            "--max-parallel": self.max_parallel,
            "--db": database if self.database else None,
        }
        options = [part for name, value in given.items() if value for part in (name, str(value))]
        options += ["--review"] if self.review else []
        return shlex.join(["loopwright", "resume", thread, *options])


def read_goal(goal: str) -> str:
    """The goal as given, or standard input for `-`.

    Raises:
        SettingsError: There is nothing but white space.
    """
    if goal == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
    else:
        # Bytes that are no UTF-8 arrive as lone surrogates, which no database takes.
        text = goal.encode("utf-8", "replace").decode()
    if not text.strip():
        msg = 'The goal is empty: say what you want done, such as loopwright run "Sum up a.md".'
        raise SettingsError(msg)
    return text


def new_thread_id() -> str:
    """A thread id that can be read and typed: 12 of 27 letters, 57 random bits."""
    letters = "".join(secrets.choice(_ALPHABET) for _ in range(12))
    return "-".join((letters[:4], letters[4:8], letters[8:]))


def thread_named(thread: str) -> str:
    """A thread id given by the user.

    Raises:
        SettingsError: It is empty or holds control characters.
    """
    if not thread.strip() or not thread.isprintable():
        msg = f"The thread id {thread!r} cannot be used: give a short printable name."
        raise SettingsError(msg)
    return thread
