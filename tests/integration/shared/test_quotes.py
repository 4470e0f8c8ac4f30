"""What a turn may take is said before it, and no model takes more."""

import asyncio
import signal

import hypothesis
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from loopwright import AgentDefinition, Context, ScriptedModel, build_react
from loopwright.graphs.registry import REGISTRY
from loopwright.models.ask import ask
from loopwright.models.choice import Models
from loopwright.models.reservation import quote
from loopwright.state.agent import AgentLimits
from loopwright.state.contracts import ExecutorResponse
from loopwright.state.errors import ModelCallFailed, SettingsError
from loopwright.turn.budget import Budget
from support import adversary, killed
from support.adversary import Adversary, within
from support.patience import PATIENCE
from support.reacting import THREAD, said, shelf
from support.scope import scope_with
from support.scripts import call, thought

MODELS = hypothesis.settings().max_examples * 2
"""2,000 with the profile `thorough`."""
PARTS = 4
HELPER = AgentDefinition(name="helper", description="Looks things up.", limits=AgentLimits(turns=3))
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("look", "put")
]


async def asked_until_refused(seed):
    """Three branches ask as long as they may; their history grows by what they are told."""
    context, model = Context(**adversary.settings(seed)), Adversary(seed=seed, lies=seed % 2 == 0)
    models, budget = Models(model), Budget(context)
    most = await quote(models, ["executor"], context)

    async def branch(number):
        history = [HumanMessage(f"Go {number}.")]
        for turn in range(30):
            scope = scope_with(context, budget=budget)
            contract, tools = (ExecutorResponse, ()) if turn % 3 else (None, TOOLS)
            try:
                answer = await ask(
                    scope, models, "executor", history, contract=contract, tools=tools,
                    bump=turn % 2,
                )  # fmt: skip
            except ModelCallFailed:
                continue
            if answer.refused:
                return
            history.append(AIMessage(answer.message.text or "…"))
            history.append(HumanMessage("Go on."))

    await asyncio.gather(*map(branch, range(3)))
    used = budget.usage
    counted = {
        "model_calls": used["model_calls"], "tool_calls": 0, "input_tokens": used["tokens"],
        "output_tokens": 0, "usd": used["usd"],
    }  # fmt: skip
    return within(most, model, spend=counted)


@pytest.mark.req("P-01", "P-27")
@pytest.mark.parametrize("part", range(PARTS))
async def test_no_model_takes_more_than_the_quote(part):
    """Long answers, malformed ones, failures that are retried, and providers that miscount."""
    broken = {
        seed: found
        for seed in range(part, MODELS, PARTS)
        if (found := await asked_until_refused(seed))
    }
    assert broken == {}


@pytest.mark.req("P-01", "P-27")
# At the desk a model that cannot be reached ends at a human: there is no failure to take up.
@pytest.mark.parametrize("name", sorted(REGISTRY.keys() - {"customer_service"}))
def test_a_graph_keeps_its_quote_also_when_it_is_taken_up_after_failures(name):
    for seed in range(4):
        context = Context(**adversary.settings(seed, times=10))
        model = Adversary(seed=seed, lies=seed % 2)
        made = []

        def look(n: int) -> str:
            """Look it up."""
            made.append(n)  # noqa: B023 - called before the next
            return f"{n} " * (n % 300)

        team = {"agents": [HELPER]} if name == "task_agent" else {}
        graph = REGISTRY[name].build(
            model=model, tools=[look], checkpointer=InMemorySaver(), **team
        )
        most = graph.quote("Go.", context=context)
        given, outcome = said(), None
        for _ in range(4):
            try:
                outcome = graph.invoke(given, THREAD, context=context)["outcome"]
            except ModelCallFailed:
                given = None
            else:
                break
        spend = outcome and outcome["spend"]
        assert within(most, model, calls=len(made), spend=spend) == {}, seed


@pytest.mark.req("P-01", "P-27")
@pytest.mark.parametrize(("limit", "most"), [("max_tokens", 6_000), ("max_cost", 0.03)])
def test_kills_give_nothing_back(tmp_path, limit, most):
    """Each process is killed in its third request; together they keep one quote."""
    prices = {"worst": adversary.PRICES}
    context = Context(**{limit: most}, prices=prices, max_output_tokens=300)
    told = build_react(model=Adversary()).quote("Go.", context=context)
    given, codes = said(), []
    for seed in range(4):
        process = killed.spawn(adversary.run_and_die, tmp_path, given, context, seed, 3)
        process.join(PATIENCE)
        codes.append(process.exitcode)
        given = None
        if process.exitcode == 0:
            break
    read = [int(line) for line in (tmp_path / "book").read_text().split()]
    assert codes[0] == -signal.SIGKILL, codes
    assert len(read) <= told["model_calls"]
    assert sum(read) <= told["tokens"]
    assert sum(read) * adversary.PRICES["input"] * adversary.DOLLARS <= told["usd"]


def test_a_quote_follows_from_the_limits_and_the_dearest_model():
    cheap, dear = {"input": 1, "output": 2}, {"input": 3, "output": 9}
    context = Context(
        max_model_calls=9, max_tokens=10_000, max_output_tokens=100, fallback_models=["openai:two"],
        prices={"worst": cheap, "openai:two": dear},
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "none")
        told = build_react(model=Adversary()).quote("Go.", context=context)
    assert (told["model_calls"], told["tool_calls"], told["tokens"]) == (10, 1_000, 10_000)
    assert told["usd"] == pytest.approx((9_000 * 3 + 1_000 * 9) / 1e6)
    assert told["models"]["openai:two"] == {"input": 3, "output": 9, "cached_input": 3}


async def test_a_limit_in_dollars_needs_prices_before_the_first_call():
    model = ScriptedModel(["never asked"])
    graph = build_react(model=model)
    for asks in (
        graph.ainvoke(said(), context=Context(max_cost=1)),
        graph.aquote(context={"max_cost": 1}),
    ):
        with pytest.raises(SettingsError, match=r"price of scripted is not known\. .*prices="):
            await asks
    assert model.asked == []
    told = await graph.aquote("Go.")
    assert told["usd"] is None
    assert "No price is known of scripted." in told["notes"]
    with pytest.raises(SettingsError, match="The run's context is wrong: max_cost"):
        await graph.aquote(context={"max_cost": -1})


@pytest.mark.req("P-27")
def test_a_turn_that_runs_out_of_dollars_says_what_it_spent():
    prices = {"scripted": {"input": 10, "output": 10}}
    model = ScriptedModel({
        "thought": [thought(f"I look up fact {n}.", more=True) for n in range(40)],
        "action": [[call("look", name=f"f{n}")] for n in range(40)],
    })  # fmt: skip
    graph = build_react(model=model, tools=[shelf()], observe="direct")
    context, events = Context(max_cost=0.2, prices=prices), []
    for mode, chunk in graph.stream(said(), context=context, stream_mode=["custom", "values"]):
        events += [chunk] if mode == "custom" else []
        outcome = chunk.get("outcome") if mode == "values" else None
    assert (outcome["status"], outcome["reason"]) == ("partial", "BUDGET")
    spent = outcome["spend"]["usd"]
    assert 0.1 < spent <= 0.2
    assert any(f"cost {spent:.4f} US dollars" in text for text in outcome["unmet"])
    assert sum(one["usd"] for one in outcome["spend"]["by_role"].values()) == pytest.approx(spent)
    (warned,) = (e for e in events if e["type"] == "budget" and e["limit"] == "usd")
    assert warned["used"] >= 0.8 * warned["of"] == pytest.approx(0.16)
    assert sum(e.get("usd", 0) for e in events if e["type"] == "model") == pytest.approx(spent)
