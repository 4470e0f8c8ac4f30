"""check: what the customer is to be told holds, or is written anew, or is said plainly."""

from langgraph.runtime import Runtime

from ...policy.desk.mandates import find_problems, is_unsourced
from ...policy.desk.phrases import is_alike
from ...state.context import Context
from ...state.desk import MOST_CLARIFICATIONS, DeskState, DeskUpdate, compute_patience
from ...text.sentences import say, say_to
from ...turn.scope import make_scope
from .call_results import collect_grounds, read_call_results
from .shared.desk import Desk


async def check(state: DeskState, runtime: Runtime[Context], *, desk: Desk) -> DeskUpdate:
    """Judge the answer by code; the second time it fails it is not given."""
    scope = await make_scope(state, runtime, desk.parts)
    news = read_call_results(state, desk.company)
    if put := state.new_proposal:
        if why := put.get("why"):
            return news | DeskUpdate(strategy="hand_off", why=why)
        return news | DeskUpdate(answer=put["words"], task_completed=True)
    sources = news.get("sources", state.sources)
    prompt = scope.parts.prompts.get_prompt("support")
    grounds = collect_grounds(state, sources, desk.company)
    wrong = find_problems(state, grounds, prompt)
    if desk.parts.toolbox.secrets.mask_text(state.answer) != state.answer:
        wrong.append(say("desk_secret"))
    scope.emit({"type": "check", "problems": wrong})
    if not wrong:
        return news | _accept_answer(state, state.answer)
    found = grounds.articles
    unknown = say_to(state.language, "desk_unknown")
    again = is_alike(unknown, state.answered.get(state.issue, ""))
    nothing = not found and bool(state.evidence)
    if is_unsourced(state, found) and (state.improvements or nothing) and not again:
        return news | _accept_answer(state, unknown)
    if state.improvements or compute_patience(state) < MOST_CLARIFICATIONS:
        return news | DeskUpdate(strategy="hand_off", why="; ".join(wrong), improvements=[])
    return news | DeskUpdate(improvements=wrong, answer="")


def _accept_answer(state: DeskState, answer: str) -> DeskUpdate:
    answered = {**state.answered, state.issue: answer}
    return DeskUpdate(answered=answered, answer=answer, task_completed=True, improvements=[])
