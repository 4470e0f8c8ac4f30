"""Files below one root folder, reached so that no path leaves it.

Every path is walked part by part from the root with `openat` and `O_NOFOLLOW`: there is no moment
between a check and a use in which a link could be slipped in. Links inside the root are refused,
wherever they lead; the root itself may be one. Needs a POSIX system.
"""

import errno
import os
import re
import secrets
import stat
import threading
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Literal, NamedTuple

from .plain_server import Refused, to_line

Kind = Literal["file", "folder", "link", "special"]
Written = Literal["created", "replaced", "unchanged"]
Parts = tuple[str, ...]

UNSEARCHED = frozenset({".git", ".venv", "node_modules"})
"""Folders that a recursive walk names but does not enter."""

_OWN = ".loopwright"
"""The state of runs, which no path may reach."""

DELICATE = r"(?i)(^|/)\.(git|env[^/]*)(/|$)"
"""Paths that often hold credentials: a human is asked about them, and no walk reads them."""

CREDENTIALS = (
    r"(?i)(^|/)(\.(ssh|gnupg|aws|azure|kube|password-store|netrc|npmrc|yarnrc|yarnrc\.yml|pypirc"
    r"|pgpass|my\.cnf|git-credentials|htpasswd|vault-token|terraform\.d|terraformrc|boto|s3cfg)"
    r"|_netrc|\.config/(gcloud|gh|hub|rclone|op)|\.docker/config\.json|\.cargo/credentials[^/]*"
    r"|\.gem/credentials|credentials\.json|client_secret[^/]*\.json|service[-_]account[^/]*\.json"
    r"|id_(rsa|dsa|ecdsa|ed25519)(_sk)?|[^/]+\.(pem|key|ppk|p12|pfx|jks|keystore|kdbx))(/|$)"
)
"""Paths of files that are there to hold credentials: out of reach, unless the operator says so."""

DEEPEST = 64
"""The longest path, in names; each walk from the root opens them all."""

_REASONS = {
    errno.EEXIST: "was just made by another program; read it before writing",
    errno.ELOOP: "is or passes through a link, and links are not followed",
    errno.ENOENT: "does not exist; list_files shows what there is",
    errno.ENOTDIR: "does not exist, because a part of it is not a folder",
}
"""Better words for some errors of the system."""


class Entry(NamedTuple):
    """One thing in a folder: its parts below the root, its kind, its size in bytes."""

    parts: Parts
    kind: Kind
    size: int


class Content(NamedTuple):
    """The first bytes of a file, and its whole size in bytes."""

    data: bytes
    size: int


def is_sensitive(parts: Parts) -> bool:
    """Whether a path is one of those that hold credentials, or often do."""
    path = "/".join(map(_normalize_name, parts))
    return any(re.search(pattern, path) for pattern in (DELICATE, CREDENTIALS))


def _normalize_name(name: str) -> str:
    """A name without case, width and invisible characters, which some file systems ignore."""
    seen = (c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
    return "".join(seen).strip().casefold()


class Root:
    """A folder whose files can be listed, read and written by paths relative to it.

    Raises:
        Refused: by every method, when the path leaves the root, passes through a link, is of the
            wrong kind, or the system says no.
    """

    def __init__(self, folder: str, *, credentials: bool = False) -> None:
        """Take the folder; a link to a folder is resolved once, here.

        Args:
            folder: Its path.
            credentials: Whether files of credentials may be named, too.
        """
        self.credentials = credentials
        self._given = os.path.abspath(folder)
        self._real = os.path.realpath(folder)
        self.writing = threading.Lock()
        """Held while a file is changed: changes never interleave."""
        if _OWN in map(_normalize_name, self._real.split("/")):
            message = f"'{to_line(folder)}' holds the state of runs and is no workspace."
            raise Refused(message)
        with self._open_folder(()):
            pass

    def split_path(self, path: str) -> Parts:
        """Split a path into the names below the root that it stands for."""
        try:
            named = b"\0" not in os.fsencode(path)
        except UnicodeEncodeError:
            named = False
        if not named:
            message = f"'{to_line(path)}' is not a valid file name."
            raise Refused(message)
        clean = os.path.normpath(self._make_relative(path))
        parts = () if clean == "." else tuple(clean.split("/"))
        if ".." in parts:
            message = f"'{to_line(path)}' leads out of the workspace."
            raise Refused(message)
        if _OWN in map(_normalize_name, parts):
            message = f"'{to_line(path)}' holds the state of runs and is out of reach."
            raise Refused(message)
        clean = "/".join(map(_normalize_name, parts))
        if not self.credentials and re.search(CREDENTIALS, clean):
            message = f"'{to_line(path)}' is a place of credentials and out of reach."
            raise Refused(message)
        if len(parts) > DEEPEST:
            message = f"'{to_line(path)}' is nested deeper than {DEEPEST} folders."
            raise Refused(message)
        return parts

    def inspect_entry(self, parts: Parts) -> Entry:
        """The entry of a path, without opening it."""
        if not parts:
            return Entry((), "folder", 0)
        with self._open_folder(parts[:-1]) as parent, _explain_errors(parts):
            return _make_entry(parts, os.lstat(parts[-1], dir_fd=parent))

    def walk(self, start: Parts, *, recursive: bool) -> Iterator[Entry]:
        """Yield what a folder holds, sorted by name; with `recursive`, the folders in it too."""
        entries = self._scan(start)
        pending: list[Parts] = []
        while True:
            yield from entries
            if recursive:
                pending.extend(entry.parts for entry in reversed(entries) if _is_enterable(entry))
            if not pending:
                return
            entries = []
            with suppress(Refused):
                entries = self._scan(pending.pop())

    def read(self, parts: Parts, limit: int) -> Content:
        """Read a regular file, at most `limit` bytes of it; never waits on a pipe or device."""
        with self._open_folder(parts[:-1]) as parent, _open_file(parent, parts, "rb") as file:
            status = os.fstat(file.fileno())
            self._check_names(parts, status)
            return Content(file.read(limit), status.st_size)

    def write(self, parts: Parts, data: bytes, *, overwrite: bool) -> Written:
        """Write a file in one step: a reader sees the old or the new content, never a part."""
        with (
            self.writing,
            self._open_folder(parts[:-1], create=True) as parent,
            _explain_errors(parts),
        ):
            before = _stat_existing(parent, parts)
            if before is not None:
                self._check_names(parts, before)
            if before is not None and not overwrite:
                return self._accept_unchanged(parts, data)
            temporary = _write_temporary(parent, data, before)
            try:
                if before is None:
                    # Claims the name, so that a file another process made meanwhile survives.
                    open(parts[-1], "xb", opener=_make_opener(parent)).close()
                os.replace(temporary, parts[-1], src_dir_fd=parent, dst_dir_fd=parent)
            except OSError:
                os.unlink(temporary, dir_fd=parent)
                raise
            return "created" if before is None else "replaced"

    def append(self, parts: Parts, data: bytes) -> int:
        """Append to a file, created if missing; returns the new size in bytes.

        A file with several names is refused: some of them may be outside the root.
        """
        folder = self._open_folder(parts[:-1], create=True)
        with self.writing, folder as parent, _open_file(parent, parts, "ab") as file:
            if os.fstat(file.fileno()).st_nlink > 1:
                message = (
                    f"'{to_line('/'.join(parts))}' is one file under several names (hard links),"
                    " and some may lie outside of the workspace; replace it by write_file instead."
                )
                raise Refused(message)
            file.write(data)
            file.flush()
            return os.fstat(file.fileno()).st_size

    def _make_relative(self, path: str) -> str:
        if not path.startswith("/"):
            return path or "."
        clean = "/" + os.path.normpath(path).lstrip("/")
        for root in (self._given, self._real):
            if clean == root or clean.startswith(root.rstrip("/") + "/"):
                return clean[len(root) :].lstrip("/") or "."
        message = f"'{to_line(path)}' is outside the workspace; give a path relative to it."
        raise Refused(message)

    @contextmanager
    def _open_folder(self, parts: Parts, *, create: bool = False) -> Iterator[int]:
        with _explain_errors((self._real,)):
            current = os.open(self._real, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for depth, name in enumerate(parts, start=1):
                with _explain_errors(parts[:depth]):
                    following = _descend(current, parts[:depth], name, create=create)
                os.close(current)
                current = following
            yield current
        finally:
            os.close(current)

    def _check_names(self, parts: Parts, status: os.stat_result) -> None:
        """Refuse a file that is, by another of its names, state of runs or holds credentials."""
        if status.st_nlink == 1 or is_sensitive(parts):
            return
        for other in self._find_protected():
            if (other.st_dev, other.st_ino) == (status.st_dev, status.st_ino):
                message = (
                    f"'{to_line('/'.join(parts))}' is another name of a file that is out of reach."
                )
                raise Refused(message)

    def _find_protected(self) -> Iterator[os.stat_result]:
        for folder, folders, files in os.walk(self._real):
            own = _OWN in map(_normalize_name, folder.split("/"))
            folders[:] = [name for name in folders if own or name not in UNSEARCHED]
            inside = os.path.relpath(folder, self._real).split("/")
            for name in files:
                if own or is_sensitive((*inside, name)):
                    with suppress(OSError):
                        yield os.lstat(os.path.join(folder, name))

    def _scan(self, parts: Parts) -> list[Entry]:
        entries = []
        with (
            self._open_folder(parts) as folder,
            _explain_errors(parts),
            os.scandir(folder) as items,
        ):
            for item in items:
                if _normalize_name(item.name) == _OWN:
                    continue
                with suppress(FileNotFoundError):  # it may vanish while the folder is read
                    status = item.stat(follow_symlinks=False)
                    entries.append(_make_entry((*parts, item.name), status))
        return sorted(entries)

    def _accept_unchanged(self, parts: Parts, data: bytes) -> Written:
        # Repeating a finished write is no failure: an interrupted run may ask for it again.
        if self.read(parts, len(data) + 1).data == data:
            return "unchanged"
        message = (
            f"'{to_line('/'.join(parts))}' exists with other content;"
            " pass overwrite=true to replace it, or use append_file."
        )
        raise Refused(message)


@contextmanager
def _explain_errors(parts: Parts) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, f"cannot be used: {error.strerror}")
        message = f"'{to_line('/'.join(parts) or '.')}' {reason}."
        raise Refused(message) from error


def _is_enterable(entry: Entry) -> bool:
    enterable = entry.kind == "folder" and len(entry.parts) < DEEPEST
    name = entry.parts[-1] if enterable else ""
    return enterable and name not in UNSEARCHED and not is_sensitive(entry.parts)


def _make_entry(parts: Parts, status: os.stat_result) -> Entry:
    return Entry(parts, _kind(status.st_mode), status.st_size)


_KINDS: dict[int, Kind] = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}


def _kind(mode: int) -> Kind:
    return _KINDS.get(stat.S_IFMT(mode), "special")


def _descend(parent: int, parts: Parts, name: str, *, create: bool) -> int:
    if create:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=parent)
    except OSError:
        kind = _kind(os.lstat(name, dir_fd=parent).st_mode)
        if kind != "folder":
            raise _make_kind_error(parts, kind, wanted="folder") from None
        raise


@contextmanager
def _open_file(parent: int, parts: Parts, mode: str) -> Iterator[IO[bytes]]:
    with _explain_errors(parts):
        _stat_existing(parent, parts)
        with open(parts[-1], mode, opener=_make_opener(parent)) as file:
            _require_file(parts, os.fstat(file.fileno()))  # the name may mean another by now
            yield file


def _make_opener(parent: int) -> Callable[[str, int], int]:
    """Opens names in a folder, but through no link; O_NONBLOCK keeps a pipe from blocking it."""
    always = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    return lambda name, flags: os.open(name, flags | always, 0o666, dir_fd=parent)


def _stat_existing(parent: int, parts: Parts) -> os.stat_result | None:
    """The status of a regular file, if it is there; whatever else stands there is refused."""
    if not parts:
        raise _make_kind_error((), "folder", wanted="file")
    try:
        status = os.lstat(parts[-1], dir_fd=parent)
    except FileNotFoundError:
        return None
    _require_file(parts, status)
    return status


def _require_file(parts: Parts, status: os.stat_result) -> None:
    kind = _kind(status.st_mode)
    if kind != "file":
        raise _make_kind_error(parts, kind, wanted="file")


def _make_kind_error(parts: Parts, kind: Kind, *, wanted: Kind) -> Refused:
    explained = {
        "file": "is a file, not a folder; read it with read_file",
        "folder": "is a folder, not a file; see it with list_files",
        "link": f"is a link, and links are not followed; name the {wanted} itself",
        "special": f"is a pipe, socket or device, not a {wanted}",
    }
    return Refused(f"'{to_line('/'.join(parts) or '.')}' {explained[kind]}.")


def _write_temporary(parent: int, data: bytes, before: os.stat_result | None) -> str:
    name = f".{secrets.token_hex(8)}.tmp"
    with open(name, "xb", opener=_make_opener(parent)) as file:
        try:
            file.write(data)
            file.flush()
            if before is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
            os.fsync(file.fileno())
        except OSError:
            os.unlink(name, dir_fd=parent)
            raise
    return name
