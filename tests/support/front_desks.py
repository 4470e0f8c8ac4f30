"""The six graphs with questions in them, as front ends meet them; their models are scripted."""

from langgraph.checkpoint.memory import InMemorySaver

from loopwright import (
    ScriptedModel,
    build_customer_service,
    build_plan_execute_verify,
    build_react,
    build_router,
    desk_agents,
)
from loopwright.prompts.prompt import read_json
from support.flows import ASK, World as FlowWorld, declared, flow, planning, put
from support.office import Office, done, give
from support.routed import models, payer, planned
from support.scripts import PROOFREAD, call, passed, plan, report, thought, todo


def role_of(messages):
    return messages[0].text.split()[3].rstrip(".")


class Desk:
    """A task for each list of texts, which it saves in calls of one message, one after the other.

    Every message of a model calls its calls `call_0`, `call_1`, as some providers do.
    """

    def __init__(self, *tasks):
        self.tasks, self.saved = tasks, []
        self.model = ScriptedModel(self.turn)

    def save(self, text: str) -> str:
        """Save a text."""
        self.saved.append(text)
        return f"saved {text}"

    def turn(self, messages, offered):
        human, role = next(m.text for m in messages if m.type == "human"), role_of(messages)
        if role == "planner":
            return plan(
                *(todo(str(n), "save " + "+".join(t), []) for n, t in enumerate(self.tasks, 1))
            )
        if role == "verifier":
            proof = {f"t{e['task']}": [e["id"]] for e in read_json(human, "evidence")}
            return passed("All is saved.", **proof)
        texts = read_json(human, "task")["description"].removeprefix("save ").split("+")
        if any(m.type == "tool" for m in messages):
            return report("Saved it.")
        return [call("save", f"call_{n}", text=text) for n, text in enumerate(texts)]

    def graph(self, **options):
        how = {"policy": [{"tool": "save", "action": "ask"}], "checkpointer": InMemorySaver()}
        return build_plan_execute_verify(model=self.model, tools=[self.save], **(how | options))


def flow_desk(*plans, **more):
    plans = plans or [flow(put("w1", "a"), put("w2", f"b{n}")) for n in range(6)]
    return FlowWorld().graph(planning(*plans, **more), policy=ASK, checkpointer=InMemorySaver())


def react_desk():
    def turn(messages, offered):
        newest = max(n for n, m in enumerate(messages) if m.type == "human" and "Go" in m.text)
        done = any(m.type == "tool" for m in messages[newest:])
        if not offered:  # a thought may call no tool
            return thought("Both texts are saved." if done else "I save.", more=not done)
        return [call("save", "call_0", text="a"), call("save", "call_1", text="b")]

    desk = Desk()
    return build_react(
        model=ScriptedModel(turn), tools=[desk.save], policy="ask", observe="direct",
        checkpointer=InMemorySaver(),
    )  # fmt: skip


def agent_desk(_):
    """A list that is reviewed, calls that are asked about, sub-agents, one in the background."""
    todos = [{"description": f"save {name}", "status": "pending"} for name in "abc"]
    work = [
        [call("write_todos", "w1", todos=todos)],
        [call("save", "s1", text="a"), call("save", "s2", text="b")],
        give("left", "right"),
        give("later", background=True),
        "I have saved all.",
        [call("write_todos", "w2", todos=[{**one, "status": "completed"} for one in todos])],
        done("All is saved."),
    ]
    one = [[call("save", text="c")], done("It is saved.")] * 2
    office = Office(chief=work * 2, left=one, right=one, later=one)
    graph = office.graph(tools=[Desk().save], policy=ASKS, checkpointer=InMemorySaver())
    return graph, ["Go.", "Once more."]


def service_desk(_):
    """A sub-agent that searches, a change that is agreed to and allowed, and a hand-over."""

    def search_knowledge_base(query: str) -> dict:
        """Search the articles."""
        return {"articles": [{"id": "kb-1", "title": query, "url": "u", "score": 3.0}]}

    def transfer_to_human(reason: str) -> dict:
        """Put the case into the queue."""
        return {"transfer_id": "H-1"}

    asks = call("delegate_to_agent", "d", agent_name="refund_expert", objective="Look into it")
    model = {
        **PROOFREAD,
        "listener": [{"intent": "refund", "mood": "calm", "score": 0}] * 3,
        "support": [[asks], [call("save", text="5 euro")], "It is saved."],
        "agent": [[call("search_knowledge_base", query="refund")], done("None.")],
    }
    graph = build_customer_service(
        model=ScriptedModel(model), agents=desk_agents(), checkpointer=InMemorySaver(), policy=ASKS,
        tools=[Desk().save, declared(search_knowledge_base, readOnlyHint=True), transfer_to_human],
    )  # fmt: skip
    return graph, ["Pay 5 euro back", "yes", "I want a human"]


def router_desk(folder):
    """Each graph inside in its turn."""
    ways = ["plan_execute_verify", "task_agent", "prompt_flow", "react"]
    steps = [{"id": "1", "description": "pay", "tool": "pay", "arguments": {"name": "Ada"}}]
    scripts = planned("Ada", "Bo") | {
        "dispatcher": [{"graph": way, "why": "it fits"} for way in ways],
        "agent": [[call("pay", name="Ada")], done("Paid.")],
        "flow_planner": [{"goal": "pay", "planId": "p", "steps": steps}],
        "answerer": ["Ada is paid [1]."],
        "thought": [thought("I pay.", more=True, reason="r"), thought("Paid.")],
        "action": [[call("pay", name="Ada")]], "observation": ["paid"],
    }  # fmt: skip
    graph = build_router(
        model=models(scripts), tools=[payer(folder)], policy="ask", checkpointer=InMemorySaver()
    )
    return graph, [f"Pay Ada and Bo, then tell Cy what {way} does, in a report" for way in ways]


ASKS = [{"tool": "save", "action": "ask"}]
OF_EACH = {"tool-call", "approval", "summary-response"}
DESKS = {
    "plan": (lambda _: (Desk("ab", "cd").graph(), ["Go.", "Once more."]), {"executor-response"}),
    "flow": (lambda _: (flow_desk(), ["Go.", "Once more."]), {"flow-graph"}),
    "react": (lambda _: (react_desk(), ["Go.", "Go on."]), set()),
    "agent": (agent_desk, {"todo-list", "handoff"}),
    "service": (service_desk, {"proposal", "receipt", "handoff"}),
    "router": (router_desk, {"executor-response", "flow-graph"}),
}
