"""The plan language of prompt_flow: references, checks, order, and what a new plan keeps."""
