"""The committed bundle is what its sources give."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import loopwright
from loopwright.stream.components import COMPONENTS
from loopwright.ui import props_schema

UI = Path(loopwright.__file__).parent / "ui"
OTHER_SOURCES = {"build.mjs", "package.json", "props.schema.json"}


def test_the_bundle_names_the_hash_of_its_sources():
    sources = [p for p in UI.iterdir() if p.suffix in {".ts", ".tsx"} or p.name in OTHER_SOURCES]
    digest = hashlib.sha256()
    for path in sorted(sources, key=lambda p: p.name):
        digest.update(f"{path.name}\n".encode() + path.read_bytes())
    first = (UI / "entrypoint.js").read_text(encoding="utf-8").partition("\n")[0]
    assert digest.hexdigest() in first, "run `npm run build` in ui/"


def test_the_bundle_is_what_esbuild_makes_of_its_sources(tmp_path):
    built = tmp_path / "entrypoint.js"
    run_node("build.mjs", str(built))
    assert built.read_bytes() == (UI / "entrypoint.js").read_bytes(), "run `npm run build` in ui/"


def test_the_sources_are_typed():
    run_node("node_modules/typescript/bin/tsc", "--noEmit")


def run_node(*command: str) -> None:
    if not (shutil.which("node") and (UI / "node_modules" / "esbuild").is_dir()):
        pytest.skip("needs Node, and `npm install --no-package-lock` in ui/")
    done = subprocess.run(["node", *command], cwd=UI, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_markup_is_never_made_of_text():
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
    for path in UI.glob("*.ts*"):
        assert not re.search(forbidden, path.read_text(encoding="utf-8")), path.name
    assert not re.search(forbidden, (UI / "entrypoint.js").read_text(encoding="utf-8"))


@pytest.mark.req("S0-99")
def test_the_page_checks_props_by_the_models_of_the_components():
    exported = (UI / "props.schema.json").read_text(encoding="utf-8")
    assert exported == props_schema(), "run `make ui`"


@pytest.mark.req("S0-88")
def test_every_component_is_registered_under_its_name():
    source = (UI / "entrypoint.tsx").read_text(encoding="utf-8")
    assert set(re.findall(r'register\("([a-z-]+)"', source)) == set(COMPONENTS)
