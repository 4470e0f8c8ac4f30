"""What runs of the router do to a small world, in this process or in one that kills itself."""

import signal

from loopwright import ScriptedModel, build_router, open_durability
from loopwright.prompts.prompt import read_json
from support.killed import _SPAWN as SPAWN, Killed, die
from support.reacting import THREAD
from support.scripts import call, passed, plan, report, thought, todo


def chosen(graph="react", **more):
    """The script of a dispatcher."""
    return {"dispatcher": [{"graph": graph, "why": "it fits", **more}] * 3}


def payer(folder, hurt=None):
    """A tool that pays into a file, and may do harm once it has paid."""

    def pay(name: str) -> str:
        """Pay somebody."""
        with (folder / "paid").open("a") as book:
            book.write(f"{name}\n")
        if hurt is not None:
            hurt(name)
        return f"paid {name}"

    return pay


def paid(folder):
    book = folder / "paid"
    return book.read_text().split() if book.exists() else []


def wants(name="Ada", then="Paid."):
    return chosen() | {
        "thought": [thought("I pay.", more=True, reason="r"), thought(then)],
        "action": [[call("pay", name=name)]],
        "observation": ["paid"],
    }


def planned(*names, done="All are paid."):
    """A plan with a task for each name, whose executor goes by what it is shown."""
    todos = [todo(str(n), f"pay {name}", [] if n == 1 else [str(n - 1)])
             for n, name in enumerate(names, start=1)]  # fmt: skip

    def executor(messages, _):
        name = read_json(messages[1].text, "task")["description"].removeprefix("pay ")
        made = any(message.type == "tool" for message in messages)
        return report(f"paid {name}") if made else [call("pay", name=name)]

    cited = {f"t{n}": [f"{n}.1.0"] for n in range(1, len(names) + 1)}
    return chosen("plan_execute_verify") | {
        "planner": [plan(*todos)] * 6,
        "executor": executor,
        "verifier": [passed(done, **cited)] * 6,
    }


def models(scripts):
    """One scripted model a role: a function answers whoever asks it."""
    return {
        role: ScriptedModel(script if callable(script) else {role: script})
        for role, script in scripts.items()
    }


# ---- kill -9, and a model by rules, so that whichever process asks gets the same answers


def pays_in(messages):
    """How often the conversation pays."""
    made = (made for message in messages for made in getattr(message, "tool_calls", ()))
    return sum(one["name"] == "pay" for one in made)


def by_rules():
    """react pays and wants more than it may; the agent pays again, and then says it is done."""

    def agent(messages, _):
        if pays_in(messages) < 2:
            return [call("pay", f"call_{len(messages)}", name="Ada")]
        return [call("complete_task", f"call_{len(messages)}", summary="Ada is paid.")]

    return models(
        {
            "dispatcher": lambda *_: {"graph": "react", "why": "one call", "step": "I pay."},
            "thought": lambda *_: thought("I pay.", more=True, reason="r"),
            "action": lambda messages, _: [call("pay", f"call_{len(messages)}", name="Ada")],
            "observation": lambda *_: "paid",
            "agent": agent,
        }
    )


ONE_STEP = {"max_iterations": 1}


def run_once(folder, given, node="", at="start", hurt=False):
    """One process; it may kill itself at a node of any of the graphs, or when it has paid."""
    with open_durability(f"sqlite:///{folder}/t.db") as kept:
        pay = payer(folder, (lambda _: die()) if hurt else None)
        graph = build_router(model=by_rules(), tools=[pay], durability=kept)
        config = THREAD | {"callbacks": [Killed(node=node, at=at)] if node else []}
        return graph.invoke(given, config, context=ONE_STEP)


def killed(*about):
    process = SPAWN.Process(target=run_once, args=about)
    process.start()
    process.join(300)
    assert process.exitcode == -signal.SIGKILL
