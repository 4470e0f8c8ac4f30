"""Record the picture of the front page: a real run that is killed inside a payment and resumed.

    make picture

Two terminals in tmux: in the upper one the real `loopwright` command works, with the built-in demo
model and the tools of `bank_server.py`; in the lower one somebody kills it and reads the ledger.
What is typed stands in `play`; every screen is what tmux shows. Waits are shortened, and what is to
be read stays a while. Writes docs/run.svg, which loops; where motion is unwanted it shows the end.
"""

import html
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
PICTURE: Final = ROOT / "docs" / "run.svg"
COLUMNS, ROWS, BELOW = 92, 24, 4
GOAL: Final = 'List the open invoices, pay 40 EUR to "Miller" and pay 15 EUR to "Chen"'
WIDE, HIGH, MARGIN = 8.0, 18, 14
PATIENCE = 25.0
LONGEST = 0.7
"""Seconds that a wait is shown at most."""
COLOURS: Final = ("484f58", "ff7b72", "3fb950", "d29922", "58a6ff", "bc8cff", "39c5cf", "b1bac4")
_SGR: Final = re.compile(r"\x1b\[([\d;]*)m")
_THREAD: Final = re.compile(r"\b[\da-f]{4}(?:-[\da-f]{4}){3}\b")
Run = tuple[int, str, str]
"""Where a piece of text begins, the piece, and its classes."""


class Terminals:
    """Two terminals in a tmux of their own, and the screens seen so far."""

    def __init__(self, folder: str) -> None:  # noqa: D107
        self.frames: list[tuple[float, str]] = []
        self._tmux = ["tmux", "-L", f"picture-{os.getpid()}", "-f", os.devnull]
        here = {
            "HOME": folder, "LANG": "C.UTF-8", "TERM": "tmux-256color", "PS1": "$ ",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "LOOPWRIGHT_MCP": "bank.json", "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        }  # fmt: skip
        shell = ["env", "-i", *(f"{k}={v}" for k, v in here.items()), "bash", "--norc"]
        for pane, rows in (("run", ROWS), ("side", BELOW)):
            size = ["-x", str(COLUMNS), "-y", str(rows)]
            self._ask("new-session", "-d", "-s", pane, *size, "-c", folder, *shell)
            self._ask("set", "-g", "status", "off")

    def _ask(self, *words: str) -> str:
        return subprocess.run(
            [*self._tmux, *words], check=True, capture_output=True, text=True
        ).stdout

    def screen(self, pane: str) -> str:
        """What a terminal shows, with its colours."""
        return self._ask("capture-pane", "-p", "-e", "-t", pane)

    def shoot(self, seconds: float) -> None:
        """Keep what both show, for so many seconds."""
        upper, lower = (
            (self.screen(pane).split("\n") + [""] * rows)[:rows]
            for pane, rows in (("run", ROWS), ("side", BELOW))
        )
        shown = "\n".join([*upper, f"\x1b[90m{'─' * COLUMNS}\x1b[0m", *lower])
        if self.frames and self.frames[-1][1] == shown:
            seconds += self.frames.pop()[0]
        self.frames.append((seconds, shown))

    def type(self, pane: str, text: str, rest: float = 0.6) -> None:
        """Type a line, a few keys at a time."""
        for start in range(0, len(text), 4):
            self._ask("send-keys", "-t", pane, "-l", text[start : start + 4])
            time.sleep(0.02)
            self.shoot(0.12)
        self.shoot(rest)
        self._ask("send-keys", "-t", pane, "Enter")
        time.sleep(0.2)

    def wait_for(self, pane: str, text: str, hold: float = 0.3) -> str:
        """Keep what is shown until this text is there, then for so many seconds more."""
        begun, still = time.monotonic(), 0.0
        while text not in _SGR.sub("", self.screen(pane)):
            if time.monotonic() - begun > PATIENCE:
                raise TimeoutError(self.screen(pane))
            before = len(self.frames)
            time.sleep(0.2)
            self.shoot(0.2 if still < LONGEST else 0)
            still = 0 if len(self.frames) > before else still + 0.2
        time.sleep(0.3)
        self.shoot(hold)
        return _SGR.sub("", self.screen(pane))

    def running(self) -> str:
        """The process that the upper shell waits for."""
        shell = self._ask("display", "-p", "-t", "run", "#{pane_pid}").strip()
        return subprocess.run(
            ["ps", "--ppid", shell, "-o", "pid="], check=True, capture_output=True, text=True
        ).stdout.strip()

    def close(self) -> None:
        """End the tmux that was started here."""
        self._ask("kill-server")


def play(terminals: Terminals, folder: Path) -> None:
    """What is typed: run, approve, kill -9, look, resume, approve."""
    terminals.type("run", f"loopwright run '{GOAL}'")
    terminals.wait_for("run", "pprove", hold=3)
    terminals.type("run", "a")
    while not (folder / "ledger.txt").exists():
        time.sleep(0.1)
    time.sleep(0.5)
    terminals.shoot(0.7)
    terminals.type("side", f"kill -9 {terminals.running()}", rest=0.4)
    terminals.wait_for("run", "Killed", hold=1)
    terminals.type("side", "clear; cat ledger.txt")
    terminals.wait_for("side", "40 EUR to Miller", hold=2)
    terminals.type("run", "clear; loopwright threads --unfinished")
    listed = terminals.wait_for("run", "1 of 3", hold=1)
    [thread] = set(_THREAD.findall(listed))
    terminals.type("run", f"clear; loopwright resume {thread}")
    terminals.wait_for("run", "t ran", hold=4)
    terminals.type("run", "i")
    terminals.wait_for("run", "esult", hold=0.3)
    terminals.type("run", "paid 40 EUR to Miller")
    terminals.wait_for("run", "pprove", hold=1.5)
    terminals.type("run", "a")
    terminals.wait_for("run", "Thread:", hold=3)
    terminals.type("side", "clear; cat ledger.txt")
    terminals.wait_for("side", "15 EUR to Chen", hold=5)


# ---- the picture


def read(shown: str) -> list[tuple[Run, ...]]:
    """Of each row its pieces that are not blank; a colour holds until another one is set."""
    style = {"fill": "", "b": "", "d": ""}
    return [tuple(_runs(line, style)) for line in shown.split("\n")]


def _runs(line: str, style: dict[str, str]) -> Iterator[Run]:
    column = 0
    for place, piece in enumerate(_SGR.split(line)):
        if place % 2:
            _restyle(style, [int(code or 0) for code in piece.split(";")])
            continue
        for word in re.finditer(r"\S+(?: \S+)*", piece):
            yield column + word.start(), word[0], " ".join(filter(None, style.values()))
        column += len(piece)


def _restyle(style: dict[str, str], codes: list[int]) -> None:
    """Take a sequence that sets colours in."""
    for code in codes:
        if code in (0, 39):
            style["fill"] = ""
        if code in (0, 22):
            style["b"] = style["d"] = ""
        if code in (1, 2):
            style["b" if code == 1 else "d"] = "b" if code == 1 else "d"
        if code in range(30, 38) or code in range(90, 98):
            style["fill"] = f"c{code % 10}"


def draw(frames: list[tuple[float, str]]) -> str:
    """The frames below each other behind a window, which shows one after the other."""
    lines: dict[tuple[Run, ...], str] = {}
    total, now, steps, places = sum(seconds for seconds, _ in frames), 0.0, [], []
    rows = ROWS + 1 + BELOW
    for number, (seconds, shown) in enumerate(frames):
        steps.append(f"{now / total:.3%}{{transform:translateY({-number * rows * HIGH}px)}}")
        now += seconds
        for row, line in enumerate(read(shown)):
            if line:
                name = lines.setdefault(line, f"l{len(lines)}")
                places.append(f'<use href="#{name}" y="{(number * rows + row) * HIGH}"/>')
    texts = "".join(f'<text id="{name}">{_spans(line)}</text>' for line, name in lines.items())
    colours = "".join(f".c{n}{{fill:#{colour}}}" for n, colour in enumerate(COLOURS))
    wide, high = COLUMNS * WIDE, rows * HIGH
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide + 2 * MARGIN:g} \
{high + 2 * MARGIN}" width="{wide + 2 * MARGIN:g}" role="img">
<title>A run of loopwright: it plans, asks, is killed inside a payment, and is resumed</title>
<style>text{{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;\
fill:#d1d7e0}}{colours}.b{{font-weight:bold}}.d{{opacity:.65}}
.f{{animation:f {total:.1f}s steps(1,end) infinite}}@keyframes f{{{"".join(steps)}}}
@media(prefers-reduced-motion:reduce){{.f{{animation:none;\
transform:translateY({-(len(frames) - 1) * rows * HIGH}px)}}}}</style>
<defs>{texts}</defs>
<rect x=".5" y=".5" width="{wide + 2 * MARGIN - 1:g}" height="{high + 2 * MARGIN - 1}" rx="8" \
fill="#0d1117" stroke="#444c56"/>
<svg x="{MARGIN}" y="{MARGIN}" width="{wide:g}" height="{high}"><g class="f">{"".join(places)}\
</g></svg>
</svg>
"""


def _spans(line: tuple[Run, ...]) -> str:
    """A line's pieces at their columns, as wide as they are on a terminal."""
    return "".join(
        f'<tspan x="{start * WIDE:g}" y="13" textLength="{len(text) * WIDE:g}"'
        f"{f' class={chr(34)}{classes}{chr(34)}' if classes else ''}>{html.escape(text)}</tspan>"
        for start, text, classes in line
    )


def main() -> None:
    """Play, and draw what was seen."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        bank: Any = {"command": sys.executable, "args": [str(ROOT / "benchmarks/bank_server.py")]}
        Path(name, "bank.json").write_text(json.dumps({"mcpServers": {"bank": bank}}))
        terminals = Terminals(name)
        try:
            play(terminals, Path(name))
        finally:
            terminals.close()
    PICTURE.write_text(draw(terminals.frames), encoding="utf-8")
    seconds = sum(seconds for seconds, _ in terminals.frames)
    said = f"{len(terminals.frames)} screens, {seconds:.0f} s, {PICTURE.stat().st_size:,} bytes"
    print(f"{PICTURE}: {said}")  # noqa: T201 - what was made


if __name__ == "__main__":
    main()
