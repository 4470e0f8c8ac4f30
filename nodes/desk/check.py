"""check: what the customer is to be told holds, or is written anew, or is said plainly."""

from langgraph.runtime import Runtime

from ...policy.desk.mandates import problems_of, unsourced
from ...policy.desk.phrases import alike
from ...state.context import Context
from ...state.desk.conversation import MOST_CLARIFICATIONS, DeskState, DeskUpdate, patience
from ...text.told import say, say_to
from ...turn.scope import scope_of
from .learnt import grounds_of, learnt
from .shared.desk import Desk


async def check(state: DeskState, runtime: Runtime[Context], *, desk: Desk) -> DeskUpdate:
    """Judge the answer by code; the second time it fails it is not given."""
    scope = await scope_of(state, runtime, desk.parts)
    news = learnt(state, desk.company)
    if put := state.put:
        if why := put.get("why"):
            return news | DeskUpdate(strategy="hand_off", why=why)
        return news | DeskUpdate(answer=put["words"], task_completed=True)
    sources = news.get("sources", state.sources)
    prompt = scope.parts.prompts.get_prompt("support")
    grounds = grounds_of(state, sources, desk.company)
    wrong = problems_of(state, grounds, prompt)
    if desk.parts.toolbox.secrets.in_text(state.answer) != state.answer:
        wrong.append(say("desk_secret"))
    scope.emit({"type": "check", "problems": wrong})
    if not wrong:
        return news | _given(state, state.answer)
    found = grounds.articles
    unknown = say_to(state.language, "desk_unknown")
    again = alike(unknown, state.answered.get(state.issue, ""))
    nothing = not found and bool(state.evidence)
    if unsourced(state, found) and (state.improvements or nothing) and not again:
        return news | _given(state, unknown)
    if state.improvements or patience(state) < MOST_CLARIFICATIONS:
        return news | DeskUpdate(strategy="hand_off", why="; ".join(wrong), improvements=[])
    return news | DeskUpdate(improvements=wrong, answer="")


def _given(state: DeskState, answer: str) -> DeskUpdate:
    answered = {**state.answered, state.issue: answer}
    return DeskUpdate(answered=answered, answer=answer, task_completed=True, improvements=[])
