import pytest
from hypothesis import given, strategies as st

from loopwright.turn.repetition import (
    count_strikes,
    describe_loop,
    find_repeat,
    find_repeated_text,
)


class Talk:
    """A model that calls tools; the guard is asked before each call, as the call path does."""

    def __init__(self, run=lambda tool, args: "same"):
        self.run = run
        self.history = []

    def call(self, tool, args=None, *, again=False, result=None, **more):
        args = args or {}
        found = (
            None if "reused_from" in more else find_repeat(self.history, tool, args, again=again)
        )
        record = {"id": f"1.{len(self.history)}.0", "task": "1", "tool": tool, "arguments": args}
        if found:
            record |= {"status": "error", "result": found.text, "reason": found.reason}
            record |= {"same_as": found.same_as}
        else:
            given = self.run(tool, args) if result is None else result
            record |= {"status": "success", "result": given, "reason": "", **more}
        self.history.append(record)
        return found

    def reused(self, tool, source, result="same"):
        return self.call(tool, result=f"[reused from {source}]\n{result}", reused_from=source)

    @property
    def strikes(self):
        return count_strikes(self.history)


@pytest.mark.req("P-17", "S4-30")
def test_the_third_identical_call_is_answered_and_the_fifth_ends_the_step():
    talk = Talk()
    found = [talk.call("read", {"path": "a", "n": 1}) for _ in range(5)]
    assert found[:2] == [None, None]
    assert [f.times for f in found[2:]] == [3, 4, 5]
    assert [f.stuck for f in found[2:]] == [False, False, True]
    assert [r.get("same_as") for r in talk.history] == [None, None, *["1.1.0"] * 3]
    assert [count_strikes([record]) for record in talk.history] == [0, 0, 1, 1, 2]
    assert "third identical call" in found[2].text
    assert found[2].text.endswith("The result of 1.1.0:\nsame")
    assert "report what stands in the way" in found[2].text
    assert describe_loop(talk.history) == (
        "loop detected: read was called again and again with the same arguments and gave the "
        "same result each time; see 1.1.0 and 1.4.0"
    )


CALLS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 9)), min_size=1, max_size=5, unique=True
)


@pytest.mark.req("P-21")
@given(CALLS, st.integers(1, 40))
def test_a_new_result_anywhere_is_progress(cycle, rounds):
    results = iter(range(1_000))
    talk = Talk(lambda tool, args: f"{next(results)}" if (tool, args["n"]) == cycle[0] else "same")
    for _ in range(rounds):
        for tool, n in cycle:
            assert talk.call(tool, {"n": n}) is None
    assert talk.strikes == 0


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["x", "y"])), max_size=40))
def test_nobody_is_stopped_without_three_rounds_or_stuck_without_a_warning(steps):
    talk = Talk()
    for tool, result in steps:
        same = [r for r in talk.history if r["tool"] == tool]
        found = talk.call(tool, result=result)
        if found:
            assert len(same) >= 2
            assert found.same_as in {r["id"] for r in same if "same_as" not in r}
        if found and found.stuck:
            assert any("same_as" in record for record in same)


CHANT = "I will now look at the file again to find out what is in it. "


@pytest.mark.req("P-21", "S4-31")
def test_words_that_come_again_and_again_are_found():
    assert find_repeated_text([CHANT * 10])
    assert find_repeated_text([CHANT] * 10)
    assert find_repeated_text(["Well. " + CHANT] * 10)
    assert find_repeated_text(["Going on."] * 100)
    assert find_repeated_text(["我现在再看一遍这个文件。" * 60])
    assert find_repeated_text(["Some introduction that is long enough.\n\n" + CHANT * 12])


@pytest.mark.req("P-21", "S4-31")
@pytest.mark.parametrize(
    "text",
    [
        CHANT * 8,
        "~~~python\n" + (CHANT + "\n") * 40,
        "\n".join(["- " + CHANT] * 40),
        "\n".join(["> " + CHANT] * 40),
        "\n".join(["The following files are in this folder, by name and size:\n\n- a"] * 40),
        "".join(f"The file number {n} was read and there was nothing in it. " for n in range(60)),
        "".join(f"{CHANT} Number {n}: {n * n}." for n in range(40)),
        " ",
    ],
)
def test_code_tables_lists_and_words_with_something_new_between_are_no_chant(text):
    assert find_repeated_text([text]) == ""
