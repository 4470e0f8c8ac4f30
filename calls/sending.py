"""How a call reaches its tool: a server's or the program's, with what it may know of the run."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..tools.catalog import Catalog, CatalogTool
from ..turn import spans
from ..turn.scope import RunScope
from .call_records import PendingCall
from .one_call import call_python
from .toolbox import Toolbox, of_the_application


@dataclass(frozen=True)
class Sending:
    """What the calls of a pass are sent with."""

    scope: RunScope
    toolbox: Toolbox
    catalog: Catalog

    async def send(
        self, call: PendingCall, tool: CatalogTool, args: Mapping[str, Any], key: str,
        *, reply: Mapping[str, Any] | None = None, asks: bool = True,
    ) -> Any:  # fmt: skip
        """Make the call; whatever its tool does comes back or is raised.

        Args:
            call: On whose behalf.
            tool: What is called.
            args: Its final arguments.
            key: Its idempotency key.
            reply: For a server that asked in it.
            asks: Its server may ask the human something in it.
        """
        scope, emit, secrets = self.scope, self.scope.emit, self.toolbox.secrets
        about = {
            "loopwright/thread": scope.thread,
            "loopwright/task": call["task"],
            "loopwright/call": call["id"],
            "loopwright/idempotency_key": key,
        }
        traced = spans.about(scope, scope.role, call) | about
        if tool.tool is None:
            return await self.toolbox.call_server(
                tool, args, user_id=scope.user, meta=about | of_the_application(scope),
                traced=traced, emit=emit, turn=scope.turn, can_ask=scope.can_ask and asks,
                reply=reply,
            )  # fmt: skip
        tools = [known.tool for known in self.catalog.tools.values() if known.tool]
        scope = replace(scope, emit=lambda event: emit(secrets.in_json(event)))
        return await call_python(scope, tool, args, call, traced, tools)
