"""Answer flow: the answer from what the steps brought, and what it must cite."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from ...calls.flow_values import is_tainted
from ...models.ask import Answer, ask
from ...models.drafts import make_draft_listeners, wrap_reasoning
from ...models.hidden_tags import read_words
from ...models.reading import Reading
from ...policy.values import stands_whole
from ...state.context import Context
from ...state.flow import FlowState, FlowStep, FlowUpdate, select_finished
from ...state.messages import make_signature
from ...state.plan import task_view
from ...stream.turn_messages import move_answer_last
from ...text.canonical import beginning_of, list_names
from ...text.sentences import say, say_to, says_nothing
from ...turn.budget import get_limit_reason
from ...turn.end import Facts, build_answer_id, build_fallback_answer, collect_unmet
from ...turn.scope import RunScope, make_scope
from ..parts import Parts
from .turn import facts_of, find_last_steps

MOST_ASKS: Final = 2
LEAST_SHOWN: Final = 300
"""Characters shown of each result at least, unless there are hundreds of them."""
_ALL_SHOWN: Final = 60_000

AS_THEY_CAME: Final = "No usable answer was written ({why}): the results are shown as they came."


async def answer_flow(state: FlowState, runtime: Runtime[Context], *, parts: Parts) -> FlowUpdate:
    """Ask for the answer; if it cannot be used, the results themselves are shown.

    Once a turn the model may say that the results are not enough: then more is planned.
    """
    scope, round_ = await make_scope(state, runtime, parts), 1 + state.stop_hook_active
    scope.emit({"type": "phase", "role": "answerer", "action": "answering", "round": round_})
    if scope.budget.reached_limit:
        scope.budget.grant_last_turn()
    facts, may_plan = facts_of(state), _may_plan_more(scope, state)
    data = {
        "conversation": state.conversation,
        "request": state.request,
        "additional_context": scope.join_hook_notes(state.hook_context),
        "steps": _render_steps(state.todos, scope.context.result_cap),
        "failures": collect_unmet(facts),
        "limits": {"not_enough": int(may_plan)},
        "improvements": state.improvements if state.stop_hook_active else [],
    }
    answer: Answer[Any] = await ask(
        scope,
        parts.models,
        "answerer",
        scope.build_opening("answerer", data, state.attachments),
        read=partial(read_cited, steps=state.todos, request=state.request, may_plan=may_plan),
        listeners=make_draft_listeners(
            scope, build_answer_id(state), "answerer", but=_NOT_ENOUGH.pattern
        ),
        most_asks=1 if scope.budget.reached_limit else MOST_ASKS,
    )
    lacking = "" if answer.refused else read_missing(answer.message.text, state.todos)
    if lacking and not answer.problems:
        update = await _plan_more(scope, state, lacking, parts)
    else:
        update = _end_with_answer(scope, state, answer, facts)
    if lacking and answer.problems:
        still = say("still_missing", what=lacking)
        update |= FlowUpdate(unmet=[*state.unmet, still], task_completed=False)
    return update | FlowUpdate(spend=scope.add_seconds(answer.spend))


def _may_plan_more(scope: RunScope, state: FlowState) -> bool:
    """Whether the answerer may ask for more steps: once a turn, if plans may change at all."""
    over = state.halt or state.not_enough or scope.budget.reached_limit
    return not over and scope.context.max_recoveries > 0


async def _plan_more(scope: RunScope, state: FlowState, lacking: str, parts: Parts) -> FlowUpdate:
    """Have a further plan made that goes on from the results there are.

    After foreign words it is told of what was missed only by which steps, and no word of it.
    """
    scope.emit({"type": "not_enough", "missing": lacking})
    wish, text = say("plan_what_is_missing", what=lacking), lacking.casefold()
    if await is_tainted(scope, parts.toolbox, state):
        named = [s["id"] for s in state.todos if stands_whole(s["id"].casefold(), text)]
        wish = say("plan_more_for_steps", steps=list_names(named))
    return FlowUpdate(
        not_enough=lacking, planning="again", drafts=[], warnings=scope.notes,
        improvements=[*state.improvements, wish],
    )  # fmt: skip


def _render_steps(steps: Sequence[FlowStep], cap: int) -> list[dict[str, Any]]:
    """Each step with its purpose and result, about `cap` characters of results in all.

    If there are too many steps, only the results that no other step used are shown.
    """
    done = [step for step in steps if step["status"] == "completed"]
    if len(done) * LEAST_SHOWN > cap:
        done = find_last_steps(done)
    least = min(LEAST_SHOWN, _ALL_SHOWN // max(1, len(done)))
    share = max(least, cap // max(1, len(done)))
    results = {s["id"]: {"result": beginning_of(s.get("result", ""), share)} for s in done}
    return [
        task_view(step, "id", "description", "tool", "status") | results.get(step["id"], {})
        for step in steps
    ]


def _end_with_answer(
    scope: RunScope, state: FlowState, answer: Answer[Any], facts: Facts
) -> FlowUpdate:
    """The answer as the final message; what a hook keeps back is replaced by nothing."""
    if answer.refused == "hook":
        why = [*state.unmet, answer.problems[-1]]
        halt = state.halt or get_limit_reason(answer.refused)
        return FlowUpdate(halt=halt, unmet=why, warnings=scope.notes)
    text, notes = str(answer.message.text), scope.notes
    if answer.problems:
        text = build_fallback_answer(facts.results, collect_unmet(facts))
        notes = [*notes, AS_THEY_CAME.format(why="; ".join(answer.problems))]
    signed = make_signature("answerer") | wrap_reasoning(answer.reasoning)
    last = AIMessage(text, id=build_answer_id(state), additional_kwargs=signed)
    return FlowUpdate(
        messages=move_answer_last(state, last),
        task_completed=state.halt is None and facts.done,
        warnings=notes,
    )


# Some models write full-width brackets around what they cite.
_BRACKETS: Final = re.compile(r"[\[【［]([^\[\]【】［］\n]{1,2000})[\]】］](\(|:[ \t]*<?https?:)?")  # noqa: RUF001
_CODE: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_BETWEEN: Final = re.compile(r"[,;&、，；]|(?<!\S)and(?!\S)")  # noqa: RUF001 - full-width
_ALWAYS_AN_ID: Final = re.compile(r"s(?:tep)?[ _-]?\d+", re.IGNORECASE)
_A_NUMBER: Final = re.compile(r"\d{1,3}")


_NOT_ENOUGH: Final = re.compile(r"\W*not enough\W*[:：]\W*(\S.*)", re.IGNORECASE | re.DOTALL)  # noqa: RUF001 - full-width colon
_LONGEST_LACK: Final = 1_000


def read_cited(
    message: AIMessage, steps: Sequence[FlowStep], request: str = "", *, may_plan: bool = False
) -> Reading[Any]:
    """Read an answer that must cite completed steps; with `may_plan` it may ask for more."""
    reading: Reading[Any] = read_words(message)
    text, problems = reading.message.text, reading.problems
    if not problems and read_missing(text, steps):
        problems = [] if may_plan else [say("not_enough_again")]
        return replace(reading, problems=problems, wanted="wanted_cited")
    problems = problems or citation_problems(text, steps)
    if not problems and says_nothing(_BRACKETS.sub("", text), request):
        problems = [say("says_nothing")]
    return replace(reading, problems=problems, wanted="wanted_cited")


def read_missing(text: str, steps: Sequence[FlowStep]) -> str:
    """What an answer that begins with "not enough:" says is missing; '' if it cites a done step."""
    said = _NOT_ENOUGH.match(text)
    if said is None or (select_finished(steps) and not citation_problems(text, steps)):
        return ""
    return said[1].strip()[:_LONGEST_LACK]


def citation_problems(text: str, steps: Sequence[FlowStep]) -> list[str]:
    """Every reason not to believe the citations; empty if no step completed, or all are right."""
    status = {step["id"]: step["status"] for step in steps}
    done = [name for name, how in status.items() if how == "completed"]
    ids = _Ids(status)
    cited: set[str] = set()
    problems: list[str] = []
    for token, surely in _names_in_brackets(text, ids):
        name = ids.find_id(token)
        if status.get(name) == "completed":
            cited.add(name)
        elif surely and name in status:
            problems.append(say("cited_not_completed", step=repr(name)))
        elif surely and ids.resembles(token):
            problems.append(say("cited_unknown", step=repr(token), completed=done[:20]))
    if done and not cited:
        problems.append(say("nothing_cited", completed=done[:20]))
    return list(dict.fromkeys(problems))


def _names_in_brackets(text: str, ids: "_Ids") -> Iterator[tuple[str, bool]]:
    """What stands in brackets, one id at a time, and whether it can be nothing but a citation."""
    no_code = _CODE.sub(lambda code: " " * len(code[0]), text)
    for found in _BRACKETS.finditer(text):
        start = found.start()
        in_code, behind_word = no_code[start] == " ", start > 0 and text[start - 1].isalnum()
        surely = not (in_code or behind_word or found[2])
        if ids.find_id(whole := found[1].strip()):
            # An id may hold what else stands between two of them: R&D.
            yield whole, surely
            continue
        names = (part.strip(" *`\\\"'#") for part in _BETWEEN.split(whole))
        yield from ((name, surely) for name in names if name)


class _Ids:
    """The ids of a plan, and what is like them."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._shapes = {_shape(name) for name in self._names}
        # Two ids that differ in letter case alone are only told apart as they are written.
        folded = Counter(name.casefold() for name in self._names)
        self._folded = {n.casefold(): n for n in self._names if folded[n.casefold()] == 1}
        words = {say("step_named", step=""), say_to("en", "step_named", step="")}
        either = "|".join(re.escape(word.strip()) for word in words)
        self._word = re.compile(rf"\A(?:{either})s?\s*", re.IGNORECASE)

    def find_id(self, token: str) -> str:
        """The id of a step, also in other letter case or as `step s1`; '' without one."""
        for name in (token, self._word.sub("", token, count=1)):
            found = name if name in self._names else self._folded.get(name.casefold(), "")
            if found:
                return found
        return ""

    def resembles(self, token: str) -> bool:
        """Whether it looks like an id, though none is meant."""
        if token.isdecimal():
            return "0" in self._shapes and _A_NUMBER.fullmatch(token) is not None
        like_another = not token.isalpha() and _shape(token) in self._shapes
        return like_another or _ALWAYS_AN_ID.fullmatch(token) is not None


def _shape(token: str) -> str:
    """How a token is built: every run of letters is one letter, every run of digits one digit."""
    return re.sub(r"\d+", "0", re.sub(r"[^\W\d_]+", "a", token))
