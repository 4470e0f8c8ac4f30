"""A policy's tables at the gate: who the customer is, the facts as they are now, and the row.

A call is judged when it is planned, so that the customer or a human can be asked, and again when it
runs. Who was verified is kept with the thread's grants.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ..policy.facts import Fact
from ..policy.paths import Answer, KnownFacts, UnreadFact, is_same_id
from ..policy.rules import GovernedTool, Ruling
from ..policy.table import PolicyTable
from ..state.questions import By
from ..store.journal.port import Verdict
from ..text.canonical import hash_of
from ..text.sentences import say
from ..tools.catalog import CatalogTool
from ..turn.scope import RunScope
from .call_records import Call, PendingCall, update_call
from .foreign import follow_edit
from .identity import (
    VERIFIED,
    build_verification,
    count_try,
    find_customer,
    find_verification,
    give_back_try,
    list_counters,
)
from .journal import find_doubt
from .policy import NOT_INTERACTIVE
from .results import ToolResult, parse_json
from .sending import make_call
from .subjects import hold_subject
from .toolbox import Toolbox

if TYPE_CHECKING:
    from .path import PassScope, Then

_DEADLINE: Final = 30.0
"""Seconds a fact may take."""


def build_agreement(call: Mapping[str, Any], by: By) -> dict[str, str]:
    """What a call carries as `agreed`, once somebody has agreed to exactly its arguments."""
    return {"by": by, "digest": hash_of([call["name"], call["server"], call["args"]])}


def find_approver(call: PendingCall) -> By | None:
    """Who has agreed to the call as it is; who has answered a question is whom it was put to."""
    if call["action"] == "ask":
        return call.get("answered_by", "customer")
    agreed = call.get("agreed")
    if agreed is None or agreed != build_agreement(call, "operator") | {"by": agreed["by"]}:
        return None
    return "operator" if agreed["by"] == "operator" else "customer"


@dataclass(frozen=True)
class Guard:
    """A policy's tables on the calls of one run."""

    table: PolicyTable
    scope: RunScope
    toolbox: Toolbox

    def find_governed(self, tool: CatalogTool) -> GovernedTool | None:
        """What the tables say of a tool, if they name it."""
        return None if tool.own else self.table.find_governed(tool.original, tool.server)

    async def judge_planned(
        self, calls: Sequence[PendingCall], tools: Sequence[CatalogTool | None]
    ) -> list[PendingCall]:
        """The calls of a message with the ruling on each change."""
        ruled: list[PendingCall] = []
        for call, tool in zip(calls, tools, strict=True):
            if tool is not None and self.table.is_verifier(tool.original, tool.server):
                ruled.append(self._apply_ruling(call, Ruling("allowed")))
                continue
            governed = self.find_governed(tool) if tool else None
            judged = call["action"] in ("allow", "ask") and not call.get("known")
            if tool is None or governed is None or governed.reads or not judged:
                ruled.append(call)
                continue
            ruling = await self._judge_call(governed, call, call["args"])
            if ruling.verdict == "asks":
                call = update_call(call, answered_by="operator")
            if call.get("doubt"):  # that is the question already
                ruled.append(call)
                continue
            ruled.append(self._apply_ruling(call, ruling))
        return ruled

    def _apply_ruling(self, call: PendingCall, ruling: Ruling) -> PendingCall:
        """A call and what is to happen to it by its ruling."""
        call = update_call(call, ruling=asdict(ruling))
        if ruling.verdict == "forbidden":
            return update_call(call, action="deny", reason=ruling.words)
        if not (ruling.consent or ruling.verdict == "asks"):
            return call
        if not (self.scope.can_ask and self.scope.context.interactive):
            return update_call(call, action="deny", reason=NOT_INTERACTIVE)
        name = "policy_consent" if ruling.consent else "policy_wants_human"
        return update_call(call, action="ask", reason=say(name, words=ruling.words))

    async def find_refusal(
        self, call: PendingCall, tool: CatalogTool, args: Mapping[str, Any]
    ) -> str:
        """Why a call that is about to run may not, by the facts as they are now; "" if it may."""
        governed = self.find_governed(tool)
        if governed is None:
            return ""
        ruling = await self._judge_call(governed, call, args)
        if ruling.verdict == "forbidden":
            return ruling.words
        by = find_approver(update_call(call, args=dict(args)))
        if ruling.verdict == "asks" and by != "operator":
            return say("policy_wants_human", words=ruling.words)
        if ruling.consent and by is None:
            return say("policy_no_consent")
        return ""

    async def find_subject(self, call: Call) -> list[Any] | None:
        """What a change is about; None where nothing else has to wait for it."""
        governed = self.find_governed(call.known_tool)
        if governed is None or governed.reads:
            return None
        customer = await self._find_customer(call.pending, call.args)
        known = KnownFacts(call=call.args, customer=customer)
        about = self.table.find_subject(governed, known)
        return None if about is None else [self.table.name, about]

    async def record_identity(self, call: Call, result: ToolResult) -> None:
        """Save who is verified, if this tool verifies customers: the newest answer counts."""
        tool, identity = call.known_tool, self.table.identity
        if identity is None or not self.table.is_verifier(tool.original, tool.server):
            return
        catalog = await self.toolbox.catalog(self.scope.user)
        named = [_find_by_name(name, [*catalog.tools.values()]) for name in identity.tools]
        if (tool.original, tool.server) not in [(t.original, t.server) for t in named if t]:
            return
        data = _extract_data(result)
        who = _get_path(data, identity.customer)
        verified = (
            not result.is_error
            and _get_path(data, identity.confirmed) is True
            and is_same_id(who, who)
        )
        if verified:
            counters = list_counters(self.scope, identity, call)
            await give_back_try(self.scope, counters, self._name_try(call))
        row = build_verification(self.scope, who if verified else None, self.table.tell_time())
        await self.scope.journal.grant(self.scope.journal_thread, row)

    async def _judge_call(
        self, governed: GovernedTool, call: PendingCall, args: Mapping[str, Any]
    ) -> Ruling:
        known = KnownFacts(
            call=args,
            customer=await self._find_customer(call, args),
            origins=follow_edit(call, args) or {},
        )
        if (forbidden := self.table.find_early_ban(governed, known)) is not None:
            return forbidden
        for name in governed.facts:
            fact = await self._fetch_fact(self.table.facts[name], known, call)
            known = replace(known, facts={**known.facts, name: fact})
        return self.table.rule(governed, known, self.table.tell_time())

    async def _fetch_fact(
        self, fact: Fact, known: KnownFacts, call: PendingCall
    ) -> Answer | UnreadFact:
        """A fact as its tool tells it now."""
        asked = fact.build_question(known)
        if isinstance(asked, UnreadFact):
            return asked
        catalog = await self.toolbox.catalog(self.scope.user)
        tool = _find_by_name(fact.tool, [*catalog.tools.values()])
        if tool is None:
            return UnreadFact("policy_no_tool", {"tool": fact.tool})
        about = update_call(
            call, id=f"{call['id']}.{fact.name}", name=tool.name, server=tool.server
        )
        read = replace(
            Call.from_pending(about, self.scope.emit, tool), args=asked, key=uuid.uuid4().hex
        )
        deadline = min(tool.timeout or self.scope.context.tool_deadline, _DEADLINE)
        made = await make_call(self.scope, self.toolbox, read, deadline, asks=False)
        if made.result.is_error or made.reason:
            return UnreadFact("policy_tool_failed", {"tool": tool.name})
        return fact.check_answer(asked, _extract_data(made.result))

    async def _find_customer(self, call: PendingCall, args: Mapping[str, Any]) -> str | int | None:
        """The verified customer; None if nobody is verified for the user now.

        A colleague may approve later: what counts is who was verified when the call was requested.
        """
        rows, identity = await self._load_rows(), self.table.identity
        if find_approver(update_call(call, args=dict(args))) == "operator":
            return (find_verification(rows) or {}).get(VERIFIED)
        if identity is None:
            return None
        return find_customer(rows, self.scope, identity, self.table.tell_time())

    async def _load_rows(self) -> list[dict[str, Any]]:
        return await self.scope.journal.grants(self.scope.journal_thread)

    async def count_try(self, call: Call) -> bool:
        """Count a call that may verify somebody, before it is made; False where it may not be."""
        tool, identity = call.known_tool, self.table.identity
        if identity is None or not self.table.is_verifier(tool.original, tool.server):
            return True
        counters, moment = list_counters(self.scope, identity, call), self.table.tell_time()
        return await count_try(self.scope, counters, self._name_try(call), identity.tries, moment)

    def _name_try(self, call: Call) -> str:
        """The name of a try: of the same call again after a crash it is the same."""
        intent = call.pending.get("intent") or f"{self.scope.turn} {call.id}"
        return f"{self.scope.journal_thread} {intent}"


async def guard_by_tables(work: "PassScope", call: Call, then: "Then") -> None:
    """Make a call, unless the policy's tables refuse it by the facts as they are now.

    What is about one subject is ruled and made one after the other, in whatever thread and process.
    """
    guard, tool = work.gate.guard, call.known_tool
    if guard is None or tool.own:
        return await then(call)
    if (about := await guard.find_subject(call)) is None:
        return await _make_ruled_call(work, guard, call, then)
    async with hold_subject(work.scope, about, waits=not call.pending.get("tail_of")) as subject:
        if subject is None:
            return await _refuse_call(work, call, say("policy_busy"))
        unsettled = await subject.find_unsettled(work, call)
        if unsettled is not None and unsettled.spare:
            call.doubt = find_doubt(Verdict("other", unsettled))
            return None
        if unsettled is not None:
            return await _refuse_call(work, call, say("policy_unsettled"))
        call.subject = subject
        await _make_ruled_call(work, guard, call, then)
        return await subject.forget(call)


async def _make_ruled_call(work: "PassScope", guard: Guard, call: Call, then: "Then") -> None:
    """Make a call that may run by the facts as they are now."""
    why = await guard.find_refusal(call.pending, call.known_tool, call.args)
    await (_refuse_call(work, call, why) if why else then(call))


async def _refuse_call(work: "PassScope", call: Call, why: str) -> None:
    """Answer a call that may not run, or ask about it where a crash came after it was begun."""
    if call.known_tool.read_only or not await work.book.answer_blocked(call, why):
        call.deny(why)


async def note_verification(work: "PassScope", call: Call, then: "Then") -> None:
    """Make a call and note who the customer is, if it says so; what a hook withholds does not."""
    guard = work.gate.guard
    if guard is not None and not await guard.count_try(call):
        return call.deny(say("policy_tries", tool=call.known_tool.name))
    await then(call)
    if guard is not None and call.returned is not None:
        heard = call.outcome if call.outcome.is_error else call.returned
        await guard.record_identity(call, heard)
    return None


def _find_by_name(name: str, tools: Sequence[CatalogTool]) -> CatalogTool | None:
    """The one tool of a name, as its server calls it or with `server/` before it."""
    found = [t for t in tools if name in (t.original, f"{t.server}/{t.original}")]
    return found[0] if len(found) == 1 else None


def _extract_data(result: ToolResult) -> Any:
    """What a result says to programs; many servers spell it as text."""
    if result.data is None:
        return parse_json(result.text)
    return parse_json(result.data) if isinstance(result.data, str) else result.data


def _get_path(data: object, path: str) -> Any:
    for part in path.split("."):
        data = data.get(part) if isinstance(data, Mapping) else None
    return data
