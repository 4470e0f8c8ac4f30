"""`PromptManager`: the system prompt of each role, from its core template and business context."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..state.errors import SettingsError
from ..state.told import say
from .core_templates import SLOT, core_template, core_templates
from .sections import section

_SLOTS: Final = re.compile(r"\{\{(businessContext|resourceId|taskId|tools)\}\}")


class PromptManager:
    """Holds templates and business contexts, and builds the prompt of a role from them.

    A prompt is the role's core template with its slots filled once. `{{businessContext}}` gets the
    system context for all roles first, then the context of the role; the phases of the ReAct loop
    also have `{{resourceId}}`, `{{taskId}}` and, for the thought, `{{tools}}`. Everything else in
    template and context is text; braces in it stay as they are.
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
            SettingsError: The template lacks a slot that the one shipped for the role has (a new
                role needs the one for the business context), or has it twice.
        """
        text = _read(template)
        for name in self._slots_of(role):
            slot = f"{{{{{name}}}}}"
            if text.count(slot) != 1:
                msg = (
                    f"The core template for role {role!r} must hold the slot {slot} exactly once; "
                    f"it holds it {text.count(slot)} times."
                )
                raise SettingsError(msg)
        self._templates[role] = text

    def get_prompt(
        self,
        role: str,
        *,
        system_context: str = "",
        business_context: str = "",
        language: str = "",
        slots: Mapping[str, str] | None = None,
    ) -> str:
        """Build the system prompt of a role.

        Args:
            role: planner, executor, verifier, thought, action, observation, or a role with a
                template of its own.
            system_context: Added for this prompt only, after the one set for all roles.
            business_context: Added for this prompt only, after the one set for the role.
            language: Of the core template, where it differs from the manager's.
            slots: Texts for the template's other slots by name; one that is left out is empty.

        Raises:
            SettingsError: No template is known for the role or language.
        """
        template = self._templates.get(role) or core_template(role, language or self.language)
        parts = [
            self._system_context, system_context, self._contexts.get(role, ""), business_context,
        ]  # fmt: skip
        context = "\n\n".join(part.strip() for part in parts if part.strip())
        texts = dict.fromkeys(self._slots_of(role), "")
        texts |= {**(slots or {}), "businessContext": context or say("no_business_context")}
        return _SLOTS.sub(lambda slot: texts.get(slot[1], slot[0]), template).strip()

    def _slots_of(self, role: str) -> list[str]:
        """The slots of the template shipped for a role; a role of one's own has only the first."""
        shipped = core_templates(self.language).get(role, SLOT)
        return list(dict.fromkeys(_SLOTS.findall(shipped)))

    def get_thought_prompt(
        self,
        resource_id: str = "",
        task_id: str = "",
        tool_info: Sequence[Mapping[str, Any]] = (),
        **contexts: str,
    ) -> str:
        """Build the system prompt of the ReAct loop's thought phase.

        Args:
            resource_id: What the user has open; '' where there is nothing.
            task_id: The user's task in the application; '' where there is none.
            tool_info: The tools, each with `name` and `description`.
            contexts: `system_context`, `business_context` and `language` as for `get_prompt`.
        """
        return self._phase("thought", resource_id, task_id, tool_info, contexts)

    def get_action_prompt(
        self,
        resource_id: str = "",
        task_id: str = "",
        tool_info: Sequence[Mapping[str, Any]] = (),
        **contexts: str,
    ) -> str:
        """Build the prompt of the action phase, as `get_thought_prompt` does for the thought.

        The shipped template leaves `tool_info` out: the call itself binds the full definitions.
        """
        return self._phase("action", resource_id, task_id, tool_info, contexts)

    def get_observation_prompt(
        self,
        resource_id: str = "",
        task_id: str = "",
        tool_info: Sequence[Mapping[str, Any]] = (),
        **contexts: str,
    ) -> str:
        """Build the prompt of the observation phase, which has no tools and no list of them."""
        return self._phase("observation", resource_id, task_id, tool_info, contexts)

    def _phase(
        self,
        role: str,
        resource_id: str,
        task_id: str,
        tool_info: Sequence[Mapping[str, Any]],
        contexts: Mapping[str, str],
    ) -> str:
        tools = (
            section("tools", [dict(tool) for tool in tool_info]) if tool_info else say("no_tools")
        )
        slots = {"resourceId": resource_id, "taskId": task_id, "tools": tools}
        return self.get_prompt(role, slots=slots, **contexts)


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
