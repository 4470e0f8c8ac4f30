"""`PromptManager`: the system prompt of each role, from its core template and business context."""

from collections.abc import Mapping
from pathlib import Path

from ..state.errors import SettingsError
from .core_templates import SLOT, core_template

NO_CONTEXT = "No business context is given; use general knowledge and the tools."


class PromptManager:
    """Holds templates and business contexts, and builds the prompt of a role from them.

    A prompt is the role's core template with its one slot `{{businessContext}}` filled once: the
    system context for all roles first, then the context of the role. Everything else in template
    and context is text; braces in it stay as they are.
    """

    def __init__(self, *, language: str = "en") -> None:
        """Start with the core templates of a language and no business context."""
        self.language = language
        self._templates: dict[str, str] = {}
        self._contexts: dict[str, str] = {}
        self._system_context = ""

    def set_system_context(self, text: str | Path) -> None:
        """Set what every role should know; a `Path` is read as a Markdown file."""
        self._system_context = _read(text)

    def set_business_context(self, role: str, text: str | Path) -> None:
        """Set what one role should know; a `Path` is read as a Markdown file."""
        self._contexts[role] = _read(text)

    def set_all_business_contexts(self, contexts: Mapping[str, str | Path] | str | Path) -> None:
        """Set the contexts of several roles, replacing all earlier ones.

        Accepts a mapping of role to text or file, or a folder with one `<role>.md` per role.
        """
        found = contexts if isinstance(contexts, Mapping) else _folder(Path(contexts))
        self._contexts = {role: _read(text) for role, text in found.items()}

    def set_core_template(self, role: str, template: str | Path) -> None:
        """Replace the core template of a role, or give a new role one.

        Raises:
            SettingsError: The template lacks the business-context slot, or has it twice.
        """
        text = _read(template)
        if text.count(SLOT) != 1:
            msg = (
                f"The core template for role {role!r} must hold the slot {SLOT} exactly once; "
                f"it holds it {text.count(SLOT)} times."
            )
            raise SettingsError(msg)
        self._templates[role] = text

    def get_prompt(
        self, role: str, *, system_context: str = "", business_context: str = "", language: str = ""
    ) -> str:
        """Build the system prompt of a role.

        Args:
            role: planner, executor, verifier, or a role with a template of its own.
            system_context: Added for this prompt only, after the one set for all roles.
            business_context: Added for this prompt only, after the one set for the role.
            language: Of the core template, where it differs from the manager's.

        Raises:
            SettingsError: No template is known for the role or language.
        """
        template = self._templates.get(role) or core_template(role, language or self.language)
        parts = [
            self._system_context, system_context, self._contexts.get(role, ""), business_context,
        ]  # fmt: skip
        context = "\n\n".join(part.strip() for part in parts if part.strip())
        before, _, after = template.partition(SLOT)
        return f"{before}{context or NO_CONTEXT}{after}".strip()


def _read(text: str | Path) -> str:
    if isinstance(text, str):
        return text
    try:
        return text.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"The prompt file {text} cannot be read ({error}); check the path."
        raise SettingsError(msg) from error


def _folder(folder: Path) -> dict[str, str | Path]:
    if not folder.is_dir():
        msg = f"{folder} is no folder; business contexts are one <role>.md per role in a folder."
        raise SettingsError(msg)
    return {path.stem: path for path in sorted(folder.glob("*.md"))}
