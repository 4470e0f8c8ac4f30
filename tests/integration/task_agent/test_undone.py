"""What a tree of agents leaves undone: outcomes against a model of it, loops, three that fail."""

import random

import pytest
from hypothesis import settings
from langchain_core.tools import StructuredTool, ToolException
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import AgentDefinition, Context, ScriptedModel, build_task_agent
from support.office import Office, done, give, told_to
from support.reacting import THREAD, said
from support.scripts import call

POLICY = [{"tool": "secret", "action": "deny"}, {"tool": "gift", "action": "ask"}]
QUIET = Context(model_retries=0)
TREES = settings().max_examples


class World:
    """Tools whose targets say what becomes of a call."""

    def __init__(self):
        self.late, self.paid = set(), []

    def pay(self, to: str, amount: int = 1) -> str:
        """Pay somebody."""
        if to.startswith("bad") or (to.startswith("late") and to not in self.late):
            self.late.add(to)
            raise ToolException("refused by the bank")
        self.paid.append(to)
        return f"paid {to}"

    def tools(self):
        def look(name: str) -> str:
            """Look something up."""
            if name.startswith("none"):
                raise ToolException("nothing is there")
            return f"{name} is known"

        def cut(to: str) -> str:
            """Pay over a line that breaks."""
            raise ConnectionError("the line broke")

        def give_away(to: str) -> str:
            """Give."""
            return f"gave {to}"

        def make(function, name, **about):
            return StructuredTool.from_function(function, name=name, metadata=about)

        cuts = [make(cut, f"cut{n}") for n in range(9)]
        asked = [make(give_away, name) for name in ("secret", "gift")]
        return [
            make(self.pay, "pay", readOnlyHint=False),
            make(look, "look", readOnlyHint=True),
            *asked,
            *cuts,
        ]


class Tree:
    """A random tree of agents, what each does, and by a model of its own what is undone."""

    def __init__(self, seed):
        self.dice, self.scripts, self.undone, self.names = random.Random(seed), {}, set(), set()
        self.cuts = iter(range(9))
        self.root = self.agent("chief", 2)

    def agent(self, name, depth):
        turns = [[call("look", name=name)]]  # an agent of which no call succeeds is another matter
        turns += [turn for _ in range(self.dice.randint(1, 3)) for turn in self.work(name, depth)]
        ends = ["success"] * 4 + ["partial", "blocked", "crash", "silent"]
        end = "success" if name == "chief" else self.dice.choice(ends)
        word = f"word-{name}"
        if end in ("partial", "blocked"):
            self.undone.add(word)
            turns.append(done("As far as it went.", status=end, unmet=[word]))
        elif end == "success":
            turns.append(done(f"{name} saw to what it was given."))
        else:
            self.undone.add(f"{name}:")
            turns.append(end)
        steps = iter(turns)

        def turn(messages, offered):
            step = next(steps, end)
            if step == "crash":
                raise RuntimeError("the model is gone")
            return "" if step == "silent" else step

        self.scripts[name] = turn

    def work(self, name, depth):
        """One piece of work: the turns of it."""
        kinds = ["ok", "read", "bad", "late", "mended", "malformed", "refused", "yes", "no",
                 "unknown", "meant", "cut", "delegated", "delegated"]  # fmt: skip
        kind = self.dice.choice(kinds if depth else kinds[:-2])
        to = f"{ {'ok': 'ok', 'mended': 'late'}.get(kind, kind) }-{len(self.names)}-{name}"
        self.names.add(to)
        if kind in ("bad", "late", "refused", "no", "unknown", "cut"):
            self.undone.add(to)
        if kind == "delegated":
            crew = [f"{name}{letter}" for letter in "xyz"[: self.dice.randint(1, 2)]]
            crew = [one for one in crew if one not in self.scripts]
            for one in crew:
                self.scripts[one] = None
                self.agent(one, depth - 1)
            return [give(*crew)] if crew else []
        pay = [call("pay", to=to)]
        return {
            "ok": [pay], "read": [[call("look", name=f"none {to}")]], "bad": [pay], "late": [pay],
            "mended": [pay, [call("pay", to=to, amount=2)]],
            "malformed": [[call("pay", t=to)], pay], "refused": [[call("secret", to=to)]],
            "yes": [[call("gift", to=to)]], "no": [[call("gift", to=to)]],
            "unknown": [[call("wire", to=to)]], "meant": [[call("functions.Pay", to=to)], pay],
            "cut": [[call(f"cut{next(self.cuts, 0)}", to=to)]],
        }[kind]  # fmt: skip

    def run(self):
        office = Office(chief=self.scripts.pop("chief"), **self.scripts)
        crew = {one: {"agents": tuple(x for x in self.scripts if x.startswith(one) and x != one)}
                for one in self.scripts}  # fmt: skip
        graph = office.graph(
            None,
            World().tools(),
            crew,
            policy=POLICY,
            checkpointer=InMemorySaver(),
            foreign="allow",
        )
        values = graph.invoke(said(), THREAD, context=QUIET)
        while asked := values.get("__interrupt__"):
            answers = {}
            for question in asked:
                to = question.value["action_requests"][0]["args"]["to"]
                answers[question.id] = "approve" if to.startswith("yes") else "reject: no"
            values = graph.invoke(Command(resume=answers), THREAD, context=QUIET)
        return values["outcome"]


@pytest.mark.req("W-107")
def test_random_trees_end_as_a_model_of_what_is_undone_says():
    complete = 0
    for seed in range(TREES):
        tree = Tree(seed)
        outcome = tree.run()
        unmet = "\n".join(outcome["unmet"])
        assert (outcome["status"] == "complete") == (not tree.undone), (seed, tree.undone, unmet)
        assert [one for one in tree.undone if one not in unmet] == [], seed
        assert [one for one in tree.names - tree.undone if one in unmet] == [], seed
        complete += outcome["status"] == "complete"
    assert TREES * 0.06 <= complete <= TREES * 0.8, "both ends are tried"


def gone(messages, offered):
    raise RuntimeError("the model is gone")


@pytest.mark.req("W-107")
@pytest.mark.parametrize("background", [False, True])
def test_three_branches_that_fail_leave_a_partial_end_that_names_them(background):
    def chief(messages, offered):
        crew, gave = ["locked", "lost", "mute", "well"], told_to(messages)
        return done("All four went.") if gave else give(*crew, background=background)

    office = Office(
        chief=chief, locked=[done("I need a key.", status="blocked")], lost=gone,
        mute=lambda *_: "", well=[done("It is 7 euro.")],
    )  # fmt: skip
    outcome = office.graph().invoke(said(), context=QUIET)["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("partial", "GOAL")
    named = {text.partition(": ")[0] for text in outcome["unmet"]}
    assert named == {"locked", "lost", "mute"}
    assert "locked: I need a key." in outcome["unmet"]


@pytest.mark.req("W-107")
@pytest.mark.parametrize(("again", "status"), [(["helper"], "complete"), (["other"], "partial")])
def test_the_same_agent_with_the_same_objective_makes_up_for_one_that_failed(again, status):
    turns = iter([give("helper"), give(*again), done("It is 7 euro.")])
    helper = iter([done("No key.", status="blocked"), done("It is 7 euro.")])
    office = Office(
        chief=lambda *_: next(turns), helper=lambda *_: next(helper), other=[done("It is 8 euro.")]
    )
    assert office.graph().invoke(said())["outcome"]["status"] == status


NEEDS = AgentDefinition(output={"type": "object", "required": ["n"]}, output_name="a number")
SAME = {
    "a tool that is not there": ([call("wire", to="Ada")], None),
    "bad arguments": ([call("pay", whom="Ada")], None),
    "arguments that cannot be read": ([call("pay", to="Ada", amount="much")], None),
    "a refused call": ([call("secret", to="Ada")], None),
    "an unfit report": (done("Ada owns it."), NEEDS),
    "an empty report": (done("Done."), None),
}


@pytest.mark.req("W-107")
@pytest.mark.parametrize("kind", SAME)
def test_what_cannot_be_made_is_counted_as_the_model_sent_it(kind):
    turn, definition = SAME[kind]
    model = ScriptedModel(lambda *_: turn)
    graph = build_task_agent(
        model=model, tools=World().tools(), definition=definition, policy=POLICY
    )
    outcome = graph.invoke(said())["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("stuck", "LOOP_DETECTED")
    assert len(model.asked) == 5
    assert "third identical call" in model.asked[3].messages[-1].text


@pytest.mark.req("W-107")
def test_one_delegation_again_and_again_is_a_loop_whatever_it_says():
    world, number = World(), iter(range(99))

    def helper(messages, offered):
        paid = messages[-1].type == "tool"
        return done(f"Paid, {next(number)}.") if paid else [call("pay", to="Ada")]

    office = Office(chief=lambda *_: give("helper"), helper=helper)
    outcome = office.graph(None, world.tools()).invoke(said("Have Ada paid."))["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("stuck", "LOOP_DETECTED")
    assert len(world.paid) == 4
