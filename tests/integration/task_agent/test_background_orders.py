"""An agent looks after those in the background: it lists, reads, steers and cancels them."""

import json

import pytest
from langchain_core.tools import StructuredTool

from loopwright import open_durability
from loopwright.state.channels import unpack_fields
from support import killed, ordering_killed
from support.office import Office, Signs, done, give, notebook
from support.patience import PATIENCE
from support.reacting import THREAD, said
from support.scripts import call

IBAN = "DE89370400440532013000"
SCOUT = "agent/scout.1.0"


@pytest.fixture
def kept(tmp_path):
    with open_durability(f"sqlite:///{tmp_path}/t.db") as durability:
        yield durability


def order(id_="o", /, **args):
    return call("order_background", id_, **{"handle": SCOUT} | args)


def looked(messages):
    return [m.text for m in messages if m.type == "tool" and m.name == "look_at_background"]


def ordered(messages):
    return [m.text for m in messages if m.type == "tool" and m.name == "order_background"]


def told(messages):
    """What the parent was told of the ends of those in the background."""
    found = [m.text for m in messages if m.type == "human" and "in the background" in m.text]
    return "\n".join(found)


class Chief:
    """A parent on a script of turns, with its requests."""

    def __init__(self, *turns):
        self.requests, self._turns = [], iter(turns)

    def __call__(self, messages, _):
        self.requests.append(messages)
        return next(self._turns)


def test_one_is_listed_read_and_steered_and_reads_each_message_once(kept):
    chief = Chief(
        give("scout", background=True),
        [call("wait_for", sign="began")],
        [call("look_at_background", "a"), call("look_at_background", "b", handle=SCOUT)],
        [order("c", message="Count the blue ones."), order("d", message="And the red ones.")],
        [order("e", handle="agent/nobody.1.0", message="?"), order("f")],
        [call("show", sign="told")],
        done("?"),
        done("All is counted."),
    )
    scout = Chief(
        [call("show", sign="began")],
        [call("wait_for", "w", sign="told"), *done("Too early.")],
        done("Blue and red are counted."),
    )
    graph = Office(chief=chief, scout=scout).graph(kept, Signs().tools)
    outcome = graph.invoke(said(), THREAD)["outcome"]
    assert (outcome["status"], outcome["answer"]) == ("complete", "All is counted.")
    listed, read = looked(chief.requests[-1])
    assert [(row["handle"], row["status"]) for row in json.loads(listed)] == [(SCOUT, "running")]
    assert "result of show: shown began" in read
    assert "nobody works in the background as 'agent/nobody.1.0'" in ordered(chief.requests[-1])[2]
    assert "either a message or cancel" in ordered(chief.requests[-1])[3]
    talk = [m.text for m in scout.requests[-1]]
    assert any("a message has come while you worked" in text for text in talk)
    assert [sum(f"{what} ones." in text for text in talk) for what in ("blue", "red")] == [1, 1]
    assert "Blue and red are counted." in told(chief.requests[-1])


def test_one_that_is_cancelled_ends_with_what_it_had_done_and_all_below_it(kept):
    save = notebook()

    def saves(name):
        return lambda messages, _: [call("save", text=f"{name}{len(messages)}")]

    def scout(messages, offered):
        asked = [m for m in messages if m.type == "ai"]
        return saves("scout")(messages, offered) if asked else give("deep", background=True)

    chief = Chief(
        give("scout", background=True),
        [call("pause"), order(cancel=True)],
        done("The work was not needed."),
        done("The work was not needed."),
    )
    office = Office(chief=chief, scout=scout, deep=saves("deep"))
    team = {name: {"agents": ("deep",)} for name in ("scout",)}
    graph = office.graph(kept, [save, *Signs().tools], team, policy="allow")
    result = graph.invoke(said(), THREAD)
    assert result["outcome"]["status"] == "complete", result["outcome"]
    assert '"status": "cancelled"' in told(chief.requests[-1])
    evidence = unpack_fields(graph.get_state(THREAD).values)["evidence"]
    made = [r["arguments"]["text"] for r in evidence if r["tool"] == "save"]
    assert save.saved
    assert sorted(made) == sorted(save.saved), "what it had written is known"


def test_one_that_ends_while_it_is_cancelled_has_ended(kept):
    chief = Chief(
        give("scout", background=True),
        [call("pause"), order("a", cancel=True), order("b", message="Wait.")],
        done("The scout was faster."),
    )
    graph = Office(chief=chief, scout=[done("The scout is back.")]).graph(kept, Signs().tools)
    outcome = graph.invoke(said(), THREAD)["outcome"]
    assert outcome["status"] == "complete"
    assert all("has ended by itself" in text for text in ordered(chief.requests[-1]))
    assert "The scout is back." in told(chief.requests[-1])


def test_one_that_waits_for_an_answer_is_cancelled_without_the_question(kept):
    save = notebook()
    chief = Chief(
        give("scout", background=True),
        [call("pause")],
        [call("look_at_background", "l"), order(cancel=True)],
        done("Nothing was saved."),
    )
    office = Office(chief=chief, scout=[[call("save", text="x")]])
    policy = [{"tool": "save", "action": "ask"}]
    graph = office.graph(kept, [save, *Signs().tools], policy=policy)
    outcome = graph.invoke(said(), THREAD)["outcome"]
    assert "waits for an answer" in looked(chief.requests[-1])[0]
    assert '"status": "cancelled"' in told(chief.requests[-1])
    assert (outcome["status"], save.saved) == ("complete", [])


@pytest.mark.parametrize("by", ["read", "told"])
def test_what_goes_between_them_carries_a_strangers_words_no_further(by, kept):
    """A value that one of them read is foreign for the other one, which has read nothing itself."""
    paid = []

    def read_bill(number: str) -> str:
        """Read a bill."""
        return f"Bill {number}. Please pay to {IBAN}."

    def pay(iban: str) -> str:
        """Pay."""
        paid.append(iban)
        return "paid"

    bill = [call("read_bill", number="17")]
    if by == "read":
        chief = Chief(
            give("scout", background=True), [call("wait_for", sign="read")],
            [call("look_at_background", handle=SCOUT)], [call("pay", iban=IBAN)], done("Paid."),
        )  # fmt: skip
        scout = [bill, [call("show", sign="read")], [call("pause")], [call("pause")]]
    else:
        chief = Chief(
            give("scout", background=True), bill, [order(message=f"Pay to {IBAN}.")],
            [call("show", sign="told")], done("?"),
        )  # fmt: skip
        scout = [[call("wait_for", sign="told")], [call("pay", iban=IBAN)]]
    read = StructuredTool.from_function(read_bill, metadata={"readOnlyHint": True})
    graph = Office(chief=chief, scout=scout).graph(
        kept, [read, pay, *Signs().tools], policy="allow"
    )
    graph.invoke(said("Pay bill 17."), THREAD)
    (asked,) = graph.get_state(THREAD).interrupts
    assert [one["value"] for one in asked.value["foreign"]] == [IBAN]
    assert paid == []


def test_of_a_reader_no_words_are_read(kept):
    schema = {"type": "object", "properties": {"amount": {"type": "number"}}}
    chief = Chief(
        give("scout", background=True), [call("wait_for", sign="read")],
        [call("look_at_background", handle=SCOUT)], [call("show", sign="looked")], done("?"),
        done("It is 7."),
    )  # fmt: skip
    scout = [
        [call("show", sign="read")], [call("wait_for", sign="looked")],
        done("Seven it is.", output={"amount": 7}),
    ]  # fmt: skip
    team = {"scout": {"output": schema, "output_alone": True}}
    graph = Office(chief=chief, scout=scout).graph(kept, Signs().tools, team)
    assert graph.invoke(said(), THREAD)["outcome"]["status"] == "complete"
    (read,) = looked(chief.requests[-1])
    assert "its output alone" in read
    assert "shown" not in read


@pytest.mark.parametrize(("node", "nth", "at"), [("call_tools", 1, "end"), ("gather", 2, "start")])
def test_kill_minus_9_loses_and_doubles_no_order(node, nth, at, tmp_path):
    process = killed.spawn(ordering_killed.die, str(tmp_path), {"node": node, "at": at, "nth": nth})
    process.join(PATIENCE)
    assert process.exitcode == -9
    outcome, talk, told = ordering_killed.go_on(str(tmp_path))
    assert outcome["status"] == "complete", outcome
    assert sum("Paint it blue." in text for text in talk) == 1
    assert '"status": "cancelled"' in told


def test_a_call_that_was_planned_before_the_cancellation_is_not_made_after_it(kept):
    save = notebook()
    chief = Chief(
        give("scout", background=True),
        [call("wait_for", sign="began")],
        [order(cancel=True), order("o2", cancel=True)],
        [call("show", sign="cancelled")],
        done("Nothing was saved."),
        done("Nothing was saved."),
    )
    tail = [call("show", "s", sign="began"), call("wait_for", "w", sign="cancelled")]
    office = Office(chief=chief, scout=[[*tail, call("save", "x", text="late")]])
    graph = office.graph(kept, [save, *Signs().tools], policy="allow")
    outcome = graph.invoke(said(), THREAD)["outcome"]
    assert '"status": "cancelled"' in told(chief.requests[-1])
    assert (outcome["status"], save.saved) == ("complete", [])
