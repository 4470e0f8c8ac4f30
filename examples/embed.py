"""Embed the graph: your tools, MCP servers and database. Runs offline without a key."""

from loopwright import Context, build_plan_execute_verify, open_durability


def stock(article: str) -> str:
    """Look up how many pieces of an article are in stock."""
    return f"{({'Juno': 12, 'Alba': 3})[article]} pieces"


files = {"command": "python", "args": ["-m", "loopwright.servers.workspace", "--root", "."]}
with open_durability("sqlite:///.loopwright/embed.db") as durability:
    graph = build_plan_execute_verify(tools=[stock], mcp={"files": files}, durability=durability)
    result = graph.invoke(
        {"messages": [("user", 'How many pieces of the article "Juno" are in stock?')]},
        {"configurable": {"thread_id": "shop-1"}},
        context=Context(max_parallel_tasks=2),
    )
outcome = result["outcome"]
print(*outcome["warnings"], outcome["status"], outcome["reason"], outcome["answer"])  # noqa: T201 - shows its result
