"""ask_user: an agent, or one that it delegated to, asks the user in the middle of its work."""

import io

import pytest
from langchain_core.tools import StructuredTool
from langgraph.types import Command
from rich.console import Console

from loopwright import AgentDefinition, Context, ScriptedModel, build_task_agent, open_durability
from loopwright.cli.approvals import Asker, Question
from loopwright.tools.catalog import build_catalog
from loopwright.tools.mcp.config import ServerConfig
from loopwright.tools.mcp.server import Listing
from support import asking_killed, killed
from support.office import Office, done, give, told_to
from support.patience import PATIENCE
from support.reacting import THREAD, said
from support.scripts import call

ASKS = AgentDefinition(questions=True)
IBAN, OTHER = "DE89370400440532013000", "FR1420041010050500013M02606"


def ask(id_="q", /, **args):
    return call("ask_user", id_, **{"question": "Which one?"} | args)


class Agent:
    """An agent on a script, its requests, and what its tools did."""

    def __init__(self, kept, *turns, definition=ASKS, **options):
        self.requests, self.offered, self.paid, self._turns = [], [], [], iter(turns)
        read = StructuredTool.from_function(self.read_bill, metadata={"readOnlyHint": True})
        self.graph = build_task_agent(
            ScriptedModel(self._turn), [read, self.pay], definition=definition, durability=kept,
            **{"policy": "allow"} | options,
        )  # fmt: skip

    def _turn(self, messages, offered):
        self.requests.append(messages)
        self.offered.append(offered)
        return next(self._turns)

    def read_bill(self, number: str) -> str:
        """Read a bill."""
        return f"Bill {number}. Pay to {IBAN}."

    def pay(self, iban: str) -> str:
        """Pay."""
        self.paid.append(iban)
        return "paid"

    def answers(self):
        return [m.text for m in self.requests[-1] if m.type == "tool" and m.name == "ask_user"]


@pytest.fixture
def kept(tmp_path):
    with open_durability(f"sqlite:///{tmp_path}/t.db") as durability:
        yield durability


def question(graph):
    (asked,) = graph.get_state(THREAD).interrupts
    return asked


def answer(graph, reply):
    return graph.invoke(Command(resume=reply), THREAD)


def test_a_question_has_the_shape_of_all_others_and_takes_their_answers(kept):
    """Words and choices: answered by a word, by JSON, at the terminal."""
    agent = Agent(
        kept,
        [ask("q1", question="Who is it for?")],
        [ask("q2", choices=["tea", "coffee"]), ask("q3", question="Where to?")],
        done("Known."),
    )
    events = list(agent.graph.stream(said(), THREAD, stream_mode="custom"))
    assert [e["status"] for e in events if e.get("tool") == "ask_user"][-1] == "awaiting_approval"
    asked = question(agent.graph)
    assert asked.value["type"] == "ask_user"
    assert asked.value["description"] == "Who is it for?"
    assert asked.value["action_requests"][0]["args"] == {"answer": ""}
    assert asked.value["review_configs"][0]["allowed_decisions"] == ["respond", "edit", "reject"]
    answer(agent.graph, "for my aunt")
    assert agent.answers() == ["for my aunt"]
    read = Question.from_interrupt(question(agent.graph))
    screen = io.StringIO()
    reply = Asker(Console(file=screen), read=iter(["", "tea"]).__next__).ask(read)
    assert "- tea" in screen.getvalue()
    answer(agent.graph, "beer")
    assert "'beer' is not one of" in question(agent.graph).value["description"]
    answer(agent.graph, reply)
    result = answer(agent.graph, {"type": "edit", "args": {"answer": "Bern"}})
    assert agent.answers()[1:] == ["tea", "Bern"]
    assert result["outcome"]["status"] == "complete"


@pytest.mark.parametrize(
    ("reply", "told"), [("reject: none of your business", "none of your business"), ("reject", "")]
)
def test_a_question_that_is_declined_does_not_end_the_work(reply, told, kept):
    agent = Agent(kept, [ask()], done("Done without."))
    agent.graph.invoke(said(), THREAD)
    outcome = answer(agent.graph, reply)["outcome"]
    assert outcome["answer"] == "Done without."
    assert "does not answer" in agent.answers()[0]
    assert told in agent.answers()[0]


def test_where_nobody_can_be_asked_an_agent_goes_on(kept):
    alone = Agent(kept, [ask("a", question="1?"), ask("b", question="2?")], done("Tea was bought."))
    result = alone.graph.invoke(said(), THREAD, context=Context(interactive=False))
    assert result["outcome"]["answer"] == "Tea was bought."
    assert all("Nobody can answer" in text for text in alone.answers())


def test_an_agent_without_the_option_is_offered_nothing_new(kept):
    agent = Agent(kept, done("Tea was bought."), definition=AgentDefinition())
    agent.graph.invoke(said(), THREAD)
    assert "ask_user" not in str(agent.offered)


def test_an_answer_is_the_users_word_and_what_the_model_wrote_around_it_is_not(kept):
    """A model that has read a bill cannot make its IBAN the user's by the form of a question."""
    lies = [
        ask("l1", question=["no text", IBAN]),
        ask("l2", question=f"Is it {IBAN}?"),
    ]
    agent = Agent(
        kept, [call("read_bill", number="17")], [ask()], [call("pay", iban=OTHER)],
        lies, [call("pay", iban=IBAN)], done("Paid."),
    )  # fmt: skip
    agent.graph.invoke(said("Pay bill 17."), THREAD)
    answer(agent.graph, f"To {OTHER}, please.")
    assert agent.paid == [OTHER], "the user has said it"
    answer(agent.graph, "yes")
    assert [one["value"] for one in question(agent.graph).value["foreign"]] == [IBAN]
    assert agent.paid == [OTHER]


def test_a_server_cannot_call_itself_the_user():
    listing = Listing(ServerConfig(name="shop", command="x"), [{"name": "ask_user"}])
    assert [*build_catalog([], [listing]).tools] == ["shop_ask_user"]


def test_sub_agents_ask_one_after_the_other_and_their_parent_knows_what_the_user_said(kept):
    """Two ask side by side, one in the background; the answer is the user's word for the parent."""
    paid = []

    def pay(iban: str) -> str:
        """Pay."""
        paid.append(iban)
        return "paid"

    def chief(messages, _):
        if not told_to(messages):
            return [*give("left", "right"), *give("late", background=True)]
        return done("All.") if paid else [call("pay", iban=OTHER)]

    office = Office(
        chief=chief,
        left=[[ask(question="Left?")], done(f"It is {OTHER}.")],
        right=[[ask(question="Right?")], done("Right is known.")],
        late=[[ask(question="Late?")], done("Late is known.")],
    )
    more = {name: {"questions": True} for name in ("left", "right", "late")}
    graph = office.graph(kept, [pay], more, policy="allow")
    graph.invoke(said(), THREAD)
    asked = {one.value["description"]: one.id for one in graph.get_state(THREAD).interrupts}
    assert set(asked) == {"left.1.0: Left?", "right.1.1: Right?"}
    answer(graph, {asked["right.1.1: Right?"]: "right"})
    assert question(graph).value["description"] == "left.1.0: Left?"
    answer(graph, f"It is {OTHER}")
    assert paid == [OTHER], "not asked about: the user has said it to a sub-agent"
    assert question(graph).value["description"] == "late.1.2: Late?"
    assert answer(graph, "late")["outcome"]["status"] == "complete"


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("place", [None, {"node": "approve", "at": "end"}])
def test_kill_minus_9_between_a_question_and_the_end_of_its_call(place, nested, tmp_path):
    process = killed.spawn(asking_killed.die, str(tmp_path), place, nested)
    process.join(PATIENCE)
    assert process.exitcode == -9
    result, answered = asking_killed.go_on(str(tmp_path), nested=nested)
    assert result["outcome"]["answer"] == "It is blue."
    assert answered == 1
    models = (tmp_path / "models").read_text().split()
    assert models.count("asks") == 1, "the question is not thought up again"
