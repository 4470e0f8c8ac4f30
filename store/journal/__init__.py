"""The journal of tool calls: in SQL, and as an event loop uses it."""
