"""Words for the offline model: stems, everyday synonyms, and what a clause asks to be done.

The tables hold general language only. They name no product, server or tool, so that any set of
tools is read the same way.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_WORD: Final = re.compile(r"[^\W_]+(?:'[a-z]+)?")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_CJK: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
# Text beyond this many characters adds no words: matching must stay fast on huge inputs.
READ_LIMIT: Final = 40_000
_MOST_WORDS: Final = 300


def _split(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _rows_of(table: str) -> tuple[frozenset[str], ...]:
    """The rows of a table; an indented line goes on with the row above it."""
    return tuple(_split(row) for row in re.sub(r"\n\s+", " ", table).splitlines() if row)


STOPWORDS: Final = _split(
    "a an the and or but nor then also please of in on at to from for by with as into onto over "
    "under about is are was were be been being am do does did doing have has had having it its "
    "this that these those there here i me my we us our you your he him his she her they them "
    "their what which who whom whose when where why how will would can could should shall may "
    "might must not no yes if so than too very just only any some all every each both either "
    "many much first last next finally there's what's it's i'd i'm let let's tell know want "
    "need like say que qué es cual cuál wer wie ist quelle quel est qual quem come der die das "
    "und ein eine im el la los las y en de del le les et un una du des il e o os "
)

# Each row holds words that may stand for one another; a word may be in several rows.
_GROUPS: Final = _rows_of("""
list show display enumerate print give view liste zeige zeig montre affiche muestra elenca 列出
  显示
read open print cat view show display content contents text lies lese lire lis lee leggi 读取 阅读
find search look locate lookup grep suche finde cherche trouve busca cerca 查找 搜索
search mention contain match filter
get obtain retrieve download load show give view read return
write create save make store put new overwrite schreib schreibe erstelle cree escribe scrivi
  创建 写入
create make add new insert register open start raise crea
add append insert record attach log
delete remove erase drop clear purge destroy wipe losche loschen supprime efface borra elimina
  删除
update edit change modify replace set adjust
move rename transfer relocate
copy duplicate clone
send mail email post notify message share deliver forward
book reserve reservation booking schedule arrange plan create
cancel delete remove revoke abort
run execute query perform trigger launch
convert translate transform exchange
describe schema column structure detail info information metadata field definition
list find search
day date time today weekday
time late spat clock hour uhr uhrzeit zeit hora heure ora 时间 几点
current now today present
folder directory dir ordner verzeichnis dossier carpeta cartella 目录
file document datei dateien fichier fichiers archivo archivos 文件
repository repo project codebase
history log commit past recent
change diff difference modify
compare diff difference versus against
price cost amount
stock inventory quantity available availability level
weather forecast temperature rain wetter clima tiempo meteo 天气
customer client user account
ticket issue case
sum add total plus addition
calculate compute evaluate math
page website site url link web internet
count number many total
note memo insight observation
person people employee staff member contact
picture image photo
meeting event appointment calendar agenda
status state progress
switch checkout change
free available slot
own owner responsible belong
license licence lizenz licencia
return refund
buy purchase order
subtract minus
multiply times product
size big large byte
permission allow access
older newer since before after age
""")

# Verbs whose work leaves something changed behind.
_CHANGES: Final = _split(
    "write create save make store put overwrite insert register add append record attach delete "
    "remove erase drop clear purge destroy wipe update edit modify replace set adjust move "
    "rename transfer copy duplicate clone send mail email post notify message share deliver "
    "forward book reserve schedule arrange cancel revoke abort commit push reset checkout "
    "switch stage unstage pay buy purchase order approve reject start stop restart reboot "
    "deploy install uninstall upload assign close merge archive refund toggle enable disable "
    "trigger publish submit release unstages schreib schreibe erstelle cree escribe scrivi crea "
    "losche loschen supprime efface borra elimina 创建 写入 删除 change invite ban block kill "
    "charge draft compose invent revert undo restore fork compress encrypt format "
)
_LOOKS: Final = _split(
    "get list read show display find search look locate lookup view describe query count check "
    "inspect return retrieve convert tell know summarize summarise explain compare print open "
    "give what which who when where how why is are does do was were whats whose obtain "
    "enumerate grep cat calculate compute evaluate analyze analyse report download browse "
)
_POLITE: Final = re.compile(
    r"^(?:\W|please\b|pls\b|kindly\b|now\b|then\b|and\b|also\b|first(?:ly)?\b|second(?:ly)?\b|"
    r"next\b|"
    r"finally\b|lastly\b|after that\b|afterwards\b|(?:can|could|would|will) you\b|"
    r"(?:i|we) (?:want|need|would like|'d like)(?: you)?(?: to)?\b|i'd like(?: you)? to\b|let'?s\b|"
    r"(?:bitte|por favor|s'il te plait)\b|\d+[.)]\s)+",
    re.IGNORECASE,
)


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """Cut the commonest English endings; rough on purpose, equal words stay equal."""
    word = word.lower().removesuffix("'s").translate(_PLAIN)
    for ending, put in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x")):
        if word.endswith(ending) and len(word) > 4:
            return word[: -len(ending)] + put
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        word = word[:-1]
    for ending in ("ing", "ed", "er", "or"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            return (
                word[:-1]
                if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls"
                else word
            )
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


_LOOK_AT: Final = re.compile(r"(?i)\b(?:(?:take|have) a )?look (?:at|into|inside)\b")
_SIGNS: Final = tuple(
    (re.compile(rf"(?<=\d)\s*[{sign}]\s+(?=\d)|(?<=\d)\s+[{sign}]\s*(?=\d)"), f" {word} ")
    for sign, word in (("+", "plus"), ("*\xd7", "times"), ("/÷", "divide"), ("\u2212-", "minus"))
)
_FIND_OUT: Final = re.compile(r"(?i)\b(?:find|figure|work) out\b")
_NOT_DONE: Final = re.compile(r"(?i)\b(?:not|non)[ -](?:yet )?(\w+ed)\b")
_PLAIN: Final = str.maketrans("áàâäãéèêëíìîïóòôöõúùûüñç", "aaaaaeeeeiiiiooooouuuunc")


@lru_cache(maxsize=4_000)
def _rows(stemmed: str) -> frozenset[int]:
    return _ROWS.get(stemmed, frozenset())


def _index() -> dict[str, frozenset[int]]:
    rows: dict[str, set[int]] = {}
    for number, group in enumerate(_GROUPS):
        for word in group:
            rows.setdefault(stem(word), set()).add(number)
    return {word: frozenset(found) for word, found in rows.items()}


_ROWS: Final = _index()
CHANGES: Final = frozenset(stem(word) for word in _CHANGES)
LOOKS: Final = frozenset(stem(word) for word in _LOOKS)
STOP_STEMS: Final = frozenset(stem(word) for word in STOPWORDS) | STOPWORDS


def stems(text: str) -> frozenset[str]:
    """The stems of some words."""
    return frozenset(stem(word) for word in text.split())


def raw_words(text: str) -> list[str]:
    """Words as written, camelCase and snake_case cut; words known in CJK text are picked out."""
    for sign, word in _SIGNS:
        text = sign.sub(word, text) if sign.search(text[:200]) else text
    text = _NOT_DONE.sub(r"un\1", _FIND_OUT.sub("tell", _LOOK_AT.sub("view", text[:READ_LIMIT])))
    found = _WORD.findall(_CAMEL.sub(" ", text).replace("\u2019", "'"))
    if _CJK.search(text):
        found += [word for group in _GROUPS for word in group if _CJK.match(word) and word in text]
    return found


def words(text: str) -> list[str]:
    """All words of a text as stems, in order."""
    return [stem(word) for word in raw_words(text)]


def content_words(text: str) -> list[str]:
    """The stems that carry meaning, each once, in order."""
    kept = (stem(word) for word in raw_words(text) if word.lower() not in STOPWORDS)
    return list(dict.fromkeys(word for word in kept if len(word) > 1 or word.isdigit()))[
        :_MOST_WORDS
    ]


def related(one: str, other: str) -> float:
    """1 for the same stem, 0.6 for words of one row of synonyms, else 0."""
    if one == other:
        return 1.0
    return 0.6 if _rows(one) & _rows(other) else 0.0


def is_verb_known(word: str) -> bool:
    """Whether a stem is a verb (or question word) of the tables."""
    return word in CHANGES or word in LOOKS


def best_related(word: str, others: Iterable[str]) -> float:
    """How well the best of the other stems matches."""
    return max((related(word, other) for other in others), default=0.0)


def covered(wanted: Iterable[str], offered: Iterable[str]) -> float:
    """The share of wanted stems that the offered ones match (0 where nothing is wanted)."""
    asked, known = list(wanted), set(offered)
    if not asked:
        return 0.0
    rows = {row for word in known for row in _rows(word)}
    return sum(
        1.0 if word in known else 0.6 if _rows(word) & rows else 0.0 for word in asked
    ) / len(asked)


def without_courtesy(text: str) -> str:
    """The text without leading connectives, numbering and politeness."""
    return _POLITE.sub("", text.strip(), count=1).strip() or text.strip()


def lead(text: str) -> str:
    """The stem of the word that opens the clause: the verb of an imperative, or a question word."""
    found = raw_words(without_courtesy(text)[:200])
    known = [stem(word) for word in found]
    if known and (_CJK.match(known[0]) or known[0] in _PLACES):
        return next((word for word in known if word in CHANGES or word in LOOKS), known[0])
    return known[0] if known else ""


def changes_something(text: str) -> str:
    """The stem of the leading verb where the clause asks for a change, else ''."""
    verb = lead(text)
    return verb if verb in CHANGES else ""


def is_question(text: str) -> bool:
    """Whether the clause asks to be told something rather than to have something done."""
    return bool(_QUESTION.match(without_courtesy(text))) or text.rstrip().endswith(("?", "\uff1f"))


# A clause that opens with one of these has its verb further on: "in a.txt replace …".
_PLACES: Final = frozenset(
    [
        "in",
        "from",
        "on",
        "under",
        "for",
        "with",
        "using",
        "at",
        "inside",
        "within",
        "using",
        "of",
        "to",
    ]
)

_QUESTION: Final = re.compile(
    r"(?:tell|say|(?:find|figure) out|"
    r"answer|explain|summari[sz]e|sum up|report|compare|give me (?:a|"
    r"the) (?:summary|answer)|"
    r"let me know|who|whom|whose|what|what's|which|when|where|why|how|is|are|was|were|does|do|"
    r"did|has|have|"
    r"sag|dime|dis|count|conclude|decide|recommend|state)\b",
    re.IGNORECASE,
)
