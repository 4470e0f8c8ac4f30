"""What a few words of a customer mean, in English and Chinese."""

import pytest

from loopwright.policy.desk.phrases import (
    detect_language,
    is_alike,
    is_call_for_human,
    is_closing,
    make_own_words_test,
    read_consent,
    read_rating,
    read_settlement,
)


@pytest.mark.parametrize(
    "text",
    [
        "yes", "Yes!", "YES.", "yes please", "Yes, go ahead.", "ok", "Okay, do it, thanks!",
        "sure",
        "I agree", "That's right", "that’s correct, please go ahead", "是", "是的", "好的,谢谢",
        "同意", "确认", "可以", "对的,请办理", "ＹＥＳ", "没问题", "yes yes yes",
    ],
)  # fmt: skip
def test_a_plain_yes(text):
    assert read_consent(text) == "yes"


@pytest.mark.parametrize(
    "text",
    ["no", "No.", "no thanks", "No, thank you!", "not now", "Don't do it", "不", "不用了",
     "不同意",
     "不可以", "取消", "算了,谢谢", "不是", "please don't", "I don't agree"],
)  # fmt: skip
def test_a_plain_no(text):
    assert read_consent(text) == "no"


@pytest.mark.parametrize(
    "text",
    [
        "yes?", "yes, make it 20", "no thanks, I don't agree yes", "maybe yes", "可以吗",
        "是的,但是退到另一张卡", "not yes", "thanks", "", "yes, and also refund A-1043",
        "ok but not that one", "明白了", "I said yes to the lamp", "is that correct",
        "so was it yes", "是吧", "~~yes~~",
    ],
)  # fmt: skip
def test_no_plain_word_is_neither(text):
    assert read_consent(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "I want a human", "human please", "转人工", "Let me talk to your manager",
        "请帮我转人工客服", "我想找真人", "transfer me to an agent",
    ],
)  # fmt: skip
def test_a_wish_for_a_human(text):
    assert is_call_for_human(text)


@pytest.mark.req("W-131")
@pytest.mark.parametrize(
    "text",
    [
        "I want the agent fee back", "I need the manager account closed",
        "I don't want a bot, give me a human", "我要退人工费", "No, I want a human",
        "I don't want a human", "不用人工", "别给我转人工", "Are you a human?",
        "The delivery agent left it outside", "no need to speak to a person", "人工智能是什么",
        "without a representative", "Is the cleaning agent safe?",
    ],
)  # fmt: skip
def test_what_says_more_is_for_the_model(text):
    assert not is_call_for_human(text)


@pytest.mark.req("S4-68")
@pytest.mark.parametrize(
    "text",
    ["thanks", "Thank you very much!", "no thanks, bye", "That's all, thank you.", "谢谢",
     "谢谢您,再见",
     "没有其他问题了,谢谢", "ok thanks", "great, thanks for your help", "No, that's all",
     "好的谢谢"],
)  # fmt: skip
def test_closing_words(text):
    assert is_closing(text)


@pytest.mark.parametrize(
    "text",
    ["thanks, but it is still broken", "thank you, where is my order?", "谢谢,但是还没收到",
     "thanks?",
     "hello, thanks", "Thanks for nothing, I want my money", "", "no"],
)  # fmt: skip
def test_words_that_close_nothing(text):
    assert not is_closing(text)


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("5", 5),
        ("3 out of 5", 3),
        ("5, thanks!", 5),
        ("4分", 4),
        ("I am satisfied", 4),
        ("不满意", 2),
        ("⭐⭐⭐", 3),
        ("not satisfied", 2),
        ("0", None),
        ("5 lamps arrived broken", None),
        ("5?", None),
        ("yes", None),
        ("14", None),
        ("4.5", None),
    ],
)  # fmt: skip
def test_a_mark(text, mark):
    assert read_rating(text) == mark


def test_the_language_stays_where_a_text_says_little():
    assert detect_language("Where is my order?") == "en"
    assert detect_language("订单 A-1042 lamp Juno 坏了") == "zh"
    assert detect_language("退掉 A-7, ada.byron@post.example") == "zh"
    assert detect_language("How do I say 退款 in the form") == "en"
    assert (
        detect_language("yes", "zh"),
        detect_language("A-1042", "zh"),
        detect_language("谢谢", "en"),
    ) == (
        "zh",
        "zh",
        "zh",
    )
    assert (
        detect_language("返品したいです"),
        detect_language("42", ""),
        detect_language("ok"),
    ) == (
        "ja",
        "",
        "en",
    )


def test_what_the_customer_wrote():
    texts = ["My lamp Juno (order A-1042) flickers", "邮编 10115"]
    is_own = make_own_words_test(texts)
    assert all(map(is_own, ("A-1042", "juno lamp", "10115")))
    assert not any(map(is_own, ("A-1043", "ada@example.org", "sofa", "")))


def test_whether_it_is_settled():
    yes = ["yes", "解决了,谢谢", "it works now, thanks", "Yes it did!", "ok got it"]
    no = ["no", "没解决", "it didn't", "No, not really", "还没有"]
    assert all(read_settlement(text) == "yes" for text in yes)
    assert all(read_settlement(text) == "no" for text in no)

    assert not any(
        map(read_settlement, ["thanks", "no, the lamp still flickers", "yes but", "it did?"])
    )


@pytest.mark.req("S4-71")
def test_nearly_the_same_words_are_the_same_answer():
    first = "You can return a lamp within 14 days of delivery if it was not used [kb-1]."
    assert is_alike(first, first.replace("[kb-1]", "[kb-2]").upper())
    assert is_alike(first, first + "!")
    assert not is_alike(first, "Returns close two weeks after the parcel came.")
    assert is_alike("十四天内可以退货。", "十四天内可以退货 [kb-1]")
    assert not is_alike("十四天内可以退货", "请联系人工")
