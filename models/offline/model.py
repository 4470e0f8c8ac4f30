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
from ...state.messages import FINAL
from ...state.roles import ROLE_METADATA
from ...tools.catalog import READ_RESULT
from ...tools.python_tools import LLM_CALL
from . import tasks
from .matching import Match, Tool, read_tools
from .react import act, calls_of, observe, read_talk, think, work

_OURS: Final = frozenset({
    READ_RESULT, COMPLETE_TASK, "write_todos", "summarize_and_continue", "recall", "note",
    "find_tools", "read_skill", "delegate_to_agent", LLM_CALL,
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
        self.goal = "\n".join([self.request, *(said["answer"] for said in self.read("answers"))])

    @property
    def known(self) -> list[Tool] | None:
        """All the tools there are; None where of some only the beginning is told."""
        told = f"{self.system}\n{self.shown}"
        more = read_section(told, "more_tools") or ""
        named = re.findall(r"^- (\S+): (.*)$", more, re.MULTILINE)
        if "…" in more or (more and not named):
            return None
        others = [{"name": name, "description": about} for name, about in named]
        listed = read_tools([*(read_json(told, "tools") or ()), *others])
        # What plans is offered no tool, but perhaps its contract as one.
        offered = [] if self.request else self.tools
        return [tool for tool in listed if tool.name not in _OURS] or offered

    def read(self, name: str, default: Any = ()) -> Any:
        """A section of the data."""
        return read_json(self.shown, name) or default


def _answer(role: str, asked: _Asked) -> AIMessage:
    why = _declined(role, asked)
    answer = _ANSWERS[role](asked) if role in _ANSWERS and not why else ""
    if isinstance(answer, AIMessage):
        return answer
    if why and role == "agent":
        return _ended(summary=why, status="blocked")
    if text := json.dumps(answer, ensure_ascii=False) if isinstance(answer, dict) else answer:
        return AIMessage(text)
    why = why or tasks.NO_ANSWER
    return AIMessage(why, additional_kwargs={"refusal": why, FINAL: True})


def _declined(role: str, asked: _Asked) -> str:
    """Why whoever is asked first begins nothing; "" where something may be done."""
    if role not in ("planner", "flow_planner", "dispatcher", "responder", "agent", "thought"):
        return ""
    talk, known = read_talk(asked.messages), asked.known
    begun = talk.calls or talk.must_answer or asked.read("steps")
    # What stands in a template of one's own may not be read.
    if begun or known is None or (role == "thought" and not known):
        return ""
    planned = tasks.untried(asked.goal, asked.read("previous_plan"), asked.read("improvements"))
    return tasks.declined(planned if asked.request else talk.asked, known, attached=talk.attached)


def _executed(asked: _Asked) -> AIMessage | dict[str, Any]:
    """Calls for the task, or the report on it."""
    task = asked.read("task", {})
    clause = f"{task.get('description', '')} {task.get('inputs', '')}".strip()
    earlier = [str(item.get("result") or "") for item in asked.read("results_so_far")]
    own = calls_of(asked.messages, *asked.messages)
    step = tasks.next_step(clause or asked.request, asked.tools, earlier, own)
    if step.match:
        return _calling("", step.match)
    told = step.text if step.done else f"{tasks.NOT_DONE}{step.text}"
    return {"summary": told, "taskCompleted": step.done, "shouldContinue": False}


def _calling(text: str, match: Match) -> AIMessage:
    made = [{"name": match.tool, "args": call, "id": None} for call in match.calls]
    return AIMessage(text, tool_calls=made)


def _worked(asked: _Asked) -> AIMessage:
    """Calls for the next step, or the report."""
    text, match, undone = work(asked.messages, asked.tools)
    if match.calls:
        return _calling(text, match)
    return _ended(summary=text, status="partial" if undone else "success", unmet=undone)


def _ended(**report: Any) -> AIMessage:
    call = {"name": COMPLETE_TASK, "args": report, "id": None}
    return AIMessage("", tool_calls=[call])


def _planned(asked: _Asked) -> dict[str, Any]:
    most = asked.read("limits", {}).get("tasks", 20)
    return tasks.plan(asked.goal, asked.read("previous_plan"), asked.read("improvements"), most)


def _flow(asked: _Asked) -> dict[str, Any] | str:
    before = asked.read("steps"), asked.read("failures"), asked.read("improvements")
    most = asked.read("limits", {}).get("steps", 50)
    drawn = tasks.plan_steps(asked.request, asked.read("tools"), *before, most)
    return drawn if drawn["steps"] else ""


_ANSWERS: Final[Mapping[str, Callable[[_Asked], AIMessage | str | dict[str, Any]]]] = {
    "executor": _executed,
    "agent": _worked,
    # It cannot judge how hard a request is: the loop that calls tools one by one.
    "dispatcher": lambda _: {"graph": "react", "why": tasks.NO_MODEL},
    "responder": lambda _: tasks.PASSED_ON,
    "thought": lambda a: think(a.messages, a.known or a.tools),
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
