"""What a client of a server can and cannot do at the doors of a graph."""

from types import SimpleNamespace

import pytest

from loopwright.doors.outside import from_outside, identity

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
    assert identity(configurable) == whom


@pytest.mark.req("W-40")
def test_a_graph_that_a_server_loads_believes_no_field():
    assert identity({"user_id": "ada"}, served=True) is None
    assert identity({"langgraph_auth_user_id": "bob"}, served=True) == "bob"
    assert not from_outside({"thread_id": "t", "user_id": "ada"})
