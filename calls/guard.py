"""A policy's tables at the gate: who the customer is, the facts read anew, and the row that holds.

A call is judged when it is planned, so that the customer or a human can be asked, and again when it
runs. Who was verified, and that a turn has made its change, is kept with the thread's grants.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ..policy.facts import Fact, Known, Unread, same
from ..policy.rules import Governed, Ruling
from ..policy.table import PolicyTable
from ..state.questions import By
from ..text.canonical import hash_of
from ..text.told import say
from ..tools.catalog import CatalogTool
from ..turn.scope import RunScope
from .call_records import Call, PendingCall, changed
from .policy import NOT_INTERACTIVE
from .results import ToolResult, parsed
from .sending import run_once, send
from .toolbox import Toolbox

if TYPE_CHECKING:
    from .wrapper import PassScope, Then

VERIFIED: Final = "verified"
CHANGED: Final = "changed"
"""Keys of what is kept with the thread: who was verified (None: nobody), and in which turn a change
was begun. What such a row has no `tool` for allows no call."""

_DEADLINE: Final = 30.0
"""Seconds a fact may take."""


def agreement(call: Mapping[str, Any], by: By) -> dict[str, str]:
    """What a call carries as `agreed`, once somebody has agreed to exactly its arguments."""
    return {"by": by, "digest": hash_of([call["name"], call["server"], call["args"]])}


def agreed_by(call: PendingCall) -> By | None:
    """Who has agreed to the call as it is; who has answered a question is whom it was put to."""
    if call["action"] == "ask":
        return call.get("answered_by", "customer")
    given = call.get("agreed")
    if given is None or given != agreement(call, "operator") | {"by": given["by"]}:
        return None
    return "operator" if given["by"] == "operator" else "customer"


@dataclass(frozen=True)
class Guard:
    """A policy's tables on the calls of one run."""

    table: PolicyTable
    scope: RunScope
    toolbox: Toolbox

    def governs(self, tool: CatalogTool) -> Governed | None:
        """What the tables say of a tool, if they name it."""
        return None if tool.own else self.table.governs(tool.original, tool.server)

    async def planned(
        self, calls: Sequence[PendingCall], tools: Sequence[CatalogTool | None]
    ) -> list[PendingCall]:
        """The calls of a message with the ruling on each change; one change a turn."""
        ruled: list[PendingCall] = []
        begun = await self._change_of_the_turn()
        for call, tool in zip(calls, tools, strict=True):
            if tool is not None and self.table.verifies(tool.original, tool.server):
                ruled.append(self._with(call, Ruling("allowed")))
                continue
            governed = self.governs(tool) if tool else None
            judged = call["action"] in ("allow", "ask") and not call.get("known")
            if tool is None or governed is None or governed.reads or not judged:
                ruled.append(call)
                continue
            ruling = await self._ruling(governed, call, call["args"])
            if ruling.verdict == "asks":
                call = changed(call, answered_by="operator")
            if call.get("doubt"):  # that is the question already
                ruled.append(call)
                continue
            if governed.counts and ruling.verdict != "forbidden":
                if begun not in ("", call.get("intent")):
                    ruling = Ruling("forbidden", "", say("policy_one_change"))
                begun = begun or call["intent"]
            ruled.append(self._with(call, ruling))
        return ruled

    def _with(self, call: PendingCall, ruling: Ruling) -> PendingCall:
        """A call and what is to happen to it by its ruling."""
        told = {
            "verdict": ruling.verdict, "row": ruling.row, "words": ruling.words,
            "consent": ruling.consent,
        }  # fmt: skip
        call = changed(call, ruling=told)
        if ruling.verdict == "forbidden":
            return changed(call, action="deny", reason=ruling.words)
        asks = ruling.consent or ruling.verdict == "asks"
        if not asks:
            return call
        if not (self.scope.can_ask and self.scope.context.interactive):
            return changed(call, action="deny", reason=NOT_INTERACTIVE)
        name = "policy_consent" if ruling.consent else "policy_wants_human"
        return changed(call, action="ask", reason=say(name, words=ruling.words))

    async def refuses(
        self, call: PendingCall, tool: CatalogTool, args: Mapping[str, Any]
    ) -> str:  # fmt: skip
        """Why a call that is about to run may not, by the facts as they are now; "" if it may."""
        if await self._tried_too_often(tool):
            return say("policy_tries", tool=tool.name)
        governed = self.governs(tool)
        if governed is None:
            return ""
        ruling = await self._ruling(governed, call, args)
        if ruling.verdict == "forbidden":
            return ruling.words
        by = agreed_by(changed(call, args=dict(args)))
        if ruling.verdict == "asks" and by != "operator":
            return say("policy_wants_human", words=ruling.words)
        if ruling.consent and by is None:
            return say("policy_no_consent")
        return (
            ""
            if not governed.counts or await self._begin_change(call)
            else say("policy_one_change")
        )

    async def heard(self, call: PendingCall, tool: CatalogTool, result: ToolResult) -> None:
        """Note who is verified, if that is the tool that verifies: its newest answer counts."""
        identity = self.table.identity
        if identity is None or not await self._is_named(identity.tool, tool):
            return
        data = _data(result)
        who = _at(data, identity.customer)
        verified = not result.is_error and _at(data, identity.confirmed) is True and same(who, who)
        row = {VERIFIED: who if verified else None, "by": call.get("intent") or uuid.uuid4().hex}
        await self.scope.journal.grant(self.scope.journaled, row)

    async def _ruling(
        self, governed: Governed, call: PendingCall, args: Mapping[str, Any]
    ) -> Ruling:
        known = Known(call=args, customer=await self._customer())
        if (forbidden := self.table.may_begin(governed, known)) is not None:
            return forbidden
        for name in governed.facts:
            fact = await self._fact(self.table.facts[name], known, call)
            known = replace(known, facts={**known.facts, name: fact})
        return self.table.rule(governed, known, datetime.now(UTC))

    async def _fact(
        self, fact: Fact, known: Known, call: PendingCall
    ) -> Mapping[str, Any] | Unread:
        """A fact as its tool tells it now."""
        asked = fact.question(known)
        if isinstance(asked, Unread):
            return asked
        catalog = await self.toolbox.catalog(self.scope.user)
        tool = _named(fact.tool, [*catalog.tools.values()])
        if tool is None:
            return Unread("policy_no_tool", {"tool": fact.tool})
        about = changed(call, id=f"{call['id']}.{fact.name}", name=tool.name, server=tool.server)
        read = replace(Call.of(about, self.scope.emit, tool), args=asked, key=uuid.uuid4().hex)
        work = send(self.scope, self.toolbox, read, asks=False)
        deadline = min(tool.timeout or self.scope.context.tool_deadline, _DEADLINE)
        made = await run_once(tool, work, deadline)
        if made.result.is_error or made.reason:
            return Unread("policy_tool_failed", {"tool": tool.name})
        return fact.answer(asked, _data(made.result))

    async def _rows(self) -> list[dict[str, Any]]:
        return await self.scope.journal.grants(self.scope.journaled)

    async def _customer(self) -> Any:
        verified = [row[VERIFIED] for row in await self._rows() if VERIFIED in row]
        return verified[-1] if verified else None

    async def _tried_too_often(self, tool: CatalogTool) -> bool:
        identity = self.table.identity
        if identity is None or not self.table.verifies(tool.original, tool.server):
            return False
        failed = [row for row in await self._rows() if row.get(VERIFIED, "") is None]
        return len(failed) >= identity.tries

    async def _is_named(self, name: str, tool: CatalogTool) -> bool:
        """Whether the name means this tool, and no other could be meant."""
        found = _named(name, [*(await self.toolbox.catalog(self.scope.user)).tools.values()])
        return found is not None and (found.original, found.server) == (tool.original, tool.server)

    async def _change_of_the_turn(self) -> str:
        """The call by which the turn began to change something; "" where none did."""
        rows = [row for row in await self._rows() if row.get(CHANGED) == self.scope.turn]
        return str(rows[0]["by"]) if rows else ""

    async def _begin_change(self, call: PendingCall) -> bool:
        """Have the turn's one change be this call; False where another one is."""
        name = call.get("intent") or call["id"]
        if self.toolbox.change_of(self.scope.journaled, self.scope.turn, name) != name:
            return False
        if (begun := await self._change_of_the_turn()) == "":
            row = {CHANGED: self.scope.turn, "by": name}
            await self.scope.journal.grant(self.scope.journaled, row)
        return begun in ("", name)


async def guard_by_tables(work: "PassScope", call: Call, then: "Then") -> None:
    """Make a call, unless the policy's tables refuse it by the facts as they are now."""
    if await allowed_by_tables(work, call):
        await then(call)


async def allowed_by_tables(work: "PassScope", call: Call) -> bool:
    """Whether a call may run; one that may not is answered, or in doubt after a crash."""
    guard, tool = work.gate.guard, call.known_tool
    why = await guard.refuses(call.pending, tool, call.args) if guard and not tool.own else ""
    if not why:
        return True
    if tool.read_only or not await work.book.answer_barred(call, why):
        call.deny(why)
    return False


async def note_verification(work: "PassScope", call: Call, then: "Then") -> None:
    """Make a call and note who the customer is, if it says so; what a hook withholds does not."""
    await then(call)
    if work.gate.guard and call.returned is not None:
        heard = call.outcome if call.outcome.is_error else call.returned
        await work.gate.guard.heard(call.pending, call.known_tool, heard)


def _named(name: str, tools: Sequence[CatalogTool]) -> CatalogTool | None:
    """The one tool of a name, as its server calls it or with `server/` before it."""
    found = [t for t in tools if name in (t.original, f"{t.server}/{t.original}")]
    return found[0] if len(found) == 1 else None


def _data(result: ToolResult) -> Any:
    """What a result says to programs; many servers spell it as text."""
    if result.data is None:
        return parsed(result.text)
    return parsed(result.data) if isinstance(result.data, str) else result.data


def _at(data: object, path: str) -> Any:
    for part in path.split("."):
        data = data.get(part) if isinstance(data, Mapping) else None
    return data
