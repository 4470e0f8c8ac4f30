"""What does the house weigh, and does it keep its budgets? Exits with 1 if it does not.

    python benchmarks/house.py

The budgets stand in `[tool.house]` of pyproject.toml, a table for each kind. Lines are counted as
`wc -l` does. `walk.py` says how a walk and the rows of a turn are counted.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from walk import PRODUCT, ROOMS, ROOT, Counts, files_entered, rows_saved

Budgets = dict[str, Counts]

MOCKS = {"mock", "mocker", "Mock", "MagicMock", "AsyncMock", "NonCallableMock", "create_autospec"}
SUPPRESSIONS = {
    "fmt: skip": r"# fmt: skip",
    "noqa": r"# noqa",
    "type: ignore": r"# type: ignore",
    "cast": r"\bcast\(",
}


def lines(files: list[Path]) -> int:
    """As `wc -l` counts them."""
    return sum(file.read_bytes().count(b"\n") for file in files)


def lines_by_room() -> Counts:
    """Lines of each room, of the product and of its tests."""
    rooms = {room.name: lines(list(room.rglob("*.py"))) for room in ROOMS}
    tests = lines(list((ROOT / "tests").rglob("*.py")))
    return rooms | {"product": lines(PRODUCT), "tests": tests}


def channels() -> Counts:
    """Channels of each graph's state, those of inner graphs too."""
    from loopwright.graphs.registry import DRAWABLE, find_drawable_graph  # noqa: PLC0415 - not needed for lines

    graphs = {name: find_drawable_graph(name) for name in DRAWABLE}
    return {name: len(graph.builder.channels) for name, graph in graphs.items()}


def suppressions() -> Counts:
    """How often the product sets a rule of its tools aside."""
    text = "".join(file.read_text(encoding="utf-8") for file in PRODUCT)
    return {name: len(re.findall(pattern, text)) for name, pattern in SUPPRESSIONS.items()}


def longest() -> Counts:
    """Lines of the longest file, and of the longest function without its docstring."""
    return {
        "file": max(lines([file]) for file in PRODUCT),
        "function": max(length for file in PRODUCT for length in function_lines(file)),
    }


def function_lines(file: Path) -> Iterator[int]:
    """The lines of each function of a file, without its docstring."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            text = 0 if ast.get_docstring(node) is None else _height(node.body[0])
            yield _height(node) - text


def _height(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def cycles() -> Counts:
    """Whether modules, or folders, import each other in a circle; late imports count."""
    import grimp  # noqa: PLC0415 - not needed for the walk

    graph = grimp.build_graph("loopwright", exclude_type_checking_imports=True)
    rooms = {room.name for room in ROOMS}
    ours = {name for name in graph.modules if name.split(".")[1:2] and name.split(".")[1] in rooms}
    imports = {name: graph.find_modules_directly_imported_by(name) & ours for name in ours}
    folders: dict[str, set[str]] = {}
    for name, imported in imports.items():
        folders.setdefault(_folder(name), set()).update(map(_folder, imported))
    for folder, imported in folders.items():
        imported.discard(folder)
    return {"modules": _in_circles(imports), "folders": _in_circles(folders)}


def _folder(module: str) -> str:
    """Where its file stands; `__init__.py` stands in its own folder."""
    inside = ROOT.joinpath(*module.split(".")[1:])
    return str(inside if inside.is_dir() else inside.parent)


def _in_circles(imports: dict[str, set[str]]) -> int:
    """How many of them import themselves in the end."""

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        todo = [start]
        while todo:
            new = imports[todo.pop()] - found
            found |= new
            todo += new
        return found

    return sum(name in reached(name) for name in imports)


def mocks() -> int:
    """How often the tests name something of `unittest.mock`."""
    trees = (ast.parse(file.read_text(encoding="utf-8")) for file in (ROOT / "tests").rglob("*.py"))
    nodes = (node for tree in trees for node in ast.walk(tree))
    return sum(getattr(node, "id", getattr(node, "attr", None)) in MOCKS for node in nodes)


def measure() -> Budgets:
    """All there is a budget for, by kind and name."""
    walk = files_entered()
    checkpoints, writes = rows_saved()
    return {
        "lines": lines_by_room(),
        "longest": longest(),
        "modules": {"product": len(PRODUCT)},
        "in-circles": cycles(),
        "suppressions": suppressions(),
        "mocks": {"tests": mocks()},
        "files-entered": walk,
        "channels": channels(),
        "checkpoints": checkpoints,
        "channel-writes": writes,
    }


def overruns(measured: Budgets, budgets: Budgets) -> Iterator[str]:
    """What is over its budget, or has none, or is a budget of something that is not there."""
    for kind in sorted(budgets.keys() | measured.keys()):
        counts, allowed = measured.get(kind, {}), budgets.get(kind, {})
        for name in sorted(counts | allowed):
            count, budget = counts.get(name), allowed.get(name)
            if count is None or budget is None or count > budget:
                yield f"{kind} {name}: {count} of {budget}"


def main() -> int:
    """Print all numbers beside their budgets; 1 if one is over, or has none."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    budgets: Budgets = project["tool"]["house"]
    measured = measure()
    for kind, counts in measured.items():
        for name, count in counts.items():
            budget = budgets.get(kind, {}).get(name)
            sys.stdout.write(f"  {kind:16} {name:20} {count:>7,} of {budget or 0:>7,}\n")
    wrong = list(overruns(measured, budgets))
    if wrong:
        sys.stdout.write("\nOver budget, see Budgets in CONTRIBUTING.md:\n")
        sys.stdout.writelines(f"  {line}\n" for line in wrong)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
