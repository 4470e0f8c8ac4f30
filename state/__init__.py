"""Typed state, what a model must answer, and pure functions over both. Imports nothing above it."""
