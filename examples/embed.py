"""Embed the graph: your model, tools, MCP servers and database. Runs offline without a key."""

import sys

from loopwright import Context, build_plan_execute_verify, open_durability


def stock(article: str) -> str:
    """Look up how many pieces of an article are in stock."""
    return f"{({'Juno': 12, 'Alba': 3})[article]} pieces"


files = {"command": sys.executable, "args": ["-m", "loopwright.servers.workspace", "--root", "."]}
with open_durability("sqlite:///.loopwright/embed.db") as durability:
    graph = build_plan_execute_verify(
        model=None,  # by the environment; or "openai:gpt-5.4-mini", or your own chat model
        tools=[stock],
        mcp={"mcpServers": {"files": files}},  # or the path of your mcp.json
        durability=durability,
    )
    question = 'How many pieces of the article "Juno" are in stock?'
    result = graph.invoke(
        {"messages": [{"role": "user", "content": question}]},
        {"configurable": {"thread_id": "shop-1"}},
        context=Context(max_parallel_tasks=2, max_model_calls=50),
    )
outcome = result["outcome"]
print(outcome["status"], outcome["reason"], outcome["answer"])  # noqa: T201 - shows its result
