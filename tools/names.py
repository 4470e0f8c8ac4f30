"""Names of tools as every provider takes them."""

import hashlib
import re
from functools import lru_cache
from typing import Final

MAX_NAME: Final = 64
_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_-]+")
_NAME: Final = re.compile(rf"[a-zA-Z0-9_-]{{1,{MAX_NAME}}}")


@lru_cache
def is_name(name: str) -> bool:
    """Whether every provider takes it as a tool's name."""
    return _NAME.fullmatch(name) is not None


def normalize_name(name: str) -> str:
    """A name as every provider takes it; other characters are replaced, a long one is cut."""
    return name if is_name(name) else shorten_name(clean_name(name))


def clean_name(name: str) -> str:
    """A name with the characters every provider takes."""
    return _FOREIGN.sub("_", name.strip()).strip("_") or f"tool_{_hash(name)}"


def shorten_name(name: str, *, salt: str = "") -> str:
    """At most 64 characters; a name that is cut or salted ends in a hash."""
    if len(name) <= MAX_NAME and not salt:
        return name
    return f"{name[: MAX_NAME - 9]}_{_hash(salt or name)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
