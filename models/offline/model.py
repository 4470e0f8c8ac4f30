"""A deterministic model for demos and tests without a key; it matches words and cannot reason."""

import json
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
from ...text.canonical import beginning_of
from ...text.sentences import OFFLINE_WORDS
from . import tasks
from .matching import Match, Parameter, Tool, clauses, is_question, match, read_tools, words
from .tasks import NO_MODEL, ONLY_ENGLISH, Part

_NO_ANSWER: Final = OFFLINE_WORDS["no_answer"]


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
        answer = _answer(role, _Request(messages, kwargs.get("tools") or ()))
        return ChatResult(generations=[ChatGeneration(message=answer)])


class _Request:
    """A request: its messages, the tools it offers or lists, and the sections of its data."""

    def __init__(self, messages: Sequence[BaseMessage], specs: Sequence[Mapping[str, Any]]) -> None:
        self.messages = messages
        system = next((str(m.text) for m in messages if m.type == "system"), "")
        self.shown = next((str(m.text) for m in messages if m.type == "human"), "")
        request = read_section(self.shown, "request") or ""
        self.request = "\n".join([request, *(reply["answer"] for reply in self.read("answers"))])
        self.tools = read_tools(specs or read_json(system, "tools") or ())
        # What plans is offered no tool, but perhaps its contract as one.
        self.known = read_tools(self.read("tools")) if self.request else self.tools
        self.more_tools = read_section(f"{system}\n{self.shown}", "more_tools") or ""

    def read(self, name: str, default: Any = ()) -> Any:
        """A section of the data."""
        return read_json(self.shown, name) or default


def _answer(role: str, request: _Request) -> AIMessage:
    refusal = _explain_refusal(role, request)
    answer = _ANSWERS[role](request) if role in _ANSWERS and not refusal else ""
    if isinstance(answer, AIMessage):
        return answer
    if refusal and role == "agent":
        return _end_task(summary=refusal, status="blocked")
    if text := json.dumps(answer, ensure_ascii=False) if isinstance(answer, dict) else answer:
        return AIMessage(text)
    why = refusal or _NO_ANSWER
    return AIMessage(why, additional_kwargs={"refusal": why, FINAL: True})


def _explain_refusal(role: str, request: _Request) -> str:
    """Why whoever is asked first begins nothing; "" where something may be done.

    Nothing is begun if a part cannot be done. Only a question may still be answered, by what other
    parts bring.
    """
    if role not in ("planner", "flow_planner", "dispatcher", "responder", "agent", "thought"):
        return ""
    talk = tasks.read_talk(request.messages)
    if talk.calls or talk.must_answer or request.read("steps"):
        return ""
    if talk.attached:
        return f"{NO_MODEL}, so what you attached cannot be read: say in words what is wanted."
    parts = clauses(request.request) or talk.asked
    if request.read("improvements") or not parts:  # what was not done would end so again
        return f"{OFFLINE_WORDS['no_other_way']}."
    if not {*words(" ".join(parts))}.isdisjoint(words(request.more_tools)):
        return ""  # what the list only names, or leaves out, may fit
    found = [(part, match(part, request.known, parts[:at])) for at, part in enumerate(parts)]
    able = any(m.calls for _, m in found)
    lacking = [(p, m) for p, m in found if not m.calls and not (able and is_question(p))]
    why = " ".join(f'"{part[:300]}": {m.why}' for part, m in lacking)
    offer = _offer(request.known, request.more_tools)
    return f"{_NO_ANSWER} {why} {ONLY_ENGLISH} {offer}" if lacking else ""


def _offer(tools: Sequence[Tool], listed: str) -> str:
    """What can be asked for instead, in words that match; of tools without any, what is listed."""
    offers = "; ".join(f"{t.name} ({t.about})" if t.about else t.name for t in tools[:8])
    if not (offers := offers or beginning_of(listed.partition("\n")[2], 600)):
        return "There are no tools."
    spelled = [_spell_call(t.name, t.parameters) for t in tools[:8] if t.parameters is not None]
    fits = [f"such as: {t}" for t in spelled if all(match(p, tools).calls for p in clauses(t))]
    return f"Its tools: {offers}. Try their words, {[*fits, 'with values in quotes.'][0]}"


def _spell_call(name: str, parameters: Sequence[Parameter]) -> str:
    """Words for a call of a tool: of its name, with values."""
    sample = {"integer": "1", "number": "1", "string": '"…"', "path": '"…"'}
    needed = [(p.name, *p.options, sample.get(p.kind)) for p in parameters if p.required]
    return name + ":" * bool(needed) + "".join(f" {about} {value}" for about, value, *_ in needed)


def _execute(request: _Request) -> AIMessage | dict[str, Any]:
    """Calls for the task, or the report on it."""
    task = request.read("task", {"description": request.request})
    clause = f"{task['description']} {task.get('inputs', '')}".strip()
    earlier = [str(item.get("result") or "") for item in request.read("results_so_far")]
    own = tasks.read_calls(request.messages, *request.messages)
    part = tasks.next_part(clause, own, request.tools, earlier)
    if part.match.calls:
        return _build_call("", part.match)
    return {"summary": part.text, "taskCompleted": part.done, "shouldContinue": False}


def _build_call(text: str, found: Match) -> AIMessage:
    made = [{"name": found.tool, "args": call, "id": None} for call in found.calls]
    return AIMessage(text, tool_calls=made)


def _work(request: _Request) -> AIMessage:
    """Calls for the next step, or the report."""
    text, found, undone = tasks.work(request.messages, request.tools)
    if found.calls:
        return _build_call(text, found)
    return _end_task(summary=text, status="partial" if undone else "success", unmet=undone)


def _end_task(**report: Any) -> AIMessage:
    return _build_call("", Match(COMPLETE_TASK, [report]))


def _answer_flow(request: _Request) -> str:
    done = [s for s in request.read("steps") if s["status"] == "completed" and "result" in s]
    parts = [Part(s.get("description", ""), s["result"], True, proofs=[s["id"]]) for s in done]
    return tasks.answer(parts, request.read("failures"))


def _plan_flow(request: _Request) -> dict[str, Any] | str:
    most = request.read("limits", {}).get("steps", 50)
    drawn = tasks.plan_steps(request.request, request.read("tools"), request.read("steps"), most)
    return drawn if drawn["steps"] else ""


def _pick(request: _Request) -> str:
    """The answer to a question that stands before a call and results."""
    question, said, *results = f"{request.shown}\n\n".split("\n\n", 2)
    return tasks.pick(question, results, said) if is_question(question) else ""


_PASSED_ON: Final = f'<agent_meta>{{"shouldContinue": true, "reason": "{NO_MODEL}"}}</agent_meta>'
_ANSWERS: Final[Mapping[str, Callable[[_Request], AIMessage | str | dict[str, Any]]]] = {
    "planner": lambda r: tasks.plan(r.request, r.read("limits", {}).get("tasks", 20)),
    "executor": _execute,
    "verifier": lambda r: tasks.judge(r.read("tasks"), r.read("evidence")),
    "thought": lambda r: tasks.think(r.messages, r.tools),
    "action": lambda r: _build_call(*tasks.work(r.messages, r.tools)[:2]),
    "observation": lambda r: tasks.observe(r.messages),
    "agent": _work,
    "flow_planner": _plan_flow,
    "recovery": lambda r: tasks.recover(
        r.read("failures"), r.read("strategies", {}), r.read("steps")
    ),
    "llm_call": _pick,
    "answerer": _answer_flow,
    # It cannot judge how hard a request is: the loop that calls tools one by one.
    "dispatcher": lambda _: {"graph": "react", "why": NO_MODEL},
    # It answers nothing by words alone: who has tools may.
    "responder": lambda _: _PASSED_ON,
}
