"""A process that works on a thread of each graph and is frozen in the middle, at three places.

The models go by rules, so that whichever process asks gets the same answers. What is paid is
appended to files, one a thread.
"""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from langgraph.types import Command
from opentelemetry.metrics import _internal

from loopwright import (
    Hook,
    ScriptedModel,
    build_customer_service,
    build_plan_execute_verify,
    build_prompt_flow,
    build_react,
    build_router,
    open_durability,
)
from loopwright.prompts.prompt import read_json
from loopwright.stream import meters
from support.flows import citing, flow, step
from support.metering import Meter
from support.office import Office, done, give
from support.reacting import said
from support.scripts import PROOFREAD, call, passed, plan, report, thought, todo

LEASE: Final = 1.5
POINTS: Final = ("model", "tool", "answer")
"""A model call, a tool that has paid, and the beginning of a run that answers a question."""
COUNTED: Final = (meters.LOST, meters.UNWRITTEN)
_WORDS: Final = ("first", "second")
_WRITTEN: Final = "x" * 30_000
"""More than a model is shown: it goes to the store."""


class Scene:
    """One thread, at which place its process is frozen, and what was paid on it."""

    def __init__(self, graph: str, point: str, folder: str | Path, gate: Any = None) -> None:
        self.graph, self.point, self.gate = graph, point, gate
        self.thread = f"{graph} {point}"
        self.config: Any = {"configurable": {"thread_id": self.thread}}
        self.context = {"max_iterations": 1 if graph == "router" else 9}
        self.answers = self._arrived = False
        self._book = Path(folder, self.thread)

    @property
    def paid(self) -> list[str]:
        return self._book.read_text().split() if self._book.exists() else []

    async def waits(self, point: str) -> None:
        """Wait to be frozen here, once; in no thread, of which there are few."""
        if self.gate is None or self._arrived or self.point != point:
            return
        self._arrived = True
        self.gate.tell(("at", self.thread))
        while not self.gate.go.is_set():  # noqa: ASYNC110 - a thread sets it
            await asyncio.sleep(0.02)

    def built(self, durability: Any) -> Any:
        asked = [{"tool": "pay", "arguments": {"what": "second"}, "action": "ask"}]
        policy = [*asked, {"tool": "*", "action": "allow"}] if self.point == "answer" else "allow"
        hooks = [Hook(event="SessionStart", run=self._began)]
        options: Any = {"durability": durability, "policy": policy, "hooks": hooks}
        options["foreign"] = "allow"
        return GRAPHS[self.graph](self, tools=[self._pay()], **options)

    def scripted(self, **scripts: Callable[..., Any]) -> ScriptedModel:
        """A model by these rules, one a role; frozen in a call once something is paid."""

        def says(script: Callable[..., Any]) -> Any:
            async def answer(messages: Any, offered: Any) -> Any:
                if self.paid:
                    await self.waits("model")
                return script(messages, offered)

            return answer

        rules: Any = {role: says(script) for role, script in scripts.items()}
        return ScriptedModel(rules.get("any") or rules)

    async def _began(self, _: Any) -> None:
        if self.answers:
            await self.waits("answer")

    def _pay(self) -> Any:
        async def pay(what: str) -> str:
            """Pay for something."""
            with self._book.open("a") as book:
                book.write(f"{what}\n")
            if what == "second":
                await self.waits("tool")
            return f"paid {what} {_WRITTEN}"

        return pay


def _react(scene: Scene, **options: Any) -> Any:
    def script(messages: Any, offered: Any) -> Any:
        made = sum(one.type == "tool" for one in messages)
        if not offered:
            return thought("All is paid." if made == 2 else "I pay.", more=made < 2)
        return [call("pay", f"c{made}", what=_WORDS[made])] if made < 2 else []

    return build_react(model=scene.scripted(any=script), observe="direct", **options)


def _agent(scene: Scene, *, tools: Any, durability: Any, **options: Any) -> Any:
    """One agent in the background, another one that is waited for; both pay."""

    def chief(messages: Any, _: Any) -> Any:
        made = sum(one.type == "ai" for one in messages)
        known = any("back is done." in one.text for one in messages if one.type != "ai")
        if made < 2:
            return give("front") if made else give("back", background=True)
        return done("Both have paid." if known else "One may have paid.", unmet=[])

    def pays(name: str, messages: Any, _: Any) -> Any:
        made = sum(one.type == "ai" for one in messages)
        words = _WORDS if name == "front" else ("third", "fourth")
        return (
            [call("pay", f"{name}{made}", what=words[made])]
            if made < 2
            else done(f"{name} is done.")
        )

    office = Office(chief=chief, front=partial(pays, "front"), back=partial(pays, "back"))
    office.model = scene.scripted(any=office.turn)
    return office.graph(durability, tools, **options)


def _service(scene: Scene, **options: Any) -> Any:
    def support(messages: Any, _: Any) -> Any:
        last = max((n for n, one in enumerate(messages[:-1]) if one.type == "human"), default=0)
        made = any(one.type == "tool" for one in messages[last:-1])
        return "It is paid." if made else [call("pay", f"c{len(messages)}", what="second")]

    listener = lambda *_: {"intent": "refund", "mood": "calm", "score": 0}  # noqa: E731
    return build_customer_service(
        model=scene.scripted(**PROOFREAD, listener=listener, support=support), **options
    )


def _router(scene: Scene, **options: Any) -> Any:
    """react pays and wants more than it may: the agent that takes over pays again."""

    def agent(messages: Any, _: Any) -> Any:
        made = sum(one["name"] == "pay" for m in messages for one in getattr(m, "tool_calls", ()))
        if made == 2:
            return [call("complete_task", f"c{len(messages)}", summary="Paid.")]
        return [call("pay", f"c{len(messages)}", what=_WORDS[made])]

    model = scene.scripted(
        dispatcher=lambda *_: {"graph": "react", "why": "one call", "step": "I pay."},
        thought=lambda *_: thought("I pay.", more=True, reason="r"),
        action=lambda messages, _: [call("pay", f"c{len(messages)}", what="first")],
        observation=lambda *_: "paid", agent=agent,
    )  # fmt: skip
    return build_router(model=model, **options)


def _flow(scene: Scene, **options: Any) -> Any:
    planned = flow(
        step("each", "pay", forEach=["first", "third", "second"], arguments={"what": "{{item}}"}),
        step("all", "pay", ["each"], arguments={"what": "fourth"}),
    )
    given_up = {"strategy": "give_up", "reason": "no"}
    model = scene.scripted(
        flow_planner=lambda *_: planned, answerer=citing, recovery=lambda *_: given_up
    )
    return build_prompt_flow(model=model, **options)


def _plan(scene: Scene, **options: Any) -> Any:
    """Three tasks side by side."""

    def executor(messages: Any, _: Any) -> Any:
        what = read_json(messages[1].text, "task")["description"].removeprefix("pay ")
        made = [one for one in messages if one.type == "tool"]
        paid = made and made[-1].status == "success"
        return report(made[-1].text[:9], taskCompleted=paid) if made else [call("pay", what=what)]

    def verifier(messages: Any, _: Any) -> Any:
        human = next(one.text for one in messages if one.type == "human")
        proof = [one for one in read_json(human, "evidence") if one["status"] == "success"]
        if len(proof) == 3:
            return passed("All are paid.", **{f"t{one['task']}": [one["id"]] for one in proof})
        more = {"tasks": [], "improvements": ["pay"]}
        return {"allCompleted": False, "userNeedsSatisfied": False, **more}

    todos = [todo(str(n), f"pay {what}", []) for n, what in enumerate(("third", *_WORDS), 1)]
    model = scene.scripted(planner=lambda *_: plan(*todos), executor=executor, verifier=verifier)
    return build_plan_execute_verify(model=model, **options)


GRAPHS: Final[dict[str, Callable[..., Any]]] = {
    "react": _react, "task_agent": _agent, "customer_service": _service, "router": _router,
    "prompt_flow": _flow, "plan_execute_verify": _plan,
}  # fmt: skip


def scenes(folder: str | Path, gate: Any = None) -> list[Scene]:
    return [Scene(graph, point, folder, gate) for graph in GRAPHS for point in POINTS]


class Gate:
    """Where a process waits until it is frozen; whoever freezes it tells it to go on."""

    def __init__(self, wire: Any) -> None:
        self.go, self._wire, self._lock = threading.Event(), wire, threading.Lock()
        threading.Thread(target=self._opens, daemon=True).start()

    def _opens(self) -> None:
        self._wire.recv()
        self.go.set()

    def tell(self, what: tuple[Any, ...]) -> None:
        with self._lock:
            self._wire.send(what)


async def _works(scene: Scene, durability: Any) -> None:
    """Begin the turn, answer what it asks, and tell how that ended."""
    graph = scene.built(durability)
    given: Any = said("Pay all.")
    how: Any = "ended"
    try:
        if scene.graph == "customer_service":  # it pays what its customer has agreed to
            await graph.ainvoke(said("Refund it, please."), scene.config)
            given = said("Yes!")
        while given is not None:
            await graph.ainvoke(given, scene.config, context=scene.context)
            asked = (await graph.aget_state(scene.config)).interrupts
            scene.answers = bool(asked)
            given = Command(resume={one.id: "approve" for one in asked}) if asked else None
    except Exception as error:  # noqa: BLE001 - it is told
        how = f"{type(error).__name__}: {error}"
    scene.gate.tell(("over", scene.thread, how))


def works(url: str, folder: str, wire: Any) -> None:
    """Work on all scenes at once; the process ends with the numbers that its meter heard."""
    meter, gate = Meter(), Gate(wire)
    _internal._METER_PROVIDER = meter.provider

    async def all_of_them() -> None:
        with open_durability(url, lease=LEASE) as durability:
            await asyncio.gather(*(_works(scene, durability) for scene in scenes(folder, gate)))

    asyncio.run(all_of_them())
    gate.tell(("heard", {name: sum(meter.heard(name).values()) for name in COUNTED}))
