"""`loopwright run --quote`: what a run may take at most."""

from .agents import select_agent
from .progress import render_dollars
from .run import build_context, build_named_graph
from .settings import Settings, read_goal
from .terminal import Code, Output


def quote_goal(settings: Settings, output: Output, goal: str) -> int:
    """Say what a run of the goal may take at most; nothing is begun, no model is asked."""
    context = build_context(settings, interactive=True)
    graph_name = settings.new_thread_graph
    agent = select_agent(settings, output, graph_name)
    graph, _ = build_named_graph(settings, graph_name, context, None, agent)
    told = graph.quote(read_goal(goal), context=context)
    if output.json:
        output.write_result({"status": "quote", **told})
        return Code.COMPLETE
    for name in ("model_calls", "tool_calls", "tokens"):
        output.write_line(f"{name.replace('_', ' ')}: at most {told[name]:,}")
    known = (
        f"at most {render_dollars(told['usd']) or '$0'}" if told["usd"] is not None else "not known"
    )
    output.write_line(f"cost: {known}")
    for model, price in told["models"].items():
        rates = " · ".join(f"{kind} ${usd:g}" for kind, usd in (price or {}).items())
        output.write_line(
            f"  {model}: {rates or 'price not known'}{' per million tokens' * bool(rates)}"
        )
    for note in told["notes"]:
        output.write_line(note)
    return Code.COMPLETE
