"""MCP server for the files of one folder: `python -m loopwright.servers.workspace --root DIR`.

It speaks MCP over stdio and ends when stdin closes. Results are plain text; a failed request is an
error result of one sentence.
"""

import codecs
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice
from typing import Annotated, Any

import regex as re  # type: ignore[import-untyped]  # its stubs are a package of their own
from mcp.server.fastmcp import Context, FastMCP
from pydantic import Field

from .plain_server import (
    ADDS,
    READS,
    Arguments,
    PlainServer,
    Refused,
    run_in_thread,
    serve,
    to_line,
)
from .root_folder import CREDENTIALS, DELICATE, Entry, Parts, Root, is_sensitive

PREVIEW_LINES = 100
PREVIEW_BYTES = 8_192
FULL_BYTES = 262_144
"""The most of a file that one answer holds."""
READABLE_BYTES = 16_777_216
"""How far into a file reading goes."""
LISTED_ENTRIES = 200
WALKED_ENTRIES = 50_000
SEARCHED_FILE_BYTES = 4_194_304
SEARCHED_BYTES = 16_777_216
MOST_MATCHES = 500
_QUERY_CHARACTERS = 1_000
QUOTA_MB = 64
"""How much a run may write."""
_MOST_RUNS = 1_000
SECONDS = 5.0
"""How long one search may take."""
_LINE_CHARACTERS = 240
_BEFORE_MATCH = 60

_REPLACES = ADDS.model_copy(update={"destructiveHint": True, "idempotentHint": True})

_Context = Context[Any, Any, Any]
_Path = Annotated[str, Field(description="Path relative to the workspace")]
_Glob = Annotated[str, Field(description="Only names like this, e.g. *.md or src/**/*.py")]


class Workspace:
    """The tools; a model reads their docstrings and field descriptions."""

    def __init__(self, root: Root, quota: int = QUOTA_MB * 1_000_000) -> None:
        """Serve the files below this root; a run may write so many bytes."""
        self._root, self._quota = root, quota
        self._left: dict[str, int] = {}

    def list_files(
        self,
        path: _Path = ".",
        glob: _Glob = "",
        recursive: Annotated[bool, Field(description="Also list subfolders")] = False,
        offset: Annotated[int, Field(ge=0, description="Entries to skip")] = 0,
    ) -> str:
        """List files and folders with kind and size. Links are named but not followed."""
        start = self._root.split_path(path)
        walk = self._root.walk(start, recursive=recursive or "/" in glob)
        walked = list(islice(walk, WALKED_ENTRIES + 1))
        kept = [
            entry for entry in walked[:WALKED_ENTRIES] if _matches_glob(entry.parts, start, glob)
        ]
        page = kept[offset : offset + LISTED_ENTRIES]
        lines = [_format_entry(entry) for entry in page]
        if not page:
            lines.append(f"[nothing to list here; {len(kept)} entries fit]")
        elif len(page) < len(kept):
            lines.append(_make_paging_note(offset, len(page), len(kept)))
        if len(walked) > WALKED_ENTRIES:
            lines.append(f"[stopped after {WALKED_ENTRIES} entries; narrow it by path]")
        return "\n".join(lines)

    def read_file(
        self,
        path: _Path,
        full: Annotated[bool, Field(description="To the end instead of a preview")] = False,
        offset: Annotated[int, Field(ge=1, description="First line, from 1")] = 1,
        limit: Annotated[int, Field(ge=0, description="Lines; 0 is a preview of 100")] = 0,
    ) -> str:
        """Read a text file. Shows a preview and how much is left, unless full or limit is given."""
        name = to_line(path)
        data, size = self._root.read(self._root.split_path(path), READABLE_BYTES)
        if not data:
            return f"[{name} is empty]"
        if _is_binary(data):
            return f"[{name} is a binary file of {size} bytes and cannot be shown as text]"
        text = _decode_text(data)
        allowed = FULL_BYTES if full or limit else PREVIEW_BYTES
        wanted = None if full else limit or PREVIEW_LINES
        body = _cut_excerpt(name, text, first=offset, count=wanted, most=allowed)
        if size > len(data):
            body += f"\n[{name} has {size} bytes; only the first {len(data)} can be read]"
        return body

    def search_text(
        self,
        query: Annotated[str, Field(description="Text to find, within one line")],
        path: Annotated[str, Field(description="Folder or file to search")] = ".",
        glob: _Glob = "",
        regex: Annotated[bool, Field(description="query is a Python regular expression")] = False,
        match_case: bool = False,
        max_matches: Annotated[int, Field(ge=1, le=MOST_MATCHES)] = 50,
    ) -> str:
        """Find text in all files below path, except .git, .venv and node_modules."""
        if not 0 < len(query) <= _QUERY_CHARACTERS:
            message = f"A query has 1 to {_QUERY_CHARACTERS} characters, not {len(query)}."
            raise Refused(message)
        sweep = _Sweep(self._root, self._root.split_path(path), glob)
        pattern = query if regex else re.escape(query)
        matches = find_lines(sweep.texts(), pattern, match_case=match_case, limit=max_matches + 1)
        lines = matches[:max_matches]
        if not matches:
            lines.append(f"[no match in {sweep.files} text files]")
        if len(matches) > max_matches:
            lines.append(
                f"[first {max_matches} matches; for more raise max_matches"
                f" (to {MOST_MATCHES}) or narrow it by path or glob]"
            )
        return "\n".join(lines + sweep.notes())

    def write_file(
        self,
        context: _Context,
        path: _Path,
        content: str,
        overwrite: Annotated[bool, Field(description="Replace an existing file")] = False,
    ) -> str:
        """Write a whole text file, making missing folders. Does not replace unless overwrite."""
        data = content.encode()
        self._spend(context, data)
        done = self._root.write(self._root.split_path(path), data, overwrite=overwrite)
        if done == "unchanged":
            return f"{to_line(path)} already has exactly this content; nothing was changed."
        return f"{to_line(path)} {done}, {len(data)} bytes."

    def append_file(self, context: _Context, path: _Path, content: str) -> str:
        """Add text at the end of a file exactly as given; makes the file if missing."""
        data = content.encode()
        self._spend(context, data)
        size = self._root.append(self._root.split_path(path), data)
        return f"{len(data)} bytes added to {to_line(path)}, now {size} bytes."

    def _spend(self, context: _Context, data: bytes) -> None:
        """Count what the run of a call writes, and refuse what is over its quota."""
        told = getattr(context.request_context.meta, "model_extra", None) or {}
        run = f"{told.get('loopwright/thread')} {told.get('loopwright/turn')}"
        if (left := self._left.get(run, self._quota)) < len(data):
            message = f"One run may write {self._quota} bytes, and this would be more."
            raise Refused(message)
        self._left.pop(run, None)
        self._left[run] = left - len(data)
        for oldest in list(self._left)[:-_MOST_RUNS]:
            self._left.pop(oldest, None)


@dataclass
class _Sweep:
    """The texts below a path, and a count of what was left out."""

    root: Root
    start: Parts
    glob: str
    files: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    taken: int = 0
    cut: bool = False

    def texts(self) -> Iterator[tuple[str, str]]:
        for entry in self._entries():
            if self.taken >= SEARCHED_BYTES:
                self.cut = True
                return
            if entry.size > SEARCHED_FILE_BYTES:
                self.left_out[f"over {SEARCHED_FILE_BYTES} bytes"] += 1
            elif is_sensitive(entry.parts) and entry.parts != self.start:
                self.left_out["that often hold credentials, to be named by path"] += 1
            elif (data := self._read_data(entry)) is not None:
                self.files += 1
                self.taken += len(data)
                yield to_line("/".join(entry.parts)), _decode_text(data)

    def notes(self) -> list[str]:
        counted = ", ".join(f"{count} {why}" for why, count in self.left_out.items())
        notes = [f"[files left out: {counted}]"] if counted else []
        if self.cut:
            notes.append(f"[stopped after {SEARCHED_BYTES} bytes; narrow it by path or glob]")
        return notes

    def _entries(self) -> Iterator[Entry]:
        first = self.root.inspect_entry(self.start)
        if first.kind == "file":
            return iter([first])
        walked = list(islice(self.root.walk(self.start, recursive=True), WALKED_ENTRIES + 1))
        self.cut = len(walked) > WALKED_ENTRIES
        return (
            e for e in walked if e.kind == "file" and _matches_glob(e.parts, self.start, self.glob)
        )

    def _read_data(self, entry: Entry) -> bytes | None:
        try:
            data = self.root.read(entry.parts, SEARCHED_FILE_BYTES).data
        except Refused:
            self.left_out["not readable"] += 1
            return None
        if _is_binary(data):
            self.left_out["binary"] += 1
            return None
        return data


def find_lines(
    texts: Iterable[tuple[str, str]], pattern: str, *, match_case: bool, limit: int
) -> list[str]:
    """Give the first `limit` lines with a match, as `path:number: line`; long lines are cut.

    Args:
        texts: Paths as shown, and what is in the files.
        pattern: A regular expression; refused if it does not compile or takes over `SECONDS`.
        match_case: Whether upper and lower case are different.
        limit: The most lines.
    """
    try:
        wanted = re.compile(pattern, 0 if match_case else re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        message = f"The regular expression is not valid: {error}."
        raise Refused(message) from error
    try:
        return list(islice(_search_lines(wanted, list(texts)), limit))
    except TimeoutError as error:
        message = (
            f"The search took longer than {SECONDS:g} s; simplify the regular expression"
            " (a repeat inside a repeat is slow) or narrow it by path or glob."
        )
        raise Refused(message) from error


def _search_lines(wanted: re.Pattern[str], texts: list[tuple[str, str]]) -> Iterable[str]:
    deadline = time.monotonic() + SECONDS
    for path, text in texts:
        for number, line in enumerate(text.split("\n"), start=1):
            left = max(deadline - time.monotonic(), 0.001)
            if match := wanted.search(line, timeout=left):
                yield f"{path}:{number}: {_clip_line(line, match.start())}"


def _clip_line(line: str, start: int) -> str:
    line = line.rstrip("\r")
    if len(line) <= _LINE_CHARACTERS:
        return line
    first = max(0, start - _BEFORE_MATCH)
    last = first + _LINE_CHARACTERS
    return ("…" if first else "") + line[first:last] + ("…" if last < len(line) else "")


def _cut_excerpt(name: str, text: str, *, first: int, count: int | None, most: int) -> str:
    """So many lines (None: all) from the first one, of at most so many bytes."""
    lines = text.removesuffix("\n").split("\n")
    if first > len(lines):
        message = f"'{name}' has {len(lines)} lines; line {first} is past its end."
        raise Refused(message)
    start = first - 1
    end = len(lines) if count is None else start + count
    taken, cut = _take_lines(lines[start:end], most)
    last = start + len(taken)
    if not start and last == len(lines) and not cut:
        return text
    notes = [f"lines {first}-{last} of {len(lines)}"]
    if cut:
        notes.append(f"line {last} is cut after {most} bytes")
    if last < len(lines):
        notes.append(f"read on with offset={last + 1}")
    if (cut or last < len(lines)) and most < FULL_BYTES:
        notes.append("full=true gives the rest")
    return "\n".join([*taken, f"[{'; '.join(notes)}]"])


def _take_lines(lines: Sequence[str], allowed: int) -> tuple[list[str], bool]:
    """Take whole lines up to a number of bytes; a first line that is longer is cut."""
    taken: list[str] = []
    used = 0
    for line in lines:
        used += len(line.encode()) + 1
        if used > allowed + 1:
            break
        taken.append(line)
    if taken or not lines:
        return taken, False
    return [lines[0].encode()[:allowed].decode(errors="ignore")], True


def _is_binary(data: bytes) -> bool:
    return b"\0" in data[:PREVIEW_BYTES] and not data.startswith(_UTF16)


_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def _decode_text(data: bytes) -> str:
    encoding = "utf-16" if data.startswith(_UTF16) else "utf-8-sig"
    return data.decode(encoding, errors="replace")


def _matches_glob(parts: Parts, start: Parts, glob: str) -> bool:
    if not glob:
        return True
    if "/" not in glob:
        return fnmatchcase(parts[-1], glob)
    path = "/".join(parts[len(start) :])
    return fnmatchcase(path, glob) or fnmatchcase(path, glob.replace("**/", ""))


def _format_entry(entry: Entry) -> str:
    path = to_line("/".join(entry.parts))
    if entry.kind == "folder":
        return f"{path}/ (folder)"
    size = f"{entry.size} bytes" if entry.kind == "file" else "not opened"
    return f"{path} ({entry.kind}, {size})"


def _make_paging_note(offset: int, count: int, total: int) -> str:
    more = offset + count
    how = f"; go on with offset={more} or narrow it by glob" if more < total else ""
    return f"[entries {offset + 1}-{more} of {total}{how}]"


def build_server(root: Root, quota: int = QUOTA_MB * 1_000_000) -> FastMCP[None]:
    """Make the server for the files below a root; the caller runs it."""
    server = PlainServer("workspace", log_level="ERROR")
    tools = Workspace(root, quota)
    # What asks a human although it only reads; writes are asked about anyway.
    path = f"{DELICATE}|{CREDENTIALS.removeprefix('(?i)')}" if root.credentials else DELICATE
    asks = {"loopwright/asks": {"path": path}}
    for tool, annotations in (
        (tools.list_files, READS),
        (tools.read_file, READS),
        (tools.search_text, READS),
        (tools.write_file, _REPLACES),
        (tools.append_file, ADDS),
    ):
        # Text only: typed returns would send every result twice.
        server.add_tool(
            run_in_thread(tool), annotations=annotations, structured_output=False, meta=asks
        )
    return server


def main() -> None:
    """Serve until stdin closes; a root that cannot be used ends with exit code 2."""
    parser = Arguments(prog="workspace", description="MCP server for the files of one folder.")
    parser.add_argument("--root", required=True, metavar="DIR", help="the folder to serve")
    allowed = "let files of credentials (.ssh, *.pem, …) be named; a human is asked about each"
    parser.add_argument("--credentials", action="store_true", help=allowed)
    most = "megabytes that one run may write"
    parser.add_argument("--quota", type=int, default=QUOTA_MB, metavar="MB", help=most)
    given = parser.parse_args()
    folder = given.root
    if os.name != "posix":
        parser.error("this server needs Linux or macOS.")
    try:
        root = Root(folder, credentials=given.credentials)
    except Refused:
        parser.error(f"--root {to_line(folder)} is not a folder that can be opened.")
    serve(build_server(root, given.quota * 1_000_000), root.writing)


if __name__ == "__main__":
    main()
