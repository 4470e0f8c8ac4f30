"""`loopwright eval`: starts Inspect with our graphs, and lays its logs beside each other."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import product
from math import isnan
from pathlib import Path
from typing import Any, Final

from ..state.errors import SettingsError
from .settings import Settings
from .terminal import Code, Output
from .threads import print_table

Names = Sequence[str] | None

_OURS: Final = {"goals": "task_agent", "desk": "customer_service", "measure": "task_agent"}
"""The tasks that ship, each with the graph that works unless another is named."""
_NO_INSPECT: Final = (
    "Evals need the package inspect-ai, which is not installed: install the extra `eval` "
    "(pip install '.[eval]' in the folder of loopwright)."
)


def run_eval(
    _: Settings, output: Output, task: str, logs: str, graphs: Names, models: Names,
    prompts: Names, more: Names,
) -> int:  # fmt: skip
    """Start `inspect eval` for each graph and folder of prompts, then show what the logs say."""
    if find_spec("inspect_ai") is None:
        raise SettingsError(_NO_INSPECT)
    from ..evals.agents import loop_agent  # noqa: PLC0415 - it needs the extra

    for graph, folder in product(graphs or ["react"], _find_folders(prompts)):
        loop_agent(graph, prompts=folder or None)  # one sentence, not a traceback of Inspect
    failed, before = False, {row["log"] for row in _read_rows(logs)}
    for arguments in build_commands(task, logs, graphs, models, prompts, more):
        command = [sys.executable, "-m", "inspect_ai", "eval", *arguments]
        shown = sys.stderr if output.json else None
        failed |= subprocess.run(command, check=False, stdout=shown).returncode != 0
    rows = [*_read_rows(logs)]
    new = [row["scores"] for row in rows if row["log"] not in before]
    failed |= any(scores["status"] != "success" for scores in new)  # Inspect gives 0 for it
    if output.json:
        output.write_result({"logs": logs, "runs": rows})
    elif rows:
        output.write_line("")  # Inspect leaves its last line open
        for number, row in enumerate(rows, 1):  # a screen has no room for names side by side
            output.write_line(f"{number}: {row['name']}")
        names = dict.fromkeys(name for row in rows for name in row["scores"])
        cells = [(name, *(_show_score(row["scores"], name) for row in rows)) for name in names]
        print_table(output, ["score", *map(str, range(1, len(rows) + 1))], cells)
    return Code.FAILED if failed else Code.COMPLETE


def build_commands(
    task: str, logs: str, graphs: Names = None, models: Names = None, prompts: Names = None,
    more: Names = None,
) -> Iterator[list[str]]:  # fmt: skip
    """The arguments of `inspect eval`, for each graph and folder of prompts."""
    for graph, folder in product(graphs or [_OURS.get(task, "task_agent")], _find_folders(prompts)):
        yield [
            f"loopwright/{task}" if task in _OURS else task, "--log-dir", logs,
            *(["--model", ",".join(models)] if models else []),
            "--solver", "loopwright/loop", "-S", f"graph={graph}", "--tags", graph,
            *(["-S", f"prompts={folder}"] if folder else []), *(more or ()),
        ]  # fmt: skip


def _find_folders(prompts: Names) -> list[str]:
    """What is a folder by its whole path, a language as it is; "" where none is named."""
    named = prompts or [""]
    return [str(Path(one).resolve()) if one and Path(one).is_dir() else one for one in named]


def _read_rows(logs: str) -> Iterator[dict[str, Any]]:
    """What the logs of a folder say: of each task, model and solver the newest."""
    from inspect_ai.log import list_eval_logs, read_eval_log  # noqa: PLC0415 - an extra

    rows = {}
    for info in list_eval_logs(logs, descending=False):
        log = read_eval_log(info, header_only=True)
        args = log.eval.task_args | (log.eval.solver_args or {})
        solver = [str(args[name]) for name in ("graph", "prompts") if args.get(name)]
        name = " ".join([log.eval.task.rpartition("/")[2], log.eval.model, *solver])
        scores: dict[str, Any] = {"status": log.status}
        for score in log.results.scores if log.results else ():
            known = {of: one.value for of, one in score.metrics.items() if not isnan(one.value)}
            scores |= {f"{score.name} {of}": value for of, value in known.items()}
        rows[name, str(args)] = {"name": name, "scores": scores, "log": info.name}
    yield from rows.values()


def _show_score(scores: Mapping[str, Any], name: str) -> str:
    value = scores.get(name, "")
    return f"{round(value, 3):.12g}" if isinstance(value, float | int) else str(value)
