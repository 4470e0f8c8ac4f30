"""The names `loopwright` promises."""

import ast
import importlib
from pathlib import Path

import pytest

import loopwright


def test_the_public_names_are_sorted_unique_and_those_of_the_lazy_table():
    assert loopwright.__all__ == sorted(set(loopwright.__all__))
    assert set(loopwright._HOMES) - set(loopwright.__all__) == {"LeanChatOpenAI"}  # see __init__
    assert dir(loopwright) == sorted(loopwright._HOMES)
    assert not [name for name in loopwright.__all__ if name.startswith("_")]


def test_every_public_name_is_what_its_home_calls_so():
    for name in dir(loopwright):
        home = importlib.import_module(f"loopwright.{loopwright._HOMES[name]}")
        found = getattr(loopwright, name)
        assert found is getattr(home, name), name
        assert found.__module__.startswith("loopwright."), name
        assert found.__doc__, name


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(loopwright.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    imported = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == loopwright._HOMES


def test_an_unknown_name_is_an_ordinary_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'build_everything'"):
        loopwright.build_everything  # noqa: B018 - looking it up is the test
