"""What the models of a run have read by now, and the words of those who may command."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from ..state.calls import Evidence
from ..state.history import ASKED, History
from ..state.messages import EVIDENCE, ROLE, TOOL, calls_in

ANSWERED: Final = "answered by the user"
"""The reason of a call whose result is a human's words."""


@dataclass(frozen=True)
class Chain:
    """What was read and said in one graph, as a node found it, and in the graphs around it.

    Attributes:
        state: Of the graph.
        past: What a task knows of the calls before it.
        outer: The same of the graph around it.
        more: What models wrote before anything was read, such as a plan.
    """

    state: object = None
    past: History = field(default_factory=History)
    outer: "Chain | None" = None
    more: Sequence[str] = ()

    @property
    def is_of_user(self) -> bool:
        """Whether the graph talks with the user; another one is given its task by a model."""
        return hasattr(self.state, "request_message")

    def list_records(self) -> list[Evidence]:
        """The calls whose results this graph's models may have read, oldest first.

        Those that its sub-agents made are not among them: it reads their reports.
        """
        inner = f"{getattr(self.state, 'path', '')}/"
        own = [*self._list_earlier(), *getattr(self.state, "evidence", ())]
        before = self.outer.list_records() if self.outer else []
        records = [*before, *self._list_added(), *self.past.heard, *self.past.records, *own]
        return [*{r["id"]: r for r in records if not r["task"].startswith(inner)}.values()]

    def _list_added(self) -> list[Evidence]:
        """What tools have told the models by messages of their own; nobody can tell when."""
        return [
            Evidence(
                id=f"{m.id}", task="", tool=f"({TOOL})", arguments={}, status="success",
                result=m.text,
            )
            for m in getattr(self.state, "messages", ())
            if m.additional_kwargs.get(ROLE) == TOOL
        ]  # fmt: skip

    def _list_earlier(self) -> Sequence[Evidence]:
        """The calls of earlier turns: those that are kept, else those in the conversation.

        Of one that failed the package may have said why; `read_foreign` knows whether it did.
        """
        if (kept := getattr(self.state, "earlier", None)) is not None:
            return cast("Sequence[Evidence]", kept)
        known = {record["id"] for record in getattr(self.state, "evidence", ())}
        found = getattr(self.state, "messages", ()) if self.is_of_user else ()
        sent = {call["id"]: call.get("args") for one in found for call in calls_in(one)}
        return [
            Evidence(
                id=f"{message.id}", task="", tool=message.name or "",
                arguments=sent.get(message.tool_call_id) or {}, status=message.status,
                result=message.text,
            )
            for message in found
            if message.type == "tool" and message.status == "success"
            and message.additional_kwargs.get(EVIDENCE) not in known
        ]  # fmt: skip

    def list_inner_records(self, agent: str) -> list[Evidence]:
        """The calls that a sub-agent made, of this graph or one around it, by the path of that."""
        found = getattr(self.state, "evidence", ())
        outer = self.outer.list_inner_records(agent) if self.outer else []
        return [*outer, *(r for r in found if f"{r['task']}/".startswith(f"{agent}/"))]

    def list_words(self) -> list[str]:
        """What the user has said in the thread, and answered to questions."""
        words = [*(self.outer.list_words() if self.outer else ())]
        if self.is_of_user:
            talk = getattr(self.state, "messages", ())
            words += [m.text for m in talk if m.type == "human" and ROLE not in m.additional_kwargs]
        words += [str(getattr(self.state, "request", ""))]
        words += [one["answer"] for one in getattr(self.state, "answers", ())]
        inner = getattr(self.state, "evidence", ())  # the user may have answered a sub-agent
        answered = (r for r in [*self.list_records(), *inner] if is_answer(r))
        return [*filter(None, [*words, *(record["result"] for record in answered)])]

    def list_brief(self) -> list[str]:
        """The words of a model around it that gave the graph its task."""
        if self.is_of_user:
            return []
        task: Mapping[str, Any] = getattr(self.state, "task", {})
        first = [m.text for m in getattr(self.state, "messages", ())[:1] if m.type == "human"]
        return [*first, *(str(value) for value in task.values() if isinstance(value, str))]


def is_answer(record: Evidence) -> bool:
    """Whether the result of a record is a human's own words."""
    asked = record.get("tool") == ASKED and record["status"] == "success"
    return asked or record.get("reason") in (ANSWERED, "rejected")


def iter_readings(records: Sequence[Evidence]) -> Iterator[Evidence]:
    """The records whose result a tool wrote; what the package says of a call is not among them."""
    for record in records:
        made = record.get("tool") and record["status"] != "cancelled"
        if made and not (record.get("unknown") or record.get("unsent") or is_answer(record)):
            yield record
