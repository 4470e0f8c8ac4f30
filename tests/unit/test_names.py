"""The names of the package: the words of the field, functions as verb phrases."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = sorted(path.parent for path in ROOT.glob("*/__init__.py"))
MODULES = [path for room in ROOMS for path in sorted(room.rglob("*.py"))]
RETIRED = {
    "hands", "pace", "line", "company", "passing", "news", "standing", "told", "tab", "grown",
    "shelf", "seats", "place", "talk", "bodies", "veil", "lean", "wishes", "outside", "beside",
    "taken_back", "tabled", "own", "learnt", "stretch", "what_stays", "shown", "streamed", "due",
    "held", "given", "past", "proof", "wish", "packet", "crew", "inside", "observed", "injected",
}  # fmt: skip
"""Names of modules that a newcomer could not guess."""
PARTICIPLES = re.compile(
    r"_*(?:(?!embed)[a-z]*[^e_]ed|told|shown|left|held|kept"
    r"|made|given|said|known|found|taken|seen|done|gone|been|met|sent|brought|thought|bound|built"
    r"|lost|hidden|begun|broken|chosen|drawn|fallen|felt|forgotten|grown|heard|learnt|meant|spent"
    r"|taught|thrown|torn|written|withdrawn|driven)"
)
PHASES = {"thought"}
PROMISED = {"asked", "enqueued", "aenqueued", "unfinished"}
"""Names that users of the package call."""


def functions(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def test_no_module_has_a_retired_name():
    names = {path.stem for path in MODULES} | {path.parent.name for path in MODULES}
    # policy/desk/company.py holds the profile of a company.
    assert names & RETIRED <= {"company"}


def test_no_function_is_a_bare_participle():
    bare = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in MODULES
        for name in functions(path)
        if PARTICIPLES.fullmatch(name) and name not in PHASES | PROMISED
    }
    assert bare == set()
