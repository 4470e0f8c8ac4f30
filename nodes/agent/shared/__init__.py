"""What the phases of an agent share: the agent as they have it, its requests and drafts."""
