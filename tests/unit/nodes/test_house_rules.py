"""Rules of the house that a reader of one file cannot see broken."""

import ast
from pathlib import Path

import pytest

import loopwright

ROOT = Path(loopwright.__file__).parent
NODES = sorted(p for p in (ROOT / "nodes").glob("*.py"))


def functions(path):
    tree = ast.parse(path.read_text())
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def calls_of(node, name):
    return [
        n
        for n in ast.walk(node)
        if isinstance(n, ast.Call) and ast.unparse(n.func).split(".")[-1] == name
    ]


@pytest.mark.parametrize("path", NODES, ids=lambda p: p.stem)
def test_a_node_asks_at_most_one_question_with_nothing_before_it(path):
    for function in functions(path):
        questions = calls_of(function, "interrupt")
        assert len(questions) <= 1, f"{function.name} has {len(questions)} interrupts"
        if questions:
            before = [n for n in ast.walk(function) if isinstance(n, ast.Await)]
            assert not before, f"{function.name} does something that could happen twice"
            assert any(k.arg == "response_schema" for k in questions[0].keywords)


@pytest.mark.parametrize("path", NODES, ids=lambda p: p.stem)
def test_nodes_know_no_neighbours_and_stay_small(path):
    source = path.read_text()
    assert "goto=" not in source
    assert "from ..graphs" not in source
    for function in functions(path):
        doc = ast.get_docstring(function, clean=False) or ""
        lines = (function.end_lineno or 0) - function.lineno + 1 - len(doc.splitlines())
        assert lines <= 40, f"{function.name} has {lines} lines"


@pytest.mark.req("S0-16", "S0-159")
def test_the_rooms_are_there_and_say_what_lives_in_them():
    for room in (
        "cli",
        "doors",
        "graphs",
        "models",
        "nodes",
        "prompts",
        "servers",
        "state",
        "tools",
    ):
        text = (ROOT / room / "__init__.py").read_text()
        assert len((ast.get_docstring(ast.parse(text)) or "").split()) >= 3, f"{room} says nothing"
