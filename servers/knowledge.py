"""Articles in SQLite, found by their words: FTS5, in languages with and without spaces.

FTS5's own tokenizers do not find 退款: they take a whole Chinese sentence for one word. So texts
are cut into words here, articles and questions alike, and FTS5 indexes the words: Chinese and its
like by pairs of characters, simplified ones for traditional; English without endings; nothing of a
question is ever read as FTS5's syntax.
"""

import json
import math
import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

TABLES: Final = """
CREATE TABLE articles (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, base TEXT NOT NULL, language TEXT NOT NULL,
    title TEXT NOT NULL, url TEXT NOT NULL, text TEXT NOT NULL
);
CREATE INDEX articles_by_base ON articles (base);
CREATE VIRTUAL TABLE article_words USING fts5 (title, text, also, content='', tokenize='unicode61');
CREATE VIRTUAL TABLE word_counts USING fts5vocab (article_words, 'row');
"""

ENOUGH: Final = 0.3
"""An article below is no hit; measured, see docs/support-desk.md."""
ENOUGH_FOR_FAQ: Final = 0.4
"""To be the answer to a question takes more than to have to do with it."""

_MOST_WORDS: Final = 48
"""Of a long question: those that are rarest among the articles."""
_RANKED: Final = 20
"""How many are looked at for a title that is the question itself."""
_WEIGHTS: Final = "3.0, 1.0, 2.0"
"""How much a word counts in title, text and the words an article is also found by."""
_BEST: Final = 2.2
"""What bm25 gives at most for a word, as a multiple of its rarity."""
_UNKNOWN: Final = 1.6
"""How much more a word counts that no article has: the question may be about just that."""
_ACROSS: Final = 0.4
"""How much a pair of characters counts that no article has: often no word but where two meet."""

_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_RUNS: Final = re.compile(rf"([{_UNSPACED}\U00020000-\U0003ffff]+)|[^\W_]+")
_ENDINGS: Final = re.compile(r"(?<=[a-z]{3})(?:ies|ing|able|ed|es|s|e|y)$")
_DOUBLED: Final = re.compile(r"(?<=[a-z]{2})([b-df-hj-np-tv-z])\1$")

_SIMPLE: Final = str.maketrans(
    "萬與專業東絲兩嚴個豐臨為麗舉麼義樂習鄉書買亂爭於虧雲產親億僅從倉儀價眾優會傘偉傳傷倫偽體餘"
    "傭佔條來係側偵僑儲兒內冊寫軍農凍淨準幾憑擊劃則剛創刪別製劑劍劇勸辦務動勵勁勞勢區醫華協單賣"
    "盧衛卻廠廳歷壓厭縣參雙發變敘葉號嘆嚇嗎聽啟員問嘗噴囑團園圍國圖圓聖場壞塊堅壇墊壘處備復夠頭"
    "誇夾奪奮獎妝婦媽嬰孫學寧寶實寵審憲寬賓對尋導壽將塵層屆屬島幣師帳帶幫莊慶庫應廟廢開異棄張彈"
    "強歸當錄徹徑憂懷態總戀惡惱悅懸驚懼慣憤願戲戶執擴掃揚擾撫拋搶護報擔擬擁擇掛揮損換據擺攝攤敗"
    "敵數齋斷無舊時曠晝顯曬曉暫術機殺雜權桿標棧棟樹樣橋檢樓歡歐殘毀氣漢湯溝沒灣濕溫測濟渾濃塗淚"
    "潔灑澆滅燈靈災爐點煉爛煩燒熱愛爺狀獨狹獅獄獲環現瑪瓊電畫暢療瘋癢盡監盤蓋眞著睜矚礦碼磚確禮"
    "禍離種積稱穩窮竊競筆築篩簡簽籃類糧緊紅紀約級紋納紙純紗線練組細織終紹經綁結給絕統絹綠繼續緒"
    "維綿綜緩編緣縮繪繳網羅罰職聯聰肅腸膚腳腦脫臉膠臟舊艦藝節蘭莖薦藥獲營蕭薩藍蟲補裝裡複襯襲見"
    "觀規視覽覺計訂認討讓訓議記講許論設訪證評識訴診詞譯試詩誠話該詳語誤說請諸課誰調談諒謀謝謙譜負"
    "貝財責貨質販貪購貯費賀貴貿賠賞賬賴贈贏贊趕趙躍踐車軌軟轉輪輕載較輔輛輸轄邊達遷過邁運還這進遠"
    "違連遲適選遜遞遺郵鄧醬釋針釘鈕鋼鐘鑰錢鐵銀鋪銷鎖鍋錯鍵鏡長門閃閉問間聞閱隊陽陰階際陸陳險隨隱"
    "難霧靜頂項順須預領頻題顏額風飄飛飯飲飾飽餓館馬駕駛驗驅騎騙髒鬆鮮鳥鹽麥黃齊齒龍龜儘換燙筍"
    "壺盃櫃檯訊聲齡廚讀絡燈籠裏麵鬥發薑鎮顧戶貼遊測畢罵隻鏈搖擋歲產週",
    "万与专业东丝两严个丰临为丽举么义乐习乡书买乱争于亏云产亲亿仅从仓仪价众优会伞伟传伤伦伪体余"
    "佣占条来系侧侦侨储儿内册写军农冻净准几凭击划则刚创删别制剂剑剧劝办务动励劲劳势区医华协单卖"
    "卢卫却厂厅历压厌县参双发变叙叶号叹吓吗听启员问尝喷嘱团园围国图圆圣场坏块坚坛垫垒处备复够头"
    "夸夹夺奋奖妆妇妈婴孙学宁宝实宠审宪宽宾对寻导寿将尘层届属岛币师账带帮庄庆库应庙废开异弃张弹"
    "强归当录彻径忧怀态总恋恶恼悦悬惊惧惯愤愿戏户执扩扫扬扰抚抛抢护报担拟拥择挂挥损换据摆摄摊败"
    "敌数斋断无旧时旷昼显晒晓暂术机杀杂权杆标栈栋树样桥检楼欢欧残毁气汉汤沟没湾湿温测济浑浓涂泪"
    "洁洒浇灭灯灵灾炉点炼烂烦烧热爱爷状独狭狮狱获环现玛琼电画畅疗疯痒尽监盘盖真着睁瞩矿码砖确礼"
    "祸离种积称稳穷窃竞笔筑筛简签篮类粮紧红纪约级纹纳纸纯纱线练组细织终绍经绑结给绝统绢绿继续绪"
    "维绵综缓编缘缩绘缴网罗罚职联聪肃肠肤脚脑脱脸胶脏旧舰艺节兰茎荐药获营萧萨蓝虫补装里复衬袭见"
    "观规视览觉计订认讨让训议记讲许论设访证评识诉诊词译试诗诚话该详语误说请诸课谁调谈谅谋谢谦谱负"
    "贝财责货质贩贪购贮费贺贵贸赔赏账赖赠赢赞赶赵跃践车轨软转轮轻载较辅辆输辖边达迁过迈运还这进远"
    "违连迟适选逊递遗邮邓酱释针钉钮钢钟钥钱铁银铺销锁锅错键镜长门闪闭问间闻阅队阳阴阶际陆陈险随隐"
    "难雾静顶项顺须预领频题颜额风飘飞饭饮饰饱饿馆马驾驶验驱骑骗脏松鲜鸟盐麦黄齐齿龙龟尽换烫笋"
    "壶杯柜台讯声龄厨读络灯笼里面斗发姜镇顾户贴游测毕骂只链摇挡岁产周",
)
"""Traditional to simplified characters, the frequent ones of orders, goods and complaints."""

_STOPPED: Final = """
a about after all also am an and any are as at be been by can could did do does for from get
got had has have hello hey hi how i if in into is it its just know like may me much many my
need no not of on or our out please should so some tell than thank thanks that the their them
then there these they this to us use want was we were what when where which who why will with
would you your"""
_SAYS_NOTHING: Final = frozenset(_STOPPED.split())
_ZH_SAYS_NOTHING: Final = re.compile(
    "请问一下|请问|怎么样|怎么办|怎么|怎样|什么时候|为什么|什么|如何|是否|能否|可不可以|可以|能不能|哪里"
    "|哪些|哪个|多少|我想要|我想|我要|想要|想问|我的|你们的|你们|我们|他们|一个|这个|那个|这些|那些|一下"
    "|需要|有没有|没有|您好|你好|谢谢|的话|如果|还是|但是|因为|所以|是不是|应该|东西|就是|已经|[的了吗呢吧啊呀么我你您它会]"
)


@dataclass(frozen=True)
class Article:
    """An article; `also` are words it is found by that it does not say."""

    id: str
    base: str
    language: str
    title: str
    url: str
    text: str
    also: str = ""


@dataclass(frozen=True)
class Hit:
    """An article that was found, and how much of the question it has: from 0 to 1."""

    article: Article
    score: float


def plain(text: str) -> str:
    """A text without what people write in one way or the other: width, case, accents, script."""
    whole = unicodedata.normalize("NFKC", text).casefold()
    if whole.isascii():
        return whole
    apart = unicodedata.normalize("NFD", whole)
    kept = "".join(c for c in apart if not 0x300 <= ord(c) < 0x370)
    return unicodedata.normalize("NFC", kept).translate(_SIMPLE)


def words(text: str, *, asked: bool = False) -> Iterator[str]:
    """The words of a text in order; of a question those that say something."""
    cut = plain(text)
    for found in _RUNS.finditer(_ZH_SAYS_NOTHING.sub(" ", cut) if asked else cut):
        run = found[1]
        if run:
            yield from (run[at : at + 2] for at in range(len(run) - 1))
            if len(run) == 1 or not asked:
                yield from run
        elif not (asked and found[0] in _SAYS_NOTHING):
            yield _stem(found[0])


def _stem(word: str) -> str:
    if len(word) <= 3 or not word.isascii():
        return word
    return _DOUBLED.sub(r"\1", _ENDINGS.sub("", word))


def add(database: sqlite3.Connection, articles: Iterable[Article]) -> None:
    """Add articles; an id that there is already is an error of the database."""
    for one in articles:
        row = database.execute(
            "INSERT INTO articles (id, base, language, title, url, text) VALUES (?, ?, ?, ?, ?, ?)",
            (one.id, one.base, one.language, one.title, one.url, one.text),
        )
        cut = (" ".join(words(part)) for part in (one.title, one.text, one.also))
        database.execute(
            "INSERT INTO article_words (rowid, title, text, also) VALUES (?, ?, ?, ?)",
            (row.lastrowid, *cut),
        )


def bases(database: sqlite3.Connection) -> list[str]:
    """The names of the bases."""
    return [name for (name,) in database.execute("SELECT DISTINCT base FROM articles ORDER BY 1")]


def search(
    database: sqlite3.Connection,
    question: str,
    named: Sequence[str],
    *,
    most: int,
    enough: float = ENOUGH,
) -> list[Hit]:
    """The articles that have most of the question, best first, over all bases that are named.

    One index holds all bases, so that ranks compare. The score is what bm25 gives as a part of
    what it would give an article that has nothing else: it compares over questions, too, and a
    word that no article has weighs heaviest.
    """
    rarity = _rarities(database, question)
    known = {word: rare for word, rare in rarity.items() if rare.known}
    if not known:
        return []
    match = " OR ".join(f'"{word}"' for word in known)
    whole = _BEST * sum(rare.weight for rare in rarity.values())
    found = database.execute(
        f"SELECT id, base, language, a.title, url, a.text, -bm25(article_words, {_WEIGHTS}) AS fits"
        " FROM article_words JOIN articles AS a ON a.number = article_words.rowid"
        " WHERE article_words MATCH ? AND base IN (SELECT value FROM json_each(?))"
        " ORDER BY fits DESC, a.number LIMIT ?",
        (match, json.dumps(named), max(most, _RANKED)),
    )
    asked = list(words(question))
    hits = [_hit(asked, Article(*row[:6]), min(row[6] / whole, 1.0)) for row in found]
    best = sorted(hits, key=lambda hit: -hit.score)[:most]
    return [hit for hit in best if hit.score >= enough]


def _hit(asked: list[str], article: Article, score: float) -> Hit:
    """A hit; "Where is my order?" is the title of one article, though its words are everywhere."""
    return Hit(article, 1.0 if list(words(article.title)) == asked else round(score, 3))


@dataclass(frozen=True)
class _Rarity:
    weight: float
    known: bool


def _rarities(database: sqlite3.Connection, question: str) -> Mapping[str, _Rarity]:
    """How rare the words of a question are among the articles, as bm25 takes it."""
    asked = list(dict.fromkeys(words(question, asked=True)))
    counted = dict(
        database.execute(
            "SELECT term, doc FROM word_counts WHERE term IN (SELECT value FROM json_each(?))",
            (json.dumps(asked),),
        )
    )
    (total,) = database.execute("SELECT count(*) FROM articles").fetchone()
    rarities = {word: _rarity(word, counted.get(word, 0), total) for word in asked}
    rarest = sorted(asked, key=lambda word: (not rarities[word].known, -rarities[word].weight))
    return {word: rarities[word] for word in rarest[:_MOST_WORDS]}


def _rarity(word: str, count: int, total: int) -> _Rarity:
    rare = max(math.log((total - count + 0.5) / (count + 0.5)), 1e-6)
    across = not count and re.match(f"[{_UNSPACED}]", word)
    unknown = 1.0 if count else _ACROSS if across else _UNKNOWN
    return _Rarity(rare * unknown, known=count > 0)
