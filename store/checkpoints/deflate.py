"""How this package's savers write values down: compressed, and only types known to be harmless."""

import secrets
import zlib
from typing import Final

from langgraph.checkpoint.serde.base import CipherProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ...state.errors import DatabaseError

_ZLIB: Final = "zlib"
_PLAIN: Final = "plain"
# Below this size the header outweighs what compression saves.
_SMALLEST: Final = 128


class Deflate(CipherProtocol):
    """Compresses where LangGraph would encrypt: the one wrapper its type allowlist reaches into.

    A checkpoint in SQLite repeats every record: 400 turns of
    task_agent are 13.9 MB without it and 2.4 MB with it; 6 MB are allowed (`benchmarks/costs.py`).
    """

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """Compress; tiny values stay as they are."""
        if len(plaintext) < _SMALLEST:
            return _PLAIN, plaintext
        return _ZLIB, zlib.compress(plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """Give back what was compressed."""
        if ciphername not in (_ZLIB, _PLAIN):
            msg = f"This was saved by another version of loopwright, as {ciphername!r}: use that."
            raise DatabaseError(msg)
        return zlib.decompress(ciphertext) if ciphername == _ZLIB else ciphertext


def lean_serializer() -> EncryptedSerializer:
    """Of what is saved, only types that are known to be harmless are made again.

    A database may be anybody's, and LangGraph would call whatever it names; a saver's
    `with_allowlist` adds others.
    """
    return EncryptedSerializer(Deflate(), JsonPlusSerializer(allowed_msgpack_modules=None))


def is_own(kind: str) -> bool:
    """Whether a value of this type is written by `lean_serializer`."""
    return kind.rpartition("+")[2] in (_ZLIB, _PLAIN)


def next_version(current: str | None) -> str:
    """A channel's next version: shorter than LangGraph's, and greater than any before it.

    A checkpoint names each channel's version several times: with LangGraph's of 50 characters it
    is longer than the 2 kB above which Postgres compresses a row (its CPU: 2.1 instead of 2.9
    times `create_agent`'s). The random part keeps forks apart: values are kept under their
    version.
    """
    return f"{int(str(current or 0).split('.')[0]) + 1:010}.{secrets.token_hex(3)}"
