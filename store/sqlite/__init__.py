"""Threads in a SQLite file."""
