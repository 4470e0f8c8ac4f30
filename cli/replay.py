"""`replay`: the runs of a recorded thread once more, in a database that is thrown away."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from itertools import groupby
from tempfile import TemporaryDirectory
from typing import Any, Final

from langgraph.types import Command

from ..graphs.tapes import ReplayTape, use_tape
from ..models.on_record import VARYING, RequestNotRecorded
from ..run.on_record import RUN, read_input
from ..state.context import Context
from ..state.errors import LoopwrightError, SettingsError, read_variable
from ..store.base.recordings import Recordings
from ..store.durability import Durability, open_durability
from ..text.canonical import canonical, plural
from .agents import Graph, select_agent
from .run import build_named_graph
from .settings import Settings, check_thread_id
from .terminal import Code, Output

_COMPARED: Final = ("status", "reason", "answer", "result", "unmet", "uncertain_calls")


def replay_thread(settings: Settings, output: Output, thread: str) -> int:
    """Play a thread's runs and say what is otherwise; 1 if something is."""
    folder = settings.record or read_variable(settings.environ, "LOOPWRIGHT_RECORD")
    if folder is None:
        msg = "Name the folder of recordings with --record, or set LOOPWRIGHT_RECORD."
        raise SettingsError(msg)
    recordings, name = Recordings(folder), check_thread_id(thread)
    every = [*recordings.read(RUN)]
    if not (runs := [run for run in every if run["thread"] == name]):
        known = ", ".join(sorted({run["thread"] for run in every})) or "none"
        msg = f"No run of {name!r} is on record in {recordings.folder}; threads there: {known}."
        raise SettingsError(msg)
    if any(run.get("stopped_or_steered") for run in runs):
        msg = f"{name} was stopped or steered while it ran, at a moment that cannot be had again."
        raise SettingsError(msg)
    tape = ReplayTape(recordings, name)
    answers, results = len(tape.model.list_unused()), len(tape.calls)
    with use_tape(tape), TemporaryDirectory() as place:
        player = _Player(settings, output, tape)
        differences = player.play(runs, f"sqlite:///{place}/threads.db")
    about = (
        f"{name}: {plural(len(runs), 'run')}, {plural(answers, 'model answer')} and "
        f"{plural(results, 'tool result')} on record; no model and no tool was called."
    )
    status = "different" if differences else "equal"
    said = [about, *(differences or ["Today's code does the same."])]
    content: dict[str, Any] = {"thread": name, "status": status, "differences": differences}
    content |= {"runs": len(runs), "model_answers": answers, "tool_results": results}
    output.report(content, *said)
    return Code.DIFFERENT if differences else Code.COMPLETE


class _Player:
    """Plays runs one after another, each in the process it had: a new graph for a new one."""

    def __init__(self, settings: Settings, output: Output, tape: ReplayTape) -> None:
        self._settings, self._output, self._tape = settings, output, tape
        self._question_ids: list[str] = []
        """Those of the run before, as they are on record; none of one that was killed."""

    def play(self, runs: Sequence[Mapping[str, Any]], url: str) -> list[str]:
        """Play them in this database, up to the first that differs; what differs, in words."""
        numbered = enumerate(runs, start=1)
        for process, together in groupby(numbered, key=lambda one: one[1]["process"]):
            self._tape.model.play_process(process)
            with open_durability(url) as durability:
                graph = None
                for number, run in together:
                    if _is_lost(run, runs[number:]):
                        continue
                    graph = graph or self._build(run, durability)
                    if differences := [*self._play_run(graph, run)]:
                        return [f"Run {number} of {len(runs)} is otherwise.", *differences]
        unused = [*(call["file"] for call in self._tape.calls), *self._tape.model.list_unused()]
        return ["These recordings were not asked for again:", *unused] if unused else []

    def _build(self, run: Mapping[str, Any], durability: Durability) -> Graph:
        context = Context.model_validate(run["context"])
        agent = select_agent(self._settings, self._output, run["graph"])
        return build_named_graph(self._settings, run["graph"], context, durability, agent)[0]

    def _play_run(self, graph: Graph, run: Mapping[str, Any]) -> Iterator[str]:
        config: Any = {"configurable": {"thread_id": run["thread"]}}
        given = read_input(run["given"])
        if isinstance(given, Command):
            given = Command(resume=self._name_answers(graph, config, given.resume))
        self._question_ids = [one["id"] for one in run.get("asks") or ()]
        goes_on = given is not None or graph.get_state(config).next
        try:
            if run["given"] and goes_on:
                graph.invoke(given, config, context=Context.model_validate(run["context"]))
        except (LoopwrightError, RequestNotRecorded) as error:
            if "outcome" in run:
                yield str(error)
            return
        if "outcome" in run:  # else it was killed
            state = graph.get_state(config)
            asks = [one.value for one in state.interrupts]
            now = _list_lines(asks, state.values.get("outcome"))
            then = _list_lines([one["value"] for one in run["asks"]], run["outcome"])
            yield from unified_diff(then, now, "recorded", "now", lineterm="", n=0)

    def _name_answers(self, graph: Graph, config: Any, answers: Any) -> Any:
        """The answers by the ids that their questions have now; the order of questions stays."""
        if not isinstance(answers, Mapping):
            return answers
        now = (one.id for one in graph.get_state(config).interrupts)
        ids = dict(zip(self._question_ids or answers, now, strict=False))
        return {ids.get(name, name): answer for name, answer in answers.items()}


def _is_lost(run: Mapping[str, Any], later: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a run was killed before its answers were saved: the next run gives them once more."""
    answers = [one["given"].get("answer") for one in (run, *later[:1])]
    twice = len(answers) == 2 and all(isinstance(one, Mapping) for one in answers)
    return twice and "outcome" not in run and answers[0].keys() == answers[1].keys()


def _list_lines(asks: Sequence[Any], outcome: Mapping[str, Any] | None) -> list[str]:
    """How a run ended, line by line, without what is new in each run."""
    known = outcome or {}
    end = [f"question: {canonical(_drop_ids(value))}" for value in asks]
    end += [f"{name}: {canonical(known[name])}" for name in _COMPARED if known.get(name)]
    end += [f"task {task['id']}: {task['status']}" for task in known.get("tasks") or ()]
    return [VARYING.sub("…", line) for line in end]


def _drop_ids(question: Any) -> Any:
    """A question; of one about calls only these."""
    calls = question.get("action_requests") if isinstance(question, Mapping) else None
    return [(call["name"], call["args"]) for call in calls] if calls else question
