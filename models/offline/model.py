"""A deterministic stand-in for a language model, used when none is configured.

It is honest about what it is: it splits the goal into clauses, finds tools by their words, fills
arguments by schema from the goal and from earlier results, and shows results as they came. It knows
no scenario, server or tool, and never makes up text or SQL.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, get_args

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from ...prompts.sections import read_json, read_section
from ...state.roles import ROLES
from .answers import NO_ANSWER
from .flow import Situation, plan_steps
from .flow_ends import answered, recovered
from .literals import readable
from .plan import MAX_TASKS, plan
from .react import act, observe, think
from .steps import next_step
from .talk import calls_in
from .task import Calls, Step, Task
from .tools import read_tools
from .verdict import judge

Role = Literal["planner", "executor", "verifier"]
Phase = Literal["thought", "action", "observation"]
FlowRole = Literal["flow_planner", "recovery", "answerer", "llm_call"]
AnyRole = Role | Phase | FlowRole

_ROLES: Final[tuple[AnyRole, ...]] = (*get_args(Role), *get_args(Phase), *get_args(FlowRole))
_ANSWERS: Final = {name: role.contract for name, role in ROLES.items() if role.contract}
_ROLE: Final = re.compile(rf"\bYou are the ({'|'.join(_ROLES)})\b", re.IGNORECASE)


class OfflineModel(BaseChatModel):
    """Answers by rules as every role of a graph that plans or acts: see `AnyRole`.

    Any other question is answered by saying that there is no model.

    The same messages and tools always give the same answer, apart from words such as "today" that
    are read from the clock. It uses no network.
    """

    @property
    def _llm_type(self) -> str:
        return "offline"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Offer tools; they are kept in OpenAI format and found by their words."""
        specs = [convert_to_openai_tool(tool) for tool in tools]
        return self.bind(tools=specs, tool_choice=tool_choice, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - the base class names it
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - likewise
        **kwargs: Any,
    ) -> ChatResult:
        specs = [spec for spec in kwargs.get("tools") or () if isinstance(spec, Mapping)]
        role = _role(messages, specs, kwargs.get("response_format"))
        answer = _answer(role, messages, specs) if role else AIMessage(NO_ANSWER)
        answer.usage_metadata = _usage(messages, answer)
        answer.response_metadata = {"model_name": "offline", "finish_reason": "stop"}
        return ChatResult(generations=[ChatGeneration(message=answer)])


def _role(
    messages: Sequence[BaseMessage], specs: Sequence[Mapping[str, Any]], form: object
) -> AnyRole | None:
    """The role by the system message, else by the contract that is named or bound."""
    system = " ".join(_text(message) for message in messages if isinstance(message, SystemMessage))
    named = _ROLE.search(system)
    if named:
        return next(role for role in _ROLES if role == named[1].lower())
    asked = " ".join(
        [system, *(_name(spec) for spec in specs), json.dumps(form, default=str) if form else ""]
    )
    return next((role for role in _ROLES if role in _ANSWERS and _ANSWERS[role] in asked), None)


def _answer(
    role: AnyRole, messages: Sequence[BaseMessage], specs: Sequence[Mapping[str, Any]]
) -> AIMessage:
    if role == "thought" or role == "action" or role == "observation":
        return _phase(role, messages, specs)
    said = [_text(message) for message in messages if isinstance(message, HumanMessage)]
    shown = said[0] if said else ""
    if role == "answerer" or role == "llm_call":
        return AIMessage(_told(shown) if role == "answerer" else NO_ANSWER)
    contract = _ANSWERS[role]
    bound = any(_name(spec) == contract for spec in specs)
    if role == "flow_planner":
        return _as_contract(_flow(shown, said[1:]), contract, bound)
    if role == "recovery":
        return _as_contract(_recovered(shown), contract, bound)
    if role == "executor":
        names = set(_ANSWERS.values())
        offered = [spec for spec in specs if _name(spec) not in names]
        step = next_step(_task(shown, messages, offered))
        if step.calls:
            return _calling(step.calls, len(messages))
        return _as_contract(_reported(step), contract, bound)
    return _as_contract(_planned(shown) if role == "planner" else _judged(shown), contract, bound)


def _phase(
    phase: Phase, messages: Sequence[BaseMessage], specs: Sequence[Mapping[str, Any]]
) -> AIMessage:
    """A turn of the loop that shares its messages."""
    if phase == "observation":
        return AIMessage(observe(messages))
    if phase == "action":
        text, calls = act(messages, specs)
        return _calling(calls, len(messages), text)
    system = next((_text(m) for m in messages if isinstance(m, SystemMessage)), "")
    return AIMessage(think(messages, _records(system, "tools")))


def _planned(shown: str) -> dict[str, Any]:
    return plan(
        _request(shown),
        previous=_records(shown, "previous_plan"),
        improvements=[str(item) for item in _items(shown, "improvements")],
        answers=_records(shown, "answers"),
        tools=read_tools(_records(shown, "tools")),
        most=_most(shown, "tasks"),
    )


def _flow(shown: str, repairs: Sequence[str]) -> dict[str, Any]:
    situation = Situation(
        tools=_records(shown, "tools"),
        finished=[step for step in _records(shown, "steps") if step.get("status") == "completed"],
        failures=_records(shown, "failures"),
        improvements=[str(item) for item in _items(shown, "improvements")],
        findings=[line[2:] for text in repairs for line in text.splitlines() if line[:2] == "- "],
        most=_most(shown, "steps"),
    )
    return plan_steps(_request(shown), situation)


def _recovered(shown: str) -> dict[str, Any]:
    left = read_json(shown, "strategies")
    left = left if isinstance(left, dict) else {}
    return recovered(_records(shown, "failures"), left, _records(shown, "steps"))


def _told(shown: str) -> str:
    unmet = [item for item in _items(shown, "failures") if isinstance(item, str)]
    return answered(_request(shown), _records(shown, "steps"), unmet)


def _most(shown: str, what: Literal["tasks", "steps"]) -> int:
    limits = read_json(shown, "limits")
    most = limits.get(what) if isinstance(limits, dict) else None
    return most if isinstance(most, int) and most > 0 else MAX_TASKS


def _judged(shown: str) -> dict[str, Any]:
    return judge(_request(shown), _records(shown, "tasks"), _records(shown, "evidence"))


def _reported(step: Step) -> dict[str, Any]:
    return {
        "summary": step.summary,
        "taskCompleted": step.completed,
        "shouldContinue": False,
    }


def _task(shown: str, messages: Sequence[BaseMessage], specs: Sequence[Mapping[str, Any]]) -> Task:
    told = read_json(shown, "task")
    task = (
        told if isinstance(told, Mapping) else {"description": read_section(shown, "task") or shown}
    )
    earlier = [
        (str(item.get("description", "")), str(item.get("result") or ""))
        for item in _records(shown, "results_so_far")
    ]
    text = str(task.get("description") or "") or _request(shown)
    inputs = task.get("inputs") or ""
    inputs = inputs if isinstance(inputs, str) else json.dumps(inputs)
    return Task(
        readable(text),
        read_tools(specs),
        tuple(earlier),
        tuple(calls_in(messages)),
        readable(inputs),
    )


def _calling(calls: Calls, turn: int, text: str = "") -> AIMessage:
    made = [
        {"name": name, "args": arguments, "id": f"offline_{turn}_{index}", "type": "tool_call"}
        for index, (name, arguments) in enumerate(calls)
    ]
    return AIMessage(text, tool_calls=made)


def _as_contract(answer: dict[str, Any], contract: str, bound: bool) -> AIMessage:
    """The answer as JSON text, or as a call of the tool that stands for the contract."""
    if bound:
        return AIMessage(
            "",
            tool_calls=[
                {"name": contract, "args": answer, "id": "offline_answer", "type": "tool_call"}
            ],
        )
    return AIMessage(json.dumps(answer, ensure_ascii=False))


def _request(shown: str) -> str:
    request = read_section(shown, "request")
    return request if request is not None else "" if re.search(r"(?m)^<[a-z_]+>$", shown) else shown


def _items(shown: str, name: str) -> list[Any]:
    found = read_json(shown, name)
    return found if isinstance(found, list) else []


def _records(shown: str, name: str) -> list[Mapping[str, Any]]:
    return [item for item in _items(shown, name) if isinstance(item, Mapping)]


def _name(spec: Mapping[str, Any]) -> str:
    function = spec.get("function", spec)
    return (
        str(function.get("name") or function.get("title") or "")
        if isinstance(function, Mapping)
        else ""
    )


def _text(message: BaseMessage) -> str:
    return str(message.text)


def _usage(messages: Sequence[BaseMessage], answer: AIMessage) -> UsageMetadata:
    """An estimate of four characters a token, the usual one for English text."""
    read = sum(len(_text(message)) for message in messages) // 4
    written = (len(_text(answer)) + len(json.dumps(answer.tool_calls, default=str))) // 4
    return UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
