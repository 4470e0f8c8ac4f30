"""Pictures of Agent Chat UI with each graph, in a turn with its approvals: part of `make ui`.

`python -m support.chat_pages <folder> <pictures>` takes a folder in which Agent Chat UI was
installed and built (`npm install`, `npx next build`), and starts it beside `langgraph dev`.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from support.browser import NAMES

TESTS = Path(__file__).parents[1]
GRAPHS = ("plan", "flow", "react", "agent", "service", "router")
SERVED = f"""
import sys, tempfile
from pathlib import Path

sys.path.append({str(TESTS)!r})
from support.front_desks import DESKS

def build(name):
    return DESKS[name][0](Path(tempfile.mkdtemp()))[0]

for name in DESKS:
    for way in ("", "_no"):
        globals()[name + way] = build(name)
        globals()[name + way].checkpointer = None
"""
"""The graphs as a server's module; those ending in `_no` are for threads that reject."""

DOORS = f"""{SERVED}
from loopwright.ui.ag_ui import ag_ui_route
from loopwright.ui.routes import app

for name in DESKS:
    for way in ("", "_no"):
        where = f"/ag-ui/{{name}}{{way}}"
        app.routes.append(ag_ui_route(build(name), where, answered_by="operator"))
"""
"""The same with AG-UI's routes, as `app`: behind each a graph and a saver of its own."""


def _find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def _wait_for(address: str, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(address, timeout=5)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.3)
        else:
            return


def take_pictures(chat: Path, pictures: Path) -> None:
    """Start both servers, let a browser go through each graph's turn, and end them."""
    pictures.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp())
    (folder / "served.py").write_text(SERVED)
    graphs = {name: f"./served.py:{name}" for name in GRAPHS}
    settings = {"dependencies": ["."], "graphs": graphs, "env": {}}
    http = {"http": {"app": "loopwright.ui.routes:app"}}
    (folder / "langgraph.json").write_text(json.dumps(settings | http))
    served, shown = _find_port(), _find_port()
    dev = [str(Path(sys.executable).with_name("langgraph")), "dev", "--no-browser", "--no-reload"]
    log = (folder / "servers.log").open("wb")
    about = os.environ | {"LOOPWRIGHT_CHAT_PANEL": "off"}
    begun = [
        subprocess.Popen(command, cwd=place, env=about, stdout=log, stderr=log, process_group=0)
        for command, place in (
            ([*dev, "--port", str(served)], folder),
            (["npx", "next", "start", "-p", str(shown)], chat),
        )
    ]
    try:
        api, page = f"http://127.0.0.1:{served}", f"http://127.0.0.1:{shown}"
        _wait_for(f"{api}/ok")
        _wait_for(page)
        browser = next(filter(None, map(shutil.which, NAMES)))
        script = str(TESTS / "fixtures" / "chat_pages.mjs")
        command = ["node", script, str(chat.resolve()), page, api, str(pictures), *GRAPHS]
        subprocess.run(command, check=True, env=os.environ | {"CHROMIUM": browser})
    finally:
        for one in begun:
            os.killpg(one.pid, signal.SIGTERM)  # npx starts the server as a child
        for one in begun:
            one.wait(30)


if __name__ == "__main__":
    take_pictures(Path(sys.argv[1]), Path(sys.argv[2]))
