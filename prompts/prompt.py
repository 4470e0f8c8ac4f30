"""`PromptManager`: the system prompt of each role, from its core template and business context.

All else in a prompt is data in tagged sections that can be read back: `<name>` … `</name>` on
lines of their own. Braces in data stay braces, and no tag in data can begin or end a section.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partialmethod
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

from ..state.errors import SettingsError
from ..state.limits import read_file
from ..state.roles import ROLES, find_template
from ..text.canonical import cut_middle, estimate_tokens, find_cap
from ..text.sentences import (
    ENGLISH,
    FILE,
    FILES,
    PEOPLE,
    SENTENCES,
    learn_language,
    match_language,
    read_sentences,
    say,
    slots_in,
)
from .tags import NAMES, escape_tags, escape_tags_in_json, unescape_tags

SLOT: Final = "{{businessContext}}"
_SLOTS: Final = re.compile(r"\{\{(businessContext|resourceId|taskId|tools)\}\}")


def _read_templates(folder: Traversable | Path) -> dict[str, str]:
    return {
        entry.name.removesuffix(".md"): entry.read_text(encoding="utf-8").strip()
        for entry in folder.iterdir()
        if entry.name.endswith(".md") and entry.name not in FILES
    }


# Read at import: a file read inside a node would block the event loop.
CORE_TEMPLATES: Final = {
    folder.name: templates
    for folder in files(__package__).joinpath("core").iterdir()
    if folder.is_dir() and (templates := _read_templates(folder))
}
"""Language to role to the core template. A language may leave roles out: English has them all."""
_SHOWN: Final = 40
_SHIPPED: Final = frozenset(CORE_TEMPLATES)


class PromptManager:
    """Builds the prompt of a role from its core template and business contexts.

    The template's slots are filled once. `{{businessContext}}` gets the system context, then the
    context of the role. The phases of the ReAct loop also have `{{resourceId}}` and `{{taskId}}`;
    they share one template, and so one prompt with the contexts of all of them, unless one is
    given its own template, in which a thought lists the `{{tools}}`.
    """

    def __init__(self, *, language: str | Path = ENGLISH) -> None:
        """Start with the core templates of a language and no business context.

        A `Path` is a folder of your own with the language's name; settings may name it from then
        on, too.

        Raises:
            SettingsError: The language is not known, or the folder holds none.
        """
        given = read_language(language) if isinstance(language, Path) else language
        self.language = resolve_language(given)
        self._templates: dict[str, str] = {}
        self._contexts: dict[str, str] = {}
        self._system_context = ""

    def set_system_context(self, text: str | Path) -> None:
        """Set what every role should know; a `Path` is read as a Markdown file."""
        self._system_context = _read_text(text)

    def set_business_context(self, role: str, text: str | Path) -> None:
        """Set what one role should know; a `Path` is read as a Markdown file."""
        self._contexts[role] = _read_text(text)

    def set_all_business_contexts(self, contexts: Mapping[str, str | Path] | str | Path) -> None:
        """Set the contexts of several roles, replacing all earlier ones.

        Accepts a mapping of role to text or file, or a folder with one `<role>.md` per role.
        """
        if not isinstance(contexts, Mapping):
            if not (folder := Path(contexts)).is_dir():
                msg = f"{folder} is no folder: business contexts are one <role>.md a role in one."
                raise SettingsError(msg)
            contexts = {path.stem: path for path in sorted(folder.glob("*.md"))}
        self._contexts = {role: _read_text(text) for role, text in contexts.items()}

    def set_core_template(self, role: str, template: str | Path) -> None:
        """Replace the core template of a role, or give a new role one.

        Raises:
            SettingsError: The template lacks a slot that the one shipped for the role has (a new
                role needs the one for the business context), or has it twice.
        """
        text = _read_text(template)
        _check_slots(f"The core template for role {role!r}", role, text)
        self._templates[role] = text

    def get_prompt(
        self,
        role: str,
        *,
        system_context: str = "",
        business_context: str | Mapping[str, str] = "",
        language: str = "",
        slots: Mapping[str, str] | None = None,
    ) -> str:
        """Build the system prompt of a role.

        Args:
            role: A role of the package, or one with a template of its own.
            system_context: Added for this prompt only, after the one set for all roles.
            business_context: The same for this role; or such texts by role.
            language: Of the core template, if it differs from the manager's.
            slots: Texts for the template's other slots by name; missing ones are empty.

        Raises:
            SettingsError: No template is known for the role or language.
        """
        known = self._get_templates(language)
        given = {role: business_context} if isinstance(business_context, str) else business_context
        own = self._list_contexts(role, known, given)
        context = _join_parts([self._system_context, system_context, *own])
        texts = dict.fromkeys(list_slots(role), "")
        texts |= {**(slots or {}), "businessContext": context or say("no_business_context")}
        template = known[_find_template(role, known)]
        return _SLOTS.sub(lambda slot: texts.get(slot[1], slot[0]), template).strip()

    def is_shared(self, role: str, language: str = "") -> bool:
        """Whether the role has one prompt with others, and so one list of tools."""
        return _find_template(role, self._get_templates(language)) != role

    def _get_templates(self, language: str) -> Mapping[str, str]:
        spoken = CORE_TEMPLATES[resolve_language(language or self.language)]
        return {**CORE_TEMPLATES[ENGLISH], **spoken, **self._templates}

    def _list_contexts(
        self, role: str, known: Mapping[str, str], given: Mapping[str, str]
    ) -> list[str]:
        """The context of a role; if it has one prompt with others, of each of them by name."""
        name = _find_template(role, known)
        sharing = [peer for peer in ROLES if peer not in known and find_template(peer) == name]
        texts = {
            peer: _join_parts([self._contexts.get(peer, ""), given.get(peer, "")])
            for peer in sharing or [role]
        }
        if name == role:
            return [*texts.values()]
        return [say("for_the_phase", phase=peer, text=text) for peer, text in texts.items() if text]

    def get_phase_prompt(
        self,
        phase: str,
        resource_id: str = "",
        task_id: str = "",
        tool_info: Sequence[Mapping[str, Any]] = (),
        **contexts: str,
    ) -> str:
        """Build the system prompt of a phase of the ReAct loop: thought, action or observation.

        Args:
            phase: Which one.
            resource_id: What the user has open.
            task_id: The user's task in the application.
            tool_info: Name and description of each tool, for a thought with its own template.
            contexts: `system_context`, `business_context` and `language` as for `get_prompt`.
        """
        tools = (
            render_section("tools", [dict(t) for t in tool_info]) if tool_info else say("no_tools")
        )
        place = {"resourceId": resource_id, "taskId": task_id}
        slots = {name: escape_tags(" ".join(text.splitlines())) for name, text in place.items()}
        slots["tools"] = tools
        return self.get_prompt(phase, slots=slots, **contexts)

    get_thought_prompt = partialmethod(get_phase_prompt, "thought")
    get_action_prompt = partialmethod(get_phase_prompt, "action")
    get_observation_prompt = partialmethod(get_phase_prompt, "observation")


def read_language(folder: Path) -> str:
    """Learn a language from a folder like `prompts/core/en`, and return its name.

    English is used for what the folder leaves out.

    Raises:
        SettingsError: It is no such folder, or what it holds does not fit what is filled in.
    """
    name = folder.resolve().name
    if name in _SHIPPED:
        msg = (
            f"The language {name!r} ships with the package: give the folder {folder} another name."
        )
        raise SettingsError(msg)
    templates = {
        path.stem: _read_text(path) for path in _list_files(folder) if path.name not in FILES
    }
    for role, text in templates.items():
        _check_slots(str(folder / f"{role}.md"), role, text)
    for sentences in (folder / FILE, folder / PEOPLE):
        if sentences.is_file():
            _check_sentences(sentences)
    learn_language(name, folder)
    CORE_TEMPLATES[name] = {role: text.strip() for role, text in templates.items()}
    return name


def _list_files(folder: Path) -> list[Path]:
    found = sorted(folder.glob("*.md"))
    if not found:
        msg = (
            f"{folder} holds no language: it must be a folder with one <role>.md a role, or "
            f"{FILE}, as prompts/core/{ENGLISH} of the package has them."
        )
        raise SettingsError(msg)
    return found


def _check_sentences(file: Path) -> None:
    english = SENTENCES[ENGLISH]
    for name, text in read_sentences(_read_text(file)).items():
        unknown = {*slots_in(text)} - {*slots_in(english.get(name, ""))}
        if name not in english or unknown:
            what = f"the slots {sorted(unknown)}" if name in english else "no meaning"
            msg = f"{file}: the sentence {name!r} has {what}, which is not so in English."
            raise SettingsError(msg)


def resolve_language(language: str) -> str:
    """The language of this name, or of one that means it, such as `zh-CN`.

    Raises:
        SettingsError: There is none.
    """
    known = match_language(language, CORE_TEMPLATES)
    if known not in CORE_TEMPLATES:
        named = repr(language[:_SHOWN])
        msg = f"There are no prompts in language {named}; there are {sorted(CORE_TEMPLATES)}."
        raise SettingsError(msg)
    return known


def _find_template(role: str, known: Mapping[str, str]) -> str:
    """The name of a role's template: its own if there is one, else the one it shares."""
    name = role if role in known else find_template(role)
    if name not in known:
        msg = (
            f"There is no core template for role {role!r}; give one with "
            f"set_core_template({role!r}, …) or use one of {sorted(known)}."
        )
        raise SettingsError(msg)
    return name


def list_slots(role: str) -> list[str]:
    """The slots of the template shipped for a role; a role of one's own has only the first."""
    shipped = _SLOTS.findall(CORE_TEMPLATES[ENGLISH].get(find_template(role), SLOT))
    return list(dict.fromkeys([*shipped, *(["tools"] if role == "thought" else [])]))


def _join_parts(parts: Iterable[str]) -> str:
    return "\n\n".join(part.strip() for part in parts if part.strip())


def _check_slots(what: str, role: str, text: str) -> None:
    for name in list_slots(role):
        slot = f"{{{{{name}}}}}"
        if text.count(slot) != 1:
            msg = (
                f"{what} must hold the slot {slot} exactly once; "
                f"it holds it {text.count(slot)} times."
            )
            raise SettingsError(msg)


def _read_text(text: str | Path) -> str:
    if isinstance(text, str):
        return text
    try:
        return read_file(text, "settings")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"The prompt file {text} cannot be read ({error}); check the path."
        raise SettingsError(msg) from error


# The sections of the data.


def render_section(name: str, value: object) -> str:
    """Write one section: a text as it is, anything else as JSON, a line per list item."""
    if name not in NAMES:
        msg = f"There is no section {name!r}; the sections are {list(NAMES)}."
        raise ValueError(msg)
    if isinstance(value, str):
        return f"<{name}>\n{escape_tags(value)}\n</{name}>"
    if isinstance(value, list) and value:
        items = ",\n".join(json.dumps(item, ensure_ascii=False) for item in value)
        text = f"[\n{items}\n]"
    else:
        text = json.dumps(value, ensure_ascii=False)
    return f"<{name}>\n{escape_tags_in_json(text)}\n</{name}>"


def render_sections(values: Mapping[str, object]) -> str:
    """Write several sections, leaving out the empty ones (None, '', [], {})."""
    kept = ((name, value) for name, value in values.items() if value not in (None, "", [], {}))
    return "\n\n".join(render_section(name, value) for name, value in kept)


def shorten_sections(text: str, most: int) -> str:
    """The text in about `most` tokens: the longest sections are shown without their middle."""
    bodies = [*_SECTIONS.finditer(text)]
    if not bodies:
        return cut_middle(text, int(len(text) * most / max(estimate_tokens(text), 1)))
    sizes = [estimate_tokens(body["body"]) for body in bodies]
    cap, done, parts = find_cap(sizes, most - estimate_tokens(text) + sum(sizes)), 0, list[str]()
    for body, size in zip(bodies, sizes, strict=True):
        short = cut_middle(body["body"], int(len(body["body"]) * cap / max(size, 1)))
        parts += [text[done : body.start("body")], short if size > cap else body["body"]]
        done = body.end("body")
    return "".join([*parts, text[done:]])


_SECTIONS: Final = re.compile(
    r"^<(?P<name>[a-z_]+)>\n(?P<body>.*?)\n</(?P=name)>$", re.DOTALL | re.M
)


def read_section(text: str, name: str) -> str | None:
    """Read the last section of this name back as text; None if there is none."""
    body = _find_body(text, name)
    return None if body is None else unescape_tags(body)


def read_json(text: str, name: str) -> Any:
    """Read a section written from JSON data back; None if it is missing or no JSON."""
    body = _find_body(text, name)
    try:
        return None if body is None else json.loads(body)
    except json.JSONDecodeError:
        return None


def _find_body(text: str, name: str) -> str | None:
    bodies = re.findall(rf"^<{name}>\n(.*?)\n</{name}>$", text, re.DOTALL | re.MULTILINE)
    return str(bodies[-1]) if bodies else None
