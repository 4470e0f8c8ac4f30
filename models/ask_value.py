"""Asking a model for a value: a step of `llm_call`, or the result of a turn by a schema."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, NoReturn, Self

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # stubs are a package of their own
from jsonschema.exceptions import SchemaError  # type: ignore[import-untyped]  # likewise
from langchain_core.messages import AIMessage, HumanMessage
from pydantic import BaseModel, ValidationError
from pydantic.errors import PydanticUserError
from referencing import Registry

from ..flow.expectations import find_unmet
from ..prompts.prompt import render_sections
from ..state.errors import SettingsError
from ..state.outcome import Spend
from ..text.canonical import beginning_of, make_storable_json
from ..text.loose_json import extract, strip_thoughts
from ..text.sentences import say
from ..tools.python_tools import strip_fence
from ..turn.end import Facts
from ..turn.scope import RunScope
from .ask import Answer, ask
from .choice import Models
from .hidden_tags import read_words
from .reading import Reading, describe_errors

Check = Callable[[Any], tuple[Any, str]]
"""From a value to the value as it is kept, and what is wrong with it; \"\" where nothing is."""


@dataclass(frozen=True, kw_only=True)
class StepAnswer:
    """What came of it; `problem` says why nothing did, `refused` which hook did not let it."""

    value: Any = None
    problem: str = ""
    refused: str = ""
    spend: Spend
    warnings: list[str]


async def ask_for_step(
    scope: RunScope, models: Models, prompt: str, schema: Mapping[str, Any]
) -> StepAnswer:
    """Ask a model, again where its answer does not fit the schema; {} takes any text."""
    check: Check = lambda value: (value, find_unmet(value, schema))  # noqa: E731 - one expression
    return await ask_for_value(scope, models, "llm_call", prompt, schema, check)


async def ask_for_value(
    scope: RunScope, models: Models, role: str, prompt: str, schema: Mapping[str, Any], check: Check
) -> StepAnswer:
    """Ask the model of a role to do with language what the prompt says, as a step does."""
    scope, shaped = scope.with_own_notes(), _ValueReader(schema, check)
    if schema:
        shown = json.dumps(schema, ensure_ascii=False)
        prompt = say("answer_by_schema", prompt=prompt, schema=shown)
    messages = [scope.build_opening("llm_call", {})[0], HumanMessage(prompt)]
    answer: Answer[Any] = await ask(
        scope, models, role, messages, read=shaped.read if schema else None
    )
    refused = answer.problems[-1] if answer.refused == "hook" else ""
    value = shaped.value if schema else strip_thoughts(answer.message.text).strip()
    problem = "; ".join(answer.problems)
    if not (problem or schema or value):
        problem = say("only_thought")
    return StepAnswer(
        value=value, problem=problem, refused=refused, spend=answer.spend, warnings=scope.notes
    )


@dataclass
class _ValueReader:
    """Reads answers that must be a value of a schema; `value` is that of the last one."""

    schema: Mapping[str, Any]
    check: Check
    value: Any = field(default=None, init=False)

    def read(self, message: AIMessage) -> Reading[Any]:
        """Read one. A message that was cut short holds no value."""
        reading = read_words(message)
        text = strip_thoughts(reading.message.text).strip()
        problems = reading.problems
        if not problems:
            self.value, problem = self._parse_value(text)
            if not problem:
                self.value, problem = self.check(self.value)
            problems = [problem] if problem else []
        return replace(reading, problems=problems, wanted="wanted_value", text=text)

    def _parse_value(self, text: str) -> tuple[Any, str]:
        """The JSON value a text spells, and why none; a text is wanted as it stands."""
        is_text = self.schema.get("type") == "string"
        try:
            value = json.loads(strip_fence(text), parse_constant=_refuse)
        except (ValueError, RecursionError):
            return (text, "") if is_text else extract(text)
        return (text if is_text and not isinstance(value, str) else value), ""


def _refuse(constant: str) -> NoReturn:
    msg = f"{constant} is no JSON"
    raise ValueError(msg)


# The result of a turn as data, by the schema that a graph was built with.

_MOST_CALLS: Final = 50
_SHOWN: Final = 2_000
_MAX_PROBLEMS: Final = 5

ResultType = type[BaseModel] | Mapping[str, Any]
"""A pydantic model, or a JSON schema."""


@dataclass(frozen=True)
class ResultSchema:
    """What a result must be, and how one is read."""

    schema: Mapping[str, Any]
    model: type[BaseModel] | None = None

    @classmethod
    def of(cls, given: object, name: str = "result_schema") -> Self:
        """Take what a builder was given, as this argument.

        Raises:
            SettingsError: It is no pydantic model and no JSON schema.
        """
        if isinstance(given, type) and issubclass(given, BaseModel):
            try:
                return cls(given.model_json_schema(), given)
            except PydanticUserError as error:
                msg = f"{name}={given.__name__} has no JSON schema: {error.message:.200}"
                raise SettingsError(msg) from error
        if not isinstance(given, Mapping):
            msg = (
                f"{name}= is neither a pydantic model nor a JSON schema but {given!r:.80}: "
                "pass a class derived from pydantic.BaseModel, or a dict such as "
                '{"type": "object", "properties": {…}}.'
            )
            raise SettingsError(msg)
        try:
            schema = json.loads(json.dumps(given))
            Draft202012Validator.check_schema(schema)
        except (SchemaError, TypeError, ValueError) as error:
            why = getattr(error, "message", error)
            msg = f"{name}= is no JSON schema: {why!s:.300}."
            raise SettingsError(msg) from error
        return cls(schema)

    def read(self, value: Any) -> tuple[Any, str]:
        """The value as the outcome holds it, or what is wrong with it."""
        try:
            if self.model is None:
                # Nothing is fetched: a schema holds what it refers to.
                checker = Draft202012Validator(self.schema, registry=Registry())
                found = islice(checker.iter_errors(value), _MAX_PROBLEMS)
                problems = [f"{error.json_path}: {error.message:.300}" for error in found]
                return make_storable_json(value), "; ".join(problems)
            read = self.model.model_validate_json(json.dumps(value))
            return make_storable_json(read.model_dump(mode="json", by_alias=True)), ""
        except ValidationError as error:
            return None, "; ".join(describe_errors(error))
        except Exception as error:  # noqa: BLE001 - the user's validators raise what they like
            return None, f"{type(error).__name__}: {error!s:.300}"

    def parse_answer(self, text: str) -> Any:
        """The result that an answer itself is, word for word; None if it is none."""
        try:
            value, problem = self.read(json.loads(strip_fence(text)))
        except (ValueError, RecursionError):
            return None
        return None if problem else value


async def add_typed_result(
    scope: RunScope, models: Models, schema: ResultSchema, role: str, request: str, facts: Facts
) -> tuple[Facts, Spend]:
    """The facts with the result, made of the answer and of what the calls brought.

    A model is asked once, and again if its answer does not fit, unless the answer itself fits.
    Who wrote the answer is asked, by `role`.
    """
    if (result := schema.parse_answer(facts.answer)) is not None:
        return replace(facts, result=result), Spend()
    done = [record for record in facts.evidence if record["status"] == "success"]
    data = {
        "request": request,
        "evidence": [
            {"tool": r["tool"], "arguments": r.get("arguments"),
             "result": beginning_of(r["result"], _SHOWN)}
            for r in done[-_MOST_CALLS:]
        ],
        "results_so_far": facts.answer,
    }  # fmt: skip
    prompt = say("result_as_data", data=render_sections(data))
    asked = await ask_for_value(scope, models, role, prompt, schema.schema, schema.read)
    scope.notes.extend(asked.warnings)
    if asked.problem:
        return replace(facts, untyped=say("no_result", why=asked.problem)), asked.spend
    return replace(facts, result=asked.value), asked.spend
