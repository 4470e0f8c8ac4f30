"""Threads in PostgreSQL, for many workers: the saver, the journal, and who holds a thread."""
