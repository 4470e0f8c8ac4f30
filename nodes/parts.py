"""The live objects a graph's builder binds into its nodes; none of them is ever in state."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from ..calls.toolbox import Toolbox
from ..doors.locks import LockedBy
from ..doors.recorder import Recorder
from ..hooks.registry import Hooks
from ..models.choice import Models
from ..prompts.prompt import PromptManager, sections
from ..turn.scope import RunScope


@dataclass(frozen=True)
class Parts:
    """Models, tools, prompts, hooks and journal of one graph; `name` is the agent policy knows."""

    models: Models = field(default_factory=Models)
    toolbox: Toolbox = field(default_factory=Toolbox)
    prompts: PromptManager = field(default_factory=PromptManager)
    hooks: Hooks = field(default_factory=Hooks)
    journal: Recorder = field(default_factory=Recorder)
    locked_by: LockedBy | None = None
    """Gives the saver by whose rules threads are locked; None where it is the graph's own."""
    name: str = ""

    def opening(self, scope: RunScope, role: str, data: Mapping[str, object]) -> list[BaseMessage]:
        """The first two messages of a call: the role's system prompt and its data as sections."""
        context = scope.context
        system = self.prompts.get_prompt(
            role,
            system_context=context.system_context,
            business_context=context.business_context.get(role, ""),
            language=context.language or "",
        )
        return [SystemMessage(system), HumanMessage(sections(data))]
