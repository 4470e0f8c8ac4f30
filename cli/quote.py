"""`loopwright run --quote`: what a run may take at most."""

from .agents import agent_of
from .progress import dollars
from .run import built, context_of
from .settings import Settings, read_goal
from .terminal import Code, Output


def quote_goal(settings: Settings, output: Output, goal: str) -> int:
    """Say what a run of the goal may take at most; nothing is begun, no model is asked."""
    context = context_of(settings, interactive=True)
    graph_name = settings.graph_of_new
    agent = agent_of(settings, output, graph_name)
    graph, _ = built(settings, graph_name, context, None, agent)
    told = graph.quote(read_goal(goal), context=context)
    if output.json:
        output.result({"status": "quote", **told})
        return Code.COMPLETE
    for name in ("model_calls", "tool_calls", "tokens"):
        output.line(f"{name.replace('_', ' ')}: at most {told[name]:,}")
    known = f"at most {dollars(told['usd']) or '$0'}" if told["usd"] is not None else "not known"
    output.line(f"cost: {known}")
    for model, price in told["models"].items():
        rates = " · ".join(f"{kind} ${usd:g}" for kind, usd in (price or {}).items())
        output.line(f"  {model}: {rates or 'price not known'}{' per million tokens' * bool(rates)}")
    for note in told["notes"]:
        output.line(note)
    return Code.COMPLETE
