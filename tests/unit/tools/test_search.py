"""The one keyword search: what is found, in which order, and what counts as the same word."""

import pytest
from hypothesis import given, strategies as st

from loopwright.tools.search import build_search

FILES = build_search(
    [
        ("read", "read_file", "Read the contents of a file."),
        ("write", "writeFile", "Create a file, or overwrite it."),
        ("tree", "directory_tree", "Show all directories below one as a tree."),
        ("issue", "create_issue", "Create an issue in a GitHub repository."),
        ("http", "getHTTPResponse", "Ask a server."),
        ("zh", "读取文件", "读取一个文本文件的内容"),
    ]
)


def found(query: str, most: int = 3) -> list[str]:
    return [id_ for id_, _ in FILES.find(query, most)]


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("read_file", "read"),
        ("reading files", "read"),
        ("HTTP", "http"),
        ("open a ticket on github", "issue"),
        ("文件内容", "zh"),
    ],
)
def test_the_best_text_is_the_one_that_says_most_of_the_query(query, best):
    assert found(query)[0] == best


def test_accents_and_case_count_for_nothing():
    search = build_search([("a", "", "Café in der Straße"), ("b", "", "が か"), ("c", "", "กาแฟ")])
    assert [search.find(word)[0][0] for word in ("CAFE", "strasse", "か", "กาแฟ")] == [*"aabc"]
    assert search.find("が") == search.find("が", 1)


@pytest.mark.req("W-116")
@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("满80欧元免运费", ["免运费", "80", "欧元", "满"]),
        ("iPhone15手机壳", ["手机壳", "iphone15"]),
        ("人々80円コーヒー3杯", ["コーヒー", "人々", "杯"]),
        ("3월에 배송", ["배송", "월에"]),
        ("ราคา80บาท", ["บาท", "ราคา"]),
        ("Ab 80€ versandfrei nach Übersee", ["ubersee", "VERSANDFREI"]),
    ],
)
def test_a_script_without_spaces_is_found_behind_a_digit_and_a_name(text, queries):
    others = [("b", "", "买100送1"), ("c", "", "Nothing of the kind")]
    search = build_search([*others, ("a", "", text)])
    assert {query: [id_ for id_, _ in search.find(query)][:1] for query in queries} == {
        query: ["a"] for query in queries
    }


def test_a_title_counts_more_than_a_text_and_a_rare_word_more_than_a_common_one():
    search = build_search(
        [("a", "", "apple pear"), ("b", "apple", "pear"), ("c", "", "pear quince")]
    )
    assert search.find("apple")[0][0] == "b"
    assert search.find("pear quince")[0][0] == "c"


@given(st.lists(st.text(), max_size=8), st.text())
def test_any_text_can_be_searched_and_finds_itself(texts, query):
    search = build_search([(str(place), "", text) for place, text in enumerate(texts)])
    hits = search.find(query, 10)
    assert [score for _, score in hits] == sorted((score for _, score in hits), reverse=True)
    assert all(score > 0 for _, score in hits)
    for place, text in enumerate(texts):
        same = [id_ for id_, _ in search.find(text, len(texts))]
        assert str(place) in same or not same
