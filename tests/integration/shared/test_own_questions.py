"""Two tools of one message that each ask a question of their own: each gets its own answer."""

import pytest
from langchain_core.tools import StructuredTool
from langgraph.types import Command, interrupt

from loopwright import Context, ScriptedModel, build_react, open_durability

THREAD = {"configurable": {"thread_id": "t"}}
GOAL = {"messages": [{"role": "user", "content": "Ask Ann and Bob."}]}
READS = {"readOnlyHint": True}
WRITES: dict[str, bool] = {}


class Desk:
    """What tools that ask have begun and done, and in which order they were answered."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.done: list[str] = []

    def tool(self, name, about, questions=1):
        async def ask() -> str:
            self.begun.append(name)
            said = [interrupt(f"{name} {number}") for number in range(questions)]
            self.done.append(f"{name}: {' '.join(map(str, said))}")
            return self.done[-1]

        return StructuredTool.from_function(
            coroutine=ask, name=name, description="Asks.", metadata=about
        )


def model_of(*names):
    def script(messages, offered):
        done = any(message.type == "tool" for message in messages)
        if not offered:  # a thought may call no tool
            goes_on = str(not done).lower()
            return f'So.\n<agent_meta>{{"shouldContinue": {goes_on}}}</agent_meta>'
        return [] if done else [{"name": name, "args": {}} for name in names]

    return ScriptedModel(script)


async def told(tmp_path, *tools):
    """The questions in their order and what the tools' messages say; each answer names its own."""
    shown = []
    given = GOAL
    with open_durability(f"sqlite:///{tmp_path / 'threads.db'}") as durability:
        for _ in range(10):  # each time a new graph, as after a kill
            graph = build_react(
                model=model_of(*[tool.name for tool in tools]), tools=tools, policy="allow",
                durability=durability, observe="direct",
            )  # fmt: skip
            await graph.ainvoke(given, THREAD, context=Context(max_iterations=3))
            state = await graph.aget_state(THREAD)
            if not state.interrupts:
                messages = [m for m in state.values["messages"] if m.type == "tool"]
                return shown, {m.name: m.text for m in messages if m.status == "success"}
            (question,) = state.interrupts
            shown.append(question.value)
            given = Command(resume={question.id: f"({question.value})"})
    pytest.fail(f"it asks without end: {shown}")


@pytest.mark.parametrize(
    ("ann", "bob", "questions"), [(WRITES, WRITES, 2), (WRITES, READS, 1), (READS, READS, 2)]
)
async def test_each_tool_gets_the_answer_to_its_own_question(tmp_path, ann, bob, questions):
    desk = Desk()
    tools = [desk.tool("ann", ann, questions), desk.tool("bob", bob, questions)]
    shown, texts = await told(tmp_path, *tools)
    asked = {name: [f"{name} {n}" for n in range(questions)] for name in ("ann", "bob")}
    assert shown == [*asked["ann"], *asked["bob"]]
    said = {name: f"{name}: {' '.join(f'({a})' for a in of)}" for name, of in asked.items()}
    assert texts == said
    assert desk.done == [*said.values()], "each was done once"


async def test_a_write_is_begun_no_more_often_than_its_question_needs(tmp_path):
    desk = Desk()

    def look() -> str:
        """Look."""
        return "seen"

    reader = StructuredTool.from_function(look, metadata=READS)
    asking = [desk.tool("ann", WRITES), desk.tool("bob", WRITES), desk.tool("cy", READS)]
    _, texts = await told(tmp_path, reader, *asking)
    assert [desk.begun.count(name) for name in ("ann", "bob")] == [2, 2]
    assert desk.done == ["ann: (ann 0)", "bob: (bob 0)", "cy: (cy 0)"]
    assert [*texts] == ["look", "ann", "bob", "cy"]
