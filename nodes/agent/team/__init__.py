"""Whom an agent may delegate to, and how that is run."""
