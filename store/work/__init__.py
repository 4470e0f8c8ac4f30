"""Turns as work: what came of those that were taken, and the queue that delivers them."""
