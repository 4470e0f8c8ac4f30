"""What a run said to the world and heard from it, as readable JSON files of one folder."""

import itertools
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

from ...state.errors import DatabaseError, SettingsError
from ...text.secrets import Secrets, read_own_secrets

_PROCESS: Final = uuid.uuid4().hex[:8]
_NUMBERS: Final = itertools.count(1)


class Recordings:
    """A folder of recordings. Each is a file, whole or not there at all; secrets are masked."""

    def __init__(self, folder: str | Path) -> None:
        """Use a folder; it is made when something is written."""
        self.folder = Path(folder)

    def save(
        self,
        kind: str,
        record: Mapping[str, Any],
        secrets: Secrets | None = None,
        *,
        path: Path | None = None,
    ) -> Path:
        """Write a JSON object, over the one at `path` or as the newest; gives its path. Blocks.

        Raises:
            DatabaseError: The folder cannot be written to.
        """
        process = f"{_PROCESS}{os.getpid():x}"  # a fork has the modules of the process it comes of
        if path is None:
            named = f"{time.time_ns() // 1000:016d}-{process}-{next(_NUMBERS):05d}-{kind}.json"
            path = self.folder / named
        whole = {"kind": kind, "process": process, **record}
        spelled = json.loads(json.dumps(whole, default=str))
        spelled = (secrets or read_own_secrets()).mask_json(spelled)
        text = json.dumps(spelled, indent=1, ensure_ascii=False)
        half = path.with_name(f".{path.name}.{next(_NUMBERS)}.half")
        try:
            self.folder.mkdir(0o700, parents=True, exist_ok=True)  # as private as a database
            half.touch(0o600)
            half.write_text(text + "\n", "utf-8", "surrogatepass")
            os.replace(half, path)
        except OSError as error:
            why = error.strerror or error
            msg = f"The folder of recordings {self.folder} cannot be written to: {why}."
            raise DatabaseError(msg) from error
        return path

    def read(self, kind: str) -> Iterator[dict[str, Any]]:
        """The recordings of a kind and the names of their files, oldest first. Blocks.

        Raises:
            SettingsError: There is no such folder, or a file in it is no recording.
        """
        if not self.folder.is_dir():
            msg = f"There is no folder of recordings {self.folder}: name the one of the run."
            raise SettingsError(msg)
        for path in sorted(self.folder.glob(f"[0-9]*-{kind}.json")):
            try:
                record = json.loads(path.read_text("utf-8", "surrogatepass"))
            except (OSError, ValueError, RecursionError) as error:
                msg = f"{path} is no recording ({error}): delete it, or record the run again."
                raise SettingsError(msg) from error
            if isinstance(record, dict):
                yield {**record, "file": path.name}


TAPE: ContextVar[Any] = ContextVar("tape", default=None)
"""The tape of the graphs that are built meanwhile; see `graphs/tapes.py`."""
