"""Saved threads and calls, and the locks of threads."""
