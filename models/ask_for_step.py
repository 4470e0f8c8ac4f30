"""What a model is asked by a step of `llm_call`: for a text, or for a value that fits a schema."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from langchain_core.messages import AIMessage, HumanMessage

from ..flow.expectations import find_unmet
from ..state.outcome import Spend
from ..text.sentences import say
from ..tools.python_tools import strip_fence
from ..turn.scope import RunScope
from .ask import Answer, ask
from .choice import Models
from .hidden_tags import read_words
from .reading import Reading, extract, strip_thoughts

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
        told = json.dumps(schema, ensure_ascii=False)
        prompt = say("answer_by_schema", prompt=prompt, schema=told)
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
