"""Items of a step: what is known of them, placed in the order of its list."""

from collections import Counter

from hypothesis import given, strategies as st

from loopwright.flow.carry_over import adopt_steps
from loopwright.flow.items import place_items
from loopwright.flow.order import build_steps
from support.flow_steps import plan

PRINTS = st.lists(st.sampled_from("abc"), max_size=6)
KNOWN = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["completed", "pending", "failed"])),
    max_size=6,
)


def step_with(items):
    return {"id": "s", "items": items}


def known(kinds):
    return [
        {"made_of": made_of, "status": status, "result": f"r{n}", "rounds": n, "attempts": 1}
        for n, (made_of, status) in enumerate(kinds)
    ]


@given(KNOWN, PRINTS)
def test_what_is_done_is_kept_once_for_each_equal_item(kinds, wanted):
    items = known(kinds)
    found = place_items(step_with(items), wanted, {"s[0]": 9})
    assert [item["made_of"] for item in found] == wanted
    done = Counter(one["made_of"] for one in items if one["status"] == "completed")
    asked = Counter(wanted)
    kept = Counter(one["made_of"] for one in found if one["status"] == "completed")
    assert kept == Counter({name: n for name in asked if (n := min(done[name], asked[name]))})
    results = [item["result"] for item in found if item["result"]]
    assert len(results) == len(set(results)), "no result is that of two items"
    assert all(item["rounds"] >= 9 for item in found[:1]), "an id that evidence has is not used"


@given(st.lists(st.sampled_from([0, 1, "a", None]), max_size=5), st.integers(0, 5))
def test_a_plan_with_one_item_more_calls_one_item_more(items, place):
    """The items of a read that were called for one list are those of the next one, too."""
    more = [*items[:place], "new", *items[place:]]
    old, new = (
        build_steps(
            plan({"id": name, "tool": "get", "arguments": {"q": "{{item}}"}, "forEach": each})
        )
        for name, each in (("s", items), ("t", more))
    )
    names = [f"call of {item!r}" for item in items]
    done = [{"made_of": name, "status": "completed", "result": name} for name in names]
    old[0] |= {"status": "failed", "failure": "tool_error", "changes": False, "items": done}
    new[0]["changes"] = False
    adopted = adopt_steps(new, old, variables={}, old_variables={}, rounds={}, reads={"get"})
    found = place_items(adopted[-1], [f"call of {item!r}" for item in more], {})
    assert [item["made_of"] for item in found if item["status"] != "completed"] == (
        ["call of 'new'"]
    )
