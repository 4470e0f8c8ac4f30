"""A machine that makes writes as the graphs do, with everything that may come between.

One history is a walk through its moves: passes over plans with a read that says something else
each time, kills between any two lines, a second process after the lock was lost, plans and messages
that come instead of a resume, forks, and a human who looks into the world and answers. The journal
is the real one; `apply` asserts I1 to I6 wherever they can be broken. What is true of the world is
known to the machine alone, and to the human.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any, NamedTuple

from loopwright.state.errors import ThreadBusy
from loopwright.store.journal import intents as real
from loopwright.store.journal.port import End, Fence, Intent, Row, Word

PROTOCOL = SimpleNamespace(
    begin=real.begin, end=real.end, release=real.release, give_up=real.give_up
)
READ = "r"
THREAD = "t"


class Write(NamedTuple):
    """A write of a plan: its argument is a value, or `r` for what the read says."""

    id: str
    of: str
    tool: str = "put"


class Process(NamedTuple):
    """Where a process stands in its pass; nothing of it survives it.

    `at` is `next` between steps, `claimed` before and `acted` after the effect of `row`. `heard`
    are ends of steps that it knows, whether saved or not.
    """

    token: int
    at: str = "next"
    step: str = ""
    row: Any = None
    heard: tuple[tuple[str, str], ...] = ()


class Question(NamedTuple):
    """What a human is asked: of which call, with which value, and the answer that is saved."""

    step: str
    value: str
    say: str
    asked: str
    key: str
    sends: int
    answer: str = ""


class State(NamedTuple):
    """Everything but the journal's rows."""

    turn: int = 0
    revision: int = 0
    plans: int = 0
    """How many this turn had."""
    plan: tuple[Write, ...] = ()
    before: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Names under which a step of the plan may have been sent for earlier plans."""
    saved: tuple[tuple[str, str], ...] = ()
    question: Question | None = None
    failed: bool = False
    """A step failed: only another plan, or the end of the turn, goes on."""
    process: Process | None = None
    old: Process | None = None
    """One that has lost the lock, and does not know yet."""
    token: int = 0
    over: bool = False
    # What is true, and what has been.
    effects: tuple[tuple[str, int], ...] = ()
    made_in: tuple[tuple[str, int], ...] = ()
    doubted: frozenset[str] = frozenset()
    settled: frozenset[str] = frozenset()
    unknown: tuple[tuple[str, str], ...] = ()
    """Keys of what was sent and may have taken effect, each with its tool."""
    sent: tuple[tuple[str, str], ...] = ()
    most: tuple[tuple[str, int], ...] = ()
    """How often each content stood in the plan of this request that had it most often."""
    forks: tuple[tuple[tuple[str, str], ...], ...] = ()


class Kept:
    """A journal that is nothing but its rows, so that it can be copied and compared."""

    def __init__(self, rows: tuple[Row, ...] = (), token: int = 0) -> None:
        self.held = {row.name: row for row in rows}
        self.token = token

    def transact(self, thread: str, work: Any, *, names: Any = (), fence: Any = None) -> Any:
        if fence is not None and fence.token != self.token:
            raise ThreadBusy("overtaken")
        result, change = work(self.rows(thread, names))
        self.held.update({row.name: row for row in change.save})
        return result

    def rows(self, thread: str, names: Any = ()) -> list[Row]:
        return [r for r in self.held.values() if r.state != "closed" or r.name in names]

    def raise_fence(self, name: str) -> Fence:
        self.token += 1
        return Fence(name, self.token)


@dataclass(frozen=True)
class Bounds:
    """What a history may hold: at most so many plans in each of its turns; `tricks` are ends."""

    plans_offered: tuple[tuple[Write, ...], ...]
    plans: tuple[int, ...] = (2, 2)
    tricks: tuple[str, ...] = ("unknown",)
    repeatable: tuple[str, ...] = ()
    hooked: bool = False
    """A hook rewrites what is sent, in another way in each turn."""
    forks: bool = False
    overtaken: bool = True


def plans_of(values: str = "ra", most: int = 2, tools: tuple[str, ...] = ("put",)) -> Any:
    kinds = list(product(values, tools))
    return tuple(
        tuple(Write(f"w{n}", of, tool) for n, (of, tool) in enumerate(writes))
        for count in range(1, most + 1)
        for writes in product(kinds, repeat=count)
    )


def moves(state: State, bounds: Bounds) -> list[tuple[Any, ...]]:
    """What may happen next."""
    if state.over:
        return []
    late = [("old", *line) for line in _lines(state.old, bounds, late=True)] if state.old else []
    return [*late, *(_alive(state, bounds) if state.process else _at_rest(state, bounds))]


def _at_rest(state: State, bounds: Bounds) -> Iterator[tuple[Any, ...]]:
    """Between two runs."""
    if state.question is not None and not state.question.answer:
        if state.old is None:  # the human waits until what is under way is over
            yield from (("human", word) for word in _words(state, state.question))
    elif state.plan and not state.failed:
        yield ("resume",)
    if state.plans < bounds.plans[state.turn]:
        yield from (("plan", plan) for plan in bounds.plans_offered)
    if state.plan:
        yield ("end",)
    yield from (("fork", n) for n in range(len(state.forks)))


def _alive(state: State, bounds: Bounds) -> Iterator[tuple[Any, ...]]:
    process = state.process
    assert process is not None
    yield ("crash",)
    if bounds.overtaken and state.old is None and process.at == "claimed":
        yield ("overtake",)
    if process.at != "next":
        yield from _lines(process, bounds)
        return
    heard = dict(process.heard)
    yield from (("save", name) for name in heard if name not in dict(state.saved))
    step = _next(state)
    if step is None:
        if len(state.saved) == len(heard):
            yield ("complete",)
    elif step == READ:
        yield from (("read", value) for value in "ab")
    else:
        yield ("begin", step)


def _next(state: State) -> str | None:
    assert state.process is not None
    heard = dict(state.process.heard)
    return next((name for name in [READ, *(w.id for w in state.plan)] if name not in heard), None)


def _lines(process: Process, bounds: Bounds, late: bool = False) -> Iterator[tuple[Any, ...]]:
    if process.at == "claimed":
        yield ("act",)
        if not late:
            yield from ((trick,) for trick in bounds.tricks)
    elif process.at == "acted":
        yield ("end",)
    if late:
        yield ("die",)


def _words(state: State, question: Question) -> Iterator[str]:
    """What the human may truthfully say, having looked."""
    yield "ran" if dict(state.effects).get(question.key) else "again"
    if question.say == "other" and dict(state.effects).get(question.key):
        yield "again"  # that one ran, and this one is to be made too
    yield "gave up"


def apply(
    state: State, journal: Any, move: tuple[Any, ...], bounds: Bounds, protocol: Any = PROTOCOL
) -> State:
    """The state after a move; what it does to the journal is done."""
    return _Move(state, journal, bounds, protocol).do(*move)


class _Move:
    def __init__(self, state: State, journal: Any, bounds: Bounds, protocol: Any) -> None:
        self.state, self.journal, self.bounds, self.protocol = state, journal, bounds, protocol

    def do(self, kind: str, *about: Any) -> State:
        if kind == "old":
            after = self._in_process(self.state.old, *about)
            return after._replace(process=self.state.process, old=after.process)
        if kind in ("act", "end", *_TRICKS) and self.state.process is not None:
            return self._in_process(self.state.process, kind)
        found: State = getattr(self, f"_{kind}")(*about)
        return found

    def _in_process(self, process: Any, kind: str) -> State:
        after: State = getattr(self, f"_at_{kind}")(process)
        return after

    # --- one process

    def _resume(self) -> State:
        fence = self.journal.raise_fence(THREAD)
        process = Process(fence.token, heard=self.state.saved)
        return self.state._replace(process=process, token=fence.token)

    def _crash(self) -> State:
        return self.state._replace(process=None)

    def _overtake(self) -> State:
        """Its lock is gone; another one resumes while it goes on."""
        old = self.state.process
        assert old is not None
        return self._resume()._replace(old=old)

    def _save(self, name: str) -> State:
        process = self.state.process
        assert process is not None
        found = dict(process.heard)[name]
        forks = (*self.state.forks, self.state.saved) if self.bounds.forks else ()
        return self.state._replace(
            saved=_with(self.state.saved, name, found), forks=tuple(dict.fromkeys(forks))
        )

    def _read(self, value: str) -> State:
        return self._hears(READ, value)

    def _hears(self, name: str, value: str) -> State:
        process = self.state.process
        assert process is not None
        heard = tuple(sorted({**dict(process.heard), name: value}.items()))
        fresh = process._replace(at="next", step="", row=None, heard=heard)
        return self._answered(name)._replace(process=fresh)

    def _answered(self, name: str) -> State:
        """What was said of a step is used up with its end; until then it is saved."""
        question = self.state.question
        return self.state._replace(
            question=None if question is not None and question.step == name else question
        )

    def _known(self, key: str) -> State:
        """The end of a send is known now."""
        unknown = tuple(pair for pair in self.state.unknown if pair[0] != key)
        return self.state._replace(unknown=unknown)

    def _begin(self, name: str) -> State:
        state, process, question = self.state, self.state.process, self.state.question
        assert process is not None
        intent = self._intent(next(w for w in state.plan if w.id == name), process)
        if state.old is not None:
            self._claims_nothing(intent, state.old)
        question = question if question and question.step == name else None
        word = self._word(question)
        if question is not None and question.answer == "gave up":
            self._do(partial(self.protocol.give_up, word=word))
            return self._settled(question)._replace(question=None, process=None, failed=True)
        before = self.journal.rows(THREAD)
        verdict = self._do(
            partial(self.protocol.begin, intent=intent, word=word),
            names=[intent.name, *intent.before], fence=Fence(THREAD, process.token),
        )  # fmt: skip
        if question is not None:
            state = self._settled(question) if question.say == "other" else state
        after = _Move(state, self.journal, self.bounds, self.protocol)
        return after._judged(verdict, intent, before, word)

    def _judged(self, verdict: Any, intent: Intent, before: Any, word: Any) -> State:
        row = verdict.row
        if verdict.say == "known" and row.result.get("is_error"):  # it was refused, as told then
            return self.state._replace(process=None, failed=True)
        if verdict.say == "known":
            self._is_mine(row)
            known = _Move(self._known(row.key), self.journal, self.bounds, self.protocol)
            return known._hears(intent.task, row.content)
        if verdict.say == "send":
            return self._claims(row, intent, before, word)
        value = str(intent.arguments["what"])
        asked = Question(intent.task, value, verdict.say, row.name, row.key, row.sends)
        doubted = self.state.doubted | {row.key}
        return self.state._replace(question=asked, process=None, doubted=doubted)

    def _settled(self, question: Question) -> State:
        """A human has said what is to become of it: what counts from now on is the word."""
        state, sent = self.state, dict(self.state.sent)
        sent.pop(self._lineage(question.asked), None)
        unknown = tuple(pair for pair in state.unknown if pair[0] != question.key)
        return state._replace(
            settled=state.settled | {question.key},
            sent=tuple(sorted(sent.items())),
            unknown=unknown,
        )  # fmt: skip

    def _lineage(self, name: str) -> str:
        """The first name of a step that has gone from plan to plan."""
        chains = [names for _, names in self.state.before]
        mine = f"{self.state.turn}.{self.state.revision}."
        if name.startswith(mine):
            return next((n[0] for w, n in self.state.before if w == name[len(mine) :] and n), name)
        return next((names[0] for names in chains if name in names), name)

    def _intent(self, write: Write, process: Process) -> Intent:
        value = dict(process.heard).get(READ, "") if write.of == READ else write.of
        if self.bounds.hooked and self.state.turn % 2:
            value += "!"
        question = self.state.question
        if question is not None and question.step == write.id:  # as it was asked about
            value = question.value
        name = f"{self.state.turn}.{self.state.revision}.{write.id}"
        return Intent(
            name=name, before=dict(self.state.before).get(write.id, ()), turn=str(self.state.turn),
            task=write.id, call=name, tool=write.tool, arguments={"what": value},
            content=f"{write.tool} {value}", repeatable=write.tool in self.bounds.repeatable,
            key=name, since="",
        )  # fmt: skip

    def _claims_nothing(self, intent: Intent, old: Process) -> None:
        """I: who has lost the lock claims nothing; it is tried at each step of the other one."""
        try:
            self._do(
                partial(self.protocol.begin, intent=replace(intent, name="late"), word=None),
                fence=Fence(THREAD, old.token),
            )
        except ThreadBusy:
            return
        raise AssertionError("a process that lost the lock has claimed a write")

    def _word(self, question: Question | None) -> Word | None:
        if question is None or not question.answer:
            return None
        result = {"text": "it ran"} if question.answer == "ran" else None
        return Word(question.key, question.sends, result)

    def _claims(self, row: Row, intent: Intent, before: Any, word: Any) -> State:
        """The row is this process's to send: what was true before that must allow it."""
        state, process = self.state, self.state.process
        assert process is not None
        fresh = row.sends == 1
        meant = word is not None and word.sends == row.sends - 1
        assert fresh or meant or intent.repeatable or self._paused(before, row), "I3"
        living = {r.key for r in before if r.in_doubt and not r.spare}
        doubts = {key for key, tool in state.unknown if tool == row.tool} - living
        assert not fresh or intent.repeatable or not doubts, "I6"
        was = dict(state.sent).get(self._lineage(intent.name), row.content)
        assert was == row.content, f"I4 {was} {row.content}"
        claimed = process._replace(at="claimed", step=intent.task, row=row)
        unknown = state.unknown if intent.repeatable else _with(state.unknown, row.key, row.tool)
        return state._replace(
            process=claimed, unknown=unknown,
            made_in=_with(state.made_in, row.key, state.turn),
        )  # fmt: skip

    def _paused(self, before: Any, row: Row) -> bool:
        return any(r.key == row.key and r.paused for r in before)

    def _is_mine(self, row: Row) -> None:
        """I5: what was made for a request that is over does not stand for this one's."""
        made = dict(self.state.made_in).get(row.key, self.state.turn)
        assert made == self.state.turn or row.key in self.state.doubted, "I5"

    def _at_act(self, process: Process) -> State:
        row = process.row
        effects = _with(self.state.effects, row.key, dict(self.state.effects).get(row.key, 0) + 1)
        if row.tool not in self.bounds.repeatable:
            assert dict(effects)[row.key] <= 1, "I3: made twice"
        state, sent = self.state, self.state.sent
        if process.token == state.token or row.tool not in self.bounds.repeatable:
            sent = _with(sent, self._lineage(row.name), row.content)
        return state._replace(effects=effects, sent=sent, process=process._replace(at="acted"))

    def _at_end(self, process: Process) -> State:
        done = End("finished", {"text": "done"})
        self._do(partial(self.protocol.end, sent=process.row, ending=done), [process.row.name])
        if process.token != self.state.token:  # whose run does not hear of it
            return self._known(process.row.key)._replace(process=None)
        heard = tuple(sorted({**dict(process.heard), process.step: process.row.content}.items()))
        known = _Move(self._known(process.row.key), self.journal, self.bounds, self.protocol)
        return known._answered(process.step)._replace(
            process=process._replace(at="next", step="", row=None, heard=heard)
        )

    def _at_die(self, process: Process) -> State:
        return self.state._replace(process=None)

    def _at_unknown(self, process: Process) -> State:
        """It took effect, and no answer came."""
        after = self._at_act(process)
        return _Move(after, self.journal, self.bounds, self.protocol)._fails(process, "unknown")

    def _at_lost(self, process: Process) -> State:
        """It took no effect, and no answer came."""
        return self._fails(process, "unknown")

    def _at_refused(self, process: Process) -> State:
        """The tool says that it did nothing."""
        after, sent = self._fails(process, "failed"), dict(self.state.sent)
        sent.pop(self._lineage(process.row.name), None)
        return after._replace(sent=tuple(sorted(sent.items())))

    def _at_paused(self, process: Process) -> State:
        """The tool asks a question of its own; the run ends, and begins it anew."""
        self._do(
            partial(self.protocol.end, sent=process.row, ending=End("paused")), [process.row.name]
        )
        return self._known(process.row.key)._replace(process=None)

    def _fails(self, process: Process, how: Any) -> State:
        ending = End(how, {"text": "no answer", "is_error": True})
        self._do(partial(self.protocol.end, sent=process.row, ending=ending), [process.row.name])
        state = self.state if how == "unknown" else self._known(process.row.key)
        return state._replace(process=None, failed=True)

    # --- between runs

    def _human(self, word: str) -> State:
        assert self.state.question is not None
        return self.state._replace(question=self.state.question._replace(answer=word))

    def _fork(self, n: int) -> State:
        """An earlier checkpoint of the same plan is run once more."""
        return self.state._replace(saved=self.state.forks[n], question=None, failed=False)

    def _complete(self) -> State:
        """All steps have ended: I2."""
        rows = {row.name: row for row in self.journal.rows(THREAD, [])}
        names = dict(self.state.before)
        for write in self.state.plan:
            name = f"{self.state.turn}.{self.state.revision}.{write.id}"
            mine = [rows[n] for n in (name, *names.get(write.id, ())) if n in rows]
            done = [r for r in mine if r.state == "finished"]
            assert done, "I2: a write without a finished row"
            assert any(dict(self.state.effects).get(r.key) for r in done), "I2: never made"
            self._is_mine(done[0])
        return self.state._replace(process=None)

    def _plan(self, plan: tuple[Write, ...]) -> State:
        """Another plan takes the place of this one; equal steps of equal things are kept."""
        state = self._counted()
        old = {w.id: w for w in state.plan}
        same = [w for w in plan if old.get(w.id) == w]
        saved = dict(state.saved)
        kept = {
            w.id: saved[w.id] for w in same if w.id in saved and (w.of != READ or READ in saved)
        }
        if READ in saved:
            kept[READ] = saved[READ]
        names = dict(state.before)
        before = {
            w.id: (*names.get(w.id, ()), f"{state.turn}.{state.revision}.{w.id}") for w in same
        }
        living = {name for step in before.values() for name in step}
        self._do(partial(self.protocol.release, keeps=lambda row: row.name in living, back=True))
        return state._replace(
            plan=plan, revision=state.revision + 1, plans=state.plans + 1, question=None,
            before=tuple(sorted(before.items())), saved=tuple(sorted(kept.items())), failed=False,
            forks=(),
        )  # fmt: skip

    def _end(self) -> State:
        """The turn is over, whatever came of it; another request begins."""
        state = self._counted()
        done: dict[str, int] = {}
        for key, times in state.effects:
            if dict(state.made_in)[key] == state.turn and key not in state.settled:
                content = self._content(key)
                done[content] = done.get(content, 0) + times
        for content, times in done.items():
            if content.split()[0] not in self.bounds.repeatable:
                assert times <= dict(state.most).get(content, 0), f"I1 {content} {times}"
        self._do(partial(self.protocol.release, keeps=lambda _: False, ended=True, told=True))
        # Of what is closed nothing can come any more.
        open_ = {row.key for row in self.journal.rows(THREAD)}
        open_ |= {state.old.row.key} if state.old else set()
        return State(
            turn=state.turn + 1, over=state.turn + 1 >= len(self.bounds.plans), token=state.token,
            effects=tuple(pair for pair in state.effects if pair[0] in open_),
            made_in=tuple(pair for pair in state.made_in if pair[0] in open_),
            doubted=state.doubted & open_, settled=state.settled & open_, old=state.old,
            unknown=state.unknown,
        )  # fmt: skip

    def _counted(self) -> State:
        """What the plan that ends stood for, of each content."""
        state, count = self.state, dict[str, int]()
        prefix = f"{state.turn}.{state.revision}."
        for row in self._all():
            if row.name.startswith(prefix) and row.key in dict(state.made_in):
                count[row.content] = count.get(row.content, 0) + 1
        kept = {name for _, names in state.before for name in names}
        for row in self._all():
            if row.name in kept and row.state != "closed":
                count[row.content] = count.get(row.content, 0) + 1
        most = dict(state.most)
        most |= {content: max(n, most.get(content, 0)) for content, n in count.items()}
        return state._replace(most=tuple(sorted(most.items())))

    def _content(self, key: str) -> str:
        return next(row.content for row in self._all() if row.key == key)

    def _all(self) -> list[Row]:
        state = self.state
        names = [
            f"{turn}.{revision}.w{n}"
            for turn in range(state.turn + 1)
            for revision in range(max(self.bounds.plans) + 1)
            for n in range(3)
        ]
        rows: list[Row] = self.journal.rows(THREAD, names)
        return rows

    def _do(self, work: Any, names: Any = (), fence: Any = None) -> Any:
        return self.journal.transact(THREAD, work, names=names, fence=fence)


_TRICKS = ("unknown", "lost", "refused", "paused")


def _with(pairs: tuple[tuple[str, Any], ...], key: str, value: Any) -> Any:
    return tuple(sorted({**dict(pairs), key: value}.items()))


def canonical(state: State, rows: list[Row]) -> Any:
    """The state and its rows as one value, equal for all that can only go on alike.

    A name counts while a step of the plan bears it; the other rows are numbered in their order.
    Sends count against the word or the process that names the row. What is closed and borne by no
    step can only be counted: its content, and how often it took effect.
    """
    borne, lineages = _borne(state)
    question, processes = state.question, (state.process, state.old)
    asked = {question.key: question.sends} if question else {}
    asked |= {p.row.key: p.row.sends for p in processes if p is not None and p.row is not None}
    effects, made, unknown = dict(state.effects), dict(state.made_in), dict(state.unknown)
    numbers: dict[str, int] = {}

    def called(name: str) -> Any:
        return name if name in borne else numbers.setdefault(name, len(numbers))

    def known(key: str) -> tuple[Any, ...]:
        return (
            numbers.setdefault(key, len(numbers)), effects.get(key), made.get(key),
            key in state.doubted, key in state.settled, key in unknown,
        )  # fmt: skip

    told = [
        (called(r.name), *known(r.key), r.content, r.state, r.spare, r.paused, bool(r.result),
         r.sends - asked.get(r.key, r.sends))
        for r in rows
        if r.name in borne or r.state != "closed"
    ]  # fmt: skip
    plain = [
        p and (p.at, p.step, p.heard, p.token == state.token, p.row and p.row.content,
               p.row and called(p.row.name), p.row and known(p.row.key))
        for p in processes
    ]  # fmt: skip
    doubt = question and (
        question.step, question.value, question.say, question.answer, called(question.asked),
        *known(question.key),
    )  # fmt: skip
    left = {r.key: r.content for r in rows if r.turn == str(state.turn) and r.key not in numbers}
    gone = [(left[k], n) for k, n in state.effects if k in left and k not in state.settled]
    lost = [tool for key, tool in state.unknown if key not in numbers]
    sent = tuple(pair for pair in state.sent if pair[0] in lineages)
    bare = state._replace(
        process=None, old=None, question=None, token=0, effects=(), made_in=(), sent=sent,
        doubted=frozenset(), settled=frozenset(), unknown=(),
    )  # fmt: skip
    return bare, doubt, tuple(plain), tuple(told), tuple(sorted(gone)), tuple(sorted(lost))


def _borne(state: State) -> tuple[set[str], set[str]]:
    """The names under which steps of the plan were or will be sent, and the first one of each."""
    names = dict(state.before)
    chains = [
        (*names.get(write.id, ()), f"{state.turn}.{state.revision}.{write.id}")
        for write in state.plan
    ]
    return {name for chain in chains for name in chain}, {chain[0] for chain in chains}
