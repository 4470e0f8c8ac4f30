"""Sub-agents that a desk may ask."""
