"""MCP servers: how they are configured, reached and kept, and what a call of theirs may come to."""
