"""From a model's text to a checked contract: what embedders call, and what `ask` builds on."""

from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from ..state.contracts import Contract, ExecutorResponse, PlannerResponse, VerifierResponse
from ..state.told import ENGLISH, SENTENCES, say
from .extract import extract

C = TypeVar("C", bound=Contract)
Check = Callable[[C], list[str]]

_SHOWN: Final = 12
_LONGEST_INPUT: Final = 80


def parse_planner(text: str) -> PlannerResponse:
    """Read a planner's answer.

    Raises:
        ValueError: With every problem found, in words that a model can act on.
    """
    return _parse(text, PlannerResponse)


def parse_executor(text: str) -> ExecutorResponse:
    """Read an executor's answer.

    Raises:
        ValueError: With every problem found, in words that a model can act on.
    """
    return _parse(text, ExecutorResponse)


def parse_verifier(text: str) -> VerifierResponse:
    """Read a verifier's answer.

    Raises:
        ValueError: With every problem found, in words that a model can act on.
    """
    return _parse(text, VerifierResponse)


def _parse(text: str, contract: type[C]) -> C:
    parsed, problems = read_text(text, contract)
    if parsed is None:
        msg = f"This is no {contract.__name__}: {'; '.join(problems)}."
        raise ValueError(msg)
    return parsed


def read_text(
    text: str, contract: type[C], check: Check[C] | None = None
) -> tuple[C | None, list[str]]:
    """Read a contract out of a text: the contract, or None with the problems."""
    found = extract(text, field_names(contract))
    if found.value is None or found.problem:
        return None, [found.problem]
    return read_object(found.value, contract, check)


def read_object(
    value: dict[str, Any], contract: type[C], check: Check[C] | None = None
) -> tuple[C | None, list[str]]:
    """Read a contract out of an object: the contract, or None with the problems.

    `check` names problems that the contract's type cannot see; it runs on valid contracts only.
    """
    try:
        parsed = contract.model_validate(value)
    except ValidationError as error:
        return None, _in_words(error)
    except RecursionError:
        return None, [say("json_too_deep")]
    problems = check(parsed) if check else []
    return (None, problems) if problems else (parsed, [])


@cache
def field_names(contract: type[Contract]) -> frozenset[str]:
    """The names a contract's fields may have on the wire."""
    fields = contract.model_fields
    return frozenset(fields) | {field.alias for field in fields.values() if field.alias}


def _in_words(error: ValidationError) -> list[str]:
    problems = []
    for item in error.errors(include_url=False)[:_SHOWN]:
        kind, where = item["type"], ".".join(str(part) for part in item["loc"])
        what = item["msg"].removeprefix("Value error, ")
        if f"invalid_{kind}" in SENTENCES[ENGLISH]:
            what = say(f"invalid_{kind}", **item.get("ctx", {}))
        if kind not in ("missing", "value_error"):
            what = say(
                "problem_not_this", problem=what, given=f"{item['input']!r:.{_LONGEST_INPUT}}"
            )
        problems.append(say("problem_at", place=where, problem=what) if where else what)
    return problems
