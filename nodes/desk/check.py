"""check: a reply holds, or is written again, or is replaced; confirm asks if it settled it.

Code looks at what stands where. Then a model, the proofreader, judges whether articles, records and
what was done carry the reply; code checks its quotes.
"""

from typing import Final

from langgraph.runtime import Runtime

from ...models.ask import ask
from ...policy.desk.checks import find_problems
from ...policy.desk.reply import Grounds, Reply, iter_quotes, remove_citations, settle_reply
from ...state.context import Context
from ...state.desk import MOST_CLARIFICATIONS, DeskState, DeskUpdate, Proofreading, compute_patience
from ...state.outcome import Spend
from ...text.sentences import say, say_to
from ...turn.scope import RunScope, make_scope
from .call_results import collect_grounds, read_call_results
from .desk import Desk
from .proposals import emit_proposal, put_again
from .turn import list_lines


async def check(state: DeskState, runtime: Runtime[Context], *, desk: Desk) -> DeskUpdate:
    """Have code and the proofreader judge the reply; the second time it fails it is not given."""
    scope = await make_scope(state, runtime, desk.parts)
    news = read_call_results(state, desk.company)
    if put := state.new_proposal:
        if why := put.get("why"):
            return news | DeskUpdate(strategy="hand_off", why=why)
        emit_proposal(scope, state, put)
        return news | DeskUpdate(answer=put["words"], task_completed=True)
    grounds = collect_grounds(state, news.get("sources", state.sources), desk.company)
    reply = settle_reply(state.answer, grounds)
    wrong, spend = _find_problems(scope, state, desk, reply), Spend()
    if not wrong:
        wrong, spend = await proofread(scope, state, desk, reply, grounds)
    news |= DeskUpdate(spend=scope.add_seconds(spend))
    scope.emit({"type": "check", "problems": wrong})
    if not wrong:
        return news | _accept_reply(scope, state, reply.text)
    unknown = say_to(state.language, "desk_unknown")
    looked = any(record["status"] == "success" for record in state.evidence)
    nothing = looked and not (grounds.articles or grounds.records)
    if (state.improvements or nothing) and state.answered.get(state.issue) != unknown:
        return news | _accept_reply(scope, state, unknown)
    if state.improvements or compute_patience(state) < MOST_CLARIFICATIONS:
        return news | DeskUpdate(strategy="hand_off", why="; ".join(wrong), improvements=[])
    return news | DeskUpdate(improvements=wrong, answer="")


def _find_problems(scope: RunScope, state: DeskState, desk: Desk, reply: Reply) -> list[str]:
    """What code finds; that a figure of an article is not quoted is said once."""
    wrong = find_problems(state, reply, scope.parts.prompts.get_prompt("support"))
    hides = desk.parts.toolbox.secrets.mask_text(reply.text) != reply.text
    unquoted = [] if state.improvements else reply.unquoted
    return [*wrong, *unquoted, *([say("desk_secret")] if hides else [])]


def _accept_reply(scope: RunScope, state: DeskState, text: str) -> DeskUpdate:
    """The reply; a question that got no plain answer stands behind it once more."""
    answered = {**state.answered, state.issue: text}
    update = DeskUpdate(answered=answered, answer=text, task_completed=True, improvements=[])
    if state.proposal is None:
        return update
    again = put_again(state, state.proposal, beside=True)
    emit_proposal(scope, state, again)
    return update | DeskUpdate(answer=f"{text}\n\n{again['words']}", proposal=again)


async def confirm(state: DeskState, runtime: Runtime[Context], *, desk: Desk) -> DeskUpdate:  # noqa: ARG001 - as nodes are called
    """Ask, once an issue."""
    question = say_to(state.language, "desk_solved")
    return DeskUpdate(
        answer=f"{state.answer}\n\n{question}", asked="solved",
        confirmed=[*state.confirmed, state.issue],
    )  # fmt: skip


_RECORDS: Final = 12


async def proofread(
    scope: RunScope, state: DeskState, desk: Desk, reply: Reply, grounds: Grounds
) -> tuple[list[str], Spend]:
    """What the proofreader finds in a reply, in words for its writer; and what it cost.

    A reply that nobody could judge is not given.
    """
    if not desk.company.proofread or is_quote(reply, grounds):
        return [], Spend()
    cited = [one for one in reply.cited if one in grounds.articles] or [*grounds.articles]
    known = {
        "reply": reply.text,
        "request": state.request,
        "articles": {one: grounds.articles[one] for one in cited},
        "results_so_far": dict([*grounds.records.items()][-_RECORDS:]),
        "notes": grounds.told,
        "evidence": [line.text for line in list_lines(state, desk)],
    }

    def check_quotes(told: Proofreading) -> list[str]:
        quotes = [*iter_quotes(told.unsupported, reply.text)]
        return [say("desk_no_quote", quote=one) for one in told.unsupported if one not in quotes]

    answer = await ask(
        scope, desk.parts.models, "proofreader", scope.build_opening("proofreader", known),
        contract=Proofreading, check=check_quotes,
    )  # fmt: skip
    if answer.parsed is None:
        return [say("desk_not_proofread")], answer.spend
    return [say("desk_unsupported", quote=one) for one in answer.parsed.unsupported], answer.spend


def is_quote(reply: Reply, grounds: Grounds) -> bool:
    """Whether each line of a reply stands in an article that it cites, as it is there."""
    sources = [" ".join(grounds.articles.get(one, "").split()) for one in reply.cited]
    lines = [remove_citations(line, grounds.articles) for line in reply.text.splitlines()]
    return bool(sources) and all(
        any(line in source for source in sources) for line in lines if line
    )
