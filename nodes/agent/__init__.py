"""The phases of task_agent, and of each of its sub-agents."""
