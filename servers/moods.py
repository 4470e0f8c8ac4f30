"""How a customer sounds, by the words they use: no model, the same answer to the same text."""

import re
from dataclasses import dataclass
from typing import Final, Literal

from .knowledge import plain

Mood = Literal["pleased", "calm", "worried", "upset", "angry"]

_WORDS: Final = {
    -1.0: "furious outraged unacceptable disgusting scam fraud thieves liars ridiculous lawyer"
    " sue court useless idiots worst rip-off pathetic outrageous swindle livid",
    -0.6: "disappointed annoyed annoying angry terrible awful horrible broken frustrated upset"
    " frustrating unhappy bad poor damaged wrong rude complaint complain sick hate unreliable"
    " dissatisfied shoddy shame",
    -0.3: "worried afraid unsure confused concerned waiting late delayed lost missing urgent"
    " anxious problem trouble stuck",
    0.7: "great thanks thank perfect wonderful love happy excellent lovely fantastic helpful"
    " pleased good nice appreciate satisfied brilliant delighted",
}
_ZH_WORDS: Final = {
    -1.0: "骗子 诈骗 欺骗 垃圾 投诉 曝光 起诉 律师 无耻 恶心 气死 太过分 滚 黑店 忍无可忍 岂有此理"
    " 消协 愤怒",
    -0.6: "失望 生气 糟糕 太差 很差 坏了 破损 碎了 烂 不满 难受 讨厌 恼火 郁闷 无语 差评"
    " 受够 发火 难喝 敷衍",
    -0.3: "担心 着急 焦急 还没到 还没收到 丢了 不见了 急用 问题 麻烦 等了 延误 怎么还没",
    0.7: "谢谢 感谢 多谢 满意 喜欢 很好 太好了 不错 棒 开心 高兴 完美 好评 赞 好喝 放心",
}
_WEIGHTS: Final = {
    word: weight
    for lexicon in (_WORDS, _ZH_WORDS)
    for weight, words in lexicon.items()
    for word in words.split()
}
_LATIN, _HAN = (
    "|".join(re.escape(word) for words in lexicon.values() for word in words.split())
    for lexicon in (_WORDS, _ZH_WORDS)
)
_FOUND: Final = re.compile(rf"\b(?:{_LATIN})\b|{_HAN}")
_NOT: Final = re.compile(
    r"(?:\b(?:not|no|never|hardly|without|\w+n't)\s+(?:\w+\s+)?|不是很|不太|并不|毫无|没有|不|没|别)$"
)
_VERY: Final = re.compile(
    r"(?:\b(?:very|so|really|extremely|absolutely|totally|completely)\s+|非常|特别|极其|十分|真是|太)$"
)
_LOUD: Final = re.compile(r"[!\uff01]{2,}|\b[A-Z]{3,}(?:\s+[A-Z]{2,}){2,}")

_TURNED: Final = -0.6
"""What a word counts for behind a "not": less, and the other way."""
_STRONGER: Final = 1.3
_STEPS: Final[tuple[tuple[float, Mood], ...]] = (
    (-0.8, "angry"), (-0.4, "upset"), (-0.15, "worried"), (0.3, "calm"),
)  # fmt: skip


@dataclass(frozen=True)
class Feeling:
    """How a text sounds, from -1 to 1, and the words that say so."""

    mood: Mood
    score: float
    words: tuple[str, ...]


def feeling_in(text: str) -> Feeling:
    """Judge a text: the worst that it says counts most, so that thanks hide no anger."""
    low = plain(text).replace("\u2019", "'")
    weighed = {found[0]: _weight(low, found) for found in _FOUND.finditer(low)}
    worst, best = min(weighed.values(), default=0.0), max(weighed.values(), default=0.0)
    score = worst if worst < 0 else best
    if _LOUD.search(text):
        score *= _STRONGER
    score = round(max(-1.0, min(1.0, score)), 2)
    mood: Mood = next((mood for most, mood in _STEPS if score < most), "pleased")
    return Feeling(mood, score, tuple(weighed))


def _weight(text: str, found: re.Match[str]) -> float:
    before = text[max(0, found.start() - 24) : found.start()]
    weight = _WEIGHTS[found[0]]
    if _NOT.search(before):
        return weight * _TURNED
    return weight * _STRONGER if _VERY.search(before) else weight
