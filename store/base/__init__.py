"""What every part of the store stands on: executors, fairness, LangGraph's keys, findings."""
