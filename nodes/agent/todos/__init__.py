"""The list of what an agent has to do, and the user's word on it."""
