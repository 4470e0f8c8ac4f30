"""Rules of the house that a reader of one file cannot see broken."""

import ast
from pathlib import Path

import pytest

import loopwright

ROOT = Path(loopwright.__file__).parent
NODES = sorted(p for p in (ROOT / "nodes").rglob("*.py"))


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
            awaits = [n for n in ast.walk(function) if isinstance(n, ast.Await)]
            before = [n for n in awaits if n.lineno <= questions[0].lineno]
            assert not before, f"{function.name} does something that could happen twice"
            assert any(k.arg == "response_schema" for k in questions[0].keywords)


@pytest.mark.parametrize("path", NODES, ids=lambda p: p.stem)
def test_nodes_know_no_neighbours_and_stay_small(path):
    source = path.read_text()
    assert "goto=" not in source
    assert ".graphs" not in source
    for function in functions(path):
        doc = ast.get_docstring(function, clean=False) or ""
        lines = (function.end_lineno or 0) - function.lineno + 1 - len(doc.splitlines())
        assert lines <= 40, f"{function.name} has {lines} lines"


@pytest.mark.parametrize("path", NODES, ids=lambda p: p.stem)
def test_a_file_has_one_phase_and_a_folder_few_files(path):
    phases = [
        f.name
        for f in ast.parse(path.read_text()).body
        if isinstance(f, ast.AsyncFunctionDef)
        and not f.name.startswith("_")
        and f.args.args[0].arg == "state"
    ]
    assert len(phases) <= 1, f"{path.relative_to(ROOT)} has {phases}"
    assert len(list(path.parent.glob("*.py"))) <= 12


LAYERS = (
    {"cli"}, {"graphs"}, {"nodes"}, {"calls", "models"}, {"flow"}, {"tools"}, {"turn"},
    {"prompts", "doors", "hooks"}, {"state"},
)  # fmt: skip
"""From top to bottom; a room imports itself and the rooms below it."""

ROOMS = sorted({room for layer in LAYERS for room in layer} | {"servers"})


def below(room):
    place = next((n for n, layer in enumerate(LAYERS) if room in layer), len(LAYERS))
    return {lower for layer in LAYERS[place + 1 :] for lower in layer}


def rooms_imported(path):
    """The rooms one file imports, early or late, relative or by the package's name."""
    package = ["loopwright", *path.relative_to(ROOT).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        for name in names:
            if name.split(".")[0] == "loopwright":
                yield [*name.split("."), "the package itself"][1]


@pytest.mark.req("S0-16")
@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_only_what_lies_below_them(room):
    files = sorted((ROOT / room).rglob("*.py"))
    assert len(files) > 1
    allowed = {room} | below(room)
    for path in files:
        wrong = set(rooms_imported(path)) - allowed
        assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"


@pytest.mark.req("S0-16")
def test_every_room_is_in_the_order_and_nobody_imports_a_server():
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages - {"tests", "examples", "benchmarks"} == set(ROOMS)
    assert "servers" not in set(rooms_imported(ROOT / "__init__.py"))
    seen = set(rooms_imported(ROOT / "graphs" / "plan_execute_verify.py"))
    assert {"graphs", "nodes", "doors", "state"} <= seen, "it sees imports"


@pytest.mark.parametrize("path", sorted((ROOT / "turn").glob("*.py")), ids=lambda p: p.stem)
def test_how_a_turn_goes_knows_no_graph(path):
    names = {getattr(n, "id", "") for n in ast.walk(ast.parse(path.read_text()))}
    graphs = {"PlanState", "TaskState", "ReactState", "FlowState"}
    assert not names & graphs


@pytest.mark.req("S0-159")
@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_what_lives_in_it(room):
    text = (ROOT / room / "__init__.py").read_text()
    assert len((ast.get_docstring(ast.parse(text)) or "").split()) >= 3
