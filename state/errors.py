"""Every exception the package raises, and the check that a setting is not empty.

Each message is one sentence or two: what is wrong, where, what to do. Each error is also one of
Python's own kinds: LangGraph's server shows the message of those and hides all others.
"""

from collections.abc import Mapping


class LoopwrightError(Exception):
    """The root: catching it catches everything the package raises on purpose."""


class SettingsError(LoopwrightError, ValueError):
    """A setting, a file or a name given by the user is wrong."""


class ModelUnavailable(SettingsError):
    """The named model cannot be built: unknown provider, missing package or missing key."""


class ToolServerError(SettingsError):
    """The MCP configuration cannot be used at all (one dead server is only a warning)."""


class DatabaseError(SettingsError):
    """The database URL names something that cannot be opened."""


class ThreadError(LoopwrightError, RuntimeError):
    """Something is wrong with a saved thread."""


class ThreadNotFound(ThreadError, LookupError):
    """No checkpoint is stored under this thread id."""


class ThreadIncompatible(ThreadError):
    """The thread was saved by a graph whose nodes or schema version this one does not have."""


class ThreadBusy(ThreadError):
    """Another run holds this thread; it is refused at once, and nothing of it is changed."""


class LeaseLost(ThreadBusy):
    """Another run has taken the thread from this one, which writes nothing more."""


class AnswerRejected(LoopwrightError, ValueError):
    """The answer to a pending question has none of the accepted shapes; the question stays open."""


class StateKeyError(LoopwrightError, TypeError):
    """A node returned a key that its graph's state does not have, often a misspelt one."""


class SyncCallInLoop(LoopwrightError, RuntimeError):
    """A sync method was called on the package's own event loop, where it would wait for itself."""


class ModelCallFailed(LoopwrightError, RuntimeError):
    """A model stayed unreachable through every retry and fallback; the thread can be resumed."""


def read_variable(environ: Mapping[str, str], name: str) -> str | None:
    """The value of a variable; None if it is unset.

    Raises:
        SettingsError: It is set and empty, as in `NAME=$FORGOTTEN`: its meant value, perhaps a
            policy, is unknown, so the default must not be used.
    """
    return require_nonempty(environ.get(name), f"The environment variable {name}")


def require_nonempty(value: str | None, what: str) -> str | None:
    """A setting that somebody gave, or None; `what` names it.

    Raises:
        SettingsError: It was given and is empty.
    """
    if value is not None and not value.strip():
        msg = f"{what} is empty: give it a value, or leave it out."
        raise SettingsError(msg)
    return value
