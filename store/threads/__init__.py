"""The saved threads: where each stands, which a list shows, and what of one is pruned."""
