"""The to-do list of an agent: what it takes, what is told of it, and the user's word on it."""

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopwright import Context, ScriptedModel, build_task_agent, open_durability
from support.reacting import THREAD, said, shelf
from support.scripts import call

DONE = [call("complete_task", "done", summary="All is moved.")]


def todos(*items, id_="list"):
    """A list: `status description`, and perhaps `: note`."""
    read = []
    for item in items:
        status, _, words = item.partition(" ")
        words, _, note = words.partition(": ")
        read.append({"description": words, "status": status} | ({"note": note} if note else {}))
    return call("write_todos", id_, todos=read)


def shown(result):
    return [f"{t['id']} {t['status']} {t['description']}" for t in result["outcome"]["tasks"]]


def run(*turns, tools=None, context=None, **options):
    model = ScriptedModel([*turns])
    graph = build_task_agent(model=model, tools=tools or [shelf()], **options)
    told, result = [], {}
    stream = graph.stream(said(), THREAD, context=context, stream_mode=["custom", "values"])
    for kind, given in stream:
        if kind == "custom":
            told.append(given)
        else:
            result = given
    return result, told, model


def answers(model):
    """What each call was answered with, as the last request has it."""
    return {m.tool_call_id: m.text for m in model.asked[-1].messages if m.type == "tool"}


LOOK = call("look", "l1", name="owner")


@pytest.mark.req("W-131")
def test_a_list_checked_off_without_a_call_is_asked_about_and_said():
    listed = [todos("completed Find the owner", "completed Move it", "completed Tell Bo"), *DONE]
    result, _, model = run(listed, [LOOK], DONE)
    assert "no tool was called" in answers(model)["done"]
    assert (result["outcome"]["status"], result["outcome"]["warnings"]) == ("complete", [])
    result, _, _ = run(listed, DONE)  # its work may have needed none
    assert result["outcome"]["status"] == "complete"
    assert "the agent's word alone" in str(result["outcome"]["warnings"])


@pytest.mark.req("S3-09", "S3-10", "S3-11", "S3-12", "S3-13", "S4-41", "S4-42", "S4-79")
def test_a_list_is_kept_shown_and_part_of_the_outcome():
    """Ids stay with the words, or with the place; what was called meanwhile is the evidence."""
    result, told, model = run(
        [todos("in_progress Find the owner", "pending Move it", "pending Tell Bo")],
        [LOOK],
        [todos("completed Find the owner.", "in_progress Move the lamp", "pending Tell Bo"),
         call("look", "l2", name="price")],
        [todos("completed Move the lamp", "cancelled Tell Bo: he knows", id_="last"), *DONE],
    )  # fmt: skip
    assert result["outcome"]["status"] == "complete"
    assert shown(result) == [
        "1 completed Find the owner.", "2 completed Move the lamp", "3 cancelled Tell Bo",
    ]  # fmt: skip
    assert [t["evidence"] for t in result["outcome"]["tasks"]] == [
        ["agent.2.0"], ["agent.3.1"], [],
    ]  # fmt: skip
    lists = [event for event in told if event["type"] == "todos"]
    assert [(event["done"], event["total"]) for event in lists] == [(0, 3), (1, 3), (2, 3)]
    drawn = [e for e in told if e["type"] == "ui" and e["name"] == "todo-list"]
    assert len({one["id"] for one in drawn}) == 1
    assert [t["status"] for t in drawn[-1]["props"]["todos"]] == [
        "completed", "completed", "cancelled",
    ]  # fmt: skip
    summed = [e for e in told if e["type"] == "ui" and e["name"] == "summary-response"][-1]
    assert (summed["props"]["done"], summed["props"]["total"]) == (2, 3)
    assert "To-do list: 1 of 3 done." in answers(model).values()
    assert "spend" in result["outcome"]
    assert result["outcome"]["spend"]["tool_calls"] == 2  # the list costs none


@pytest.mark.req("S4-42", "S3-09", "S3-15")
@pytest.mark.parametrize(
    ("items", "says"),
    [
        (["in_progress a", "in_progress b"], "2 items are in_progress; only one can be"),
        (["pending "], "item 1 has no description"),
        (["pending a", "blocked b"], "item 2 is blocked, but its note does not say why"),
        (["pending a"] * 21, "21"),
    ],
)
def test_an_unsound_list_is_not_taken(items, says):
    result, _, model = run([todos(*items)], DONE)
    assert says in answers(model)["list"]
    assert (result["outcome"]["status"], shown(result)) == ("complete", [])


@pytest.mark.req("S3-11", "S3-14", "S3-15")
def test_what_is_open_is_said_once_and_then_in_the_outcome():
    plan = todos("completed a", "blocked b: no key", "executing c", "done d")
    result, _, model = run([plan], [LOOK], DONE, [call("look", "l2", name="price")], DONE)
    assert "- b: no key\n- c" in answers(model)["done"]
    outcome = result["outcome"]
    assert (outcome["status"], outcome["reason"]) == ("partial", "GOAL")
    assert outcome["unmet"] == ["Not done: b: no key", "Not done: c"]
    assert shown(result) == [
        "1 completed a", "2 blocked b", "3 in_progress c", "4 completed d",
    ]  # fmt: skip


@pytest.mark.req("S3-14", "S4-65")
def test_a_limit_says_what_is_open_and_a_list_alone_proves_nothing():
    turns = [[todos("completed a", "in_progress b")]] * 3
    result, _, _ = run(*turns, "nothing", context=Context(max_turns=3))
    assert result["outcome"]["status"] == "exhausted"
    assert result["outcome"]["reason"] == "MAX_TURNS"
    assert "Not done: b" in result["outcome"]["unmet"]


# ---- the user's word on a large list

PLAN = todos("in_progress Find it", "pending Move it", "pending Tell Bo")
REVIEWED = Context(review_plan=True)


def moving():
    moved = []

    def move(thing: str) -> str:
        """Move a thing."""
        moved.append(thing)
        return f"{thing} stands elsewhere"

    return moved, move


MOVE, AGAIN = call("move", "m1", thing="lamp"), call("move", "m2", thing="lamp")


@pytest.mark.req("S4-80", "S4-44")
def test_a_large_list_waits_for_the_user_also_over_a_restart(tmp_path):
    """What would be changed in the same message waits; after the approval it is made once."""
    moved, move = moving()
    url = f"sqlite:///{tmp_path}/t.db"
    with open_durability(url) as kept:
        first = ScriptedModel([[PLAN, MOVE]])
        graph = build_task_agent(model=first, tools=[move], durability=kept, policy="allow")
        result = graph.invoke(said(), THREAD, context=REVIEWED)
    asked = result["__interrupt__"][0].value
    assert asked["action_requests"][0]["name"] == "review_plan"
    assert [t["description"] for t in asked["action_requests"][0]["args"]["todos"]] == [
        "Find it", "Move it", "Tell Bo",
    ]  # fmt: skip
    assert "Run this plan?\n1. Find it" in asked["description"]
    assert moved == []
    model = ScriptedModel([[AGAIN], [todos("completed Find it", "completed Move it",
                                           "completed Tell Bo")], DONE])  # fmt: skip
    with open_durability(url) as kept:
        graph = build_task_agent(model=model, tools=[move], durability=kept, policy="allow")
        result = graph.invoke(Command(resume="approve"), THREAD, context=REVIEWED)
    assert (result["outcome"]["status"], moved) == ("complete", ["lamp"])
    told = [m.text for m in model.asked[0].messages]
    assert told[-1] == "The user approved the plan. Begin."
    assert "has not approved the plan yet" in answers(model)["m1"]


@pytest.mark.req("S4-80")
def test_a_rejected_list_is_made_anew_and_an_edited_one_is_the_users():
    moved, move = moving()
    options = {"tools": [move], "policy": "allow", "checkpointer": InMemorySaver()}
    model = ScriptedModel(
        [[PLAN], [MOVE], [todos("pending Move it", id_="two")], [AGAIN],
         [todos("completed Move the lamp", "completed Sweep", id_="three"), *DONE]]
    )  # fmt: skip
    graph = build_task_agent(model=model, **options)
    graph.invoke(said(), THREAD, context=REVIEWED)
    rejected = Command(resume={"type": "reject", "message": "Bo is ill."})
    result = graph.invoke(rejected, THREAD, context=REVIEWED)
    assert "Bo is ill. Write another to-do list" in model.asked[1].messages[-1].text
    assert moved == []  # asked for without an approved list
    assert result["__interrupt__"][0].value["action_requests"][0]["name"] == "review_plan"
    edit = {"todos": [{"description": "Move the lamp"}, {"description": "Sweep"}]}
    result = graph.invoke(Command(resume={"type": "edit", "args": edit}), THREAD, context=REVIEWED)
    assert "It is now:\n5. Move the lamp\n" in model.asked[3].messages[-1].text or (
        "Move the lamp" in model.asked[3].messages[-1].text
    )
    assert moved == ["lamp"]
    assert result["outcome"]["status"] == "complete"
    assert [one.split(" ", 1)[1] for one in shown(result)][-2:] == [
        "completed Move the lamp", "completed Sweep",
    ]  # fmt: skip


@pytest.mark.req("S4-80", "S4-40", "S4-44")
def test_small_lists_and_later_ones_wait_for_nobody():
    options = {"context": REVIEWED, "checkpointer": InMemorySaver()}
    result, _, _ = run([todos("pending a", "pending b"), LOOK],
                       [todos("completed a", "completed b"), *DONE], **options)  # fmt: skip
    assert result["outcome"]["status"] == "complete"


def test_a_plan_that_nobody_can_review_does_not_run():
    moved, move = moving()
    result, _, _ = run([PLAN, MOVE], tools=[move], policy="allow", context=REVIEWED)
    outcome = result["outcome"]
    assert (outcome["status"], outcome["reason"], moved) == ("blocked", "NOT_INTERACTIVE", [])
    assert "nobody can be asked" in str(outcome["unmet"])


@pytest.mark.req("S4-39", "S4-43", "S4-51")
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_agent_is_told_five_phases_and_the_rules_of_its_list(language):
    _, _, model = run(DONE, context=Context(language=language))
    prompt = model.asked[0].messages[0].text
    told = {
        "en": ["Understand", "Plan", "Implement", "Verify", "Finalize", "marked before you begin",
               "not several at once", "add what turns up", "cancel what is not needed", "two steps",
               "tests, linter, type check, build"],
        "zh": ["理解", "规划", "实施", "核对", "收尾", "开始之前先标记", "不要攒在一起",
               "新发现的加进来", "不需要的取消", "两步", "测试、代码检查、类型检查、构建"],
    }[language]  # fmt: skip
    assert [words for words in told if words not in prompt] == []
    places = [prompt.index(phase) for phase in told[:5]]
    assert places == sorted(places)
