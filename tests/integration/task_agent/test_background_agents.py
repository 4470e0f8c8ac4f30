"""Sub-agents in the background: they work beside their parent, and nothing of them is lost."""

import pytest
from langchain_core.messages import AIMessage
from langgraph.types import Command

from loopwright import open_durability
from loopwright.state.channels import unpack_fields
from support import background_killed, killed
from support.office import Office, Signs, done, give, notebook, told_to
from support.patience import PATIENCE
from support.reacting import THREAD, said
from support.scripts import call


def later(*names):
    return give(*names, background=True)


def heard(messages):
    """What a parent has been told of those in the background, in words."""
    return [m.text for m in messages if m.type == "human" and "in the background" in m.text]


@pytest.mark.req("S4-45")
def test_an_agent_in_the_background_and_its_parent_wait_for_each_other(tmp_path):
    """Each waits for what the other does next: neither's step can wait for the other's end."""
    signs, asked = Signs(), []

    def chief(messages, _):
        asked.append(messages)
        turns = [
            later("scout"),
            [call("wait_for", sign="scout began")],
            [call("show", sign="chief goes on")],
            [call("wait_for", sign="scout saw it")],
        ]
        return turns[len(asked) - 1] if len(asked) <= len(turns) else done("All is known.")

    scout = [
        [call("show", sign="scout began")],
        [call("wait_for", sign="chief goes on")],
        [call("show", sign="scout saw it")],
        done("The scout is back."),
    ]
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = Office(chief=chief, scout=scout).graph(kept, signs.functions)
        result = graph.invoke(said(), THREAD)
    outcome = result["outcome"]
    assert (outcome["status"], outcome["answer"]) == ("complete", "All is known."), outcome
    (handle,) = told_to(asked[1])
    assert (handle["status"], handle["handle"]) == ("running", "agent/scout.1.0")
    (told,) = heard(asked[-1])
    assert "The scout is back." in told
    assert outcome["spend"]["tool_calls"] == 6
    assert outcome["spend"]["model_calls"] == len(asked) + 4


SAVES = [{"tool": "save", "action": "ask"}]


@pytest.mark.req("S4-45", "P-35")
def test_questions_of_those_in_the_background_come_once_their_parent_has_nothing_else(  # noqa: PLR0915
    tmp_path,
):
    """Three levels: one in the background delegates in the background itself; each asks."""
    save, asked, looks = notebook(), [], []

    def look(name: str) -> str:
        """Look."""
        looks.append(name)
        return f"saw {name}"

    def chief(messages, _):
        asked.append(messages)
        return [later("left", "quiet"), [call("look", name="sky")], done("?"), done("All.")][
            len(asked) - 1
        ]

    def left(messages, _):
        if heard(messages):
            return done("left knows all.")
        return done("too early") if told_to(messages) else later("deep")

    office = Office(
        chief=chief, left=left, quiet=[done("Nothing to do.")],
        deep=[[call("save", text="deep")], [call("save", text="twice")], done("deep is done.")],
    )  # fmt: skip
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = office.graph(kept, [save, look], {"left": {"agents": ("deep",)}}, policy=SAVES)
        graph.invoke(said(), THREAD)
        assert looks == ["sky"]
        (question,) = graph.get_state(THREAD).interrupts
        assert question.value["id"] == "agent/left.1.0/deep.1.0.1.0"
        graph.invoke(Command(resume="approve"), THREAD)
        (question,) = graph.get_state(THREAD).interrupts
        assert question.value["id"] == "agent/left.1.0/deep.1.0.2.0"
        result = graph.invoke(Command(resume={question.id: {"type": "approve"}}), THREAD)
        values = unpack_fields(graph.get_state(THREAD).values)
    assert save.saved == ["deep", "twice"]
    assert (result["outcome"]["status"], result["outcome"]["answer"]) == ("complete", "All.")
    told = "\n".join(heard(asked[-1]))
    assert "left knows all." in told
    assert "Nothing to do." in told
    assert values["background"] == []
    paths = {record["task"] for record in values["evidence"]}
    assert "agent/left.1.0/deep.1.0" in paths


ALL = sorted(
    ["chief1", "chief2", "first1", "first2"]
    + [f"{n}{i}" for n in ("deep", "second") for i in "012"]
)


@pytest.mark.req("S3-43", "P-06")
@pytest.mark.parametrize(
    ("node", "nth"),
    [("delegate", 1), ("agent_turn", 6), ("call_tools", 5)],
)
def test_kill_minus_9_doubles_and_loses_nothing_in_the_background(node, nth, tmp_path):
    place = {"node": node, "at": "end", "nth": nth}
    process = killed.spawn(background_killed.die, str(tmp_path), place)
    process.join(PATIENCE)
    assert process.exitcode == -9
    outcome = background_killed.go_on(str(tmp_path))["outcome"]
    assert (outcome["status"], outcome["answer"]) == ("complete", "All."), outcome
    assert sorted(background_killed.written(str(tmp_path))) == ALL
    assert outcome["spend"]["tool_calls"] <= len(ALL), "one that a person answers is not counted"


@pytest.mark.req("S3-43", "P-35")
@pytest.mark.parametrize("background", [True, False])
def test_an_answer_that_the_lowest_of_three_levels_took_before_a_crash_is_not_wanted_again(
    background, tmp_path
):
    process = killed.spawn(background_killed.die_answered, str(tmp_path), background)
    process.join(PATIENCE)
    assert process.exitcode == -9
    assert "deep0" in background_killed.written(str(tmp_path))
    outcome = background_killed.go_on(str(tmp_path), background=background, asks=True)["outcome"]
    assert (outcome["status"], outcome["answer"]) == ("complete", "All."), outcome
    assert sorted(background_killed.written(str(tmp_path))) == ALL


@pytest.mark.parametrize("background", [True, False])
def test_what_a_sub_agent_writes_streams_as_events_and_never_as_the_answer(background, tmp_path):
    words = "I look at the lamp, then at the shelf behind it."
    office = Office(
        chief=[give("scout", background=background), done("?"), done("The lamp is here.")],
        scout=[
            AIMessage(words, tool_calls=[call("recall", words="lamp")]),
            done("The scout saw the lamp on the shelf."),
        ],
    )
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        graph = office.graph(kept)
        streamed = [*graph.stream(said(), THREAD, stream_mode=["custom", "messages"])]
    drafts = [e for kind, e in streamed if kind == "custom" and e["type"] == "draft"]
    assert {d["task"] for d in drafts} == {"agent/scout.1.0"}
    assert {d["role"] for d in drafts} == {"agent"}
    texts = [d["fields"].get("text", "") for d in drafts]
    assert max(texts, key=len) == words
    assert "The scout saw" in "".join(d["fields"].get("summary", "") for d in drafts)
    messages = [told[0] for kind, told in streamed if kind == "messages"]
    shown = "".join(m.text for m in messages if m.type.startswith("AI"))
    assert words not in shown
    assert "The lamp is here." in shown
