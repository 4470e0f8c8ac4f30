import pytest
from hypothesis import given, strategies as st

from loopwright.state.contracts import Todo
from loopwright.state.plan import (
    adopt_plan,
    apply_wishes,
    find_problems,
    is_sequential,
    map_dependencies,
    sort_by_dependencies,
)


def todo(id_, description=None, depends=None, priority=1):
    return Todo(
        id=id_, description=description or f"do {id_}", depends_on=depends, priority=priority
    )


def done(task, result="r"):
    return {**task, "status": "completed", "result": result, "evidence": [f"{task['id']}.1.0"]}


@pytest.mark.req("S0-03", "S0-06")
def test_without_dependencies_tasks_run_one_after_another_by_priority():
    tasks = adopt_plan([todo("a", priority=3), todo("b", priority=1), todo("c", priority=2)], [])
    assert is_sequential(tasks)
    assert [t["id"] for t in sort_by_dependencies(tasks)] == ["b", "c", "a"]
    assert map_dependencies(tasks) == {"b": [], "c": ["b"], "a": ["b", "c"]}


@pytest.mark.req("S0-119")
def test_with_dependencies_ready_tasks_come_by_priority():
    tasks = adopt_plan(
        [todo("a", depends=["c"]), todo("b", depends=[], priority=2), todo("c", depends=[])], []
    )
    assert [t["id"] for t in sort_by_dependencies(tasks)] == ["c", "a", "b"]
    assert map_dependencies(tasks) == {"c": [], "a": ["c"], "b": []}


def test_finished_tasks_with_the_same_words_are_carried_over():
    old = [done(t) for t in adopt_plan([todo("1", "List files."), todo("2", "Read notes")], [])]
    new = adopt_plan([todo("x", "list  files"), todo("2", "Read the notes")], old)
    by_words = {t["description"]: t for t in new}
    assert by_words["List files."]["status"] == "completed"
    assert by_words["List files."]["id"] == "1"
    assert by_words["Read the notes"]["status"] == "pending"
    assert by_words["Read the notes"]["id"] == "2-2", "the kept task 2 still holds its id"
    assert by_words["Read notes"]["status"] == "completed"


@pytest.mark.req("S0-105")
def test_wished_statuses_apply_by_id_and_only_where_allowed():
    tasks = adopt_plan([todo("1"), todo("2"), todo("3")], [])
    tasks[2] = done(tasks[2])
    wishes = {"1": "skipped", "2": "done", "3": "cancelled", "99": "skipped"}
    assert [(t["id"], t["status"]) for t in apply_wishes(tasks, wishes)] == [("1", "skipped")]


ids = st.sampled_from(["1", "2", "3", "4"])
todos = st.lists(
    st.builds(
        lambda i, p, d, w: Todo(id=i, priority=p, depends_on=d, description=w),
        ids,
        st.integers(1, 3),
        st.none() | st.lists(ids, max_size=3),
        st.sampled_from(["read", "write", "sum"]),
    ),
    min_size=1,
    max_size=5,
)


@given(todos, todos, st.sets(ids))
def test_every_sound_plan_is_adopted_with_unique_ids_and_a_total_order(first, second, finished):
    if find_problems(first, 20) or find_problems(second, 20):
        return
    old = [done(t) if t["id"] in finished else t for t in adopt_plan(first, [])]
    tasks = adopt_plan(second, old)
    names = [t["id"] for t in tasks]
    assert len(names) == len(set(names))
    assert sorted(t["id"] for t in sort_by_dependencies(tasks)) == sorted(names)
    place = {t["id"]: n for n, t in enumerate(sort_by_dependencies(tasks))}
    assert all(place[w] < place[i] for i, ws in map_dependencies(tasks).items() for w in ws)
    kept = {t["id"]: t for t in old if t["status"] == "completed"}
    for task in tasks:
        if task["status"] == "completed":
            assert task["result"] == kept[task["id"]]["result"]
