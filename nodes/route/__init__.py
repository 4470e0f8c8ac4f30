"""Phases of the router."""
