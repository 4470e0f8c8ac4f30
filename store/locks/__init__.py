"""Who holds a thread, who waits for it, and what its run hears meanwhile."""
