"""How this package's savers write values down: compressed, and only types known to be harmless."""

import zlib
from typing import Final

from langgraph.checkpoint.serde.base import CipherProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from .words import WORDS

_ZLIB: Final = "zlib"  # what earlier versions have saved
_WORDY: Final = "zlib-words"
_PLAIN: Final = "plain"
# Below this size the header outweighs what compression saves.
_SMALLEST: Final = 128


class Deflate(CipherProtocol):
    """Compresses where LangGraph would encrypt: the one wrapper its type allowlist reaches into.

    Checkpoints repeat channel names, versions and texts many times over.
    """

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """Compress; tiny values stay as they are."""
        if len(plaintext) < _SMALLEST:
            return _PLAIN, plaintext
        worker = zlib.compressobj(zdict=WORDS)
        return _WORDY, worker.compress(plaintext) + worker.flush()

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """Give back what was compressed."""
        if ciphername == _WORDY:
            return zlib.decompressobj(zdict=WORDS).decompress(ciphertext)
        return zlib.decompress(ciphertext) if ciphername == _ZLIB else ciphertext


def lean_serializer() -> EncryptedSerializer:
    """Of what is saved, only types that are known to be harmless are made again.

    A database may be anybody's, and LangGraph would call whatever it names; a saver's
    `with_allowlist` adds others.
    """
    return EncryptedSerializer(Deflate(), JsonPlusSerializer(allowed_msgpack_modules=None))


def next_version(current: str | None) -> str:
    """A channel's next version: LangGraph's, without the random part.

    That part keeps forks apart where values are stored under their version. Here they are stored
    inside the checkpoint, and a random number in every channel is what compresses worst. Comparable
    with LangGraph's own versions, so its threads can be continued; its saver, however, cannot read
    what is compressed.
    """
    return f"{int(str(current or 0).split('.')[0]) + 1:032}"
