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
        ("save a file", "write"),
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
