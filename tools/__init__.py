"""What a model may call: Python tools, MCP servers, their schemas, and the catalog of them all."""
