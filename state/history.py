"""The conversation and the calls of earlier turns, kept in a bounded list as `t<turn>:<id>`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from langgraph.channels.delta import DeltaChannel

from ..text.canonical import beginning_of, canonical, shorten_text
from ..text.sentences import say
from .attachments import Block
from .calls import Evidence
from .evidence_checks import is_citable
from .messages import Conversation

MOST_KEPT: Final = 300
"""Records of earlier turns; with them go the oldest of those that hold more than this text:"""
TEXT_KEPT: Final = 200_000
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
    return _take_newest(list(merged.values()), TEXT_KEPT, lambda r: len(r["result"]))[-MOST_KEPT:]


EarlierRecords = Annotated[list[Evidence], DeltaChannel(merge_earlier, snapshot_frequency=50)]


def _take_newest(records: Sequence[Any], room: int, size: Any) -> list[Any]:
    """The newest records that have room together, oldest first."""
    kept: list[Any] = []
    for record in reversed(records):
        room -= size(record)
        if room < 0:
            break
        kept.append(record)
    return kept[::-1]


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
    lines = [
        _make_index_line(r) | ({"citable": is_citable(r)} if citing else {})
        for r in records[-MOST_KEPT:]
    ]
    shown = _take_newest(lines, INDEX_CAP, lambda line: len(canonical(line)))
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

    def find_result(self, name: str) -> str | None:
        """The result of the call of this id; None where none is known."""
        return next((r["result"] for r in reversed(self.records) if r["id"] == name), None)
