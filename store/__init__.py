"""What is kept of threads and calls, and who holds a thread."""
