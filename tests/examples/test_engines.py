"""docs/engines.md links the recipes, which `make engines` runs."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "examples" / "engines").glob("*.py"))
PAGE = (ROOT / "docs" / "engines.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_page_links_the_file_that_runs(file):
    text = file.read_text(encoding="utf-8")
    assert f"(../examples/engines/{file.name})" in PAGE
    tree = ast.parse(text)
    lines = {
        line
        for node in tree.body
        if not isinstance(node, (ast.Import, ast.ImportFrom))
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        if text.splitlines()[line - 1].strip()
    }
    assert len(lines) <= 30, "a recipe is thirty lines beside its imports"
    assert file.stem in (ROOT / "benchmarks" / "engines.py").read_text(encoding="utf-8")


def test_there_is_a_recipe_for_each_engine():
    assert [file.stem for file in FILES] == ["celery_turns", "dbos_turns", "temporal_turns"]
