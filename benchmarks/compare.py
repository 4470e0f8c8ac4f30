"""What happens to one agent in create_agent, in deepagents and here, when something goes wrong?

    python benchmarks/compare.py [CASE …]

The cases are `killed`, `message`, `limit`, `timeout`, `reads` and `malformed`; each says below what
is done. All three get the same scripted model, the same Python tool, SQLite, and their own ways to
ask a human, to limit calls and to set a deadline. The model refuses a request as OpenAI does if a
tool call in it has no result. A human who is asked approves; who is asked whether a payment was
made looks into the ledger first. A payment is a line in the ledger, which checks nothing.

deepagents is installed into .venv/peers on the first run. Prints one line of JSON a case: what was
measured, in the words of the table on the front page. A test holds the two side by side.
"""

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.types import Command
from side_environment import enter_environment

from loopwright import AgentDefinition, AgentLimits, Context, ScriptedModel, build_task_agent
from loopwright.store.durability import open_durability

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".venv" / "peers"
PACKAGES = ("deepagents==0.7.32",)
PEERS = ("create_agent", "deepagents")
CONTESTANTS = (*PEERS, "loopwright")
SYSTEM = "You pay what you are told to."
THREAD: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 100}
Script = Callable[[list[BaseMessage], list[str]], Any]


@dataclass
class Case:
    """One contestant in one case: its folder, what it is built of, and what was counted."""

    name: str
    folder: Path
    asks: bool = False
    limit: int = 0
    deadline: float = 0
    spoils: Callable[[], Any] = lambda: None
    """Happens in `pay`, after the payment was made and before it returns; or seconds that pass."""
    read: int = 0
    questions: list[str] = field(default_factory=list)

    async def pay(self, amount: int) -> str:
        """Pay an amount in EUR."""
        with (self.folder / "ledger").open("a") as ledger:
            ledger.write(f"{amount}\n")
        await asyncio.sleep(0.2)  # the service takes a moment; what was begun before is saved
        await asyncio.sleep(self.spoils() or 0)
        return f"paid {amount} EUR"

    async def balance(self, account: str) -> str:
        """Read the balance of an account."""
        self.read += 1
        return f"{account}: 1,000 EUR"

    @property
    def paid(self) -> int:
        """How many payments were made."""
        ledger = self.folder / "ledger"
        return len(ledger.read_text().splitlines()) if ledger.exists() else 0


async def build(case: Case, script: Script, stack: AsyncExitStack) -> Any:
    """The contestant's graph, on a database in the folder of the case."""
    model, tools = (
        ScriptedModel(as_openai_checks(script)),
        [as_tool(case.pay), as_tool(case.balance)],
    )
    if case.name == "loopwright":
        rules: Any = [{"action": "ask", "tool": "pay"}] if case.asks else "allow"
        limits = AgentLimits(tool_calls=case.limit or None)
        opened = stack.enter_context(open_durability(f"sqlite:///{case.folder}/ours.db"))
        return build_task_agent(
            model=model, tools=tools, policy=rules, durability=opened,
            definition=AgentDefinition(prompt=SYSTEM, limits=limits),
        )  # fmt: skip
    savers = import_module("langgraph.checkpoint.sqlite.aio").AsyncSqliteSaver
    saver = await stack.enter_async_context(savers.from_conn_string(f"{case.folder}/peer.db"))
    parts = import_module("langchain.agents.middleware")
    more: list[Any] = []
    if case.limit:
        more.append(parts.ToolCallLimitMiddleware(run_limit=case.limit))
    if case.name == "deepagents":
        create = import_module("deepagents").create_deep_agent
        asking: Any = {"interrupt_on": {"pay": True}} if case.asks else {}
    else:
        create, asking = import_module("langchain.agents").create_agent, {}
        more += [parts.HumanInTheLoopMiddleware(interrupt_on={"pay": True})] if case.asks else []
    graph = create(
        model, tools, system_prompt=SYSTEM, middleware=more, checkpointer=saver, **asking
    )
    graph.step_timeout = case.deadline or None
    return graph


def as_tool(function: Callable[..., Awaitable[str]]) -> Any:
    """A LangChain tool; the one that reads says so."""
    from langchain_core.tools import StructuredTool  # noqa: PLC0415

    about = {"readOnlyHint": True} if function.__name__ == "balance" else {}
    return StructuredTool.from_function(coroutine=function, metadata=about)


def as_openai_checks(script: Script) -> Script:
    """The script, for requests in which every tool call has its result."""

    def checked(messages: list[BaseMessage], offered: list[str]) -> Any:
        open_calls: set[str] = set()
        for message in messages:
            if message.type != "tool" and open_calls:
                return ValueError(f"400: no result of tool_calls {open_calls}")
            if isinstance(message, AIMessage):
                open_calls = {str(call["id"]) for call in message.tool_calls}
            open_calls -= {str(getattr(message, "tool_call_id", ""))}
        return ValueError("400: no result at the end") if open_calls else script(messages, offered)

    return checked


def calls_then_answer(*calls: Any) -> Script:
    """One turn after the other since the last message of the user, then the answer."""

    def script(messages: list[BaseMessage], offered: list[str]) -> Any:
        last = max(i for i, m in enumerate(messages) if m.type == "human")
        made = [m for m in messages[last:] if isinstance(m, AIMessage)]
        return calls[len(made)] if len(made) < len(calls) else done(offered)

    return script


def done(offered: list[str]) -> Any:
    """The answer, as the contestant wants it."""
    if "complete_task" in offered:
        return [{"name": "complete_task", "args": {"summary": "I have done what I was told."}}]
    return "I have done what I was told."


PAY = [{"name": "pay", "args": {"amount": 40}}]
READ = [{"name": "balance", "args": {"account": "rent"}}]


def request(text: str = "Pay Mara 40 EUR.") -> Any:
    """A message of the user."""
    return {"messages": [("user", text)]}


async def run(case: Case, graph: Any, given: Any) -> dict[str, Any]:
    """Run until nothing is asked any more; a human answers."""
    more = {"context": Context(tool_deadline=case.deadline)} if case.deadline else {}
    more = more if case.name == "loopwright" else {}
    state: dict[str, Any] = await graph.ainvoke(given, THREAD, **more)
    while asked := state.get("__interrupt__"):
        value = asked[0].value
        case.questions.append(str(value.get("type", "approval")))
        state = await graph.ainvoke(Command(resume=answer_of(case, value)), THREAD, **more)
    return state


def answer_of(case: Case, value: dict[str, Any]) -> Any:
    """A human approves; of a payment that may have been made they say what the ledger says."""
    if value.get("type") == "uncertain_call":
        return "respond: paid 40 EUR" if case.paid else "approve"
    if case.name == "loopwright":
        return "approve"
    return {"decisions": [{"type": "approve"} for _ in value["action_requests"]]}


def times(number: int) -> str:
    """How often, in words."""
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number} times")


# ---- cases


async def killed(case: Case) -> str:
    """The process gets SIGKILL inside a payment; another one goes on with the thread."""
    here = [sys.executable, __file__, "--begin", case.name, str(case.folder)]
    process = await asyncio.create_subprocess_exec(*here)
    assert await process.wait() == -signal.SIGKILL
    async with AsyncExitStack() as stack:
        await run(case, await build(case, calls_then_answer(PAY), stack), None)
    asked = "asks whether it was paid, " if "uncertain_call" in case.questions else ""
    return f"{asked}pays {times(case.paid)}"


async def begin(name: str, folder: str) -> None:
    """The process that is killed."""
    case = Case(name, Path(folder), spoils=lambda: os.kill(os.getpid(), signal.SIGKILL))
    async with AsyncExitStack() as stack:
        await run(case, await build(case, calls_then_answer(PAY), stack), request())


async def message(case: Case) -> str:
    """A payment waits for approval; the user sends another message, then one more."""
    case.asks = True

    def script(messages: list[BaseMessage], offered: list[str]) -> Any:
        said = [str(m.content) for m in messages if m.type == "human"]
        only = "Pay" in said[-1] and not any(m.type == "tool" for m in messages)
        return PAY if only else done(offered)

    failures = []
    async with AsyncExitStack() as stack:
        graph = await build(case, script, stack)
        await graph.ainvoke(request(), THREAD)
        for text in ("Stop, what is the balance?", "Are you there?"):
            try:
                await graph.ainvoke(request(text), THREAD)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is counted
                failures.append(str(error)[:3])
    if failures:
        return f"{len(failures)} of 2 messages fail with {failures[0]}"
    return f"answers both, pays {times(case.paid)}"


async def limit(case: Case) -> str:
    """Two calls are allowed; the model asks for five payments, and each is approved."""
    case.asks, case.limit = True, 2
    async with AsyncExitStack() as stack:
        await run(
            case, await build(case, calls_then_answer(PAY, PAY, PAY, PAY, PAY), stack), request()
        )
    return f"makes {case.paid} of 5 calls"


async def timeout(case: Case) -> str:
    """A payment is made but takes longer than the deadline; the run is resumed until it ends."""
    case.deadline, case.spoils = 1, lambda: 3 if case.paid == 1 else 0
    ended: dict[str, Any] = {}
    raised = 0
    async with AsyncExitStack() as stack:
        graph, given = await build(case, calls_then_answer(PAY), stack), request()
        while raised < 3:
            try:
                ended = await run(case, graph, given)
                break
            except TimeoutError:
                given, raised = None, raised + 1
    doubts = (ended.get("outcome") or {}).get("uncertain_calls")
    named = ", `uncertain_calls` names it" if doubts else ""
    return f"{'raises; resumed, ' if raised else ''}pays {times(case.paid)}{named}"


async def reads(case: Case) -> str:
    """The model asks for the same balance four times in a turn."""
    async with AsyncExitStack() as stack:
        await run(
            case, await build(case, calls_then_answer(READ, READ, READ, READ), stack), request()
        )
    return f"reads {times(case.read)}"


def called(name: str, arguments: str) -> AIMessage:
    """A call as the provider sent it, whose arguments may be no JSON."""
    wrong = {"name": name, "args": arguments, "id": "c1", "error": None}
    try:
        given = json.loads(arguments)
        if isinstance(given, dict):
            return AIMessage("", tool_calls=[{"name": name, "args": given, "id": "c1"}])
    except ValueError:
        pass
    return AIMessage("", invalid_tool_calls=[{**wrong, "type": "invalid_tool_call"}])


MALFORMED = {
    "a comma too many": called("pay", '{"amount": 40,}'),
    "single quotes": called("pay", "{'amount': 40}"),
    "a brace is missing": called("pay", '{"amount": 40'),
    "JSON inside a JSON string": called("pay", '"{\\"amount\\": 40}"'),
    "a number as text": called("pay", '{"amount": "40"}'),
    "a prefix": called("functions.pay", '{"amount": 40}'),
    "another case": called("Pay", '{"amount": 40}'),
    "a call in the text": AIMessage(
        '<tool_call>{"name": "pay", "arguments": {"amount": 40}}</tool_call>'
    ),
}


async def malformed(case: Case) -> str:
    """The model makes one payment, by a call that is malformed; told so, it makes it well."""
    good = 0
    for name, call in MALFORMED.items():
        one = Case(case.name, case.folder / name)
        one.folder.mkdir()
        async with AsyncExitStack() as stack:
            await run(one, await build(one, first_wrong(one, call), stack), request())
        good += one.paid == 1
    return f"pays in {good} of {len(MALFORMED)}"


def first_wrong(case: Case, call: AIMessage) -> Script:
    """The model: this call first, then the right one, unless it was paid."""
    asked: list[None] = []

    def script(_: list[BaseMessage], offered: list[str]) -> Any:
        asked.append(None)
        if len(asked) == 1:
            return call
        return done(offered) if case.paid else PAY

    return script


CASES: dict[str, Callable[[Case], Coroutine[Any, Any, str]]] = {
    "killed": killed, "message": message, "limit": limit, "timeout": timeout, "reads": reads,
    "malformed": malformed,
}  # fmt: skip


def measure(name: str, contestants: Sequence[str] = CONTESTANTS) -> dict[str, str]:
    """What each contestant does in a case."""
    found = {}
    for contestant in contestants:
        with tempfile.TemporaryDirectory() as folder:
            case = Case(contestant, Path(folder))
            found[contestant] = asyncio.run(CASES[name](case))
    return found


def main() -> None:
    """Measure the cases named, or all of them."""
    if sys.argv[1:2] == ["--begin"]:
        asyncio.run(begin(*sys.argv[2:4]))
    if find_spec("deepagents") is None:
        enter_environment(HOME, PACKAGES)
    for name in sys.argv[1:] or CASES:
        print(json.dumps({"case": name, **measure(name)}), flush=True)  # noqa: T201 - the result


if __name__ == "__main__":
    main()
