"""The graphs under Inspect (extra `eval`): agents, scorers, and tasks that ship."""
