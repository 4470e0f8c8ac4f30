"""One spelling for each JSON value, and its hash: what "the same arguments" means."""

import hashlib
import json
from typing import Any


def canonical(value: Any) -> str:
    """The value as JSON with sorted keys and no spaces; what is no JSON counts as its text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


def hash_of(value: Any) -> str:
    """SHA-256 of the canonical JSON, 64 hexadecimal digits."""
    # Halves of surrogate pairs have no UTF-8, but two different ones are two different values.
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()
