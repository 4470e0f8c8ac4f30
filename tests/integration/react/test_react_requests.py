"""What the phases of the ReAct loop send to models, and what nobody else gets to see."""

import logging

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import Context, PromptManager, build_react, open_durability
from loopwright.prompts.prompt import read_json
from support.fake_openai import Reply, bad_request, call as openai_call, fake_openai
from support.reacting import DONE, GOAL, LOOK, THREAD, of, one_step, said, shelf
from support.replay import Replay
from support.scripts import thought


@pytest.mark.req("S1-06", "S1-08", "S1-16", "S1-41")
def test_only_an_action_may_call_and_a_phase_with_its_own_template_is_sent_no_definitions():
    model = one_step()
    build_react(model=model, tools=[shelf()]).invoke(said())
    assert {tuple(a.tools) for a in model.asked} == {("look", "read_result")}
    assert [a.role for a in model.asked if a.may_call] == ["action"]
    assert len({a.messages[0].text for a in model.asked}) == 1
    prompts, slots = PromptManager(), "{{businessContext}} {{resourceId}} {{taskId}}"
    prompts.set_core_template("thought", f"Think. {slots}\n{{{{tools}}}}")
    prompts.set_core_template("observation", f"Sum up. {slots}")
    model = one_step()
    build_react(model=model, tools=[shelf()], prompts=prompts).invoke(said())
    (first, _), (action,), (observation,) = (
        of(model, role) for role in ("thought", "action", "observation")
    )
    assert (first.tools, observation.tools) == ([], [])
    assert action.tools == ["look", "read_result"]
    listed = [read_json(a.messages[0].text, "tools") for a in (first, action, observation)]
    assert listed == [[{"name": "look", "description": "Look up a fact."}], None, None]
    assert {a.schema for a in model.asked} == {None}


@pytest.mark.req("S1-35", "S1-26", "S1-40")
def test_prompts_hold_the_ids_and_the_contexts_of_the_run():
    model = one_step()
    prompts = PromptManager()
    prompts.set_business_context("observation", "Be brief.")
    context = Context(
        resource_id="res-7",
        task_id="task-9",
        system_context="We sell lamps.",
        business_context={"action": "Look first."},
    )
    graph = build_react(model=model, tools=[shelf()], prompts=prompts)
    graph.invoke(said(), context=context)
    (system,) = {asked.messages[0].text for asked in model.asked}
    assert "Current resource: res-7\nCurrent task: task-9" in system
    assert (
        "We sell lamps.\n\nFor the phase action:\nLook first.\n\n"
        "For the phase observation:\nBe brief.\n\n"
    ) in system


MALFORMED = [
    'Look. <AGENT_META>{"shouldContinue": true, "reason": "hush"}</AGENT_META>',
    'Look. <agent_meta>{"shouldContinue": true, "reason": "hush"}',
    'Look. <agent_meta>{"shouldContinue": true, "reason": "hush',
    'Look. <agent_meta>{"shouldContinue": true}</agent_meta><agent_meta>hush</agent_meta>',
    '<agent_meta>{"shouldContinue": true, "reason": "hush"}</agent_meta>Look.',
    "Look. <agent_me",
    'Look. <agent_meta shouldContinue="true" reason="hush"/>',
    'Look. {"shouldContinue": true, "reason": "hush"}',
    AIMessage(
        [{"type": "text", "text": "Look. <agent_"},
         {"type": "text", "text": 'meta>{"shouldContinue": true, "reason": "hush"}</agent_meta>'}],
        additional_kwargs={"reasoning_content": "agent_meta hush"},
    ),
]  # fmt: skip
MODES = ["values", "updates", "messages", "custom", "debug", "tasks", "checkpoints"]


def hidden_in(shown):
    return [word for word in ("agent_me", "shouldContinue", "hush") if word in shown]


@pytest.mark.req("S1-30", "S1-33")
@pytest.mark.parametrize("bad", MALFORMED, ids=range(len(MALFORMED)))
def test_the_tag_reaches_nobody(bad, tmp_path, caplog):
    meta = '<agent_meta>{"shouldContinue": true, "reason": "hush"}</agent_meta>'
    calling = AIMessage(
        f"I look. {meta}", tool_calls=[{"name": "look", "args": {"name": "owner"}, "id": "c"}]
    )

    def thinking(messages, offered):
        found = any(m.type == "tool" for m in messages)
        return thought("Ada owns it.", reason="hush") if found else bad

    model = one_step(thought=thinking, action=[calling], observation=[f"Ada. {meta}"])
    with (
        caplog.at_level(logging.DEBUG, logger="loopwright"),
        open_durability(f"sqlite:///{tmp_path}/t.db") as durability,
    ):
        graph = build_react(model=model, tools=[shelf()], durability=durability)
        for chunk in graph.stream(said(), THREAD, stream_mode=MODES, subgraphs=True):
            assert not hidden_in(repr(chunk)), chunk
        assert graph.get_state(THREAD).values["outcome"]["answer"] == "Ada owns it."
        for saved in durability.checkpointer.list(None):
            assert not hidden_in(repr(saved))
    assert not hidden_in(caplog.text)
    for file in (path for path in tmp_path.rglob("*") if path.is_file()):
        assert not hidden_in(file.read_bytes().decode("latin-1"))


@pytest.mark.req("S1-30")
async def test_the_tag_is_in_no_stream_without_subgraphs_either():
    for mode in MODES:
        model = one_step()
        graph = build_react(model=model, tools=[shelf()], checkpointer=InMemorySaver())
        chunks = [c async for c in graph.astream(said(), THREAD, stream_mode=mode)]
        assert chunks
        assert not [c for c in chunks if hidden_in(repr(c)) or "not known" in repr(c)]


def requests(model):
    """What was sent to all phases, as plain data."""
    return [
        [(m.type, m.content, getattr(m, "tool_calls", None)) for m in asked.messages]
        for asked in model.asked
    ]


def provider(request):
    """What a model behind an OpenAI-compatible server answers, by the phase that asks."""
    last = request["messages"][-1]["content"]
    if request.get("tools") and "tool_choice" not in request:
        wanted = openai_call("look", '{"name": "owner"}', "call_of_the_provider")
        return Reply("I look it up.", tool_calls=[wanted], finish_reason="tool_calls")
    if last == "Observation.":
        return Reply("The owner is Ada.")
    return Reply(DONE if any(m["role"] == "tool" for m in request["messages"]) else LOOK)


@pytest.mark.req("S1-43", "S1-30", "S1-07", "S1-17")
@pytest.mark.parametrize("streaming", [False, True], ids=["whole answers", "streamed answers"])
async def test_a_run_on_the_applications_own_model_server(streaming):
    with fake_openai(provider) as server:
        model = ChatOpenAI(
            model="lamp-1", base_url=server.url, api_key="k", max_retries=0, streaming=streaming
        )
        graph = build_react(model=model, tools=[shelf()], checkpointer=InMemorySaver())
        streamed = [c async for c, _ in graph.astream(said(), THREAD, stream_mode="messages")]
        outcome = (await graph.aget_state(THREAD)).values["outcome"]
    assert (outcome["status"], outcome["answer"]) == ("complete", "Ada owns it.")
    replay = Replay()
    for message in streamed:
        replay.take(message)
    assert [m.text for m in replay.whole if m.type == "ai"] == [
        "I look up the owner with look.", "I look it up.", "The owner is Ada.", "Ada owns it.",
    ]  # fmt: skip
    assert [request.get("tool_choice") for request in server.requests] == [
        "none", None, "none", "none",
    ]  # fmt: skip
    definition = server.requests[1]["tools"][0]["function"]
    assert definition["parameters"]["properties"]["name"]["type"] == "string"
    for request in server.requests:
        assert request["messages"][-1]["role"] in ("user", "tool")


@pytest.mark.parametrize(
    "refusal",
    [
        "Requests which include `tool_use` or `tool_result` blocks must define tools",
        "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
    ],
)
def test_a_provider_that_wants_tools_defined_is_shown_the_calls_in_words(refusal):
    prompts, slots = PromptManager(), "{{businessContext}} {{resourceId}} {{taskId}}"
    prompts.set_core_template("thought", f"Think. {slots}\n{{{{tools}}}}")
    prompts.set_core_template("observation", f"Sum up. {slots}")

    def strict(request):
        traffic = any(m["role"] == "tool" or m.get("tool_calls") for m in request["messages"])
        if traffic and not request.get("tools"):
            return bad_request(refusal)
        told = any("[Result of look]" in str(m["content"]) for m in request["messages"])
        thinks = str(request["messages"][0]["content"]).startswith("Think.")
        return Reply(DONE) if told and thinks else provider(request)

    with fake_openai(strict) as server:
        model = ChatOpenAI(model="lamp-2", base_url=server.url, api_key="k", max_retries=0)
        graph = build_react(model=model, tools=[shelf()], prompts=prompts)
        outcome = graph.invoke(said())["outcome"]
    assert (outcome["status"], outcome["answer"]) == ("complete", "Ada owns it.")
    assert len(server.requests) == 5, "refused once, remembered from then on"
    shown = [m["content"] for m in server.requests[-1]["messages"]]
    assert 'I look it up.\n[Call of look with {"name": "owner"}]' in shown
    assert "[Result of look]\nAda" in shown


@pytest.mark.req("W-14")
def test_what_providers_refuse_in_an_older_history_is_not_sent():
    model = one_step()
    made = [{"name": "multi_tool_use.parallel", "args": {}, "id": "1"}]
    before = [HumanMessage("a"), AIMessage("", tool_calls=made), ToolMessage("b", tool_call_id="1")]
    before += [AIMessage(""), HumanMessage(GOAL)]
    build_react(model=model, tools=[shelf()]).invoke({"messages": before})
    for asked in model.asked:
        types = [message.type for message in asked.messages]
        assert types[:5] == ["system", "human", "ai", "tool", "human"]
        assert asked.messages[2].tool_calls[0]["name"] == "multi_tool_use_parallel"
