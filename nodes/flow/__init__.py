"""The phases of prompt_flow."""
