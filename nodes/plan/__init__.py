"""The phases of plan_execute_verify."""
