"""A keyring in a file, for tests: the real package `keyring` with a backend of its own.

Processes find it by `PYTHON_KEYRING_BACKEND=support.file_keyring.FileKeyring` and `TEST_KEYRING`.
"""

import json
import os
from pathlib import Path
from typing import Any

from keyring.backend import KeyringBackend


class FileKeyring(KeyringBackend):
    """Keeps everything in the file that `TEST_KEYRING` names."""

    @property
    def priority(self) -> int:
        """It is the only one."""
        return 1

    def _read(self) -> Any:
        file = Path(os.environ["TEST_KEYRING"])
        return json.loads(file.read_text()) if file.exists() else {}

    def _write(self, content: Any) -> None:
        file = Path(os.environ["TEST_KEYRING"])
        new = file.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps(content))
        new.replace(file)

    def get_password(self, service: str, username: str) -> str | None:
        value = self._read().get(f"{service} {username}")
        return None if value is None else str(value)

    def set_password(self, service: str, username: str, password: str) -> None:
        self._write(self._read() | {f"{service} {username}": password})

    def delete_password(self, service: str, username: str) -> None:
        self._write({k: v for k, v in self._read().items() if k != f"{service} {username}"})
