"""A headless browser that opens a page of components, and tells what it made of them."""

import html
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import loopwright
from loopwright.ui.routes import app
from support.patience import PATIENCE

UI = Path(loopwright.__file__).parent / "ui"
HOST = Path(__file__).parents[1] / "fixtures" / "page.tsx"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

needs_browser = pytest.mark.skipif(
    not (any(map(shutil.which, NAMES)) and (UI / "node_modules" / "esbuild").is_dir()),
    reason="needs Chromium, Node, and `npm install --no-package-lock` in ui/",
)


def component(name: str, props: Any, key: str = "", under: str = "m") -> dict[str, Any]:
    return {
        "id": key or f"{name}-{id(props)}", "name": name, "props": props,
        "metadata": {"message_id": under},
    }  # fmt: skip


def opened(
    folder: Path,
    items: Sequence[Mapping[str, Any]],
    *,
    stream: Mapping[str, Any] | None = None,
    does: Sequence[Mapping[str, Any]] = (),
) -> Any:
    """Draw components as a chat page does, and press what is to be pressed.

    Args:
        folder: Where the page may be written.
        items: The components, as the state has them in `ui`.
        stream: What the page knows of the run: `messages`, `interrupts`, `isLoading`.
        does: Steps: `press` a button of an `item`, `type` into its field, `then` give it other
            props, or let the run be `live`.

    Returns:
        `drawn`: of each item words, tags, handlers and links; `heard`: the words after each step;
        `submitted`: what was sent to the graph; `executed`: what ran that never should.
    """
    with TestClient(app) as client:
        names = {item["name"] for item in items}
        answers = {name: client.post("/ui/any", json={"name": name}).text for name in names}
    given = {"answers": answers, "items": items, "stream": stream or {}, "does": does}
    data = json.dumps(given).replace("<", "\\u003c")
    page = folder / "page.html"
    page.write_text(
        '<!doctype html><meta charset="utf-8"><div id="page"></div>'
        f'<script type="application/json" id="given">{data}</script>'
        f"<script>{_host(folder)}</script>",
        encoding="utf-8",
    )
    return _report(_dumped(page))


def _host(folder: Path) -> str:
    """The page's own script: React, and what LangGraph's SDK does to load a component."""
    built = folder / "page.js"
    command = [str(UI / "node_modules/.bin/esbuild"), str(HOST), "--bundle", "--minify"]
    command += ["--jsx=automatic", '--define:process.env.NODE_ENV="production"']
    paths = os.environ | {"NODE_PATH": str(UI / "node_modules")}
    subprocess.run([*command, "--log-level=error", f"--outfile={built}"], check=True, env=paths)
    return built.read_text(encoding="utf-8")


def _dumped(page: Path) -> str:
    browser = next(filter(None, map(shutil.which, NAMES)))
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += [f"--user-data-dir={page.parent / 'profile'}", "--virtual-time-budget=20000"]
    done = subprocess.run(
        [*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=PATIENCE
    )
    return done.stdout


def _report(dom: str) -> Any:
    found = re.search(r'<pre id="report">(.*?)</pre>', dom, re.DOTALL)
    assert found, dom[-500:]
    return json.loads(html.unescape(found[1]))
