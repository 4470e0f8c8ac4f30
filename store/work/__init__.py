"""Turns that wait in a database."""
