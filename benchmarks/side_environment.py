"""An environment of its own for packages that only a benchmark needs."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def enter_environment(home: Path, packages: Sequence[str]) -> None:
    """Go on in an environment at `home` that has the packages, beside what this one has."""
    python = home / "bin" / "python"
    if Path(sys.prefix) == home:
        return
    if not (home / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        beside = next(path for path in sys.path if path.endswith("site-packages"))
        room = next(home.glob("lib/*/site-packages"))
        (room / "beside.pth").write_text(f"import site; site.addsitedir({beside!r})\n")
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
        (home / "ready").touch()
    os.execv(python, [str(python), *sys.argv])
