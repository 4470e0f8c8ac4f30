"""Rules of the house that a reader of one file cannot see broken."""

import ast
from pathlib import Path

import loopwright

ROOT = Path(loopwright.__file__).parent
NODES = sorted((ROOT / "nodes").rglob("*.py"))


def functions(path):
    tree = ast.parse(path.read_text())
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def calls_of(node, name):
    return [
        n
        for n in ast.walk(node)
        if isinstance(n, ast.Call) and ast.unparse(n.func).split(".")[-1] == name
    ]


def test_a_node_asks_at_most_one_question_with_nothing_before_it():
    for path in NODES:
        for function in functions(path):
            questions = calls_of(function, "interrupt")
            assert len(questions) <= 1, (
                f"{path.stem}.{function.name} has {len(questions)} interrupts"
            )
            if questions:
                awaits = [n for n in ast.walk(function) if isinstance(n, ast.Await)]
                before = [n for n in awaits if n.lineno <= questions[0].lineno]
                assert not before, (
                    f"{path.stem}.{function.name} does something that could happen twice"
                )
                assert any(k.arg == "response_schema" for k in questions[0].keywords)


def test_nodes_know_no_neighbours_and_stay_small():
    for path in NODES:
        source = path.read_text()
        assert "goto=" not in source, path
        assert ".graphs" not in source, path
        for function in functions(path):
            doc = ast.get_docstring(function, clean=False) or ""
            lines = (function.end_lineno or 0) - function.lineno + 1 - len(doc.splitlines())
            assert lines <= 40, f"{path.stem}.{function.name} has {lines} lines"


def test_a_file_has_one_phase_or_two_and_a_folder_few_files():
    for path in NODES:
        phases = [
            f.name
            for f in ast.parse(path.read_text()).body
            if isinstance(f, ast.AsyncFunctionDef)
            and not f.name.startswith("_")
            and f.args.args[0].arg == "state"
        ]
        assert len(phases) <= 2, f"{path.relative_to(ROOT)} has {phases}"
        assert len(list(path.parent.glob("*.py"))) <= 12
