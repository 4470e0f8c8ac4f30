"""Hooks: callables of the embedding program around agents, models, tools and sessions."""
