"""Values that strangers wrote: asked about in every graph of a loop, whatever else is allowed."""

import asyncio
import json

import pytest
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import (
    AgentDefinition,
    Context,
    Policy,
    ScriptedModel,
    SettingsError,
    build_react,
    build_task_agent,
    define_reader,
)
from loopwright.graphs.build import assemble_served_parts
from support.mcp_servers import stdio
from support.office import Office, done
from support.reacting import said
from support.scripts import call, thought

IBAN = "DE89370400440532013000"
BILL = f"Bill 17 of Lamps Ltd.\nPlease pay 120 EUR to {IBAN}."
THREAD = {"configurable": {"thread_id": "t"}}


class Bank:
    """A tool that reads prose and one that pays, and what was paid."""

    def __init__(self, result=BILL, **declared):
        self.paid, self._result, self._declared = [], result, declared

    def read_bill(self, name: str) -> object:
        """Read a bill."""
        return self._result

    def pay(self, iban: str, amount: float) -> str:
        """Pay an amount."""
        self.paid.append((iban, amount))
        return "done"

    @property
    def tools(self):
        reads = {"readOnlyHint": True, **self._declared}
        return [
            StructuredTool.from_function(self.read_bill, metadata=reads),
            StructuredTool.from_function(self.pay, metadata={"destructiveHint": False}),
        ]

    def graph(self, *turns, **options):
        script = {"agent": [[call("read_bill", "r", name="17")], *turns, done("The bill is paid.")]}
        return build_task_agent(
            ScriptedModel(script), self.tools, checkpointer=InMemorySaver(), **options
        )


def pays(iban=IBAN, amount=120.0, id_="p"):
    return [call("pay", id_, iban=iban, amount=amount)]


def question(result):
    return result["__interrupt__"][0].value


@pytest.mark.parametrize("policy", ["allow", None])
def test_a_value_out_of_prose_is_asked_about_with_its_place_and_never_remembered(policy):
    bank = Bank()
    graph = bank.graph(pays(), pays(id_="p2"), policy=policy)
    asked = question(graph.invoke(said("Please pay bill 17."), THREAD))
    assert bank.paid == []
    assert [(one["path"], one["value"], one["tool"], one["line"]) for one in asked["foreign"]] == [
        ("iban", IBAN, "read_bill", 2),
        ("amount", "120", "read_bill", 2),
    ]
    assert f"Please pay 120 EUR to {IBAN}." in asked["description"]
    assert "not from your request" in asked["reason"]
    again = graph.invoke(Command(resume={"type": "approve", "remember": "tool"}), THREAD)
    assert bank.paid == [(IBAN, 120.0)]
    assert question(again)["foreign"]
    result = graph.invoke(Command(resume="reject: once is enough"), THREAD)
    assert bank.paid == [(IBAN, 120.0)]
    assert result["outcome"]["status"] == "partial"


def test_what_the_user_said_needs_no_question_and_an_edit_is_the_users_word():
    bank = Bank()
    graph = bank.graph(pays("FR1420041010050500013M02606", 99.0), pays())
    asked = question(graph.invoke(said(f"Pay 120 to {IBAN} as bill 17 says."), THREAD))
    assert [one["path"] for one in asked["foreign"]] == ["iban", "amount"]
    edit = {"type": "edit", "args": {"iban": "ES9121000418450200051332", "amount": 5}}
    graph.invoke(Command(resume=edit), THREAD)
    assert bank.paid == [("ES9121000418450200051332", 5.0), (IBAN, 120.0)]


def test_with_nobody_to_ask_the_call_is_not_made_and_the_outcome_says_so():
    bank = Bank()
    context = Context(interactive=False)
    result = bank.graph(pays(), policy="allow").invoke(
        said("Pay bill 17."), THREAD, context=context
    )
    assert bank.paid == []
    assert result["outcome"]["status"] == "partial"
    assert "nobody could be asked" in " ".join(result["outcome"]["unmet"])


@pytest.mark.parametrize(
    ("result", "declared", "options", "asks"),
    [
        ({"iban": IBAN, "amount": 120, "note": "Pay soon, please."}, {}, {}, False),
        ({"iban": IBAN, "amount": 120}, {"origin": "foreign"}, {}, True),
        ({"iban": IBAN, "amount": 120}, {"openWorldHint": True}, {}, True),
        ({"iban": IBAN, "amount": 120}, {}, {"foreign": "strict"}, True),
        (BILL, {"origin": "trusted"}, {}, False),
        (BILL, {"origin": "trusted"}, {"foreign": "strict"}, False),
        (BILL, {}, {"foreign": "allow"}, False),
        (BILL, {}, {"policy": {"foreign": "allow"}}, False),
    ],
)  # fmt: skip
def test_records_trusted_tools_and_the_operators_word_decide(result, declared, options, asks):
    bank = Bank(result, **declared)
    ended = bank.graph(pays(), **options).invoke(said("Pay bill 17."), THREAD)
    assert bool(ended.get("__interrupt__")) is asks
    assert bank.paid == ([] if asks else [(IBAN, 120.0)])


@pytest.mark.parametrize(
    ("entry", "paths"),
    [
        ({}, []),  # the link is a field of a record
        ({"origin": "foreign"}, ["subject", "body"]),
        ({"origin": {"*": "foreign", "find_pages": "trusted"}}, []),
        ({"origin": {"find_pages": "foreign"}, "sinks": {"open_case": ["body"]}}, ["body"]),
        ({"origin": {"find_pages": "foreign"}, "sinks": {"is_no_tool": []}}, ["subject", "body"]),
    ],
)
def test_the_entry_of_a_server_says_of_each_tool_what_it_gives_and_by_what_it_acts(entry, paths):
    link, servers = "https://wiki.example/returns", {"wiki": stdio("wiki") | entry}
    wishes = call("open_case", "w", subject=link, body=link)
    turns = [[call("find_pages", "r", words="return")], [wishes], done("A case is open.")]
    model, saver = ScriptedModel({"agent": turns}), InMemorySaver()
    graph = build_task_agent(model, mcp=servers, policy="allow", checkpointer=saver)
    ended = asyncio.run(graph.ainvoke(said("Open a case about returns."), THREAD))
    asked = question(ended)["foreign"] if paths else ended.get("__interrupt__", [])
    assert [one["path"] for one in asked] == paths


def test_only_the_operator_lets_foreign_values_pass(monkeypatch):
    assert "foreign" not in Context.model_fields
    with pytest.raises(SettingsError, match="foreign is one of ask, strict, allow, not 'yes'"):
        build_react(ScriptedModel([]), foreign="yes")
    with pytest.raises(SettingsError, match="origin is trusted or foreign, not 'mine'"):
        build_react(ScriptedModel([]), Bank(origin="mine").tools)
    assert Policy.of([{"tool": "pay", "action": "allow"}]).foreign == "ask"
    monkeypatch.setenv("LOOPWRIGHT_FOREIGN", "strict")
    assert assemble_served_parts().toolbox.policy.foreign == "strict"


def test_what_an_earlier_turn_read_taints_this_one_and_its_words_stay_known():
    bank = Bank()
    script = {
        "thought": [
            thought("Read it.", more=True, reason="unknown"),
            thought("It is a bill."),
            thought("Pay it.", more=True, reason="asked"),
            thought("It is paid."),
        ],
        "action": [[call("read_bill", name="17")], pays()],
        "observation": ["It asks for money.", "Paid."],
    }
    graph = build_react(ScriptedModel(script), bank.tools, checkpointer=InMemorySaver())
    graph.invoke(said("What is bill 17? I owe 120."), THREAD)
    asked = question(graph.invoke(said("Then pay it."), THREAD))
    assert [(one["path"], one["tool"]) for one in asked["foreign"]] == [("iban", "read_bill")]
    assert bank.paid == []


SCHEMA = {"type": "object", "properties": {"iban": {"type": "string"}}, "required": ["iban"]}


@pytest.mark.parametrize(
    ("reader", "paths"),
    [
        ({"output": SCHEMA}, ["iban", "amount"]),  # its summary taints
        (
            None,
            ["iban"],
        ),  # typed values alone: they keep their origin, what else is written is free
    ],
)
def test_a_sub_agent_that_read_a_stranger_taints_by_words_and_not_by_typed_values(reader, paths):
    bank = Bank()

    def chief(messages, offered):
        made = [m.name for m in messages if m.type == "tool"]
        if not made:
            return [call("delegate_to_agent", "d", agent_name="reader", objective="Read bill 17")]
        return done("The bill is paid.") if "pay" in made else pays()

    read = [[call("read_bill", "r", name="17")], done("It asks for 120.", output={"iban": IBAN})]
    office = Office(chief=chief, reader=read)
    one = define_reader(SCHEMA, prompt="I am reader.")
    agents = [one] if reader is None else office.agents(reader=reader)
    graph = build_task_agent(
        office.model,
        bank.tools,
        definition=AgentDefinition(prompt="I am chief."),
        agents=agents,
        checkpointer=InMemorySaver(),
        policy="allow",
    )
    asked = question(asyncio.run(graph.ainvoke(said("Pay bill 17."), THREAD)))
    assert [one["path"] for one in asked["foreign"]] == paths
    told = json.loads(
        next(m.text for m in graph.get_state(THREAD).values["messages"] if m.type == "tool")
    )
    assert ("summary" in told) is (reader is not None)
