"""`loopwright eval`: starts Inspect with our graphs, and lays its logs beside each other."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, Final

from ..state.errors import SettingsError
from .settings import Settings
from .terminal import Code, Output
from .threads import print_table

_OURS: Final = ("goals", "desk")
_IN_PACKAGE: Final = re.compile(r"\w+/\w+")
_NO_INSPECT: Final = (
    "Evals need the package inspect-ai, which is not installed: install the extra `eval` "
    "(pip install '.[eval]' in the folder of loopwright)."
)


def run_eval(_: Settings, output: Output, task: str, logs: str, **options: Any) -> int:
    """Start `inspect eval` for each graph and folder of prompts, then show what the logs say."""
    if find_spec("inspect_ai") is None:
        raise SettingsError(_NO_INSPECT)
    failed, before = False, {row["log"] for row in _read_rows(logs)}
    for arguments in build_commands(task, logs, **options):
        command = [sys.executable, "-m", "inspect_ai", "eval", *arguments]
        shown = sys.stderr if output.json else None
        failed |= subprocess.run(command, check=False, stdout=shown).returncode != 0
    rows = [*_read_rows(logs)]
    new = [row for row in rows if row["log"] not in before]
    failed |= any(row["scores"]["status"] != "success" for row in new)  # Inspect gives 0 for it
    if output.json:
        output.write_result({"logs": logs, "runs": rows})
    elif rows:
        titles = ["score", *(row["name"] for row in rows)]
        scores = dict.fromkeys(name for row in rows for name in row["scores"])
        cells = ((s, *(_show_score(row["scores"].get(s)) for row in rows)) for s in scores)
        print_table(output, titles, [*cells])
    return Code.FAILED if failed else Code.COMPLETE


def build_commands(
    task: str, logs: str, *, graphs: Sequence[str] | None = None,
    models: Sequence[str] | None = None, prompts: Sequence[str] | None = None,
    limit: int | None = None, key: str = "", values: Sequence[str] | None = None,
    task_values: Sequence[str] | None = None, more: Sequence[str] | None = None,
) -> Iterator[list[str]]:  # fmt: skip
    """The arguments of `inspect eval`, for each graph and folder of prompts."""
    shared = [*_name_task(task, key, task_values or ()), "--log-dir", logs]
    shared += ["--model", ",".join(map(_name_model, models))] if models else []
    shared += ["--limit", str(limit)] if limit else []
    given = [part for value in values or () for part in ("-S", value)]
    for graph, folder in product(graphs or [""], prompts or [""]):
        own = ["-S", f"graph={graph}"] if graph else []
        own += ["-S", f"prompts={Path(folder).resolve()}"] if folder else []
        whose = own or given or task not in _OURS  # else the task's own graph works
        yield [
            *shared,
            *(["--solver", "loopwright/loop", *own, *given] if whose else []),
            *(more or ()),
        ]


def _name_task(task: str, key: str, values: Sequence[str]) -> list[str]:
    """The task, and its arguments; one of another package is measured by our scores, too."""
    given = [part for value in values for part in ("-T", value)]
    if task in _OURS:
        return [f"loopwright/{task}", *given]
    if not _IN_PACKAGE.fullmatch(task) or Path(task).exists() or task.startswith("loopwright/"):
        return [task, *given]
    pairs = (value.partition("=")[::2] for value in values)
    inner = f"task_args={json.dumps({name: _read_value(value) for name, value in pairs})}"
    keyed = ["-T", f"key={key}"] if key else []
    return ["loopwright/measure", "-T", f"task={task}", "-T", inner, *keyed]


def _read_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _name_model(name: str) -> str:
    """Inspect's name of a model: `openai:gpt-5.4` is `openai/gpt-5.4` there."""
    return name if "/" in name.partition(":")[0] else name.replace(":", "/", 1)


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
            for of, value in score.metrics.items():
                shown = f"{score.name} {of}" if score.name == score.scorer else score.name
                if of != "stderr":
                    scores[shown] = value.value
        rows[name, str(sorted(args.items(), key=str))] = {
            "name": name,
            "scores": scores,
            "log": info.name,
        }
    yield from rows.values()


def _show_score(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float | int) else str(value or "")
