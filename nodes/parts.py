"""The live objects a graph's builder binds into its nodes; none of them is ever in state."""

from dataclasses import dataclass, field

from ..calls.toolbox import Toolbox
from ..doors.locks import LockedBy
from ..models.choice import Models
from ..turn.scope import GraphParts


@dataclass(frozen=True, kw_only=True)
class Parts(GraphParts):
    """Models, tools, prompts, hooks and journal of one graph; `name` is the agent policy knows."""

    models: Models = field(default_factory=Models)
    toolbox: Toolbox = field(default_factory=Toolbox)
    locked_by: LockedBy | None = None
    """Gives the saver by whose rules threads are locked; None where it is the graph's own."""
