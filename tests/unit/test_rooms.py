"""The rooms of the house: what each may import, and that it says what lives in it."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LAYERS = [
    {room.removeprefix("loopwright.") for room in layer.split(" | ")}
    for layer in PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
]
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
    assert {"graphs", "nodes", "run", "state"} <= seen, "it sees imports"


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
