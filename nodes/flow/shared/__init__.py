"""What the phases of prompt_flow share: one pass over a plan."""
