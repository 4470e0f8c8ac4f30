"""What kind of sentence it is, in English or Chinese: does it claim something, or only talk? Pure.

A list of ways to begin, not a grammar: what is not known to be talk counts as a claim.
"""

import re
from collections.abc import Collection
from typing import Final

CITATION: Final = re.compile(r"[\[【]([^\[\]【】]{1,200})[\]】](?!\()")
_ID: Final = re.compile(r"[A-Za-z][\w.:-]*\d[\w-]*|\d+|[A-Za-z]\w*(?:-\w+)+")
_BARE_ID: Final = re.compile(r"(?<![\w/-])kb-[\w.-]*\w", re.IGNORECASE)
_CLAUSE: Final = re.compile(r"(?<!\d),\s+|[，、；]|(?<!\s)\s+(?:but|and|while|whereas)\s+|而|但是?")  # noqa: RUF001
_QUESTION: Final = re.compile(r"[?？]\s*$")  # noqa: RUF001 - full-width
_POLITE: Final = re.compile(
    r"(?:(?:(?:and|but|so|then|of course|certainly|sure|yes|no|well|if you (?:like|want))[, ]+)*"
    r"(?:i can(?:not)?|i could(?: not)?|i will|i'll|i would|i'd|i do(?: not|n't)"
    r"|i did(?: not|n't)|i am|i'm|i have|i've|i understand"
    r"|i see|shall i|would you|could you"
    r"|can you|may i|let me|tell me|just|feel free|happy to|glad to|thanks?|thank you"
    r"|apologies|my apologies"
    r"|hello|hi|hey|dear|welcome|good (?:morning|afternoon|evening|day)|you(?: a|')re welcome"
    r"|have a|kind regards|best|unfortunately|here (?:is|are)|you (?:said|wrote|mentioned|asked)"
    r"|please (?:tell|send me|give me|let|share|confirm|check the details|wait|answer|reply))\b"
    r"|(?:好的|当然|您好|你好|谢谢|感谢|抱歉|对不起|很抱歉|非常抱歉|不好意思|我(?!们)|请问|请告诉|请提供|麻烦"
    r"|如果您?(?:愿意|需要)|需要我|要我|很高兴|祝您?|亲爱|您(?:说|提到|问)|以下))"
)
_REGRET: Final = re.compile(
    r"(?:(?:and |but |oh )?(?:i am|i'm|we are|we're)? ?(?:so |very |really )?sorry\b|i understand\b"
    r"|i see\b|that(?: is|'s| must be| sounds)(?: (?:not|so|very|really|a))*"
    r" (?:annoying|frustrating|pity|bad|good|great|disappointing|fine|right|understandable|news))"
)
_ASSERTS: Final = re.compile(
    r"\bthat\b|\bbecause\b|\bsince\b|\byou (?:can|may|must|have|get|are|need|will)\b|:\s*\S"
    r"|\bwe (?:offer|ship|deliver|accept|refund|pay|take|give|sell|have|do|also|will)\b"
    r"|[您你](?:可以|必须|需要|能|有权|会|将)|我们(?:提供|支持|接受|可以|会|将|有|不)|确认[^，。]{4,}"  # noqa: RUF001
)
_HEAD: Final = re.compile(r"[:：]\s*$")  # noqa: RUF001 - full-width
_UNKNOWN: Final = re.compile(
    r"\b(?:do not|don['’]t|cannot|can['’]t|could not|couldn['’]t|did not|didn['’]t|unable to|not"  # noqa: RUF001
    r" able to|no)\b.{0,24}\b(?:know|find|found|say|tell|answer|information|articles?|anything"
    r"|confirm|see|have (?:an|that|this)|sure)\b|\bnot sure\b|\bno (?:language )?model\b"
    r"|不知道|不清楚|不确定|没有?(?:能)?(?:找到|查到)|未(?:能)?(?:找到|查到)|[查找]不到|没有相关"
    r"|无法(?:确认|回答|告诉|确定)"
)
_HELP: Final = re.compile(
    r"(?:(?:a|my|our|one of (?:my|our)|another) )(?:human )?(?:colleagues?|team)\b"
    r".{0,30}\b(?:will|can|looks?|takes?|answers?|gets?)\b"
    r"|.{0,4}(?:同事|人工|真人).{0,6}(?:会|将|来|可以)|.{0,6}帮[您你]"
)
_RULE: Final = re.compile(
    r"\byou (?:can|may|must|have to|need to|are (?:entitled|allowed)|get|will (?:get|receive))\b"
    r"|\bwe (?:offer|ship|deliver|accept|refund|pay|take|replace|charge|cover|allow)\b"
    r"|\b(?:is|are|be) (?:free|covered|refund|return|exchange|allowed|accepted|included|possible)"
    r"|\bcosts?\b|\bsources?:|\baccording to\b"
    r"|[您你](?:可以|必须|需要|能|有权|可)|我们(?:提供|支持|接受|可以|会|不)|免费|不支持|支持|根据|来源"
)


_REQUEST: Final = re.compile(
    r"(?:(?:please|kindly|could you|can you|would you|may i ask you to)[, ]+)+(?:please )?"
    r"(?:tell|send|give|provide|confirm|share)(?: with)?(?: me| us)? (?:your|the|which|what)\b"
    r"(?!.*(?:\d|\b(?:is|are|was|were|has|have|will|can|may|takes?|lasts|comes?|costs?|gets?)\b))"
    r"|(?:请|麻烦您?|能否)(?:您)?(?:再)?(?:告诉|提供|发|确认)(?:一下)?(?:我们?)?[您你](?!.*(?:\d|[是会将可能有]))"
)


def split_clauses(text: str) -> list[str]:
    """The parts of a sentence."""
    return [part.strip() for part in _CLAUSE.split(text) if part and part.strip()]


def is_question(text: str) -> bool:
    """Whether it is a question."""
    return bool(_QUESTION.search(text))


def is_request(text: str) -> bool:
    """Whether it only asks for details, such as the last four digits of a number."""
    return bool(_REQUEST.match(text.casefold())) and not states_rule(text)


def states_rule(text: str) -> bool:
    """Whether it says what may be done, what is free, what the company does."""
    return bool(_RULE.search(text.casefold()))


def is_polite(text: str) -> bool:
    """Whether each part of a sentence greets, regrets, offers, or says that it does not know."""
    return bool(_HEAD.search(text)) or all(map(_is_talk, split_clauses(text.casefold())))


def _is_talk(clause: str) -> bool:
    if _UNKNOWN.search(clause) or (_REGRET.match(clause) and not _RULE.search(clause)):
        return True
    if _ASSERTS.search(clause):
        return False
    return bool(_POLITE.match(clause) or _HELP.match(clause) or not clause.strip(" .!。！"))  # noqa: RUF001


def find_cited_ids(text: str, known: Collection[str] = ()) -> list[str]:
    """The ids that a text cites, in order; also such as nobody has found."""
    found: list[str] = []
    for group in CITATION.findall(text):
        ids = [part for part in re.split(r"[\s,;，、；]+", group) if part]  # noqa: RUF001 - full-width
        if all(part in known or _ID.fullmatch(part) for part in ids):
            found += ids
    bare = [one for one in _BARE_ID.findall(text) if one not in found]
    return list(dict.fromkeys([*found, *bare]))
