"""Phases of a conversation with a customer."""
