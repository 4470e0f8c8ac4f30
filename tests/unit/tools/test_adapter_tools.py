"""Tools that a program loaded with LangChain's own MCP adapters."""

from langchain_core.messages import AIMessage
from langchain_mcp_adapters.sessions import create_session
from langchain_mcp_adapters.tools import load_mcp_tools

from loopwright.calls.gate import Gate, plan_calls
from loopwright.calls.path import run_calls
from loopwright.calls.toolbox import Toolbox
from support.mcp_servers import stdio
from support.scope import records_of, scope_with


async def test_tools_of_langchains_adapters_keep_their_hints_and_their_results():
    async with create_session({"transport": "stdio", **stdio("desk")}) as session:
        await session.initialize()
        box = Toolbox(await load_mcp_tools(session))
        catalog = await box.catalog()
        assert catalog.tools["search"].read_only
        assert catalog.tools["note"].destructive
        calls = [("search", {"query": "lamp"}), ("failing", {})]
        message = AIMessage("", tool_calls=[{"name": n, "args": a, "id": n} for n, a in calls])
        planned = plan_calls(
            message, task="1", round_=1, gate=Gate(catalog, box.policy, scope_with()),
        )  # fmt: skip
        found, failed = records_of(await run_calls(scope_with(), box, planned))
    assert (found["status"], found["result"]) == ("success", "desk:lamp")
    assert (failed["status"], "no such order: 17" in failed["result"]) == ("error", True)
