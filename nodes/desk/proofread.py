"""A model judges whether records, articles and what was done carry a reply; code checks quotes."""

from typing import Final

from ...models.ask import ask
from ...policy.desk.reply import Grounds, Reply, iter_quotes, remove_citations
from ...state.desk import DeskState, Proofreading
from ...state.outcome import Spend
from ...text.sentences import say
from ...turn.scope import RunScope
from .desk import Desk
from .receipt import list_lines

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

    def check(told: Proofreading) -> list[str]:
        quotes = [*iter_quotes(told.unsupported, reply.text)]
        return [say("desk_no_quote", quote=one) for one in told.unsupported if one not in quotes]

    answer = await ask(
        scope, desk.parts.models, "proofreader", scope.build_opening("proofreader", known),
        contract=Proofreading, check=check,
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
