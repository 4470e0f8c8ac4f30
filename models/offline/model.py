"""A deterministic stand-in for a language model, used where none is configured."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool

from ...prompts.prompt import read_json, read_section
from ...state.agent import COMPLETE_TASK
from ...state.roles import ROLE_METADATA
from ...state.told import say
from ...tools.catalog import READ_RESULT
from . import tasks
from .desk import bare, listened, supported
from .matching import ONLY_ENGLISH, Match, in_another_script, read_tools
from .react import act, calls_of, observe, think, work

_OURS: Final = frozenset({
    READ_RESULT, COMPLETE_TASK, "write_todos", "summarize_and_continue", "recall", "note",
    "find_tools", "read_skill", "delegate_to_agent",
})  # fmt: skip
"""Tools that no words of a goal ask for."""


class OfflineModel(BaseChatModel):
    """Answers by rules for the roles of the graphs; anything else it refuses, having no model.

    The role is read from the metadata of the request, its data from the sections of the messages.
    The same request always has the same answer. It uses no network.
    """

    @property
    def _llm_type(self) -> str:
        return "offline"

    def bind_tools(
        self, tools: Sequence[Any], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Offer tools; they are kept in OpenAI's format and found by their words."""
        specs = [convert_to_openai_tool(tool) for tool in tools]
        return self.bind(tools=specs, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - the base class names it
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        role = str((run_manager.metadata if run_manager else {}).get(ROLE_METADATA, ""))
        answer = _answer(role, _Asked(messages, kwargs.get("tools") or ()))
        return ChatResult(generations=[ChatGeneration(message=answer)])


class _Asked:
    """A request: its messages, the tools it offers, and the sections of its data."""

    def __init__(self, messages: Sequence[BaseMessage], specs: Sequence[Mapping[str, Any]]) -> None:
        self.messages = messages
        # It never shortens what it is shown, so it has no use for reading on.
        self.tools = [tool for tool in read_tools(specs) if tool.name not in _OURS]
        self.system = next((str(m.text) for m in messages if m.type == "system"), "")
        self.shown = next((str(m.text) for m in messages if m.type == "human"), "")
        self.request = read_section(self.shown, "request") or ""
        note = ".*".join(map(re.escape, say("attached_to_request", name="\0").split("\0")))
        self.attached = re.search(f"^{note}$", self.shown, re.MULTILINE) is not None
        """The request holds more than words."""

    def read(self, name: str, default: Any = ()) -> Any:
        """A section of the data."""
        return read_json(self.shown, name) or default


def _answer(role: str, asked: _Asked) -> AIMessage:
    answer = _ANSWERS[role](asked) if role in _ANSWERS else ""
    if isinstance(answer, AIMessage):
        return answer
    text = json.dumps(answer, ensure_ascii=False) if isinstance(answer, dict) else answer
    why = ONLY_ENGLISH if in_another_script(asked.shown) else tasks.NO_ANSWER
    return AIMessage(text or why, additional_kwargs={} if text else {"refusal": why})


def _executed(asked: _Asked) -> AIMessage | dict[str, Any]:
    """Calls for the task, or the report on it."""
    task = asked.read("task", {})
    clause = f"{task.get('description', '')} {task.get('inputs', '')}".strip()
    earlier = [str(item.get("result") or "") for item in asked.read("results_so_far")]
    own = calls_of(asked.messages, *asked.messages)
    step = tasks.next_step(clause or asked.request, asked.tools, earlier, own)
    if step.match:
        return _calling("", step.match)
    told = step.text if step.done else f"Not done. {step.text}"
    return {"summary": told, "taskCompleted": step.done, "shouldContinue": False}


def _calling(text: str, match: Match) -> AIMessage:
    made = [{"name": match.tool, "args": call, "id": None} for call in match.calls]
    return AIMessage(text, tool_calls=made)


def _worked(asked: _Asked) -> AIMessage:
    """Calls for the next step, or the report."""
    text, match, undone = work(asked.messages, asked.tools)
    if match.calls:
        return _calling(text, match)
    report = {"summary": text, "status": "partial" if undone else "success", "unmet": undone}
    call = {"name": COMPLETE_TASK, "args": report, "id": None}
    return AIMessage("", tool_calls=[call])


def _planned(asked: _Asked) -> dict[str, Any]:
    request = "\n".join([asked.request, *(said["answer"] for said in asked.read("answers"))])
    nobody = say("nobody_answered")
    if asked.attached and all(said["answer"] == nobody for said in asked.read("answers")):
        return {"needsMorePlanning": True, "missingInformation": [tasks.WORDS_ONLY], "todos": []}
    most = asked.read("limits", {}).get("tasks", 20)
    return tasks.plan(request, asked.read("previous_plan"), asked.read("improvements"), most)


def _flow(asked: _Asked) -> dict[str, Any]:
    before = asked.read("steps"), asked.read("failures"), asked.read("improvements")
    most = asked.read("limits", {}).get("steps", 50)
    drawn = tasks.plan_steps(asked.request, asked.read("tools"), *before, most)
    return drawn | {"leftOut": [*drawn["leftOut"], *([tasks.WORDS_ONLY] if asked.attached else [])]}


_ANSWERS: Final[Mapping[str, Callable[[_Asked], AIMessage | str | dict[str, Any]]]] = {
    "executor": _executed,
    "agent": _worked,
    # It cannot judge how hard a request is: the loop that calls tools one by one.
    "dispatcher": lambda _: {"graph": "react", "why": tasks.NO_MODEL},
    "listener": lambda a: listened(a.request),
    "support": lambda a: supported(a.messages, a.tools) or _calling(*bare(a.messages, a.tools)),
    "responder": lambda _: tasks.PASSED_ON,
    "thought": lambda a: think(
        a.messages, read_tools(read_json(a.system, "tools") or ()) or a.tools
    ),
    "action": lambda a: _calling(*act(a.messages, a.tools)),
    "observation": lambda a: observe(a.messages),
    "answerer": lambda a: tasks.answered(a.read("steps"), a.read("failures")),
    "llm_call": lambda a: tasks.read_from(a.shown),
    "planner": _planned,
    "verifier": lambda a: tasks.judge(a.request, a.read("tasks"), a.read("evidence")),
    "flow_planner": _flow,
    "recovery": lambda a: tasks.recover(
        a.read("failures"), a.read("strategies", {}), a.read("steps")
    ),
}
