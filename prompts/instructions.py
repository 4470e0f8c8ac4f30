"""Instructions of an operator: AGENTS.md and skills, in the folders that the operator names.

They are read when a graph is built. Later changes, perhaps by a tool, are reported and ignored
until a graph is built again.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from ..state.errors import SettingsError
from ..state.limits import LIMITS, explain_excess
from ..text.sentences import say

FILE: Final = "AGENTS.md"
SKILL: Final = "SKILL.md"
READ_SKILL: Final = "read_skill"
MOST_SKILLS: Final = 50
"""Every prompt names them all."""

_PLACES: Final = ("", "*/", "skills/*/", ".agents/skills/*/", ".claude/skills/*/")
_MOST_DESCRIPTION: Final = 1_024
_MOST_NAME: Final = 64
_FORM: Final = re.compile(
    r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_SHOWN: Final = 200


@dataclass(frozen=True)
class Skill:
    """A skill: `within` the folder that was named, its own `folder` has SKILL.md.

    `digests` are of the texts of its files, by their names in the folder, as they were found.
    """

    name: str
    description: str
    folder: Path
    within: Path
    digests: Mapping[str, str]


@dataclass(frozen=True)
class Instructions:
    """What the named folders hold: AGENTS.md files, skills by name, and why some are left out."""

    folders: tuple[Path, ...] = ()
    texts: Mapping[Path, str] = field(default_factory=dict)
    skills: Mapping[str, Skill] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def render_text(self) -> str:
        """The instructions and the list of skills, for every role's prompt."""
        parts = [say("instructions", file=FILE, text=text) for text in self.texts.values()]
        if self.skills:
            lines = (f"- {skill.name}: {skill.description}" for skill in self.skills.values())
            parts.append(say("skills_listed", skills="\n".join(lines)))
        return "\n\n".join(parts)

    def list_changed(self) -> list[str]:
        """A warning for each AGENTS.md that has changed since it was read."""
        return [
            f"{path} has changed since it was read: what it said then is followed until the graph "
            "is built again."
            for path in (folder / FILE for folder in self.folders)
            if _find_text(path, path.parent, "instructions").strip() != self.texts.get(path, "")
        ]

    def read_skill(self, name: str, file: str = "") -> str:
        """The body of a skill, with the names of the files beside it; or one of those.

        Raises:
            ValueError: It cannot be read; says why.
        """
        skill = self.skills.get(name)
        if skill is None:
            msg = say("no_such_skill", name=repr(name), known=", ".join(self.skills))
            raise ValueError(msg)
        path, within = skill.folder / (file or SKILL), skill.folder if file else skill.within
        text = _read_file(path, within)
        if skill.digests.get(os.path.normpath(file or SKILL)) != _hash_text(text):
            raise ValueError(say("skill_changed", name=name))
        if file:
            return text
        _, body = read_front_matter(text)
        listed = list(islice((name for name in skill.digests if name != SKILL), _MOST_SHOWN))
        beside = f"\n\n{say('files_of_skill', files=', '.join(listed))}" if listed else ""
        return f"{body.strip()}{beside}"


def read_instructions(folders: str | Path | Sequence[str | Path] | None) -> Instructions:
    """Read what folders say.

    Raises:
        SettingsError: One is no folder, has nothing to follow, or an AGENTS.md that cannot be read.
    """
    given = [folders] if isinstance(folders, str | Path) else [*(folders or ())]
    named = tuple(dict.fromkeys(_check_folder(Path(path)) for path in given))
    texts: dict[Path, str] = {}
    skills: dict[str, Skill] = {}
    problems: list[str] = []
    for folder in named:
        before = len(texts) + len(skills) + len(problems)
        texts |= _read_agents(folder)
        for skill in _find_skills(folder, problems):
            if len(skills) == MOST_SKILLS:
                problems.append(f"The skill in {skill.folder} is left out: there are too many.")
            elif skills.setdefault(skill.name, skill) is not skill:
                same = skills[skill.name].folder
                problems.append(f"The skill in {skill.folder} is left out: {same} has its name.")
        if len(texts) + len(skills) + len(problems) == before:
            msg = f"{folder} has no {FILE} and no folder with a {SKILL}: name another one, or none."
            raise SettingsError(msg)
    return Instructions(named, texts, skills, tuple(problems))


def read_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """The YAML between the two first lines `---` of a Markdown file, and the text behind it.

    Raises:
        ValueError: It is missing or unreadable; the message follows the file's name.
    """
    from ..policy.parts import read_yaml  # noqa: PLC0415 - who has such files pays for it

    found = _FORM.match(text)
    if found is None:
        msg = "has no front matter: begin it with a line ---, keys such as name: …, and --- again"
        raise ValueError(msg)
    try:
        if why := explain_excess("front matter", found[1]):
            raise ValueError(why)  # noqa: TRY301 - told as what cannot be read
        said = read_yaml(found[1])
    except ValueError as error:
        msg = f"has front matter that is no YAML that can be read ({str(error)[:_SHOWN]})"
        raise ValueError(msg) from error
    if not isinstance(said, dict):
        msg = "has front matter without keys: write lines such as name: …"
        raise ValueError(msg)  # noqa: TRY004 - what a file holds is a value
    return {str(key): value for key, value in said.items()}, text[found.end() :]


def _read_agents(folder: Path) -> dict[Path, str]:
    path = folder / FILE
    if not (path.exists() or path.is_symlink()):
        return {}
    try:
        return {path: _read_file(path, folder, "instructions").strip()}
    except ValueError as error:
        msg = f"{error}."
        raise SettingsError(msg) from error


def _check_folder(path: Path) -> Path:
    if not str(path).strip() or not path.expanduser().is_dir():
        msg = (
            f"{str(path)!r} is no folder: instructions are read from folders with {FILE} or skills."
        )
        raise SettingsError(msg)
    return path.expanduser().absolute()


def _find_skills(folder: Path, problems: list[str]) -> Iterator[Skill]:
    for place in _PLACES:
        for path in sorted(folder.glob(f"{place}{SKILL}")):
            try:
                yield _read_skill(path, folder)
            except ValueError as error:
                problems.append(
                    f"The skill in {path.parent} is left out: {error}.".replace("..", ".")
                )


def _read_skill(path: Path, within: Path) -> Skill:
    text = _read_file(path, within)
    try:
        said, _ = read_front_matter(text)
    except ValueError as error:
        msg = f"{SKILL} {error}"
        raise ValueError(msg) from error
    for key, most in (("name", _MOST_NAME), ("description", _MOST_DESCRIPTION)):
        value = said.get(key)
        if not isinstance(value, str) or not value.strip() or len(value) > most:
            msg = f"the {key} in its front matter must be a text of 1 to {most} characters"
            raise ValueError(msg)
    name, description = (" ".join(said[key].split()) for key in ("name", "description"))
    return Skill(
        name, description, path.parent, within,
        {SKILL: _hash_text(text), **_hash_files(path.parent)},
    )  # fmt: skip


def _read_file(path: Path, within: Path, door: str = "skill") -> str:
    """The text of a file that really is in the folder.

    Raises:
        ValueError: It is not, or is no text, or too long.
    """
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(within.resolve()):
            msg = f"{path} leads out of {within}: put the file itself there"
            raise ValueError(msg)
        if not real.is_file():
            msg = f"{path} is no file"
            raise ValueError(msg)
        if (size := real.stat().st_size) > (most := LIMITS[door].bytes):
            msg = f"{path} has {size:,} bytes, and at most {most:,} are read: shorten it"
            raise ValueError(msg)
        return real.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        msg = f"{path} is no UTF-8 text: save it as such"
        raise ValueError(msg) from error
    except (OSError, RuntimeError) as error:
        msg = f"{path} cannot be read ({error})"
        raise ValueError(msg) from error


def _find_text(path: Path, within: Path, door: str = "skill") -> str:
    """The text of a file that really is in the folder; "" where it cannot be read."""
    try:
        return _read_file(path, within, door)
    except ValueError:
        return ""


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


_MOST_FILES: Final = 500
_MOST_SHOWN: Final = 50


def _hash_files(folder: Path) -> dict[str, str]:
    """The digests of the texts in a skill's folder besides SKILL.md, by their names there."""
    found = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != SKILL)[:_MOST_FILES]
    texts = ((path, _find_text(path, folder)) for path in found)
    return {str(p.relative_to(folder)): _hash_text(text) for p, text in texts if text}
