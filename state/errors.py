"""Every exception the package raises, and the check that a setting is not empty.

Each message is one sentence or two: what is wrong, where, what to do. Each error is also one of
Python's own kinds: LangGraph's server shows the message of those and hides all others.
"""

from collections.abc import Mapping


class LoopwrightError(Exception):
    """The root of all errors below."""


class SettingsError(LoopwrightError, ValueError):
    """A setting, file or name that you gave is wrong; nothing ran.

    Correct what the message names.
    """


class ModelUnavailable(SettingsError):
    """Unknown provider, missing package or missing key.

    Install the package, set the key.
    """


class ToolServerError(SettingsError):
    """The MCP configuration cannot be read.

    Correct the file.
    """


class DatabaseError(SettingsError):
    """The database cannot be opened or written.

    Check the URL, the rights, the disk.
    """


class ThreadError(LoopwrightError, RuntimeError):
    """Something is wrong with a saved thread."""


class ThreadNotFound(ThreadError, LookupError):
    """Nothing is saved under this thread id.

    Look at `loopwright threads`.
    """


class ThreadIncompatible(ThreadError):
    """Another graph or another version saved the thread.

    Use that one, or start a new thread.
    """


class ThreadBusy(ThreadError):
    """Another run holds the thread; nothing was changed.

    Wait, stop it, or steer it.
    """


class LeaseLost(ThreadBusy):
    """Another run has taken the thread from this one, which writes nothing more.

    Resume when the other run has ended.
    """


class AnswerRejected(LoopwrightError, ValueError):
    """The answer to a question has no accepted shape.

    Answer again: the question is still open.
    """


class StateKeyError(LoopwrightError, TypeError):
    """A node of your own returned a key that the state lacks.

    Check its spelling.
    """


class SyncCallInLoop(LoopwrightError, RuntimeError):
    """A sync method was called on the package's own event loop.

    Use the async method.
    """


class ModelCallFailed(LoopwrightError, RuntimeError):
    """No model answered, through every retry and fallback.

    Resume the thread later.
    """


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
