"""What is done for a clause of a goal, and what each role answers. Pure.

Every role says the same in its own form: a `Part` for each clause, with calls to make, with what
calls brought, or with why it is not done. In a conversation the words beside a call say which
clause it was for: "Step 1 of 2: …".
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from ...state.attachments import blocks_in
from ...state.messages import ROLE
from ...text.canonical import beginning_of
from ...text.sentences import OFFLINE_WORDS, say
from ...tools.python_tools import LLM_CALL
from .matching import (
    ERROR,
    READ,
    Match,
    Tool,
    clauses,
    find_unsaid,
    is_question,
    match,
    read_tools,
    read_values,
)

NO_MODEL, ONLY_ENGLISH = OFFLINE_WORDS["no_model"], OFFLINE_WORDS["only_english"]
_FOR_MODELS: Final = ("do_without", "report_doubt", "send_anew", "correct_it", "report_it")
_KEPT: Final = 6_000  # characters of a result that a report holds
_SHOWN: Final = 200

Records = Sequence[Mapping[str, Any]]


class Call(NamedTuple):
    """One call with its result, and whether it brought nothing."""

    tool: str
    arguments: Mapping[str, Any]
    failed: bool
    text: str


class Part(NamedTuple):
    """A clause, with the calls to make for it, or with how it ended and what proves that."""

    asked: str
    text: str
    done: bool = False
    match: Match = Match()
    proofs: Sequence[str] = ()


def _has_failed(status: object, result: str) -> bool:
    """Whether a call brought nothing, even if only its text says so."""
    return status != "success" or bool(ERROR.match(result))


def next_part(
    clause: str, own: Sequence[Call], tools: Sequence[Tool], results: Sequence[str]
) -> Part:
    """What to do for a clause, by its own calls, none of which is repeated, and earlier results."""
    if bad := [call for call in own if call.failed]:
        advice = "|".join(re.escape(say(name)) for name in _FOR_MODELS)
        why = re.sub(f" ?({advice})$", "", bad[0].text)
        return Part(clause, f"The call of {bad[0].tool} failed: {beginning_of(why, _KEPT)}")
    texts = ["\n\n".join(call.text or "It gave nothing." for call in own)] if own else results
    if own and not is_question(clause):
        return Part(clause, beginning_of(texts[0], _KEPT), done=True)
    found = Match() if own else match(clause, tools, results)
    said = " ".join(_describe_call(call.tool, call.arguments, tools) for call in own)
    if is_question(clause) and not found.calls and (text := pick(clause, texts, said)):
        return Part(clause, text, done=True)
    if own:
        return Part(clause, f"The result of {own[-1].tool} does not say: {texts[0][:300]}")
    why = "It was not reached within the allowed iterations." if found.calls else found.why
    return Part(clause, f"{why} {ONLY_ENGLISH}", match=found)


def pick(question: str, texts: Sequence[str], said: str = "") -> str:
    """The lines that answer a question beyond `said`; '' without any.

    A question without further words, such as 'what it says', is answered by the newest text.
    """
    asked = find_unsaid(read_values(question), said)
    if not asked:
        return beginning_of(texts[-1], _KEPT) if texts else ""
    if any(value.kind == "path" for value in asked):
        return ""  # it asks about another text
    lines = [line.strip() for text in texts for line in re.split(r"\n|(?<=[.!?])\s+", text[:READ])]
    return "\n".join([line[:600] for line in lines if not find_unsaid(asked, line)][:3])


def _describe_call(name: str, arguments: Mapping[str, Any], tools: Sequence[Tool]) -> str:
    """What a call says before it has a result."""
    about = next((tool.about for tool in tools if tool.name == name), "")
    return f"{name}: {about}: {', '.join(map(str, arguments.values()))}"


def answer(parts: Sequence[Part], unmet: Sequence[str] = ()) -> str:
    """The answer to a goal: what each part brought, questions first, and what is not done."""
    done = sorted((part for part in parts if part.done), key=lambda p: not is_question(p.asked))
    shown = dict[str, str]()  # a question may be answered by all of another part: once is enough
    for part in done:
        proofs = "".join(f" [{proof}]" for proof in part.proofs)
        shown.setdefault(part.text, f"**{part.asked[:300]}**{proofs}\n\n{_quote(part.text)}")
    undone = [*(f'"{part.asked[:300]}": {part.text}' for part in parts if not part.done), *unmet]
    lists = ["\n- ".join(["Not done:", *(text[:700] for text in undone)])] if undone else []
    note = f"_{NO_MODEL}; results are shown as the tools gave them._"
    return "\n\n".join([*shown.values(), *lists, note])


def _quote(result: str) -> str:
    """Several lines, and a line with brackets, as code: nothing in it is a list or a citation."""
    text = beginning_of(result.strip() or "Done.", 2_000)
    fence = "~~~~" if "```" in text else "```"
    return f"{fence}\n{text}\n{fence}" if "\n" in text or "[" in text else text


# plan_execute_verify


def plan(request: str, most: int) -> dict[str, Any]:
    """Answer as PlannerResponse: a task for each clause, and one for all beyond the `most`."""
    parts = clauses(request)
    parts[most - 1 :] = filter(None, [" and ".join(parts[most - 1 :])])
    numbered = enumerate(parts, start=1)
    todos = [{"id": str(n), "description": part, "priority": n} for n, part in numbered]
    return {"summary": f"{NO_MODEL}: a task for each part of the goal.", "todos": todos}


def judge(tasks: Records, evidence: Records) -> dict[str, Any]:
    """Answer as VerifierResponse: every completed task cites the ids that prove it."""
    parts = [_judge_task(task, evidence) for task in tasks]
    passed = all(part.done for part in parts)
    verdicts = [
        {"id": task["id"], "completed": part.done, "evidence": part.proofs}
        | {"feedback": "Proven." if part.done else part.text}
        for task, part in zip(tasks, parts, strict=True)
    ]
    undone = [f'"{part.asked}": {part.text}' for part in parts if not part.done]
    flags = {"allCompleted": passed, "userNeedsSatisfied": passed}
    return {**flags, "tasks": verdicts, "summary": answer(parts), "improvements": undone}


def _judge_task(task: Mapping[str, Any], evidence: Records) -> Part:
    """A task is proven by its own calls, else by its report and the results that this is from."""
    good = [e for e in evidence if not _has_failed(e["status"], e["result"])]
    own = [e for e in good if e["task"] == task["id"] and task["status"] == "completed"]
    proofs = [e["id"] for e in own if e["tool"]]
    if own and not proofs:
        said = " ".join(own[-1]["result"].split("\n")[0].split())
        sources = [e["id"] for e in good if e["tool"] and said in " ".join(e["result"].split())]
        proofs = [*sources, own[-1]["id"]] if sources else []
    text = str(task.get("result") or task.get("feedback") or "no successful call proves it")
    return Part(task["description"], text, bool(proofs), proofs=proofs)


# prompt_flow


def plan_steps(request: str, specs: Records, before: Records, most: int) -> dict[str, Any]:
    """Answer as ExecutionPlan: a step for each call, and one for a question about results."""
    results = [str(step.get("result", "")) for step in before if step["status"] == "completed"]
    usual = read_tools(specs)
    changes = {spec["name"] for spec in specs if spec["changes"]}
    steps, left = list[dict[str, Any]](), list[str]()

    def add(clause: str, tool: str, arguments: Mapping[str, Any]) -> None:
        # What changes something keeps its place; what only looks runs side by side.
        waits = [step["id"] for step in steps if {tool, step["tool"]} & changes]
        about = {"id": f"s{len(steps) + 1}", "description": clause[:300], "dependencies": waits}
        # Results are of use without the answer to a question, too.
        steps.append({**about, "tool": tool, "arguments": arguments, "optional": tool == LLM_CALL})

    for clause in clauses(request):
        newest = [f"{{{{{step['id']}}}}}\n" for step in steps[-1:]]
        found = match(clause, usual, [*results, *newest])
        said = _describe_call(found.tool, found.calls[0], usual) if found.calls else ""
        asks = is_question(clause) and (find_unsaid(read_values(clause), said) or not found.calls)
        if not (found.calls or (asks and steps)) or len(steps) + len(found.calls) >= most:
            left.append(f'"{clause[:300]}": {found.why or "the plan has no room for more steps"}')
            continue
        for call in found.calls:
            add(clause, found.tool, {k: v if v in newest else _escape(v) for k, v in call.items()})
        if asks:
            references = [f"{{{{{step['id']}}}}}" for step in steps]
            prompt = "\n\n".join([_escape(clause), _escape(said), *references])
            add(clause, LLM_CALL, {"prompt": prompt})
    goal = f"{NO_MODEL}: a step for each part of the goal that a tool's words match."
    return {"goal": goal, "steps": steps, "leftOut": left}


def _escape(value: Any) -> Any:
    """A value of the goal as a plan spells it: braces in it are no reference."""
    return value.replace("{{", r"\{{") if isinstance(value, str) else value


def recover(failures: Records, strategies: Mapping[str, Any], steps: Records) -> dict[str, str]:
    """Answer as RecoveryDecision: another plan where there are results to make it from."""
    errors = "; ".join(failure["error"][:200] for failure in failures[:3])
    has_results = any(step["status"] == "completed" for step in steps)
    again = has_results and strategies.get("replan_from_failure")
    strategy = "replan_from_failure" if again else "give_up"
    return {"strategy": strategy, "reason": f"{NO_MODEL}; what failed: {errors}"}


# Conversations.


class Talk(NamedTuple):
    """The clauses of the newest request, and the calls made for them: (number, call)."""

    asked: Sequence[str] = ()
    calls: Sequence[tuple[int, Call]] = ()
    must_answer: bool = False
    attached: bool = False  # it holds more than words


def read_talk(messages: Sequence[BaseMessage]) -> Talk:
    """Read the shared messages.

    The request is the newest message of the user that the thread holds: it has an id. The loop
    signs its cues; only the last, which wants the answer now, has neither signature nor id.
    """
    human = [at for at, message in enumerate(messages) if message.type == "human"]
    said = [at for at in human if ROLE not in messages[at].additional_kwargs]
    kept = [at for at in said if messages[at].id] or said
    if not kept:
        return Talk()
    newest, since = messages[kept[-1]], messages[kept[-1] :]
    named = [(re.match(r"Step (\d+) of \d+: ", message.text), message) for message in since]
    calls = [(int(n[1]) if n else 1, call) for n, m in named for call in read_calls(messages, m)]
    must_answer = kept[-1] < said[-1] == len(messages) - 1
    return Talk(clauses(newest.text), calls, must_answer, bool(blocks_in(newest)))


def read_calls(messages: Sequence[BaseMessage], *callers: BaseMessage) -> list[Call]:
    """The calls of some messages that have their results among all of them."""
    results = {m.tool_call_id: m for m in messages if isinstance(m, ToolMessage)}
    made = [call for m in callers if isinstance(m, AIMessage) for call in m.tool_calls]
    pairs = [(call, results[call["id"] or ""]) for call in made if call["id"] in results]
    return [Call(c["name"], c["args"], _has_failed(r.status, r.text), r.text) for c, r in pairs]


def work(messages: Sequence[BaseMessage], tools: Sequence[Tool]) -> tuple[str, Match, list[str]]:
    """What is said, the calls beside it, and what is not done yet; without calls it is the end."""
    talk = read_talk(messages)
    results = [call.text for _, call in talk.calls if not call.failed]
    own = [[call for n, call in talk.calls if n == at + 1] for at in range(len(talk.asked))]
    parts = [next_part(*pair, tools, results) for pair in zip(talk.asked, own, strict=True)]
    undone = [part.asked for part in parts if not part.done]
    for number, part in enumerate(parts, start=1):
        if part.match.calls and not talk.must_answer:
            return f"Step {number} of {len(parts)}: {part.asked[:_SHOWN]}", part.match, undone
    return answer(parts), Match(), undone


def think(messages: Sequence[BaseMessage], tools: Sequence[Tool]) -> str:
    """The thought: the next step, or the answer; only where that is whole does it end the loop."""
    text, _, undone = work(messages, tools)
    more = json.dumps({"shouldContinue": bool(undone) and not read_talk(messages).must_answer})
    # A result that speaks of such a tag must not be read as one.
    shown = re.sub(r"(?i)agent(?=[\s_-]?meta\b)", "agent.", text)
    return f"{shown}\n\n<agent_meta>{more}</agent_meta>"


def observe(messages: Sequence[BaseMessage]) -> str:
    """The beginning of what the last call brought."""
    texts = [f"{call.tool}: {' '.join(call.text.split())}" for _, call in read_talk(messages).calls]
    return beginning_of(["There is no result.", *texts][-1], _SHOWN)
