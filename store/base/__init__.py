"""What the rooms of the store stand on: executors, and LangGraph's keys."""
