"""The MCP server that ships with the package, run as `python -m loopwright.servers.workspace`.

It stands alone: nothing here imports the rest of the package, and nothing of it imports this.
"""
