"""What a few words of a customer mean, without a model: thanks, yes, no, a number, a human. Pure.

A text means one of these only if it holds nothing else; whatever is left over is for a model.
"""

import re
from collections.abc import Callable, Collection, Iterable
from typing import Final, Literal

from ...state.desk import Consent
from ...text.words import fold_case

Kind = Literal[
    "yes", "no", "urge", "solved", "unsolved", "heard", "closing", "farewell", "greeting", "filler",
    "human", "wish",
]  # fmt: skip

_WORDS: Final[dict[Kind, str]] = {
    "yes": """yes|y|yeah|yep|yup|sure|correct|confirm|confirmed|agreed|absolutely|of course
        |certainly|i agree|i confirm|i do|it is|that is right|thats right|thats correct|fine
        |that is correct|that is fine|thats fine|go ahead|please do|sounds good
        |ok|okay|all right|alright|exactly
        |是|是的|对|对的|好|好的|好吧|行|可以|可以的|没错|没问题|同意|我同意|确认|我确认|確認|同意了
        |对了|嗯|嗯嗯|请办理|办吧|请帮我办理|当然""",
    "urge": "do it|just do it|do that|do so|right|right now|hurry|hurry up|快点|马上|赶紧",
    "no": """no|n|nope|nah|not|never|dont|do not|no way|not now|not yet|not really|cancel|cancel it
        |stop|i disagree|i do not agree|i dont agree|i do not|it is not|it isnt|not at all
        |please dont|do not do it|dont do it|do not do that|nothing
        |不|不是|不是的|不对|不好|不行|不可以|不要|不用|不用了|不了|不必|不同意|我不同意|不确认|别
        |别了|取消|算了|先不|先不要|暂时不|没有|没|还没有|否|停""",
    "solved": """it did|it does|it has|it was|solved|it is solved|it works|works|works now
        |it works now|that helped|that helps|helped|resolved|fixed|it is fixed
        |解决了|已解决|已经解决了|可以了|好了|有用|有帮助""",
    "unsolved": """it did not|it didnt|it does not|it doesnt|it has not|it hasnt|unsolved|not solved
        |still not|it is not solved|not helpful|that did not help|that didnt help|not resolved
        |没解决|没有解决|还没解决|还没有解决|未解决|没用|没有用|没有帮助""",
    "heard": "got it|i see|understood|知道了|明白|明白了|了解|了解了|收到",
    "closing": """thanks|thank you|thank u|thx|ty|cheers|many thanks|thanks a lot|thanks so much
        |thank you very much|thank you so much|thats all|that is all|that was all|thats it
        |that is it|nothing else|nothing more|no more questions|no further questions
        |no other questions|im done|i am done
        |谢谢|多谢|谢谢你|谢谢您|謝謝|谢啦|感谢|非常感谢|没有了|没了|没别的了|没事了
        |没有其他问题|没有其他问题了|没有别的问题了|没问题了|就这些|就这样|就这样吧""",
    "farewell": """bye|goodbye|good bye|bye bye|see you|have a nice day|have a good day
        |再见|再會|拜拜""",
    "greeting": """hi|hello|hey|hi there|hello there|good morning|good afternoon|good evening
        |你好|您好|喂|嗨|哈喽|在吗|早上好|下午好|晚上好""",
    "filler": """please|then|so|now|for me|very much|a lot|again|everyone|there|sir|madam|dear
        |really|and|well|oh|ah|it|that|this|with that|to that|with it|for your help|for the help
        |for helping|for now|today|for today|your|help|you|very|helpful|great|perfect|good|nice
        |wonderful|excellent|awesome|the|was|is|a|i
        |请|了|吧|啊|呀|哦|呢|的|您|你|那|就|帮我|麻烦|帮忙|太好了|很好|非常|我|也""",
    "human": """human|a human|an agent|agent|a real person|real person|representative|operator
        |a person|customer service|human agent|live agent|live chat|colleague|a colleague
        |supervisor|manager|your manager|your supervisor
        |人工|真人|人工客服|人工服务|转人工|找人工|要人工|真人客服|客服人员|转人工客服|转接人工""",
    "wish": """i want|i need|i would like|id like|give me|get me|connect me|transfer me
        |put me through|let me|can i|may i|i want to|talk|speak|talk to|speak to|speak with|to
        |我想|我要|我需要|给我|找|转|叫|换""",
}  # fmt: skip


_KINDS: Final[dict[str, Kind]] = {
    word.strip(): kind for kind, words in _WORDS.items() for word in words.split("|")
}
_LONGEST_FIRST: Final = "|".join(map(re.escape, sorted(_KINDS, key=len, reverse=True)))
_SCANNER: Final = re.compile(rf" ?({_LONGEST_FIRST})(?![a-z0-9])")
_TAKEN_BACK: Final = re.compile("[?\\uff1f\\u274c\\u26d4\\U0001f44e\\U0001f6ab]|~~")
"""A question mark, or a sign that means no: no plain word, whatever stands beside it."""
_ASKS_BACK: Final = re.compile(r"(?:^| )(?:is|was) (?:it|that|this|the|a|i)\b|[对是](?:的)?吧")
"""A question that has no question mark: "is that correct" is no yes."""


def _normalize_words(text: str) -> str:
    """The words of a text in lower case, one space between, without apostrophes and signs."""
    plain = re.sub("['\\u2018\\u2019`]", "", fold_case(text))
    return re.sub(r"[\s\W_]+", " ", plain).strip()


def _classify_text(text: str) -> frozenset[Kind]:
    """What a text consists of; nothing where it also says something else."""
    if _TAKEN_BACK.search(text):
        return frozenset()
    words, place, kinds = _normalize_words(text), 0, set[Kind]()
    while place < len(words):
        found = _SCANNER.match(words, place)
        if found is None:
            return frozenset()
        kinds.add(_KINDS[found[1]])
        place = found.end()
    return frozenset(kinds)


def is_closing(text: str) -> bool:
    """Whether the customer ends the conversation, and says nothing else."""
    kinds = _classify_text(text)
    return bool(kinds & {"closing", "farewell"}) and not kinds & {"greeting", "human"}


def is_greeting(text: str) -> bool:
    """Whether the customer greets, and says nothing else."""
    return "greeting" in (kinds := _classify_text(text)) and kinds <= {"greeting", "filler"}


def read_consent(text: str) -> Consent:
    """The customer's word on what was put to them: yes or no where it is nothing but that.

    Who urges has not said yes to the details; beside a yes it does no harm. Who leaves has not
    either: "ok, bye" is how one goes.
    """
    if _ASKS_BACK.search(_normalize_words(text)):
        return ""
    kinds = _classify_text(text) - {"filler", "closing", "urge"}
    return "yes" if kinds == {"yes"} else "no" if kinds == {"no"} else ""


def read_settlement(text: str) -> Consent:
    """The customer's word on whether something is settled: yes or no where it is nothing else."""
    kinds = _classify_text(text) - {"filler", "closing", "farewell", "heard", "urge"}
    if not kinds:
        return ""
    return "yes" if kinds <= {"yes", "solved"} else "no" if kinds <= {"no", "unsolved"} else ""


_MARKS: Final[dict[str, int]] = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5,
    "一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5,
    "very dissatisfied": 1, "very unsatisfied": 1, "very unhappy": 1, "terrible": 1, "awful": 1,
    "not at all": 1, "horrible": 1, "dissatisfied": 2, "unsatisfied": 2, "not satisfied": 2,
    "unhappy": 2, "bad": 2, "poor": 2, "neutral": 3, "average": 3, "so so": 3, "ok": 3, "okay": 3,
    "satisfied": 4, "happy": 4, "good": 4, "very satisfied": 5, "very happy": 5, "excellent": 5,
    "perfect": 5, "great": 5, "very good": 5,
    "非常不满意": 1, "很不满意": 1, "很差": 1, "不满意": 2, "差": 2, "一般": 3, "还行": 3,
    "还可以": 3, "满意": 4, "不错": 4, "很满意": 5, "非常满意": 5, "很好": 5, "非常好": 5,
}  # fmt: skip
_NUMBER: Final = re.compile(
    r"(?:i (?:would )?(?:say|give (?:it|you)(?: a)?) |a |my rating is |我给|打|给)?"
    r"([1-5]|one|two|three|four|five|[一二两三四五])"
    r"(?: ?(?:out of|of) ?(?:5|five)| 5| ?(?:stars?|points?)| ?(?:分|星|颗星))?"
)


def read_rating(text: str) -> int | None:
    """How satisfied the customer is, 1 to 5, where they say nothing but that and thanks."""
    if 1 <= (stars := len(re.findall("[\\u2b50\\u2605]", text))) <= 5 and not _normalize_words(
        text
    ):
        return stars
    if len(words := _normalize_words(text)) > _LONGEST_RATING:
        return None
    polite = "|".join(word for word, kind in _KINDS.items() if kind in ("closing", "farewell"))
    words = re.sub(rf"(?:(?:^| )(?:{polite}))+$", "", words).strip()
    words = re.sub(r"^(?:i am |im |i was |we are |我|我很)(?=\w)", "", words)
    if words in _MARKS:
        return _MARKS[words]
    found = _NUMBER.fullmatch(words)
    if found is None or _TAKEN_BACK.search(text) or _NO_MARK.search(text):
        return None
    return int(found[1]) if found[1].isdigit() else _MARKS[found[1]]


_NO_MARK: Final = re.compile(r"-\s*\d|\d[.,]\d")
_LONGEST_RATING: Final = 1_000


def is_call_for_human(text: str) -> bool:
    """Whether the customer asks for a person to talk to, and says nothing else."""
    kinds = _classify_text(text)
    return "human" in kinds and "no" not in kinds


def names_one_of(text: str, phrases: Collection[str]) -> bool:
    """Whether one of the phrases stands in the text, as whole words where words have borders."""
    low = fold_case(text)
    return any(_compile_phrase(one.casefold()).search(low) for one in phrases)


def _compile_phrase(phrase: str) -> re.Pattern[str]:
    words = r"\s+".join(map(re.escape, phrase.split()))
    return re.compile(rf"(?<![a-z0-9]){words}(?![a-z0-9])")


_SCRIPTS: Final = (
    ("ja", re.compile("[\\u3041-\\u30ff]")), ("ko", re.compile("[\\uac00-\\ud7af]")),
    ("ru", re.compile("[\\u0400-\\u04ff]")), ("ar", re.compile("[\\u0600-\\u06ff]")),
    ("hi", re.compile("[\\u0900-\\u097f]")),
)  # fmt: skip
_HAN: Final = re.compile("[\\u3400-\\u9fff]")
_LATIN: Final = re.compile(r"[A-Za-z]{2,}")
_ADDRESS: Final = re.compile(r"(?<!\S)\S+@[\w.-]+|https?://\S+")
_FEW: Final = 2


def detect_language(text: str, before: str = "") -> str:
    """The language of a text by its letters, such as `zh` or `en`; `before` where they are few."""
    text = _ADDRESS.sub(" ", text)
    for language, letters in _SCRIPTS:
        if letters.search(text):
            return language
    han, latin = len(_HAN.findall(text)), len(_LATIN.findall(text))
    if han and han >= latin:
        return "zh"
    if latin > _FEW or (latin and not before):
        return "en"
    return before


def make_own_words_test(texts: Iterable[str]) -> Callable[[str], bool]:
    """What tells whether a value is the customer's: it stands in the texts, or all its words do."""
    said = " ".join(map(_normalize_words, texts))
    known = set(re.findall(r"[a-z0-9]+", said)) | set(_HAN.findall(said))

    def is_own(value: str) -> bool:
        value = _normalize_words(value)
        if value in said:
            return bool(value)
        if any(sign.isdigit() for sign in value):
            return value.replace(" ", "") in said.replace(" ", "")
        return set(re.findall(r"[^\W\u3400-\u9fff]+", value)) | set(_HAN.findall(value)) <= known

    return is_own


def is_alike(one: str, other: str) -> bool:
    """Whether two answers say the same in nearly the same words; citations do not count."""
    bags = [_list_neighbors(re.sub(r"\[[\w.:-]+\]", "", text)) for text in (one, other)]
    if not all(bags):
        return bags[0] == bags[1]
    return len(bags[0] & bags[1]) >= _ALIKE * len(bags[0] | bags[1])


_ALIKE: Final = 0.85


def _list_neighbors(text: str) -> frozenset[tuple[str, str]]:
    """The pairs of neighbours in a text: its words, or its signs where these are words."""
    parts = re.findall(r"[^\W\u3400-\u9fff]+|[\u3400-\u9fff]", _normalize_words(text))
    return frozenset(zip(parts, [*parts[1:], ""], strict=False))
