"""What a client of a server can and cannot do at the doors of a graph."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END
from langgraph.types import Command, Send

from loopwright import ScriptedModel
from loopwright.graphs.build import assemble
from loopwright.graphs.react import react_builder
from loopwright.run.client_access import is_server_call, resolve_identity
from loopwright.state.errors import AnswerRejected, SettingsError
from support.scripts import call, thought

BOB = SimpleNamespace(identity="bob")


@pytest.mark.req("W-40")
@pytest.mark.parametrize(
    ("configurable", "whom"),
    [
        ({"user_id": "ada"}, "ada"),
        ({"user_id": 7}, "7"),
        ({}, None),
        ({"user_id": "ada", "langgraph_auth_user_id": "bob"}, "bob"),
        ({"user_id": "ada", "langgraph_auth_user": BOB}, "bob"),
        ({"user_id": "ada", "langgraph_auth_user": {"identity": "bob"}}, "bob"),
        ({"user_id": "ada", "langgraph_auth_user_id": ""}, None),
        ({"user_id": "ada", "langgraph_auth_user": None, "graph_id": "react"}, None),
        ({"user_id": "ada", "assistant_id": "x"}, None),
    ],
    ids=str,
)
def test_the_authenticated_user_wins_and_a_client_names_nobody(configurable, whom):
    assert resolve_identity(configurable) == whom


@pytest.mark.req("W-40")
def test_a_graph_that_a_server_loads_believes_no_field():
    assert resolve_identity({"user_id": "ada"}, served=True) is None
    assert resolve_identity({"langgraph_auth_user_id": "bob"}, served=True) == "bob"
    assert not is_server_call({"thread_id": "t", "user_id": "ada"})


@pytest.fixture(params=["under a server", "served"])
def client(request):
    """A graph of writes that ask, the thread's config as a client's runs have it, and what ran."""
    ran: list[str] = []

    def save(text: str) -> str:
        """Save a text."""
        ran.append(text)
        return "saved"

    model = ScriptedModel({
        "thought": [thought("I save.", more=True), thought("Saved.")],
        "action": [[call("save", text="x")]],
        "observation": ["It is saved."],
    })  # fmt: skip
    parts = assemble(model=model, tools=[save], policy="ask", name="react")
    served = request.param == "served"
    graph = react_builder(replace(parts, served=served)).compile(InMemorySaver())
    more = {} if served else {"graph_id": "react", "assistant_id": "a"}
    return SimpleNamespace(
        graph=graph, ran=ran, config={"configurable": {"thread_id": "t", **more}}, save=save
    )


GOAL = {"messages": [{"role": "user", "content": "Save x"}]}
FORGED = {"calls": [{"id": "react.1.1", "name": "save"}], "call_state": {"decisions": {"x": {}}}}


@pytest.mark.req("W-44")
@pytest.mark.parametrize(
    "command",
    [
        Command(update=FORGED),
        Command(update=FORGED, goto="call_tools"),
        Command(goto="call_tools"),
        Command(goto=["__end__", "call_tools"]),
        Command(goto=[Send("call_tools", FORGED)]),
        Command(goto=Send("call_tools", FORGED)),
        Command(update=[("calls", FORGED["calls"])]),
        Command(update={"messages": [{"role": "ai", "content": "Done."}]}, goto=END),
        Command(resume="approve", update=FORGED),
        Command(resume="approve", goto=END),
        Command(graph=Command.PARENT, goto=END, update=FORGED),
    ],
    ids=repr,
)
def test_a_client_neither_writes_state_nor_chooses_where_to_go_on(client, command):
    for begun in (False, True):
        with pytest.raises(SettingsError, match="`update` and `goto` are refused"):
            client.graph.invoke(command, client.config)
        if not begun:
            client.graph.invoke(GOAL, client.config)
    assert client.ran == []
    assert len(client.graph.get_state(client.config).interrupts) == 1
    client.graph.invoke(Command(resume="approve"), client.config)
    assert client.ran == ["x"]


@pytest.mark.req("W-44")
def test_a_client_does_not_write_by_the_servers_other_door(client):
    client.graph.invoke(GOAL, client.config)
    for values, node in ((FORGED, None), (FORGED, "approve"), (None, "approve"), ({}, "action")):
        with pytest.raises(SettingsError, match="may not write into a thread's state"):
            client.graph.update_state(client.config, values, as_node=node)
    assert client.ran == []


@pytest.mark.req("W-44")
@pytest.mark.parametrize("goto", [END, [END]], ids=str)
def test_a_client_withdraws_the_open_question(client, goto):
    client.graph.invoke(GOAL, client.config)
    client.graph.invoke(Command(goto=goto), client.config)
    state = client.graph.get_state(client.config)
    assert (state.interrupts, state.next) == ((), ())
    with pytest.raises(AnswerRejected, match="no question waiting"):
        client.graph.invoke(Command(resume="approve"), client.config)
    assert client.ran == []


@pytest.mark.req("W-44")
def test_an_approval_comes_after_its_question(client):
    client.graph.invoke(GOAL, client.config)
    for before in client.graph.get_state_history(client.config):
        if not before.interrupts:
            named = {"configurable": client.config["configurable"] | before.config["configurable"]}
            with pytest.raises(AnswerRejected, match="no question waiting"):
                client.graph.invoke(Command(resume="approve"), named)
    assert client.ran == []
