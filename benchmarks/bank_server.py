"""An MCP server over stdio that pays: each payment takes three seconds and is a line of ledger.txt.

It remembers nothing and checks nothing: whoever calls twice has paid twice.
"""

import time
from pathlib import Path

from mcp.server.fastmcp import FastMCP
from mcp.types import ToolAnnotations

bank = FastMCP("bank")


@bank.tool(annotations=ToolAnnotations(readOnlyHint=True))
def list_invoices() -> str:
    """List the open invoices."""
    return "Miller 40 EUR, Chen 15 EUR"


@bank.tool()
def pay(amount: int, payee: str) -> str:
    """Pay an amount in EUR to a payee."""
    with Path("ledger.txt").open("a", encoding="utf-8") as ledger:
        ledger.write(f"{amount} EUR to {payee}\n")
    time.sleep(3)
    return f"paid {amount} EUR to {payee}"


if __name__ == "__main__":
    bank.run()
