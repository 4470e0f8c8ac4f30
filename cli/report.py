"""The end of a run: the answer, what proves it, what is missing and how to go on."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from .output import Output
from .text import NO_MODEL, call_text, clean, short
from .view import spend_text

_MARKS: Final = {"success": "✓", "error": "✗", "cancelled": "⊘"}

Outcome = Mapping[str, Any]
Records = Sequence[Mapping[str, Any]]


def tell_end(output: Output, console: Console, outcome: Outcome, evidence: Records) -> None:
    """Write the report where the user looks; with `--json`, the outcome and its thread."""
    if output.json:
        output.result({**outcome, "thread": output.thread})
        return
    answer, lines = clean(outcome["answer"]), closing_lines(output, outcome, evidence)
    if output.live:
        console.print()
        # Addresses are spelled out: a link must not hide where it leads.
        console.print(Markdown(answer, hyperlinks=False))
        console.print()
        for line in lines:
            console.print(Text(line), soft_wrap=True)
        return
    output.line(f"\n{answer}\n")
    for line in lines:
        output.line(line)


def closing_lines(output: Output, outcome: Outcome, evidence: Records) -> list[str]:
    """Everything after the answer, line by line."""
    lines = [f"Outcome: {outcome['status']} ({outcome['reason']})"]
    # A partial answer lists what is missing in its own words: not twice.
    unmet = [text for text in outcome["unmet"] if f"- {text}" not in outcome["answer"]]
    lines += _section("Unmet", [f"- {short(text, 300)}" for text in unmet])
    lines += _section("Uncertain", [_uncertain(call) for call in outcome["uncertain_calls"]])
    lines += _section("Evidence", evidence_lines(outcome, evidence))
    lines.append(f"Models: {_models(outcome)}")
    lines.append(f"Spend: {spend_text(outcome['spend'])}")
    lines.append(f"Thread: {output.thread}")
    if outcome.get("resume"):
        lines.append(f"Go on with: {output.resume}")
    if "offline" in outcome["models"].values():
        lines.append(NO_MODEL)
    return lines


def evidence_lines(outcome: Outcome, evidence: Records) -> list[str]:
    """Per task the calls that prove it, or its report where it made none.

    Of a graph without tasks: every call.
    """
    records = {record["id"]: record for record in evidence}
    if not outcome["tasks"]:
        return [_evidence(name, record).strip() for name, record in records.items()]
    lines: list[str] = []
    for task in outcome["tasks"]:
        lines.append(f"{task['id']}  {short(task['description'], 80)} ({task['status']})")
        lines += [_evidence(name, records.get(name, {})) for name in task["evidence"]]
    return lines


def _evidence(name: str, record: Mapping[str, Any]) -> str:
    mark = _MARKS.get(str(record.get("status")), "·")
    if not record.get("tool"):
        return f"   {mark} [{name}] the task's own report"
    return f"   {mark} [{name}] {call_text(record['tool'], record.get('arguments'), 80)}"


def _uncertain(call: Mapping[str, Any]) -> str:
    called = call_text(call.get("tool"), call.get("arguments"), 80)
    return f"? {called}: {short(call.get('why', ''), 200)}".rstrip(": ")


def _section(title: str, lines: list[str]) -> list[str]:
    return [f"{title}:", *(f"  {line}" for line in lines)] if lines else []


def _models(outcome: Outcome) -> str:
    roles: dict[str, list[str]] = {}
    for role, model in outcome["models"].items():
        roles.setdefault(model, []).append(role)
    return "; ".join(f"{model} ({', '.join(roles[model])})" for model in roles) or "none"
