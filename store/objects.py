"""Long results in an object store that fsspec opens; the database keeps short ones.

An object is written before the checkpoint that names it, and deleted after it. If the process dies
in between, an unnamed object stays: the thread writes it again, or pruning deletes it.
"""

import asyncio
import hashlib
import importlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from langgraph.store.base import BaseStore, GetOp, Item, Op, PutOp, Result

from ..state.calls import RESULTS
from ..state.errors import DatabaseError
from .journal.sql import get_cause
from .postgres.database import hide_password, redact_cause
from .sqlite.file import make_folder

_END: Final = ".json"
_SHOWN: Final = 60
"""Characters of a thread's id that its folder shows; a hash behind them tells it from others."""
_LONGEST: Final = 200
"""Characters of a result's id as a name; a file's has 255 bytes at most."""

Place = tuple[str, ...]


class Objects:
    """A folder of an object store; blocks, and is safe to use from several threads."""

    def __init__(self, url: str) -> None:
        """Open it, and prove that it can be written; raises DatabaseError."""
        self.url = shown = hide_password(url)
        try:
            core: Any = importlib.import_module("fsspec.core")
        except ImportError as error:
            msg = (
                f"Cannot keep long results in {shown!r}: fsspec is not installed; run"
                " pip install '.[objects]' in the folder of loopwright."
            )
            raise DatabaseError(msg) from error
        try:
            with self._explain_errors(but=(ImportError, ValueError)):
                self._files, path = core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            msg = (
                f"Cannot keep long results in {shown!r} ({redact_cause(url, error)}): install the"
                " package by which fsspec opens such a URL, or give another one."
            )
            raise DatabaseError(msg) from error
        self._folder = str(path).rstrip("/")
        self._is_local = "file" in (self._files.protocol, *self._files.protocol)
        proof = f"{self._folder}/proof-{secrets.token_hex(8)}"
        with self._explain_errors():
            self._write(proof, b"{}")
            self._files.rm_file(proof)

    def get(self, place: Place, key: str) -> Item | None:
        """What is kept of a thread under a key."""
        if len(quote(key, safe="", errors="replace")) > _LONGEST:
            return None  # a model asks for whatever it likes
        with self._explain_errors():
            try:
                kept = json.loads(self._files.cat_file(self._build_path(place, key)))
            except (FileNotFoundError, ValueError):  # nothing whole: it is written again
                return None
        at = datetime.fromisoformat(kept["at"])
        return Item(value=kept["value"], key=key, namespace=place, created_at=at, updated_at=at)

    def put(self, place: Place, key: str, value: Mapping[str, Any]) -> None:
        """Write it; a reader sees the old object or the whole new one."""
        at = datetime.now(UTC).isoformat()
        with self._explain_errors():
            self._write(
                self._build_path(place, key), json.dumps({"at": at, "value": value}).encode()
            )

    def keys(self, place: Place) -> list[str]:
        """All that are kept of a thread."""
        with self._explain_errors(), suppress(FileNotFoundError):
            self._files.invalidate_cache()
            found = self._files.ls(self._build_folder(place), detail=False)
            names = [str(path).rpartition("/")[2] for path in found]
            return [unquote(name.removesuffix(_END)) for name in names if name.endswith(_END)]
        return []

    def drop(self, place: Place, keys: Iterable[str]) -> None:
        """Remove these of a thread; what is gone already is as good."""
        for key in keys:
            with self._explain_errors(), suppress(FileNotFoundError):
                self._files.rm_file(self._build_path(place, key))

    def forget(self, place: Place) -> None:
        """Remove all that is kept of a thread."""
        with self._explain_errors(), suppress(FileNotFoundError):
            self._files.invalidate_cache()
            self._files.rm(self._build_folder(place), recursive=True)

    def _build_folder(self, place: Place) -> str:
        """The folder of a thread; names that differ by case or length only are different ones."""
        thread = place[-1]
        told = hashlib.sha256(thread.encode()).hexdigest()[:32]
        return f"{self._folder}/{quote(thread, safe='')[:_SHOWN]}-{told}"

    def _build_path(self, place: Place, key: str) -> str:
        return f"{self._build_folder(place)}/{quote(key, safe='')}{_END}"

    def _write(self, path: str, data: bytes) -> None:
        if self._is_local:
            _write_file(path, data)
            return
        try:
            self._files.pipe_file(path, data)
        except FileNotFoundError:  # it has folders; what they lie in, a bucket perhaps, is not made
            with suppress(FileExistsError):  # by somebody else meanwhile
                self._files.mkdir(path.rpartition("/")[0], create_parents=False)
            self._files.pipe_file(path, data)

    @contextmanager
    def _explain_errors(self, but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
        try:
            yield
        except but:
            raise
        except Exception as error:  # each file system has errors of its own
            msg = (
                f"Long results cannot be kept in {self.url!r} or read from it ({get_cause(error)}):"
                " see that it can be reached and written, then try again."
            )
            raise DatabaseError(msg) from error


def _write_file(path: str, data: bytes) -> None:
    """Write a file of this user's alone, whole or not at all."""
    make_folder(Path(path).parent)
    begun = f"{path}.{secrets.token_hex(4)}"
    with open(os.open(begun, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(data)
    os.replace(begun, path)


class ObjectResultStore(BaseStore):
    """A store whose long results are objects; those that it has kept itself are read as well."""

    def __init__(self, inner: BaseStore, objects: Objects) -> None:
        """Keep everything else in `inner`."""
        self.inner, self.objects = inner, objects
        self.supports_ttl, self.ttl_config = inner.supports_ttl, inner.ttl_config

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """See the inner store."""
        given = [*ops]
        done = self._run_on_objects(given)
        rest = [op for number, op in enumerate(given) if number not in done]
        return _merge_results(done, self.inner.batch(rest) if rest else [])

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """See the inner store; objects are read and written in a worker thread."""
        given = [*ops]
        own = any(_is_result(op) for op in given)
        done = await asyncio.to_thread(self._run_on_objects, given) if own else {}
        rest = [op for number, op in enumerate(given) if number not in done]
        return _merge_results(done, await self.inner.abatch(rest) if rest else [])

    def _run_on_objects(self, ops: list[Op]) -> dict[int, Result]:
        """What is done without the inner store, by its number among them all."""
        done: dict[int, Result] = {}
        for number, op in enumerate(ops):
            if not _is_result(op):
                continue
            if isinstance(op, GetOp):
                if (item := self.objects.get(op.namespace, op.key)) is not None:
                    done[number] = item
            elif isinstance(op, PutOp) and op.value is not None:
                self.objects.put(op.namespace, op.key, op.value)
                done[number] = None
            elif isinstance(op, PutOp):
                self.objects.drop(op.namespace, [op.key])
        return done


def _is_result(op: Op) -> bool:
    return isinstance(op, GetOp | PutOp) and op.namespace[:-1] == RESULTS


def _merge_results(done: dict[int, Result], rest: list[Result]) -> list[Result]:
    others = iter(rest)
    every = range(len(done) + len(rest))
    return [done[number] if number in done else next(others) for number in every]
