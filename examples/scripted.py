"""Test an application: a model that replays turns, real tools, and what to assert."""

from loopwright import ScriptedModel, build_plan_execute_verify


def price(article: str) -> str:
    """Look up a price."""
    return {"Juno": "149 EUR"}[article]


todo = {"id": "1", "description": "Look up the price of the Juno"}
proven = {"id": "1", "completed": True, "evidence": ["1.1.0"]}
verdict = {"allCompleted": True, "userNeedsSatisfied": True, "summary": "149 EUR"}
model = ScriptedModel(
    {
        "planner": [{"todos": [todo]}],
        "executor": [
            [{"name": "price", "args": {"article": "Juno"}}],
            {"taskCompleted": True, "summary": "The Juno costs 149 EUR."},
        ],
        "verifier": [{**verdict, "tasks": [proven]}],
    }
)
graph = build_plan_execute_verify(model=model, tools=[price])
result = graph.invoke({"messages": [{"role": "user", "content": "What does the Juno cost?"}]})
outcome = result["outcome"]
assert outcome["status"] == "complete"
assert outcome["spend"]["model_calls"] == 4
assert outcome["tasks"][0]["evidence"] == ["1.1.0"]
