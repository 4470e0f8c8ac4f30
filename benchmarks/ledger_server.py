"""An MCP server over stdio whose one tool changes the world: it books an item in a SQLite file.

It remembers nothing and checks nothing: whoever calls twice has booked twice.
"""

import os
import random
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

from mcp.server.fastmcp import FastMCP

server = FastMCP("ledger")
BOOK = Path(sys.argv[1])


@server.tool()
def book(item: int) -> str:
    """Book an item."""
    time.sleep(random.uniform(0, 0.02))
    with closing(sqlite3.connect(BOOK, timeout=10, isolation_level=None)) as database:
        database.execute("INSERT INTO bookings (item) VALUES (?)", (item,))
    time.sleep(random.uniform(0, 0.02))
    return f"booked item {item}"


if __name__ == "__main__":
    pid_file = BOOK.parent / f"server-{os.getpid()}.pid"
    pid_file.touch()
    server.run()
    pid_file.unlink()
