"""Turns that wait in a database: enqueued by programs, run by workers."""
