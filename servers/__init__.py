"""MCP servers that ship with the package, run as `python -m loopwright.servers.NAME`.

They stand alone: nothing here imports the rest of the package, and nothing of it imports them.
"""
