"""What earlier results told the offline model: paths, folders, names and records."""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .literals import literals, path_kind
from .words import READ_LIMIT, content_words, stem, words

_TOKEN: Final = re.compile(r"[^\s,;\"'`<>()\[\]{}|]+")
_LABEL: Final = re.compile(
    r"(?im)^[^\w\n]{0,20}([a-z][\w -]{0,30}?)[ \t]*[:=#][ \t]*[\"']?([\w./@-]{1,80})"
)
_ABSOLUTE: Final = re.compile(r"(?m)(?:^|[\s\"'(:])((?:/[\w.@+-]+){2,}|[A-Z]:\\[\w.\\-]+)")


@dataclass(frozen=True)
class Known:
    """Earlier results as pairs: what was asked (task or arguments), and the text that came back."""

    results: tuple[tuple[str, str], ...] = ()

    def paths(self) -> list[str]:
        """Paths and file names the results contain, each once; newest results first."""
        found: dict[str, None] = {}
        for _, text in reversed(self.results):
            for token in _TOKEN.findall(text[:READ_LIMIT]):
                token = token.rstrip(".:!?…").removeprefix("./") or token
                if path_kind(token) == "path":
                    found[token] = None
        return list(found)

    def folders(self) -> list[str]:
        """Folders that were listed or searched, newest first, then absolute ones that were told."""
        found: dict[str, None] = {}
        for about, _ in reversed(self.results):
            for item in literals(about[:READ_LIMIT]):
                if item.kind == "path" and not re.search(r"\.\w{1,5}$", item.value):
                    found[item.value.rstrip("/") or "/"] = None
        for _, text in reversed(self.results):
            found.update(dict.fromkeys(match[1] for match in _ABSOLUTE.finditer(text[:READ_LIMIT])))
        return list(found)

    def resolve(self, path: str) -> str:
        """The path as the results know it: 'notes.md' listed under 'data' is 'data/notes.md'."""
        if path.startswith(("/", "~", "./", "../")) or path in (".", ""):
            return path
        known = self.paths()
        longer = [item for item in known if item.endswith(f"/{path}")]
        if longer:
            return longer[0]
        if path in known and "/" not in path:
            for about, text in reversed(self.results):
                if path in _TOKEN.findall(text[:READ_LIMIT]):
                    folder = Known(((about, ""),)).folders()
                    return f"{folder[0]}/{path}" if folder and folder[0] != "." else path
        return path

    def path_named(self, said: Sequence[str]) -> list[str]:
        """Known files whose name, without its ending, is said in the clause (stems)."""
        scored = []
        files = [path for path in self.paths() if re.search(r"\.\w{1,8}$", path)]
        for path in files or self.paths():
            base = path.rstrip("/").rsplit("/", 1)[-1].rsplit(".", 1)[0]
            named = [word for word in words(base) if len(word) > 2]
            hits = sum(1 for word in named if word in said)
            if hits:
                scored.append((hits / len(named), path))
        best = max((score for score, _ in scored), default=0.0)
        return [self.resolve(path) for score, path in scored if score == best and score >= 0.5]

    def value_of(self, name: str, said: Sequence[str]) -> str | int | None:
        """The value a record or a labelled line gives for an argument of this name."""
        keys = key_forms(name)
        options = [
            (_overlap(record, said), -place, record[key])
            for place, record in enumerate(self.records())
            for form, key in ((form, key) for form in keys for key in record)
            if plain_key(key) == form and isinstance(record[key], str | int)
        ]
        if options:
            return max(options, key=lambda option: option[:2])[2]  # type: ignore[no-any-return]
        for _, text in reversed(self.results):
            for label, value in _LABEL.findall(text[:READ_LIMIT]):
                if plain_key(label) in keys:
                    return str(value)
        return None

    def latest_paths(self) -> list[str]:
        """The paths of the newest result that has any, as they can be used."""
        for result in reversed(self.results):
            found = Known((result,)).paths()
            if found:
                return [self.resolve(path) for path in found]
        return []

    def items(self) -> list[str]:
        """The names the newest list-like result gives: one a record, list item or short line."""
        for _, text in reversed(self.results):
            for value in json_values(text):
                listed = (
                    next((v for v in value.values() if isinstance(v, list)), [])
                    if isinstance(value, dict)
                    else value
                )
                if isinstance(listed, list) and listed:
                    return [name for name in map(_name_of, listed[:50]) if name]
            lines = [
                re.sub(r"^\W*(?:\[\w+\])?\W*", "", line).strip()
                for line in text.splitlines()
                if line.strip()
            ]
            if len(lines) > 1 and all(0 < len(line.split()) <= 3 for line in lines):
                return [line.split()[0] for line in lines[:50]]
        return []

    def labelled(self, said: Sequence[str]) -> str | None:
        """The first value after a label that the clause says: 'Order: 17' for 'order'."""
        for _, text in reversed(self.results):
            for label, value in _LABEL.findall(text[:READ_LIMIT]):
                if words(label)[-1:] and words(label)[-1] in said and value[-1:].isalnum():
                    return str(value)
        return None

    def records(self) -> Iterator[dict[str, Any]]:
        """Every JSON object inside the results, newest result first."""
        for _, text in reversed(self.results):
            for value in json_values(text):
                yield from _objects(value)

    def words_shared(self, said: Sequence[str]) -> list[str]:
        """Words of the results, as written there, that the clause says too."""
        seen: dict[str, None] = {}
        for _, text in reversed(self.results):
            for token in re.findall(r"[^\W\d][\w-]*(?![\w-]*\s*[:=])", text[:READ_LIMIT]):
                if len(token) > 2 and stem(token) in said:
                    seen[token] = None
        return list(seen)


def _name_of(item: object) -> str:
    if isinstance(item, dict):
        plain = {key: value for key, value in item.items() if isinstance(value, str | int)}
        key = next((key for key in ("id", "name", "key", "title", *plain) if key in plain), None)
        return str(plain[key]) if key else ""
    return str(item) if isinstance(item, str | int) else ""


def json_values(text: str) -> Iterator[Any]:
    """JSON (or Python) values in a text: the whole of it, or each line that starts like one."""
    if text[:1] in "[{(" and "'" in text[:200] and len(text) < READ_LIMIT:
        try:
            yield ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            pass
        else:
            return
    decoder = json.JSONDecoder()
    for match in list(
        re.finditer(r"(?m)^[ \t]*(?:[^\n{\[]{0,80}[:=][ \t]*)?(?=[{\[])", text[:READ_LIMIT])
    )[:50]:
        try:
            value, end = decoder.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            continue
        yield value
        if match.start() == 0 and end >= len(text.rstrip()):
            return


def _objects(value: object, depth: int = 0) -> Iterator[dict[str, Any]]:
    if depth > 8:
        return
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from _objects(item, depth + 1)
    elif isinstance(value, list):
        for item in value[:500]:
            yield from _objects(item, depth + 1)


def plain_key(name: str) -> str:
    """A key without what spellings differ in: 'customerId' and 'customer_id' are one."""
    return re.sub(r"[\W_]", "", name).lower()


def key_forms(name: str) -> list[str]:
    """The keys that may hold this argument: its own name, and 'id' for any '…_id'."""
    plain = plain_key(name)
    forms = [plain]
    for ending in ("id", "number", "key", "code"):
        if plain.endswith(ending) and plain != ending:
            forms.append(ending)
    return forms


def _overlap(record: dict[str, Any], said: Sequence[str]) -> int:
    told = content_words(" ".join(str(value)[:200] for value in record.values()))
    return sum(1 for word in told if word in said)
