"""Steps with forEach: a call for each item, made once, in the order of the list."""

import pytest
from langchain_core.tools import ToolException
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import Context
from support.flows import (
    ASK,
    DOWN,
    REPLAN,
    THREAD,
    World,
    answer,
    asked,
    asking,
    decide,
    declared,
    ended,
    flow,
    look,
    planning,
    put,
    roles,
    said,
    steps_by_id,
    told_to,
)

ROWS = {"rows": [{"id": 7, "name": "Juno"}, {"id": 8, "name": "Alba"}, {"id": 7, "name": "Juno"}]}
GIVE_UP = [decide("give_up")]


def run(*steps, plans=(), recovery=GIVE_UP, context=None, foreign="ask", **answers):
    world = World(**{"list": ROWS, **answers})
    model = planning(flow(*steps), *plans, recovery=recovery)
    outcome = world.graph(model, foreign=foreign).invoke(said(), context=context)["outcome"]
    return world, model, outcome


LIST = look("s1", "list")


def test_each_item_is_a_call_and_the_result_is_the_list_of_what_they_gave():
    world, model, outcome = run(
        LIST,
        look("s2", "{{item.name}} {{item.id}}", forEach="{{s1.rows}}"),
        put("all", "{{s2}}"),
        put("one", "{{s2.1.of}}, {{s2[-1].of}}", when="s2[1].n == 6"),
    )  # fmt: skip
    assert ended(outcome) == ("complete", "GOAL"), outcome["unmet"]
    whole = [{"of": text, "n": 6} for text in ("Juno 7", "Alba 8", "Juno 7")]
    assert world.done("put") == [whole, "Alba 8, Juno 7"]
    assert world.done("look") == ["list", "Juno 7", "Alba 8", "Juno 7"]
    assert steps_by_id(outcome)["s2"]["evidence"] == ["s2[0].1.0", "s2[1].1.0", "s2[2].1.0"]
    assert outcome["spend"]["tool_calls"] == 6
    assert roles(model) == ["flow_planner", "answerer"]


@pytest.mark.parametrize(
    ("given", "items"),
    [
        ("{{s1.rows}}", ROWS["rows"]),
        ("{{global.names}}", ["a", 3, None, [1], {"x": 1}]),
        (["a", "{{s1.rows[0].id}}", False, 0], ["a", 7, False, 0]),
        ('["a", 1]', ["a", 1]),
    ],
)
def test_an_item_keeps_its_type(given, items):
    names = ["a", 3, None, [1], {"x": 1}]
    world = World(list=ROWS)
    plan = flow(LIST, put("s2", "{{item}}", forEach=given), globalVariables={"names": names})
    outcome = world.graph(planning(plan)).invoke(said())["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert [(type(one), one) for one in world.done("put")] == [(type(i), i) for i in items]


def test_what_an_item_holds_is_never_read_as_a_reference():
    rows = {"rows": ["{{s1}}", "{{item}}", r"\{{", "$item"]}
    world, _, outcome = run(LIST, put("s2", "{{item}}", forEach="{{s1.rows}}"), list=rows)
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("put") == rows["rows"]


def test_an_empty_list_is_done_at_once():
    world, _, outcome = run(
        LIST, put("s2", "{{item.x}}", forEach="{{s1.rows}}"), put("s3", "{{s2}}"),
        list={"rows": []},
    )  # fmt: skip
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("put") == [[]]
    assert steps_by_id(outcome)["s2"]["result"] == "[]"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"forEach": "{{s1}}"}, "an object with the keys 'rows'"),
        ({"forEach": "{{s1.rows[0].name}}"}, "text of 4 characters"),
        ({"forEach": "{{s1.rows}}", "maxItems": 2}, "forEach has 3 items, and at most 2"),
        ({"forEach": "{{s1.gone}}"}, "there is no 'gone'"),
    ],
)
def test_what_is_no_list_or_too_long_fails_before_the_first_call(more, why):
    world, model, outcome = run(LIST, put("s2", "{{item}}", **more))
    assert ended(outcome) == ("failed", "ERROR")
    assert any(why in text for text in outcome["unmet"]), outcome["unmet"]
    assert world.calls == [("look", "list")]
    assert "retry_step" not in told_to(model, "recovery").partition("strategies")[2][:80]


def test_an_item_that_lacks_a_field_is_named_before_the_first_call():
    rows = {"rows": [{"mail": "a"}, {"mail": "b"}, {"name": "c"}]}
    world, _, outcome = run(LIST, put("s2", "{{item.mail}}", forEach="{{s1.rows}}"), list=rows)
    assert outcome["status"] == "failed"
    assert "item 3 of 3: {{item.mail}}: there is no 'mail' in the item" in outcome["unmet"][0]
    assert world.done("put") == []


def test_a_read_that_fails_fails_the_step_after_the_others_and_a_replan_repeats_only_that():
    """Also where the new plan gives the step another id, other words and another list."""
    down = [DOWN, DOWN, lambda: {"of": "Alba", "n": 1}]  # a read is repeated once in any case
    for new in (
        look("s2", "{{item.name}}", forEach="{{s1.rows}}", expect="length(result) == 3"),
        look("other", "{{item.name}}", forEach="{{s1.rows}}", description="again"),
        look("s2", "{{item}}", forEach=["Juno", "Alba", "Juno"]),
        look("s2", "{{item}}", forEach=["Alba", "Juno", "Juno", "Nova"]),
    ):
        world, _, outcome = run(
            LIST, look("s2", "{{item.name}}", forEach="{{s1.rows}}"),
            plans=[flow(new, put("s3", f"{{{{{new['id']}}}}}"))], recovery=REPLAN, Alba=[*down],
            foreign="allow",
        )  # fmt: skip
        assert ended(outcome) == ("complete", "GOAL"), outcome["unmet"]
        more = ["Nova"] if "Nova" in new["forEach"] else []
        assert sorted(world.done("look")) == sorted(["list", "Juno", "Juno", *["Alba"] * 3, *more])
        (results,) = world.done("put")
        order = new["forEach"] if isinstance(new["forEach"], list) else ["Juno", "Alba", "Juno"]
        assert [one["of"] for one in results] == order


class Post:
    """A tool that sends, and fails for one receiver the first time."""

    def __init__(self, fails=()):
        self.sent, self.fails = [], [*fails]

    def tool(self):
        def send(to: str) -> str:
            """Send it."""
            if to in self.fails:
                self.fails.remove(to)
                raise ToolException(f"{to} is unknown")
            self.sent.append(to)
            return f"sent to {to}"

        return declared(send)


def sending(name, each, **more):
    return {"id": name, "tool": "send", "arguments": {"to": "{{item}}"}, "forEach": each, **more}


@pytest.mark.parametrize(
    "new",
    [
        sending("s2", ["a", "b", "a", "c"]),
        sending("x", ["a", "b", "a", "c"]),
        sending("s2", ["a", "b", "a", "c", "d"]),
        sending("s2", ["c", "a", "b", "a"]),
    ],
    ids=["the same", "another id", "one item more", "another order"],
)
def test_a_write_that_fails_is_the_last_one_and_a_replan_sends_only_what_is_missing(new):
    post = Post(fails=["c"])
    plans = [flow(sending("s2", ["a", "b", "a", "c"])), flow(new, put("told", "done"))]
    if new == sending("s2", ["a", "b", "a", "c"]):
        plans[0] = flow(sending("s2", ["a", "b", "a", "c"]), put("told", "other"))
    world = World()
    model = planning(*plans, recovery=REPLAN)
    graph = world.graph(model, tools=[post.tool()], foreign="allow")
    outcome = graph.invoke(said())["outcome"]
    assert ended(outcome) == ("complete", "GOAL"), outcome
    assert sorted(post.sent) == sorted(new["forEach"])
    results = steps_by_id(outcome)[new["id"]]["result"]
    assert results.count("sent to a") == 2


def test_each_item_is_a_question_of_its_own():
    world = World(list=ROWS)
    plan = flow(LIST, put("s2", "{{item.id}}", forEach="{{s1.rows}}"), put("s3", "{{s2.0.put}}"))
    graph = asking(world, planning(plan), ASK)
    result = graph.invoke(said(), THREAD)
    seen = []
    while "__interrupt__" in result:
        question = asked(result)
        seen.append((question["task"], question["action_requests"][0]["args"]["what"]))
        said_ = "respond: as if done" if question["task"] == "s2[1]" else "approve"
        result = answer(graph, said_)
    assert seen == [("s2[0]", 7), ("s2[1]", 8), ("s2[2]", 7), ("s3", 7)]
    assert ended(result["outcome"]) == ("complete", "GOAL")
    assert world.done("put") == [7, 7, 7]


def test_every_item_counts_against_the_limit_and_what_is_done_is_kept():
    world = World(list=ROWS)
    plan = flow(LIST, put("s2", "{{item.id}}", forEach="{{s1.rows}}"))
    graph = world.graph(planning(plan, plan), checkpointer=InMemorySaver())
    settings = Context(max_tool_calls=3)
    outcome = graph.invoke(said(), THREAD, context=settings)["outcome"]
    assert ended(outcome) == ("partial", "BUDGET")
    assert any("s2" in text and "2 of 3" in text for text in outcome["unmet"])
    assert world.done("put") == [7, 8]
    outcome = graph.invoke(None, THREAD, context=settings)["outcome"]
    assert ended(outcome) == ("complete", "GOAL")
    assert world.done("put") == [7, 8, 7]
    assert world.done("look") == ["list"]


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (put("item", "x"), "the id 'item' stands for an item of forEach"),
        (put("a", "{{item.x}}"), "{{item.x}}, which stands for an item only in the arguments"),
        (put("a", "x", forEach="s1.rows"), "forEach is 's1.rows': write one reference"),
        (put("a", "x", forEach="{{s9.rows}}"), "there is no step 's9'"),
        (put("a", "x", forEach=[1, 2, 3], maxItems=2), "forEach has 3 items"),
        (put("a", "{{item.x}}", forEach=[{"x": 1}, {"y": 1}]), "item 2 of 2: {{item.x}}"),
    ],
)
def test_what_is_wrong_with_items_is_found_before_anything_runs(step, why):
    world = World(list=ROWS)
    bad = flow(LIST, put("b", "{{item}}", forEach=[1]), step, globalVariables={"n": 3})
    model = planning(bad, flow(look("z", "z")))
    graph = world.graph(model)
    outcome = graph.invoke(said())["outcome"]
    assert world.calls == [("look", "z")], outcome
    assert why in told_to(model, "flow_planner", 1)
