"""The conversation and the calls of earlier turns, kept in a bounded list as `t<turn>:<id>`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Annotated, Any, Final

from ..text.canonical import beginning_of, canonical, shorten_text
from ..text.sentences import say
from .attachments import Block
from .calls import Evidence
from .channels import GrowingChannel
from .evidence_checks import is_citable
from .messages import Conversation

MOST_KEPT: Final = 2_000
"""Records of earlier turns; with them go the oldest of those that hold more than this text:"""
TEXT_KEPT: Final = 2_000_000
_LONGEST: Final = 50_000

INDEX_CAP: Final = 12_000
"""Characters of the index a model sees: the newest records with the beginning of each result."""
_RESULT_SHOWN: Final = 600
_ARGUMENTS_SHOWN: Final = 300

ASKED: Final = "ask_user"
"""Stands for the tool in the record of a question that the user has answered."""


def merge_earlier(left: list[Evidence], writes: Sequence[Sequence[Evidence]]) -> list[Evidence]:
    """Batch reducer: records by their `id`, of which the newest stay."""
    merged = {record["id"]: record for record in left}
    for write in writes:
        merged |= {record["id"]: record for record in write}
    kept = [*merged.values()][-MOST_KEPT:]
    sizes = accumulate(len(record["result"]) for record in reversed(kept))
    return kept[len(kept) - sum(size <= TEXT_KEPT for size in sizes) :]


EarlierRecords = Annotated[
    list[Evidence], GrowingChannel[Evidence](merge_earlier, snapshot_frequency=50)
]


def make_earlier_records(
    turn: int, evidence: Sequence[Evidence], answers: Sequence[Mapping[str, str]] = ()
) -> list[Evidence]:
    """The calls, reports and user's answers that a turn leaves to later ones; reused ones once."""
    kept = [record for record in evidence if not record.get("reused_from")]
    answered = [
        Evidence(id=f"answer.{place}", task="", tool=ASKED, status="success", seconds=0.0,
                 arguments={"question": answer["question"]}, result=answer["answer"])
        for place, answer in enumerate(answers)
    ]  # fmt: skip
    return [
        {
            **record,
            "id": f"t{turn}:{record['id']}",
            "call_id": "",
            "turn": turn,
            "result": beginning_of(record["result"], _LONGEST),
        }
        for record in [*answered, *kept]
    ]


def build_call_index(records: Sequence[Evidence], *, citing: bool = False) -> list[dict[str, Any]]:
    """Records as a model sees them, newest last; the first line says how many are left out.

    With `citing` each says whether it can be cited.
    """
    room, shown = INDEX_CAP, list[dict[str, Any]]()
    for record in reversed(records):
        line = _make_index_line(record) | ({"citable": is_citable(record)} if citing else {})
        room -= len(canonical(line))
        if room < 0:
            break
        shown.insert(0, line)
    left = len(records) - len(shown)
    return [{"left_out": say("earlier_calls_left_out", count=left)}, *shown] if left else shown


def _make_index_line(record: Evidence) -> dict[str, Any]:
    arguments: Any = record.get("arguments") or {}
    if len(text := canonical(arguments)) > _ARGUMENTS_SHOWN:
        arguments = shorten_text(text, _ARGUMENTS_SHOWN)
    line = {
        "id": record["id"],
        "tool": record["tool"] or "",
        "arguments": arguments,
        "status": record["status"],
        "result": beginning_of(record["result"], _RESULT_SHOWN),
    }
    return {key: value for key, value in line.items() if value not in ("", {})}


@dataclass(frozen=True)
class History:
    """What surrounds a task: the talk so far, and the calls made before it."""

    conversation: Conversation = field(default_factory=list)
    blocks: Sequence[Block] = ()
    """What of the talk and of the request is no text, with a line of text before each."""
    records: Sequence[Evidence] = ()
    """The calls of earlier turns, then those of this one that the task may know."""
    heard: Sequence[Evidence] = ()
    """What earlier tasks have read: a task is told their reports, not all of their calls."""

    def find_result(self, name: str) -> str | None:
        """The result of the call with this id; None without one."""
        return next((r["result"] for r in reversed(self.records) if r["id"] == name), None)
