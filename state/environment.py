"""What a variable of the environment says: nothing where it is unset, never an empty word."""

from collections.abc import Mapping

from .errors import SettingsError


def read_variable(environ: Mapping[str, str], name: str) -> str | None:
    """The value of a variable; None where it is unset.

    Raises:
        SettingsError: It is set and empty, as `NAME=$FORGOTTEN` leaves it: what it was to say, a
            policy perhaps, is not known, so the default must not step in.
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
