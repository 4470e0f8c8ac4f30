"""The core templates that ship with the package, read once at import."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Final

from ..state.errors import SettingsError
from ..state.told import FILE

SLOT: Final = "{{businessContext}}"


def _read_all() -> dict[str, dict[str, str]]:
    """Language to role to text, from the folders beside this file."""
    root = files(__package__).joinpath("core")
    return {
        folder.name: {
            entry.name.removesuffix(".md"): entry.read_text(encoding="utf-8").strip()
            for entry in folder.iterdir()
            if entry.name.endswith(".md") and entry.name != FILE
        }
        for folder in root.iterdir()
        if folder.is_dir() and not folder.name.startswith("_")
    }


# At import: a file read inside a node would block the event loop.
_TEMPLATES: Final = _read_all()


def core_templates(language: str) -> Mapping[str, str]:
    """Role to core template in a language; none where the language is not there."""
    return _TEMPLATES.get(language, {})


def core_template(role: str, language: str = "en") -> str:
    """The core template of a role.

    Raises:
        SettingsError: There are no templates in this language, or none for this role.
    """
    if language not in _TEMPLATES:
        msg = f"There are no prompts in language {language!r}; there are {sorted(_TEMPLATES)}."
        raise SettingsError(msg)
    if role not in _TEMPLATES[language]:
        msg = (
            f"There is no core template for role {role!r}; give one with "
            f"set_core_template({role!r}, …) or use one of {sorted(_TEMPLATES[language])}."
        )
        raise SettingsError(msg)
    return _TEMPLATES[language][role]
